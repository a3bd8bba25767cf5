# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# setup - installs the Debian packages that a run needs and this machine
# lacks. Sourced by test/run and perf/run:
#
#	. test/setup.sh
#	small_setup test        build needs and the tools marked `test`
#
# What a build needs is read from debian/control, tools from
# debian/tests/tools, so both lists are kept in one place. No network and no
# root when nothing is missing; debhelper is left out unless a package is
# built. Returns 1, with the command to run, when it can not install.

small_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The Build-Depends of debian/control, one name a line.
small_build_depends()
{
	sed -n '/^Build-Depends:/,/^[A-Z][A-Za-z-]*:/{
		/^Build-Depends:/!{/^[A-Z]/d}
		s/^Build-Depends://
		p
	}' "$small_root/debian/control" | tr ',' '\n' |
		sed -e 's/[<([|].*//' -e 's/[[:space:]]//g' \
			-e '/^$/d' -e '/^debhelper/d'
	# What Debian takes for granted: a compiler, C++ and make.
	printf '%s\n' gcc g++ libc6-dev make
}

# The tools whose line carries the word $1.
small_tools()
{
	awk -v who="$1" '!/^#/ {
		for (i = 2; i <= NF; i++)
			if ($i == who) print $1
	}' "$small_root/debian/tests/tools"
}

# Reads names, prints those that are not installed, in one line.
small_missing()
{
	local name

	while read -r name; do
		dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null |
			grep -qx installed || printf '%s ' "$name"
	done
}

# small_setup [who ...]: see above. With no word, build needs only.
small_setup()
{
	local missing who log

	if ! command -v dpkg-query >/dev/null; then
		echo "setup: no dpkg here, taking the tools as they are"
		return 0
	fi
	missing=$( { small_build_depends
		for who in "$@"; do small_tools "$who"; done
	} | sort -u | small_missing)
	if [ -z "$missing" ]; then
		return 0
	fi
	if [ "$(id -u)" != 0 ]; then
		echo "setup: missing packages; as root:" >&2
		echo "  apt-get install --no-install-recommends $missing" >&2
		return 1
	fi
	echo "setup: installing $missing"
	log=$(mktemp)
	# shellcheck disable=SC2086
	apt-get update -qq </dev/null &&
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
			--no-install-recommends $missing </dev/null \
			>"$log" 2>&1 || {
		echo "setup: apt-get failed:" >&2
		tail -20 "$log" >&2
		rm -f "$log"
		return 1
	}
	rm -f "$log"
}
