#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# command.sh SMALL-LUA STOCK - exit codes, messages and statistics of a command.
set -u
lua=$1 stock=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

# expect STATUS PATTERN args...: the status, and stderr by a pattern.
expect()
{
	local status=$1 pattern=$2 got

	shift 2
	"$lua" "$@" >out 2>err </dev/null
	got=$?
	if [ $got != "$status" ] ||
		{ [ -n "$pattern" ] && ! grep -qE -- "$pattern" err; }; then
		echo "FAILED: $* -> $got (expected $status, '$pattern')"
		cat err
		failed=1
	fi
}

# one_line STATUS PATTERN args...: the same, and nothing else is said.
one_line()
{
	expect "$@"
	if [ "$(wc -l <err)" != 1 ]; then
		echo "FAILED: ${*:3} said more than a line"
		cat err
		failed=1
	fi
}

echo 'print("hello", ...) for i = -1, #arg do io.write(arg[i] and "y" or "n") end' >args.lua
echo 'for' >syntax.lua
echo 'error("here")' >error.lua
echo 'local t = {} while true do t[#t + 1] = {} end' >greedy.lua
echo 'local t = {} while true do pcall(function() while true do t[#t + 1] = {} end end) end' >stubborn.lua
echo 'while true do end' >spin.lua
echo 'return (("a"):rep(3000)):find((".-"):rep(20) .. "b")' >pattern.lua
echo 'os.exit(7)' >exit.lua
echo 'print(io, os.exit, require, string.dump, debug, loadfile)' >safe.lua
printf '#!/usr/bin/lua\nprint("first line")\n' >hash.lua

for size in 2X -1 '' 0 1.5M K 99999999999999999999 2MM 9999999999G ' 2M'; do
	expect 2 "'$size' is not good for --limit" --limit "$size" args.lua
	expect 2 "'$size' is not good for --limit" "--limit=$size" args.lua
	expect 2 "is not good for --reserve" --reserve "$size" args.lua
done
for time in 2x -1 '' 0 1.5s s 99999999999999999999s; do
	expect 2 "'$time' is not good for --timeout" --timeout "$time" args.lua
done
expect 2 "is not good for --instructions" --instructions many args.lua
one_line 2 "'both' is not good for --mode" --mode both args.lua
one_line 2 "--limit needs a value" --limit
one_line 2 "no option '--limi'" --limi 2M args.lua
one_line 2 "no option '-x'" -x
one_line 2 "--reserve needs --mode managed" --mode native --reserve 1M args.lua
one_line 2 "--reserve is above --limit" --limit 1M --reserve 2M args.lua
one_line 2 "--limit needs --mode" --mode native --limit 2M args.lua
expect 0 '' --help
expect 0 '' --version

one_line 1 'cannot open (file .)?nofile.lua' nofile.lua
expect 1 'syntax.lua:[12]:' syntax.lua
expect 1 'error.lua:1: here' --limit 2M error.lua
one_line 3 'not enough memory for the interpreter itself within --limit 1K' \
	--limit 1K args.lua
one_line 3 ': not enough memory$' --limit 2M greedy.lua
one_line 3 ': not enough memory$' --limit 2M stubborn.lua
one_line 3 ': not enough memory$' --mode tracked --limit 2M greedy.lua
one_line 4 'time limit of 100 ms exceeded' --timeout 100ms spin.lua
one_line 4 'time limit of 100 ms exceeded' --timeout 100ms pattern.lua
one_line 4 'limit of 100000 instructions exceeded' --instructions 100000 spin.lua
expect 7 '' exit.lua
expect 0 '' --limit 2M hash.lua
grep -q 'first line' out || { echo "FAILED: hash.lua"; failed=1; }

expect 0 '' --limit 2M --safe safe.lua
tr '\t' '\n' <out | grep -v nil && { echo "FAILED: --safe"; failed=1; }

"$lua" --limit 2M args.lua a 'b c' >out 2>err
"$stock" args.lua a 'b c' >out2 2>err2
cmp out out2 || { echo "FAILED: arguments"; cat out out2; failed=1; }
for dash in '' '-'; do
	# shellcheck disable=SC2086
	echo 'print("from stdin", arg[0] ~= nil, io.read and 1)' |
		"$lua" --limit 2M $dash >out 2>err || failed=1
	grep -q 'from stdin' out || { echo "FAILED: stdin"; cat err; failed=1; }
done

keys='used=[0-9]+ peak=[0-9]+ limit=2097152 refused=0 recovered=0 collections=[0-9]+ leaked=0'
expect 0 "^$keys\$" --limit 2M --stats args.lua
expect 3 "refused=[1-9]" --limit 2M --stats greedy.lua
expect 7 'limit=2097152' --limit 2M --stats exit.lua
expect 0 '^\{"used":[0-9]+,"peak":[0-9]+,"limit":2097152,.*"leaked":0\}$' \
	--limit 2M --stats=json args.lua
if command -v python3 >/dev/null; then
	python3 -c 'import json; json.load(open("err"))' || failed=1
fi
expect 0 "leaked=0" --mode tracked --limit 2M --stats args.lua
expect 0 "leaked=0" --mode native --stats args.lua
exit $failed
