#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# abi.sh ROOT RELEASE DEBUG: the shared libraries in the build folders RELEASE
# and DEBUG are the same to a program (abidiff prints nothing), and each that
# has a dump in test/audit/abi has everything that the dump says; new functions
# are no change. First abidiff has to report a field that stands under NDEBUG
# and, against the dump, one that is gone.
#
# abi.sh --dump ROOT RELEASE: writes the dumps, at a release.
set -eu
libraries=(libsmall libsmall-lua5.4) # the other Lua's have the same headers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Without what tells nothing about the ABI: places, sizes of pointers, structs
# of headers that are not installed.
dump()
{
	rm -rf "$work/public"
	mkdir "$work/public"
	grep -rL --include='*.h' 'nternal[;.:,]' "$1" |
		xargs cp -t "$work/public"
	abidw --no-corpus-path --no-comp-dir-path --no-show-locs \
		--no-elf-needed --no-write-default-sizes --type-id-style hash \
		--drop-private-types --headers-dir "$work/public" "$2"
}

if [ "$1" = --dump ]; then
	mkdir -p "$2/test/audit/abi"
	for library in "${libraries[@]}"; do
		dump "$2/small" "$3/$library.so" >"$2/test/audit/abi/$library.xml"
	done
	exit 0
fi
root=$1 release=$2 debug=$3

# region.h as sed's program $1 leaves it, with region_check.c, as $2.
control()
{
	local out=$work/$2.so

	mkdir -p "$work/small"
	sed "$1" "$root/small/region.h" >"$work/small/region.h"
	cp "$root/small/region_check.c" "$work/small/"
	gcc -shared -fPIC -g -O2 "${@:3}" -I "$work" -I "$root" \
		"$work/small/region_check.c" -o "$out"
}

# must_differ WHAT abidiff-argument ...
must_differ()
{
	local what=$1

	shift
	if abidiff "$@" >/dev/null; then
		echo "abidiff does not see $what"
		exit 1
	fi
}

extra='s/^struct region {/&\n#ifndef NDEBUG\n\tint extra;\n#endif/'
control "$extra" control-release -DNDEBUG
control "$extra" control-debug
control "" control -DNDEBUG
must_differ "a field that depends on NDEBUG" \
	"$work/control-release.so" "$work/control-debug.so"
dump "$work/small" "$work/control.so" >"$work/control.xml"
abidiff --no-added-syms "$work/control.xml" "$work/control-release.so"
must_differ "a field that its dump does not have" \
	--no-added-syms "$work/control.xml" "$work/control-debug.so"

for library in "${libraries[@]}"; do
	[ -e "$release/$library.so" ] || continue
	abidiff "$release/$library.so" "$debug/$library.so"
	abidiff --no-added-syms "$root/test/audit/abi/$library.xml" \
		"$release/$library.so"
	echo "note: $library is as its dump says, in release and debug"
done
