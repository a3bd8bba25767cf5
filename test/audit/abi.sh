#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# abi.sh ROOT RELEASE DEBUG [DUMP]: the two shared libraries are the same to
# a program (abidiff prints nothing), and as the dump of the last release
# says. First abidiff has to report a field that stands under NDEBUG.
set -eu
root=$1 release=$2 debug=$3 dump=${4:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

control()
{
	gcc -shared -fPIC -g -O2 "$@" -I "$work" -I "$root" \
		"$work/region.c" "$root/small/region_check.c" -o "$work/$out"
}

# The control: a copy of region.h with one field that only debug has.
mkdir -p "$work/small"
sed 's/^struct region {/&\n#ifndef NDEBUG\n\tint extra;\n#endif/' \
	"$root/small/region.h" >"$work/small/region.h"
cp "$root/small/region.c" "$work/region.c"
out=release.so control -DNDEBUG
out=debug.so control
if abidiff "$work/release.so" "$work/debug.so" >/dev/null; then
	echo "abidiff does not see a field that depends on NDEBUG"
	exit 1
fi

abidiff "$release" "$debug"
[ -z "$dump" ] || abidiff "$dump" "$release"
