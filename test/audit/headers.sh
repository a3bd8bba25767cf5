#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# headers.sh ROOT [-I dir ...] -- header ...: each public header compiles
# alone, without a warning, in every standard that a program may use, with
# every compiler that is here. An intruder that must not compile comes first.
set -u
root=$1
shift
include=("-I$root")
while [ "$1" != -- ]; do
	include+=("$1")
	shift
done
shift
warnings=(-Wall -Wextra -Wpedantic -pedantic-errors -Wshadow -Wconversion
	-Werror -fsyntax-only)

# alone COMPILER LANGUAGE STANDARD HEADER [flag ...]
alone()
{
	printf '#include <%s>\n#include <%s>\n' "$4" "$4" |
		"$1" -x "$2" "-std=$3" "${warnings[@]}" "${@:5}" \
			"${include[@]}" -
}

one()
{
	local header=$1 compiler std bad=0

	for compiler in gcc clang; do
		command -v $compiler >/dev/null || continue
		for std in c99 c11 c17; do
			alone $compiler c $std "$header" ||
				{ echo "$header: $compiler -std=$std"; bad=1; }
		done
	done
	# struct x_stats and the function x_stats() that fills it share a name,
	# which g++ takes for a hidden constructor.
	for compiler in g++ clang++; do
		command -v $compiler >/dev/null || continue
		for std in c++11 c++20; do
			alone $compiler c++ $std "$header" -Wno-shadow ||
				{ echo "$header: $compiler -std=$std"; bad=1; }
		done
	done
	return $bad
}

intruder=$(mktemp -d)
trap 'rm -rf "$intruder"' EXIT
echo 'static inline int f(int n) { return ({ n; }); }' >"$intruder/bad.h"
include+=("-I$intruder")
if one bad.h >/dev/null 2>&1; then
	echo "headers.sh can not see a header that is not C99"
	exit 1
fi

failed=0
for header; do
	one "${header#"$root"/}" || failed=1
done
[ $failed = 0 ] && echo "$# headers alone"
exit $failed
