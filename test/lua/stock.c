/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stock: a well-behaved script can not tell our functions from those of the
 * stock libraries: each chunk gives the same results, or the same message,
 * in a plain luaL_newstate and in the sandbox.
 */
#include "box.h"

/* Each returns strings, numbers, booleans or nil. */
static const char *const chunks[] = {
	"return pcall(error, 'x')",
	"return pcall(error, 'x', 2)",
	"return pcall(function() error('at level 1') end)",
	"local function f() error('at level 2', 2) end "
	"return pcall(function() f() end)",
	"return pcall(function() local function f() error('up', 2) end "
	"local ok, e = pcall(f) return e end)",
	"return pcall()",
	"return pcall(pcall)",
	"return pcall(1)",
	"return xpcall()",
	"return pcall(xpcall)",
	"return pcall(xpcall, 1)",
	"return xpcall(error, function(e) return 'h:' .. tostring(e) end)",
	"return xpcall(function() local x = nil x() end, "
	"function(e) return 'h:' .. e end)",
	"return xpcall(function() return 1, nil, 3 end, print)",
	"return xpcall(function(...) return select('#', ...), ... end, print, "
	"1, 2)",
	"return xpcall(error, error)",
	"return pcall(function() return xpcall(function() error('in') end, "
	"function(e) error('handler') end) end)",
	"return pcall(coroutine.resume)",
	"return pcall(coroutine.resume, 1)",
	"return pcall(coroutine.wrap, 1)",
	"return pcall(coroutine.create)",
	"local co = coroutine.create(function(a, b) "
	"local c = coroutine.yield(a + b) error('end' .. c) end) "
	"local a, b = coroutine.resume(co, 1, 2) "
	"local c, d = coroutine.resume(co, 'x') "
	"return a, b, c, d, coroutine.status(co), coroutine.resume(co)",
	"local w = coroutine.wrap(function() error('in wrap') end) "
	"return pcall(w)",
	"local w = coroutine.wrap(function() error({}) end) "
	"local ok, e = pcall(w) return ok, type(e)",
	"local w = coroutine.wrap(function() return 1 end) w() "
	"return pcall(w)",
	"local w w = coroutine.wrap(function() return pcall(w) end) "
	"return w()",
	"local co co = coroutine.create(function() "
	"return coroutine.resume(co) end) return coroutine.resume(co)",
	"local a a = coroutine.create(function() local b = "
	"coroutine.create(function() return coroutine.resume(a) end) "
	"return coroutine.resume(b) end) return coroutine.resume(a)",
#ifdef __GLIBC__ /* whose generator ours is */
	"math.randomseed(42) return math.random(), math.random(10), "
	"math.random(5, 7), math.random(1000000), math.random()",
	"math.randomseed(0) return math.random(), math.random(2 ^ 31 - 1)",
	"math.randomseed(-7) return math.random(), math.random(-9, -2)",
	"math.randomseed(123456789) local s = 0 for i = 1, 2000 do "
	"s = s + math.random(1000000) end return s",
	"math.randomseed(5) return math.random(-2147483648, 2147483647), "
	"math.random(-1, 2147483647), math.random()",
#endif
	"return pcall(math.random, -1)",
	"return pcall(math.random, 2, 1)",
	"return pcall(math.random, 1, 2, 3)",
	"return pcall(math.random, 'x')",
	"return pcall(math.random, {}, 3)",
	"return pcall(math.randomseed, {})",
#if BOX_53
	"return pcall(math.random, math.mininteger, math.maxinteger)",
#endif
	/* yield across pcall and xpcall, and what 5.1 says to it */
	"local co = coroutine.create(function() "
	"local a, b = pcall(function() return coroutine.yield(1) + 1 end) "
	"return a, b end) local x, y = coroutine.resume(co) "
	"return x, y, coroutine.resume(co, 41)",
	"local co = coroutine.create(function() "
	"return xpcall(function(...) local v = coroutine.yield(...) "
	"error('after ' .. v) end, function(e) return 'h ' .. e end, 7) end) "
	"local x, y = coroutine.resume(co) "
	"return x, y, coroutine.resume(co, 'yield')",
	"return pcall(coroutine.yield)",
	"local co = coroutine.wrap(function() for i = 1, 3 do "
	"pcall(coroutine.yield, i) end return 'done' end) "
	"return co(), co(), co(), co()",
	"return coroutine.isyieldable and coroutine.isyieldable()",
	"return coroutine.wrap(function() local co, main = coroutine.running() "
	"return type(co), main end)()",
	"local n = 0 local function f() n = n + 1 pcall(f) end pcall(f) "
	"return n > 100, n < 300000",
	"local function nest(n) if n == 0 then return 0 end "
	"return coroutine.wrap(function() return 1 + nest(n - 1) end)() end "
	"return nest(50)",
#if !BOX_JIT /* has no bound but memory */
	"local n = 0 local function f() n = n + 1 "
	"coroutine.wrap(f)() end return pcall(f), n",
#endif
	/* load */
	"return (loadstring or load)('return 1 +')",
	"return (loadstring or load)('x =', '=name')",
	"return (loadstring or load)('x =', '@file.lua')",
	"return (loadstring or load)('return ...', 'n')",
	"return pcall(load)",
	"return pcall(load, 1)",
	"return pcall(load, {})",
	"local once = 1 return load(function() local r = once once = nil "
	"return r end)",
	"return load(function() return {} end)",
	"return load(function() error('reader') end)",
	"local p = {'return ', '1', ' + 1'} local i = 0 "
	"return load(function() i = i + 1 return p[i] end)()",
	"return load(function() return nil end)",
#if !BOX_51 || BOX_JIT
	"return load('return x', 'n', 't', {x = 5})()",
	"return load('return 1', 'n', 'b')",
	"return pcall(load, 'return 1', 'n', 't', nil)",
#endif
	/* setmetatable */
	"return pcall(setmetatable)",
	"return pcall(setmetatable, {})",
	"return pcall(setmetatable, 1, {})",
	"return pcall(setmetatable, {}, 1)",
	"return pcall(setmetatable, setmetatable({}, {__metatable = 1}), {})",
	"local t = {} return setmetatable(t, nil) == t",
	/* string.rep */
	"return pcall(string.rep)",
	"return pcall(string.rep, 'x')",
	"return pcall(string.rep, 'x', {})",
	"return pcall(string.rep, 'x', 2.5)",
	"return pcall(string.rep, 'x', '3')",
	"return pcall(string.rep, 'ab', 3, ',')",
	"return pcall(string.rep, 'ab', 1, ',')",
	"return pcall(string.rep, 'ab', 0, ',')",
	"return pcall(string.rep, '', 3, ',')",
	"return pcall(string.rep, 'x', -1)",
	"return pcall(string.rep, 12, 3)",
	"return ('x'):rep(1000) == ('xx'):rep(500), #('abc'):rep(5000, 'de')",
#if !BOX_51
	"return pcall(string.rep, 'x', 1e15)",
	"return pcall(string.rep, 'xy', 1 << 31)",
	"return pcall(string.rep, 'x', 1 << 62, 'y')",
#endif
	/* tables */
	"return pcall(table.insert, {}, 5, 1)",
	"return pcall(table.insert, {}, 1)",
	"return pcall(table.insert, {}, 1, 2, 3)",
	"return pcall(table.insert, 1, 2)",
	"return pcall(table.remove, {}, 7)",
	"local t = {1, 2, 3} return table.remove(t, 1), table.remove(t), #t",
	"return pcall(table.sort, {3, 'x', 1})",
	"return pcall(table.sort, 1)",
	"return pcall(table.sort, {1, 2}, 1)",
	"local t = {} for i = 1, 120000 do t[i] = i * 7919 % 120011 end "
	"table.sort(t) local ok = true for i = 2, #t do ok = ok and "
	"t[i - 1] <= t[i] end table.insert(t, 1, -1) "
	"return ok, t[1], t[2], t[120001], table.remove(t, 1), #t, t[1]",
#if !BOX_51
	"return pcall(table.move, {}, 1)",
	"local t = {} for i = 1, 150000 do t[i] = i end "
	"local u = table.move(t, 1, 150000, 2) "
	"local v = table.move(t, 2, 150001, 1) "
	"local w = table.move(t, 1, 150000, 3, {}) "
	"return u == t, t[1], t[150000], v == t, w[3], w[150002], w[2]",
#endif
	"return pcall(collectgarbage, 'what')",
	"return collectgarbage('count') > 1, collectgarbage('collect')",
#if BOX_54
	"local log = {} local co = coroutine.create(function() "
	"local x <close> = setmetatable({}, {__close = function(_, e) "
	"log[#log + 1] = tostring(e) end}) coroutine.yield() end) "
	"coroutine.resume(co) local a, b = coroutine.close(co) "
	"return a, b, coroutine.status(co), log[1]",
	"local co = coroutine.create(function() "
	"local x <close> = setmetatable({}, {__close = function() "
	"error('in close') end}) coroutine.yield() end) "
	"coroutine.resume(co) return coroutine.close(co)",
	"return pcall(coroutine.close, coroutine.running())",
	"return pcall(coroutine.close)",
	"return pcall(coroutine.wrap(function() local x <close> = "
	"setmetatable({}, {__close = function() error('second') end}) "
	"error('first') end))",
#endif
};

/* What the chunk did, in words. */
static void describe(lua_State *L, int from, char *out, size_t size)
{
	size_t at = 0;

	*out = '\0';
	for (int i = from; i <= lua_gettop(L) && at < size; i++) {
		const char *s = luaL_typename(L, i);

		if (lua_type(L, i) == LUA_TBOOLEAN)
			s = lua_toboolean(L, i) ? "true" : "false";
		else if (lua_isstring(L, i))
			s = lua_tostring(L, i);
		at += (size_t)snprintf(out + at, size - at, "%s; ", s);
	}
}

static void each_chunk_answers_as_stock(void **state)
{
	static char ours[4096], theirs[4096];

	(void)state;
	for (int full = 0; full <= 1; full++) {
		for (size_t i = 0; i < lengthof(chunks); i++) {
			lua_State *L = luaL_newstate();
			struct box box;

			luaL_openlibs(L);
			assert_int_equal(luaL_loadbuffer(L, chunks[i],
			                                 strlen(chunks[i]),
			                                 "=test"),
			                 0);
			lua_pcall(L, 0, LUA_MULTRET, 0);
			describe(L, 1, theirs, sizeof(theirs));
			lua_close(L);
			box_open(&box, (struct sandbox_opts){
					       .flags = full ? BOX_FULL : 0});
			box_run(&box, chunks[i], -1);
			describe(box.L, 1, ours, sizeof(ours));
			lua_settop(box.L, 0);
			if (strcmp(ours, theirs) != 0)
				print_message("%s\n", chunks[i]);
			assert_string_equal(ours, theirs);
			box_close(&box);
		}
	}
}

#if !BOX_51 || BOX_JIT
/* Tracebacks too, with all libraries. */
static void tracebacks_are_as_stock(void **state)
{
	static const char text[] =
		"local function f() error('deep') end "
		"local function g() f() end "
		"local ok, t = xpcall(g, debug.traceback) "
		"local ok2, t2 = xpcall(g, function(e) "
		"return debug.traceback(e, 2) end) "
		"local co = coroutine.create(g) coroutine.resume(co) "
		"return t, t2, debug.traceback(co), "
		"select(2, pcall(function() return debug.traceback('in pcall') "
		"end))";
	static char ours[4096], theirs[4096];
	lua_State *L = luaL_newstate();
	struct box box;

	(void)state;
	luaL_openlibs(L);
	assert_int_equal(luaL_loadbuffer(L, text, strlen(text), "=test"), 0);
	lua_pcall(L, 0, LUA_MULTRET, 0);
	describe(L, 1, theirs, sizeof(theirs));
	lua_close(L);
	box_open(&box, (struct sandbox_opts){.flags = BOX_FULL});
	box_run(&box, text, -1);
	describe(box.L, 1, ours, sizeof(ours));
	lua_settop(box.L, 0);
	assert_string_equal(ours, theirs);
	box_close(&box);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_chunk_answers_as_stock),
#if !BOX_51 || BOX_JIT
		cmocka_unit_test(tracebacks_are_as_stock),
#endif
	};

	return cmocka_run_group_tests_name("stock", tests, NULL, NULL);
}
