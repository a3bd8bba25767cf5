/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox_libs: what a script sees. Without SANDBOX_ALLOW_STDLIB each library
 * is opened and then everything that the whitelist does not name is taken
 * out, so that a function that a newer Lua adds stays out too.
 */
#include <small/lua/sandbox_internal.h>

struct sb_lib {
	const char *name; /* "" = the globals */
	lua_CFunction open;
	const char *allowed; /* names, each between two spaces */
};

#define SB_BASE                                                      \
 " _G _VERSION assert collectgarbage error getmetatable ipairs load" \
 " next pairs pcall print rawequal rawget rawset select"             \
 " setmetatable tonumber tostring type xpcall coroutine math os"     \
 " string table "
#define SB_MATH                                                 \
 " abs acos asin atan ceil cos deg exp floor fmod huge log max" \
 " min modf pi rad random randomseed sin sqrt tan"              \
 " atan2 cosh frexp ldexp log10 pow sinh tanh "
#define SB_STRING                                                 \
 " byte char find format gmatch gsub len lower match rep reverse" \
 " sub upper "
#define SB_OS " clock date difftime time "

/* One table for each Lua. */
#if SB_JIT
static const struct sb_lib sb_libs[] = {
	{"", luaopen_base, SB_BASE "gcinfo loadstring unpack "},
	{LUA_TABLIBNAME, luaopen_table,
         " concat foreach foreachi getn insert maxn move remove sort "},
	{LUA_STRLIBNAME, luaopen_string, SB_STRING "gfind "},
	{LUA_MATHLIBNAME, luaopen_math, SB_MATH "mod "},
	{LUA_OSLIBNAME, luaopen_os, SB_OS},
};
static const char sb_co_allowed[] =
	" create isyieldable resume running status wrap yield ";
#elif SB_51
static const struct sb_lib sb_libs[] = {
	{"", luaopen_base, SB_BASE "gcinfo loadstring unpack "},
	{LUA_TABLIBNAME, luaopen_table,
         " concat foreach foreachi getn insert maxn remove setn sort "},
	{LUA_STRLIBNAME, luaopen_string, SB_STRING "gfind "},
	{LUA_MATHLIBNAME, luaopen_math, SB_MATH "mod "},
	{LUA_OSLIBNAME, luaopen_os, SB_OS},
};
static const char sb_co_allowed[] = " create resume running status wrap yield ";
#elif SB_53
static const struct sb_lib sb_libs[] = {
	{"_G", luaopen_base, SB_BASE "rawlen utf8 "},
	{LUA_COLIBNAME, luaopen_coroutine,
         " create isyieldable resume running status wrap yield "},
	{LUA_TABLIBNAME, luaopen_table,
         " concat insert move pack remove sort unpack "},
	{LUA_STRLIBNAME, luaopen_string, SB_STRING "pack packsize unpack "},
	{LUA_MATHLIBNAME, luaopen_math,
         SB_MATH "maxinteger mininteger tointeger type ult "},
	{LUA_UTF8LIBNAME, luaopen_utf8,
         " char charpattern codepoint codes len offset "},
	{LUA_OSLIBNAME, luaopen_os, SB_OS},
};
#else
static const struct sb_lib sb_libs[] = {
	{"_G", luaopen_base, SB_BASE "rawlen utf8 warn "},
	{LUA_COLIBNAME, luaopen_coroutine,
         " close create isyieldable resume running status wrap yield "},
	{LUA_TABLIBNAME, luaopen_table,
         " concat insert move pack remove sort unpack "},
	{LUA_STRLIBNAME, luaopen_string, SB_STRING "pack packsize unpack "},
	{LUA_MATHLIBNAME, luaopen_math,
         SB_MATH "maxinteger mininteger tointeger type ult "},
	{LUA_UTF8LIBNAME, luaopen_utf8,
         " char charpattern codepoint codes len offset "},
	{LUA_OSLIBNAME, luaopen_os, SB_OS},
};
#endif

static bool sb_is_allowed(const char *allowed, const char *name)
{
	size_t len = strlen(name);
	const char *at = allowed;

	while ((at = strstr(at, name)) != NULL) {
		if (at[-1] == ' ' && at[len] == ' ')
			return true;
		at++;
	}
	return false;
}

/* Takes out of the table on top what has no allowed name. */
static void sb_filter(lua_State *L, const char *allowed)
{
	lua_pushnil(L);
	while (lua_next(L, -2)) {
		lua_pop(L, 1);
		if (lua_type(L, -1) == LUA_TSTRING &&
		    sb_is_allowed(allowed, lua_tostring(L, -1)))
			continue;
		lua_pushvalue(L, -1);
		lua_pushnil(L);
		lua_rawset(L, -4); /* clearing a field keeps lua_next valid */
	}
}

static void sb_push_globals(lua_State *L)
{
#if SB_51
	lua_pushvalue(L, LUA_GLOBALSINDEX);
#else
	lua_pushglobaltable(L);
#endif
}

/* Pushes the library's table, or nil. */
static void sb_push_lib(lua_State *L, const char *name)
{
	sb_push_globals(L);
	lua_getfield(L, -1, name);
	lua_remove(L, -2);
}

static void sb_open_lib(lua_State *L, const struct sb_lib *lib)
{
#if SB_51
	lua_pushcfunction(L, lib->open);
	lua_pushstring(L, lib->name);
	lua_call(L, 1, 0);
	if (*lib->name == '\0')
		sb_push_globals(L);
	else
		sb_push_lib(L, lib->name);
#else
	luaL_requiref(L, lib->name, lib->open, 1);
#endif
	sb_filter(L, lib->allowed);
	lua_pop(L, 1);
}

static void sb_open_whitelist(lua_State *L)
{
	for (size_t i = 0; i < lengthof(sb_libs); i++)
		sb_open_lib(L, &sb_libs[i]);
#if SB_51
	/* 5.1's base library opens it, after it was filtered: again */
	sb_push_lib(L, LUA_COLIBNAME);
	sb_filter(L, sb_co_allowed);
	lua_pop(L, 1);
#endif
}

/* The stock function of that name in the table on top. */
static lua_CFunction sb_stock(lua_State *L, const char *name)
{
	lua_CFunction fn;

	lua_getfield(L, -1, name);
	fn = lua_tocfunction(L, -1);
	lua_pop(L, 1);
	return fn;
}

static void sb_remember_stock(lua_State *L, struct sandbox *sb)
{
	sb_push_globals(L);
	sb->stock[SB_STOCK_SETMETATABLE] = sb_stock(L, "setmetatable");
	sb->stock[SB_STOCK_COLLECTGARBAGE] = sb_stock(L, "collectgarbage");
	lua_pop(L, 1);
	sb_push_lib(L, LUA_TABLIBNAME);
	sb->stock[SB_STOCK_INSERT] = sb_stock(L, "insert");
	sb->stock[SB_STOCK_REMOVE] = sb_stock(L, "remove");
	sb->stock[SB_STOCK_MOVE] = sb_stock(L, "move");
	sb->stock[SB_STOCK_SORT] = sb_stock(L, "sort");
	lua_pop(L, 1);
	sb_push_lib(L, LUA_COLIBNAME);
	sb->stock[SB_STOCK_CO_CLOSE] = sb_stock(L, "close");
	lua_pop(L, 1);
	sb_push_lib(L, LUA_DBLIBNAME);
	if (lua_istable(L, -1))
		sb->stock[SB_STOCK_TRACEBACK] = sb_stock(L, "traceback");
	lua_pop(L, 1);
}

/* Whether a flag says that the stock function stays. */
static bool sb_keeps_stock(unsigned flags, const char *name)
{
	if (strcmp(name, "setmetatable") == 0)
		return SB_51 || (flags & SANDBOX_ALLOW_GC) != 0;
	if (strcmp(name, "collectgarbage") == 0 ||
	    strncmp(name, "random", strlen("random")) == 0)
		return (flags & SANDBOX_ALLOW_STDLIB) != 0;
	return false;
}

/* Ours in place of what the table on top has; pops it. */
static void sb_replace(lua_State *L, unsigned flags, const luaL_Reg *funcs)
{
	for (; funcs->name != NULL; funcs++) {
		if (sb_keeps_stock(flags, funcs->name))
			continue;
		lua_pushcfunction(L, funcs->func);
		lua_setfield(L, -2, funcs->name);
	}
	lua_pop(L, 1);
}

#if SB_51 && !SB_JIT
/* What luaopen_io asks for at most, in sum: measured, and half of it more. */
# define SB_IO_BYTES ((size_t)6 * 1024)

/*
 * 5.1: when memory runs out inside luaopen_io, closing the state closes the
 * host's stdin. So it is opened where that can not happen; a state that holds
 * bytes over the limit afterwards is forgotten, not closed.
 */
static void sb_open_io(lua_State *L, struct sandbox *sb)
{
	if (luamem_enter_infallible(&sb->mem, SB_IO_BYTES) != 0)
		luaL_error(L, "not enough memory");
	lua_pushcfunction(L, luaopen_io);
	lua_pushliteral(L, LUA_IOLIBNAME);
	lua_call(L, 1, 0);
	sb->leaked = luamem_exit_infallible(&sb->mem) != 0;
	if (sb->leaked)
		luaL_error(L, "not enough memory");
}

static void sb_open_stdlib(lua_State *L, struct sandbox *sb)
{
	static const luaL_Reg libs[] = {
		{"", luaopen_base},
		{LUA_LOADLIBNAME, luaopen_package},
		{LUA_TABLIBNAME, luaopen_table},
		{LUA_IOLIBNAME, NULL},
		{LUA_OSLIBNAME, luaopen_os},
		{LUA_STRLIBNAME, luaopen_string},
		{LUA_MATHLIBNAME, luaopen_math},
		{LUA_DBLIBNAME, luaopen_debug},
	};

	for (size_t i = 0; i < lengthof(libs); i++) {
		if (libs[i].func == NULL) {
			sb_open_io(L, sb);
			continue;
		}
		lua_pushcfunction(L, libs[i].func);
		lua_pushstring(L, libs[i].name);
		lua_call(L, 1, 0);
	}
}
#else
static void sb_open_stdlib(lua_State *L, struct sandbox *sb)
{
	(void)sb;
	luaL_openlibs(L);
}
#endif

void sb_open_libs(lua_State *L, struct sandbox *sb)
{
	if (sb->flags & SANDBOX_ALLOW_STDLIB)
		sb_open_stdlib(L, sb);
	else
		sb_open_whitelist(L);
	sb_remember_stock(L, sb);
	sb_push_globals(L);
	sb_replace(L, sb->flags, sb_base_funcs);
	sb_push_globals(L);
	sb_replace(L, sb->flags, sb_load_funcs);
	sb_push_lib(L, LUA_STRLIBNAME);
	sb_replace(L, sb->flags, sb_string_funcs);
	sb_push_lib(L, LUA_TABLIBNAME);
	sb_replace(L, sb->flags, sb_table_funcs);
	sb_push_lib(L, LUA_COLIBNAME);
	sb_replace(L, sb->flags, sb_co_funcs);
#if SB_OWN_RANDOM
	sb_random_seed(&sb->random, 1); /* as a process that never did */
#endif
	sb_push_lib(L, LUA_MATHLIBNAME);
	sb_replace(L, sb->flags, sb_math_funcs);
}
