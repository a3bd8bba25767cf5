/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * whitelist: everything that a script can reach in the default set - _G,
 * every table, metatable and function environment from there - is on the
 * list below, and what could hurt the host is not.
 */
#include "box.h"

/* Names of what is reachable, sorted by table; "?" = a name that some Lua
 * or build option of it has and others have not. */
static const char *const allowed[] = {
	"_G",
	"_VERSION",
	"assert",
	"collectgarbage",
	"coroutine",
	"error",
	"getmetatable",
	"ipairs",
	"load",
	"math",
	"next",
	"os",
	"pairs",
	"pcall",
	"print",
	"rawequal",
	"rawget",
	"rawset",
	"select",
	"setmetatable",
	"string",
	"table",
	"tonumber",
	"tostring",
	"type",
	"xpcall",
#if BOX_51
	"gcinfo",
	"loadstring",
	"unpack",
#else
	"rawlen",
	"utf8",
	"utf8.char",
	"utf8.charpattern",
	"utf8.codepoint",
	"utf8.codes",
	"utf8.len",
	"utf8.offset",
#endif
#if BOX_54
	"warn",
	"coroutine.close",
#endif
	"coroutine.create",
	"coroutine.resume",
	"coroutine.running",
	"coroutine.status",
	"coroutine.wrap",
	"coroutine.yield",
#if !BOX_51 || BOX_JIT
	"coroutine.isyieldable",
	"table.move",
#endif
	"os.clock",
	"os.date",
	"os.difftime",
	"os.time",
	"table.concat",
	"table.insert",
	"table.remove",
	"table.sort",
#if BOX_51
	"table.foreach",
	"table.foreachi",
	"table.getn",
	"table.maxn",
	"?table.setn",
#else
	"table.pack",
	"table.unpack",
#endif
	"string.byte",
	"string.char",
	"string.find",
	"string.format",
	"string.gmatch",
	"string.gsub",
	"string.len",
	"string.lower",
	"string.match",
	"string.rep",
	"string.reverse",
	"string.sub",
	"string.upper",
#if BOX_51
	"?string.gfind",
#else
	"string.pack",
	"string.packsize",
	"string.unpack",
#endif
	"math.abs",
	"math.acos",
	"math.asin",
	"math.atan",
	"math.ceil",
	"math.cos",
	"math.deg",
	"math.exp",
	"math.floor",
	"math.fmod",
	"math.huge",
	"math.log",
	"math.max",
	"math.min",
	"math.modf",
	"math.pi",
	"math.rad",
	"math.random",
	"math.randomseed",
	"math.sin",
	"math.sqrt",
	"math.tan",
	"?math.atan2",
	"?math.cosh",
	"?math.frexp",
	"?math.ldexp",
	"?math.log10",
	"?math.pow",
	"?math.sinh",
	"?math.tanh",
	"?math.mod",
#if !BOX_51
	"math.maxinteger",
	"math.mininteger",
	"math.tointeger",
	"math.type",
	"math.ult",
#endif
};

static bool seen[lengthof(allowed)];
static const void *visited[64];
static size_t visited_count;

static void check_name(const char *name)
{
	for (size_t i = 0; i < lengthof(allowed); i++) {
		if (strcmp(allowed[i] + (allowed[i][0] == '?'), name) == 0) {
			seen[i] = true;
			return;
		}
	}
	print_message("reachable and not listed: %s\n", name);
	assert_true(false);
}

/* Everything in the table on top of the stack, which is popped. */
static void walk(lua_State *L, const char *prefix)
{
	const void *table = lua_topointer(L, -1);

	for (size_t i = 0; i < visited_count; i++) {
		if (visited[i] == table) {
			lua_pop(L, 1);
			return;
		}
	}
	assert_true(visited_count < lengthof(visited));
	visited[visited_count++] = table;
	assert_int_equal(lua_getmetatable(L, -1), 0);
	lua_pushnil(L);
	while (lua_next(L, -2)) {
		char name[64];

		assert_int_equal(lua_type(L, -2), LUA_TSTRING);
		snprintf(name, sizeof(name), "%s%s", prefix,
		         lua_tostring(L, -2));
		check_name(name);
		assert_int_not_equal(lua_type(L, -1), LUA_TUSERDATA);
		if (lua_type(L, -1) == LUA_TTABLE) {
			strcat(name, ".");
			walk(L, name);
		} else {
			lua_pop(L, 1);
		}
	}
	lua_pop(L, 1);
}

static int walk_all(lua_State *L)
{
	lua_getglobal(L, "_G");
	walk(L, "");
	/* what strings reach: their metatable, and nothing new in it */
	lua_pushliteral(L, "");
	assert_int_equal(lua_getmetatable(L, -1), 1);
	lua_getfield(L, -1, "__index");
	walk(L, "string.");
	lua_pushnil(L);
	while (lua_next(L, -2)) {
		if (lua_type(L, -1) == LUA_TTABLE) {
			walk(L, "string.");
			continue;
		}
		/* 5.4: arithmetic on strings */
		assert_memory_equal(lua_tostring(L, -2), "__", 2);
		lua_pop(L, 1);
	}
	/* other types have no metatable to start from */
	lua_pushnil(L);
	assert_int_equal(lua_getmetatable(L, -1), 0);
	lua_pushnumber(L, 1);
	assert_int_equal(lua_getmetatable(L, -1), 0);
	lua_pushboolean(L, 1);
	assert_int_equal(lua_getmetatable(L, -1), 0);
	lua_pushcfunction(L, walk_all);
	assert_int_equal(lua_getmetatable(L, -1), 0);
	lua_pushthread(L);
	assert_int_equal(lua_getmetatable(L, -1), 0);
	return 0;
}

static void only_the_whitelist_is_reachable(void **state)
{
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	assert_int_equal(sandbox_protect(box.sb, walk_all, NULL), SANDBOX_OK);
	for (size_t i = 0; i < lengthof(allowed); i++) {
		if (!seen[i] && allowed[i][0] != '?') {
			print_message("missing: %s\n", allowed[i]);
			assert_true(seen[i]);
		}
	}
	box_close(&box);
}

/* Each of these is out of reach, by any name a script knows for it. */
static void what_hurts_is_out_of_reach(void **state)
{
	static const char *const names[] = {
		"io",          "package",   "debug",      "ffi",
		"jit",         "bit",       "require",    "module",
		"dofile",      "loadfile",  "newproxy",   "getfenv",
		"setfenv",     "os.exit",   "os.remove",  "os.rename",
		"os.execute",  "os.getenv", "os.tmpname", "os.setlocale",
		"string.dump",
	};
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	for (size_t i = 0; i < lengthof(names); i++) {
		char text[128];

		snprintf(text, sizeof(text), "assert(%s == nil)", names[i]);
		box_expect(&box, text, SANDBOX_OK);
	}
	box_expect(&box,
	           "for _, o in ipairs({'stop', 'restart', 'step', 'setpause', "
	           "'setstepmul', 'generational', 'incremental'}) do "
	           "assert(not pcall(collectgarbage, o)) end "
	           "assert(collectgarbage('count') > 0) "
	           "assert(collectgarbage() == 0)",
	           SANDBOX_OK);
	box_close(&box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_whitelist_is_reachable),
		cmocka_unit_test(what_hurts_is_out_of_reach),
	};

	return cmocka_run_group_tests_name("whitelist", tests, NULL, NULL);
}
