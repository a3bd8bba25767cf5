#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# readme.sh ROOT: what README.md shows is what test/pkg builds. Each code
# block of README.md stands, word for word, between `README: from here` and
# `README: to here` of a file in test/pkg, and each such part is shown.
# README.md stays within 150 lines.
set -u
cd "$1" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# Blocks of README, one a file; shell blocks are commands, not sources.
awk -v dir="$work" '/^```/ {
	if (open) open = 0
	else if ($0 ~ /^```(c|cmake|make)$/) { open = 1; n++ }
	next
}
open { print >(dir "/readme." n) }' README.md

n=0
for source in test/pkg/*.c test/pkg/*/CMakeLists.txt test/pkg/*/Makefile; do
	grep -q 'README: from here' "$source" || continue
	n=$((n + 1))
	awk '/README: to here/ { open = 0 }
		open { print }
		/README: from here/ { open = 1 }' "$source" >"$work/raw"
	# The indentation that the whole part shares is not shown.
	if grep -q '^[^	]' "$work/raw"; then
		cp "$work/raw" "$work/part.$n"
	else
		sed 's/^	//' "$work/raw" >"$work/part.$n"
	fi
	for block in "$work"/readme.*; do
		cmp -s "$block" "$work/part.$n" && rm "$block" && continue 2
	done
	echo "README.md does not show $source:"
	cat "$work/part.$n"
	failed=1
done
[ "$n" -gt 0 ] || { echo "test/pkg shows nothing"; failed=1; }
for block in "$work"/readme.*; do
	[ -e "$block" ] || continue
	echo "README.md shows what test/pkg does not build:"
	cat "$block"
	failed=1
done
if [ "$(wc -l <README.md)" -gt 150 ]; then
	echo "README.md is longer than 150 lines"
	failed=1
fi
exit $failed
