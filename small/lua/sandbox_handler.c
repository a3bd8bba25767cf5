/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox_handler: message handlers (the traceback of a call, 5.3's wrapper
 * around those of scripts), and what is LuaJIT's alone.
 */
#include <small/lua/sandbox_internal.h>

/* As the stand-alone interpreter does it. */
static int sb_traceback(lua_State *L)
{
	const char *msg = lua_tostring(L, 1);

	if (sb_stopped(sb_of(L)))
		return 1;
	if (msg == NULL) {
		if (luaL_callmeta(L, 1, "__tostring") &&
		    lua_type(L, -1) == LUA_TSTRING)
			return 1;
		if (SB_51)
			return 1;
		msg = lua_pushfstring(L, "(error object is a %s value)",
		                      luaL_typename(L, 1));
	}
#if SB_51 && !SB_JIT
	lua_getglobal(L, "debug");
	if (!lua_istable(L, -1))
		return lua_settop(L, 1), 1;
	lua_getfield(L, -1, "traceback");
	if (!lua_isfunction(L, -1))
		return lua_settop(L, 1), 1;
	lua_pushvalue(L, 1);
	lua_pushinteger(L, 2);
	lua_call(L, 2, 1);
#else
	luaL_traceback(L, L, msg, 1);
#endif
	return 1;
}

#if SB_53
static int sb_is_stopped(lua_State *L)
{
	lua_pushboolean(L, sb_stopped(sb_of(L)));
	return 1;
}

/* A tail call, so that levels and tracebacks are as without the wrapper. */
static const char sb_wrapper[] = "local stopped = ...\n"
				 "return function(handler)\n"
				 "  return function(...)\n"
				 "    if stopped() then return ... end\n"
				 "    return handler(...)\n"
				 "  end\n"
				 "end";

void sb_make_wrapper(lua_State *L, struct sandbox *sb)
{
	if (luaL_loadbuffer(L, sb_wrapper, sizeof(sb_wrapper) - 1, "=[C]"))
		lua_error(L);
	lua_pushcfunction(L, sb_is_stopped);
	lua_call(L, 1, 1);
	sb->wrap_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}
#else
void sb_make_wrapper(lua_State *L, struct sandbox *sb)
{
	(void)L, (void)sb;
}
#endif

void sb_make_handlers(lua_State *L, struct sandbox *sb)
{
	if (sb->flags & SANDBOX_TRACEBACK) {
		lua_pushcfunction(L, sb_traceback);
		sb->handler_ref = luaL_ref(L, LUA_REGISTRYINDEX);
	}
}

int sb_push_handler(struct sandbox *sb, int index)
{
	lua_rawgeti(sb->L, LUA_REGISTRYINDEX, sb->handler_ref);
	lua_insert(sb->L, index);
	return index;
}

#if SB_JIT
void sb_jit_mode(struct sandbox *sb)
{
	if (!(sb->flags & SANDBOX_ALLOW_JIT))
		luaJIT_setmode(sb->L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
}

/* Machine code lies outside of our memory and would be leaked. */
void sb_jit_flush(struct sandbox *sb)
{
	if (sb->flags & SANDBOX_ALLOW_JIT)
		luaJIT_setmode(sb->L, 0,
		               LUAJIT_MODE_ENGINE | LUAJIT_MODE_FLUSH);
}
#else
void sb_jit_mode(struct sandbox *sb)
{
	(void)sb;
}

void sb_jit_flush(struct sandbox *sb)
{
	(void)sb;
}
#endif
