/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox_table: the table functions that loop in C over a range the script
 * chose. In 5.3 and 5.4 that range may be any two integers (arguments, or
 * what __len says), with no instruction of the interpreter and hence no hook
 * in between: table.move({}, 1, 1e15, 2) would never come back. Long ranges
 * are worked off here, looking at the clock; all else is the stock function,
 * called in our frame, so that its messages are its own.
 *
 * A sort without a comparison function gets one in C: calls meet the hook.
 */
#include <small/lua/sandbox_internal.h>

/* Steps that take well under a tick. */
#define SB_LONG_RANGE 100000

#if SB_53 || SB_54
/* t[to + i] = u[from + i] for n steps in direction dir, as table.move does;
 * t and u are stack indexes. */
static void sb_move_range(lua_State *L, int u, lua_Integer from, int t,
                          lua_Integer to, lua_Integer n, int dir)
{
	lua_Integer i = dir > 0 ? 0 : n - 1;

	for (lua_Integer done = 0; done < n; done++, i += dir) {
		lua_geti(L, u, from + i);
		lua_seti(L, t, to + i);
		if (done % SB_LONG_RANGE == 0)
			sb_poll(L);
	}
}

static bool sb_is_plain(lua_State *L, int index)
{
	return lua_type(L, index) == LUA_TTABLE;
}

static int sb_move(lua_State *L)
{
	lua_Integer f, e, t;
	int to = lua_isnoneornil(L, 5) ? 1 : 5;

	if (!lua_isinteger(L, 2) || !lua_isinteger(L, 3) ||
	    !lua_isinteger(L, 4) || !sb_is_plain(L, 1) || !sb_is_plain(L, to))
		return sb_of(L)->stock[SB_STOCK_MOVE](L);
	f = lua_tointeger(L, 2);
	e = lua_tointeger(L, 3);
	t = lua_tointeger(L, 4);
	if (e < f || !(f > 0 || e < LUA_MAXINTEGER + f) ||
	    e - f < SB_LONG_RANGE || t > LUA_MAXINTEGER - (e - f + 1) + 1)
		return sb_of(L)->stock[SB_STOCK_MOVE](L);
	if (t > e || t <= f || (to != 1 && !lua_compare(L, 1, to, LUA_OPEQ)))
		sb_move_range(L, 1, f, to, t, e - f + 1, 1);
	else
		sb_move_range(L, 1, f, to, t, e - f + 1, -1);
	lua_pushvalue(L, to);
	return 1;
}

/* table.insert(t, pos, value) in the middle of a long table. */
static int sb_insert(lua_State *L)
{
	lua_Integer n, pos;

	if (lua_gettop(L) != 3 || !sb_is_plain(L, 1) || !lua_isinteger(L, 2))
		return sb_of(L)->stock[SB_STOCK_INSERT](L);
	pos = lua_tointeger(L, 2);
	n = luaL_len(L, 1);
	if (n == LUA_MAXINTEGER || pos < 1 || pos > n ||
	    n - pos < SB_LONG_RANGE)
		return sb_of(L)->stock[SB_STOCK_INSERT](L);
	sb_move_range(L, 1, pos, 1, pos + 1, n - pos + 1, -1);
	lua_settop(L, 3);
	lua_seti(L, 1, pos);
	return 0;
}

static int sb_remove(lua_State *L)
{
	lua_Integer n, pos;

	if (lua_gettop(L) < 2 || !sb_is_plain(L, 1) || !lua_isinteger(L, 2))
		return sb_of(L)->stock[SB_STOCK_REMOVE](L);
	pos = lua_tointeger(L, 2);
	n = luaL_len(L, 1);
	if (pos < 1 || pos > n || n - pos < SB_LONG_RANGE)
		return sb_of(L)->stock[SB_STOCK_REMOVE](L);
	lua_geti(L, 1, pos);
	sb_move_range(L, 1, pos + 1, 1, pos, n - pos, 1);
	lua_pushnil(L);
	lua_seti(L, 1, n);
	return 1;
}
#endif

static int sb_less(lua_State *L)
{
	sb_poll(L);
#if SB_51
	lua_pushboolean(L, lua_lessthan(L, 1, 2));
#else
	lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
#endif
	return 1;
}

static size_t sb_length(lua_State *L, int index)
{
#if SB_51
	return lua_objlen(L, index);
#else
	return lua_getmetatable(L, index) ? SIZE_MAX : lua_rawlen(L, index);
#endif
}

static int sb_sort(lua_State *L)
{
	if (lua_type(L, 1) == LUA_TTABLE && lua_isnoneornil(L, 2) &&
	    sb_length(L, 1) > SB_LONG_RANGE) {
		lua_settop(L, 1);
		lua_pushcfunction(L, sb_less);
	}
	return sb_of(L)->stock[SB_STOCK_SORT](L);
}

const luaL_Reg sb_table_funcs[] = {
#if SB_53 || SB_54
	{"move", sb_move},
	{"insert", sb_insert},
	{"remove", sb_remove},
#endif
	{"sort", sb_sort},
	{NULL, NULL}};
