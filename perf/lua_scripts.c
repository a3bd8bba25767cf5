/* SPDX-License-Identifier: BSD-2-Clause */
/* The twelve programs of L5: what real scripts spend their memory on. */
#include "lua_scripts.h"

static const char bintree[] =
	"local function make(d) if d == 0 then return {} end "
	"return {make(d - 1), make(d - 1)} end "
	"local function count(t) if not t[1] then return 1 end "
	"return 1 + count(t[1]) + count(t[2]) end "
	"local keep = make(9) local n = 0 "
	"for i = 1, 8 * ... do n = n + count(make(6)) end "
	"return n + count(keep)";
static const char append[] =
	"local n = 0 for r = 1, 8 * ... do local s = '' "
	"for i = 1, 100 do s = s .. 'item ' .. i .. ';' end n = n + #s end "
	"return n";
static const char concat[] =
	"local n = 0 for r = 1, 4 * ... do local t = {} "
	"for i = 1, 300 do t[#t + 1] = string.format('%d:%s', i, 'abc') end "
	"n = n + #table.concat(t, ',') end return n";
static const char array[] =
	"local n = 0 for r = 1, 2 * ... do local t = {} "
	"for i = 1, 20000 do t[i] = i end n = n + #t end return n";
static const char hash[] = "local n = 0 for r = 1, 2 * ... do local t = {} "
			   "for i = 1, 2000 do t['k' .. i] = i end "
			   "for k, v in pairs(t) do n = n + v end end return n";
static const char churn[] =
	"local ring = {} for i = 1, 10000 * ... do "
	"ring[i % 500] = {x = i, y = i + 1, i} end return #ring";
static const char json[] =
	"local function encode(v) local t = type(v) "
	"if t == 'table' then local out = {} "
	"if #v > 0 then for i, x in ipairs(v) do out[i] = encode(x) end "
	"return '[' .. table.concat(out, ',') .. ']' end "
	"for k, x in pairs(v) do out[#out + 1] = string.format('%q:%s', k, "
	"encode(x)) end return '{' .. table.concat(out, ',') .. '}' "
	"elseif t == 'string' then return '\"' .. v .. '\"' end "
	"return tostring(v) end "
	"local doc = {} for i = 1, 40 do doc[i] = {id = i, name = 'n' .. i, "
	"tags = {'a', 'b', i}, pos = {x = i / 2, y = i / 3}} end "
	"local n = 0 for i = 1, 2 * ... do n = n + #encode(doc) end return n";
static const char parse[] =
	"local lines = {} for i = 1, 100 do lines[i] = 'id' .. i .. "
	"'=session;count:' .. i * 7 .. '|' end "
	"local text = table.concat(lines) local n = 0 "
	"for i = 1, 4 * ... do for k, v in text:gmatch('(%w+)=([^|]+)|') do "
	"n = n + #k + #v end n = n + #text:gsub('%d+', function(d) "
	"return d .. '!' end) end return n";
static const char closures[] =
	"local keep, n = {}, 0 for i = 1, 12000 * ... do local x = i "
	"keep[i % 300] = function(y) x = x + y return x end "
	"n = n + keep[i % 300](1) end return n";
static const char corout[] =
	"local n = 0 for i = 1, 500 * ... do "
	"local co = coroutine.wrap(function(a) for j = 1, 5 do "
	"a = coroutine.yield(a + j) end return a end) "
	"for j = 1, 6 do n = n + co(j) end end return n";
static const char sort[] =
	"local seed = 42 local function random() "
	"seed = (seed * 16807) % 2147483647 return seed end "
	"local n = 0 for r = 1, ... do local t = {} "
	"for i = 1, 700 do t[i] = tostring(random()) end table.sort(t) "
	"n = n + #t[1] table.sort(t, function(a, b) return a > b end) end "
	"return n";
static const char varargs[] =
	"local Point = {} Point.__index = Point "
	"function Point.new(...) local x, y = ... "
	"return setmetatable({x = x, y = y}, Point) end "
	"function Point:add(...) local s = Point.new(self.x, self.y) "
	"for _, p in ipairs({...}) do s.x = s.x + p.x s.y = s.y + p.y end "
	"return s end local p = Point.new(0, 0) "
	"for i = 1, 1200 * ... do p = p:add(Point.new(i, 1), "
	"Point.new(1, i), p) if i % 50 == 0 then p = Point.new(0, 0) end end "
	"return p.x";

const struct lua_script lua_scripts[] = {
	{"bintree", bintree, 48},   {"append", append, 48},
	{"concat", concat, 48},     {"array", array, 48},
	{"hash", hash, 48},         {"churn", churn, 32},
	{"json", json, 40},         {"parse", parse, 48},
	{"closures", closures, 40}, {"corout", corout, 56},
	{"sort", sort, 48},         {"varargs", varargs, 40},
};
const size_t lua_scripts_count = sizeof(lua_scripts) / sizeof(lua_scripts[0]);
