#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# hygiene.sh ROOT SHARED STATIC: one program holds this library and another
# one that defines region_free, slab_get, mempool_alloc, quota_use and a
# RegionGuard; with C++ on each side, not inlined (-O0), each gets its own.
set -eu
here=$1/test/audit/hygiene
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for cc in "gcc g++" "clang clang++"; do
	read -r c cxx <<<"$cc"
	command -v "$cxx" >/dev/null || continue
	"$c" -O0 -c "$here/other.c" -o "$work/other.o"
	for file in ours theirs main; do
		"$cxx" -std=c++11 -O0 -Wall -Wextra -Werror -I "$1" \
			-c "$here/$file.cc" -o "$work/$file.o"
	done
	for library in "$2" "$3"; do
		for order in "ours theirs" "theirs ours"; do
			read -r a b <<<"$order"
			"$cxx" "$work/main.o" "$work/$a.o" "$work/$b.o" \
				"$work/other.o" "$library" -pthread \
				-Wl,-rpath,"$(dirname "$2")" -o "$work/app"
			"$work/app" || {
				echo "$cxx $library $order: exit $?"
				exit 1
			}
		done
	done
done
