#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# lint.sh BUILD: clang-format changes nothing, clang-tidy and cppcheck find
# nothing in what ships; files stay within their length. BUILD holds
# compile_commands.json. Options and their reasons: .clang-tidy, below.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$1
failed=0

mapfile -t code < <(git ls-files '*.c' '*.h')
mapfile -t shipped < <(git ls-files 'small/*.c')

for file in "${code[@]}"; do
	clang-format --dry-run -Werror "$file" 2>/dev/null && continue
	echo "$file: clang-format -i changes it"
	failed=1
done

printf '%s\n' "${shipped[@]}" |
	xargs -P "$(nproc)" -n 1 clang-tidy -p "$build" --quiet 2>&1 |
	grep -v 'warnings\? generated\|^Suppressed\|^Use -header-filter' &&
	failed=1

# missingInclude: system headers are not given; unusedFunction: a library.
cppcheck --quiet --std=c11 --enable=warning,performance,portability \
	--inline-suppr --suppress=missingIncludeSystem --error-exitcode=1 \
	-D__x86_64__=1 -D__linux__=1 -DNDEBUG=1 -I . "${shipped[@]}" ||
	failed=1

awk 'FNR == 1 { file = FILENAME } { lines[FILENAME]++ } END {
	for (f in lines)
		if (lines[f] > 600) {
			print f ": " lines[f] " lines, over 600"
			bad = 1
		}
	exit bad
}' "${code[@]}" || failed=1
exit $failed
