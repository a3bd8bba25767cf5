#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# package.sh: builds the Debian packages of what git would commit now, checks
# them with lintian, installs them in a clean root made by debootstrap, runs
# the autopkgtests there, purges them and compares the root's files with
# before. Works in build/package. What it has to leave out (no debootstrap, no
# root, no mirror) it says in a line with SKIPPED, and then fails.
set -eu
cd "$(dirname "$0")/../.."
source=$(dpkg-parsechangelog -S Source)
version=$(dpkg-parsechangelog -S Version)
upstream=${version%-*}
work=$PWD/build/package
root=$work/root
tree=$work/$source-$upstream

skip()
{
	printf '\n*** SKIPPED: %s\n*** The packages are NOT tested.\n' "$1"
	exit 1
}

build()
{
	rm -rf "$work"
	mkdir -p "$tree"
	git ls-files -z --cached --others --exclude-standard |
		xargs -0 cp -a --parents -t "$tree" 2>/dev/null || true
	tar -C "$work" --exclude="./$source-$upstream/debian" \
		--exclude="$source-$upstream/debian" -czf \
		"$work/${source}_$upstream.orig.tar.gz" "$source-$upstream"
	(cd "$tree" && DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-} parallel=$(nproc)" \
		dpkg-buildpackage -us -uc -F)
}

# Errors and warnings fail; what is informational is only shown.
check()
{
	lintian --fail-on error,warning --info --display-info \
		"$work"/*.changes
}

mirror()
{
	local list

	list=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' \
		'Created-By: Packages' | grep -E ' ?(debian|deb)' || true)
	awk '/debian\/? / && !/security/ { print $1; exit }' <<<"$list"
}

inside()
{
	chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

make_root()
{
	local suite url

	[ "$(id -u)" = 0 ] || skip "debootstrap needs root"
	command -v debootstrap >/dev/null || skip "no debootstrap"
	. /etc/os-release
	suite=$VERSION_CODENAME
	url=$(mirror)
	[ -n "$url" ] || skip "no Debian mirror in apt's sources"
	debootstrap --variant=minbase "$suite" "$root" "$url" ||
		skip "debootstrap $suite $url failed"
	echo "deb $url $suite main" >"$root/etc/apt/sources.list"
	cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
	cp /etc/apt/apt.conf.d/*prox* "$root/etc/apt/apt.conf.d/" \
		2>/dev/null || true
	inside apt-get update -qq
	rm -f "$root/etc/dpkg/dpkg.cfg.d/"*docker*
}

# Every file but what apt and dpkg write about themselves.
files()
{
	(cd "$root" && find . -xdev \( -path ./proc -o -path ./sys \
		-o -path ./dev -o -path ./tmp -o -path ./src \
		-o -path ./var/cache -o -path ./var/log \
		-o -path ./var/lib/apt -o -path ./var/lib/dpkg \) -prune \
		-o -print | sort)
}

install_packages()
{
	local needs

	mkdir -p "$root/src/debs"
	cp "$work"/*.deb "$root/src/debs"
	rm -f "$root"/src/debs/*-dbgsym_*
	# What they depend on comes first, so that the comparison is about
	# our files only; what the tests depend on, too.
	inside sh -c 'cd /src/debs && apt-get install -y -qq \
		--no-install-recommends ./*.deb' >/dev/null
	needs=$(sed -n 's/^Depends: //p' "$tree/debian/tests/control" |
		tr ', ' '\n\n' | grep -vE '^$|^(lib)?small' | sort -u)
	inside apt-get install -y -qq --no-install-recommends $needs >/dev/null ||
		skip "the tests' dependencies can not be installed"
}

run_tests()
{
	local test

	cp -a "$tree" "$root/src/tree"
	for test in $(sed -n 's/^Tests: //p' "$tree/debian/tests/control"); do
		echo "autopkgtest $test"
		inside sh -c "cd /src/tree && debian/tests/$test" \
			>"$work/$test.log" 2>&1 || {
			tail -40 "$work/$test.log"
			echo "autopkgtest $test failed"
			return 1
		}
	done
}

# Installed, purged: no file of ours stays, none of others is gone.
purge_and_compare()
{
	local names

	names=$(inside dpkg-query -W -f '${Package} ${Source}\n' |
		awk -v s="$source" '$2 == s { printf "%s ", $1 }')
	files >"$work/files.with"
	inside sh -c "dpkg --purge $names" >/dev/null
	files >"$work/files.purged"
	inside sh -c 'cd /src/debs && dpkg -i ./*.deb' >/dev/null
	files >"$work/files.again"
	diff "$work/files.with" "$work/files.again"
	inside sh -c "dpkg --purge $names" >/dev/null
	files | diff "$work/files.purged" -
	# Which of it is a folder, is told by the first letter.
	for deb in "$root"/src/debs/*.deb; do
		dpkg-deb -c "$deb" | awk '{ sub(/\/$/, "", $6); print $6, $1 }'
	done | sort -u >"$work/content"
	awk '$2 !~ /^d/ { print $1 }' "$work/content" >"$work/files.ours"
	diff <(comm -12 "$work/files.ours" "$work/files.purged") /dev/null
	diff <(comm -23 "$work/files.with" "$work/files.purged" | comm -23 - \
		<(awk '{ print $1 }' "$work/content" | sort -u)) /dev/null
}

build
check
make_root
install_packages
run_tests
purge_and_compare
echo "note: $(ls "$work"/*.deb | grep -vc dbgsym) packages built," \
	"installed, tested and purged"
