#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# programs.sh SMALL-LUA STOCK - real programs from Debian's packages give the
# same output as in the stock interpreter; and under limits stepped from too
# small to enough either that output or a clean memory error, with nothing in
# use after close.
set -u
lua=$1 stock=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0 ran=0
limits="20 40 60 80 100 130 160 200 250 300 400 600 1000 2000"
[ "${SMALL_TEST_SCALE:-1}" = 1 ] || limits="40 100 200 400 2000"
# What cjson takes from malloc is lost when a memory error jumps over it;
# what Lua takes is ours, and small-lua says leaked=0 itself.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0

cat >run_penlight.lua <<'END'
local List = require 'pl.List'
local stringx = require 'pl.stringx'
local pretty = require 'pl.pretty'
local OrderedMap = require 'pl.OrderedMap'
local template = require 'pl.template'
local l = List.range(1, 100):filter(function(x) return x % 3 == 0 end)
print(l:map(function(x) return x * x end):reduce('+'))
print(pretty.write({1, 2, {3, 4, 'five'}}))
print(stringx.title('the quick brown fox'), ('a,b,c'):len())
print(table.concat(stringx.split('one two three'), '|'))
local m = OrderedMap() m:set('z', 1) m:set('a', 2)
for k, v in m:iter() do print(k, v) end
print(template.substitute("# for i = 1, 3 do\n$(i * 2)\n# end\n"))
END
cat >run_dkjson.lua <<'END'
local json = require 'dkjson'.use_lpeg and require 'dkjson' or require 'dkjson'
local doc = {}
for i = 1, 50 do doc[i] = {id = i, name = 'n' .. i, list = {i, i + 1, 'x'}} end
local text = json.encode(doc, {keyorder = {'id', 'name', 'list'}})
print(#text, text:sub(1, 60))
local back = json.decode(text)
print(#back, back[50].name, back[7].list[2])
print(json.decode('{"broken": [1, 2'))
END
cat >run_luaunit.lua <<'END'
local lu = require 'luaunit'
TestThing = {}
function TestThing:testEquals() lu.assertEquals({1, {2}}, {1, {2}}) end
function TestThing:testError() lu.assertErrorMsgContains('bad', error, 'bad') end
function TestThing:testFails() lu.assertEquals(1, 2) end
function TestThing:testRaises() error('boom') end
local runner = lu.LuaUnit.new()
runner:setOutputType('tap')
print(runner:runSuite('-v'))
END
cat >run_argparse.lua <<'END'
local argparse = require 'argparse'
local p = argparse('prog', 'A program.')
p:argument('input', 'Input file.')
p:option('-o --output', 'Output file.', 'a.out')
p:flag('-v --verbose', 'Say more.'):count('*')
print(p:get_usage())
print(p:get_help())
local r = p:parse({'foo', '-vv', '--output', 'bar'})
print(r.input, r.output, r.verbose)
print(p:pparse({}))
END
cat >run_lpeg.lua <<'END'
local lpeg = require 'lpeg'
local re = require 're'
local number = lpeg.R('09') ^ 1 / tonumber
local sum = lpeg.Cf(number * (lpeg.P '+' * number) ^ 0, function(a, b) return a + b end)
print(sum:match('1+2+3+40'))
local words = re.compile [[ list <- {| (word ' '?)* |}  word <- { [a-z]+ } ]]
print(table.concat(words:match('the quick brown fox'), ','))
print(re.gsub('hello world', '[aeiou]', '*'))
local g = re.compile [[ e <- t ('+' t)*  t <- [0-9]+ / '(' e ')' ]]
print(g:match('1+(2+3)+4'))
print(pcall(lpeg.match, lpeg.P(function() error('inside') end), 'x'))
END
cat >run_cjson.lua <<'END'
local cjson = require 'cjson'
local t = {} for i = 1, 100 do t[i] = i * 1.5 end
local s = cjson.encode(t)
print(#s, s:sub(1, 40))
print(#cjson.decode(s), cjson.decode('{"a":[1,2,{"b":null}]}').a[1])
print(pcall(cjson.decode, '{"a":'))
END

# Named rule "times": what reads a clock is not the program's output.
without_times()
{
	sed -E 's/[0-9]+\.[0-9]+ seconds/T seconds/; s/# Started on .*/# Started/'
}

run_program()
{
	local program=$1 k status

	"$stock" "$program" 2>/dev/null | without_times >expected
	"$lua" --limit 64M "$program" >out 2>err
	status=$?
	without_times <out >got
	if ! cmp -s expected got; then
		echo "FAILED: $program differs (status $status)"
		diff expected got | head -10
		head -3 err
		failed=1
	fi
	"$lua" --mode native "$program" 2>/dev/null | without_times >got
	cmp -s expected got || { echo "FAILED: $program, native"; failed=1; }
	for k in $limits; do
		"$lua" --limit ${k}K --stats "$program" >out 2>err
		status=$?
		without_times <out >got
		if [ $status = 0 ]; then
			cmp -s expected got ||
				{ echo "FAILED: $program at ${k}K"; failed=1; }
		elif [ $status != 3 ] || ! grep -q 'not enough memory' err; then
			echo "FAILED: $program at ${k}K: status $status"
			head -3 err
			failed=1
		fi
		if grep -q 'leaked=' err && ! grep -q 'leaked=0' err; then
			echo "FAILED: $program at ${k}K leaked"
			tail -1 err
			failed=1
		fi
	done
	ran=$((ran + 1))
}

for program in penlight dkjson luaunit argparse lpeg cjson; do
	# only what this Lua's packages have
	module=$program
	[ $program != penlight ] || module=pl.List
	if "$stock" -e "require '$module'" >/dev/null 2>&1; then
		run_program run_$program.lua
	else
		echo "note: no $module for $stock"
	fi
done
[ $ran -gt 0 ] || { echo "FAILED: no program could run"; failed=1; }
echo "note: $ran programs through $(basename "$lua")"
exit $failed
