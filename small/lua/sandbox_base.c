/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox_base: pcall, xpcall, setmetatable, collectgarbage and string.rep as
 * a sandbox needs them. To a script they answer as the stock ones do: same
 * results, messages, arities, yields across pcall where the stock one yields.
 *
 * LuaJIT keeps its own pcall, xpcall and coroutines: its hook is global, so a
 * run that has to end meets it again at the next instruction after anything
 * was caught, and a refusal sets it too (sb_refused).
 */
#include <small/lua/sandbox_internal.h>

#if SB_53 || SB_54
/*
 * Continuation of pcall and xpcall. ctx: luamem_felt() at the start, shifted,
 * and in the low bit whether a function and its handler lie below the results.
 */
static int sb_pcall_end(lua_State *L, int status, lua_KContext ctx)
{
	if (small_likely(status == LUA_OK || status == LUA_YIELD)) {
		sb_poll(L);
		return lua_gettop(L) - ((ctx & 1) != 0 ? 2 : 0);
	}
	sb_caught(L, status, (size_t)ctx >> 1);
	lua_pushboolean(L, 0);
	lua_pushvalue(L, -2);
	return 2;
}

static lua_KContext sb_pcall_ctx(lua_State *L, int below)
{
	return (lua_KContext)(luamem_felt(&sb_of(L)->mem) << 1) | below;
}

static int sb_pcall(lua_State *L)
{
	lua_KContext ctx = sb_pcall_ctx(L, 0);
	int status;

	luaL_checkany(L, 1);
	lua_pushboolean(L, 1); /* the first result when all goes well */
	lua_insert(L, 1);
	status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, ctx,
	                    sb_pcall_end);
	return sb_pcall_end(L, status, ctx);
}

/* Index 2 becomes a function that passes errors by when stopped. The stock
 * traceback runs no script, and would show the wrapper. */
static void sb_wrap(lua_State *L, struct sandbox *sb)
{
	lua_CFunction traceback = sb->stock[SB_STOCK_TRACEBACK];

	if (traceback != NULL && lua_tocfunction(L, 2) == traceback)
		return;
	if (sb->wrap_ref == 0) /* a kilobyte, only for who uses xpcall */
		sb_make_wrapper(L, sb);
	lua_rawgeti(L, LUA_REGISTRYINDEX, sb->wrap_ref);
	lua_pushvalue(L, 2);
	lua_call(L, 1, 1);
	lua_replace(L, 2);
}

/* Only 5.3 needs it. */
static void sb_wrap_handler(lua_State *L)
{
	if (SB_53)
		sb_wrap(L, sb_of(L));
}

static int sb_xpcall(lua_State *L)
{
	lua_KContext ctx = sb_pcall_ctx(L, 1);
	int n = lua_gettop(L), status;

	luaL_checktype(L, 2, LUA_TFUNCTION);
	sb_wrap_handler(L);
	lua_pushboolean(L, 1);
	lua_pushvalue(L, 1);
	lua_rotate(L, 3, 2); /* f handler true f args... */
	status = lua_pcallk(L, n - 2, LUA_MULTRET, 2, ctx, sb_pcall_end);
	return sb_pcall_end(L, status, ctx);
}
#elif !SB_JIT
static int sb_pcall_end(lua_State *L, int status, size_t felt)
{
	if (status != 0)
		sb_caught(L, status, felt);
	else
		sb_poll(L);
	lua_pushboolean(L, status == 0);
	lua_insert(L, 1);
	return lua_gettop(L);
}

static int sb_pcall(lua_State *L)
{
	size_t felt = luamem_felt(&sb_of(L)->mem);

	luaL_checkany(L, 1);
	return sb_pcall_end(L, lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0),
	                    felt);
}

static int sb_xpcall(lua_State *L)
{
	size_t felt = luamem_felt(&sb_of(L)->mem);
	int status;

	luaL_checkany(L, 2);
	lua_settop(L, 2);
	lua_insert(L, 1); /* handler f */
	status = lua_pcall(L, 0, LUA_MULTRET, 1);
	lua_remove(L, 1);
	return sb_pcall_end(L, status, felt);
}
#endif

/* The stock one, but for metatables with a finalizer. */
static int sb_setmetatable(lua_State *L)
{
	if (!SB_51 && lua_type(L, 2) == LUA_TTABLE) {
		lua_pushliteral(L, "__gc");
		lua_rawget(L, 2);
		if (!lua_isnil(L, -1))
			return luaL_error(L, "'__gc' is not allowed here");
		lua_pop(L, 1);
	}
	return sb_of(L)->stock[SB_STOCK_SETMETATABLE](L);
}

static int sb_collectgarbage(lua_State *L)
{
	static const char *const options[] = {"collect", "count", NULL};

	luaL_checkoption(L, 1, "collect", options);
	return sb_of(L)->stock[SB_STOCK_COLLECTGARBAGE](L);
}

const luaL_Reg sb_base_funcs[] = {
#if !SB_JIT
	{"pcall", sb_pcall},
	{"xpcall", sb_xpcall},
#endif
	{"setmetatable", sb_setmetatable},
	{"collectgarbage", sb_collectgarbage},
	{NULL, NULL}};

/* Bytes filled between two looks at the clock. */
#define SB_REP_CHUNK ((size_t)1 << 20)

/* Continues the period out[0..unit) up to size; unit <= size. */
static void sb_repeat(lua_State *L, char *out, size_t unit, size_t size)
{
	size_t done = unit;

	while (done < size) {
		size_t from = done % unit; /* same phase as done */
		size_t n = done - from;

		if (n > SB_REP_CHUNK)
			n = SB_REP_CHUNK;
		if (n > size - done)
			n = size - done;
		memcpy(out + done, out + from, n);
		done += n;
		sb_poll(L);
	}
}

/* The count as each stock function reads it: 5.1 cuts it to an int, LuaJIT
 * takes what no int holds for a negative one. */
static lua_Integer sb_rep_count(lua_State *L)
{
#if SB_JIT
	lua_Number n = luaL_checknumber(L, 2);

	return n >= INT_MIN && n <= INT_MAX ? (lua_Integer)n : INT_MIN;
#elif SB_51
	return (int)luaL_checkinteger(L, 2);
#else
	return luaL_checkinteger(L, 2);
#endif
}

/* The largest result of the stock functions. */
#define SB_REP_MAX ((size_t)INT_MAX)
/* Results up to this are made on the C stack. */
#define SB_REP_SMALL 512

/* One or more copies of unit bytes, the last without its separator. */
static void sb_rep_push(lua_State *L, const char *s, size_t len,
                        const char *sep, size_t sep_len, size_t size)
{
	char buf[SB_REP_SMALL], *out = buf;

	if (size > sizeof(buf))
		out = (char *)lua_newuserdata(L, size);
	memcpy(out, s, len);
	if (size > len) {
		memcpy(out + len, sep, sep_len);
		sb_repeat(L, out, len + sep_len, size);
	}
	lua_pushlstring(L, out, size);
}

/*
 * string.rep: the whole result is asked for before a byte is written, so that
 * what the limit has no room for costs nothing.
 */
static int sb_rep(lua_State *L)
{
	size_t len, sep_len = 0, size;
	const char *s = luaL_checklstring(L, 1, &len), *sep = "";
	lua_Integer n = sb_rep_count(L);

	if (!SB_51 || SB_JIT)
		sep = luaL_optlstring(L, 3, "", &sep_len);
	if (n <= 0 || (len == 0 && (sep_len == 0 || n == 1))) {
		lua_pushliteral(L, "");
		return 1;
	}
	if (small_add(len, sep_len, &size) || size > SB_REP_MAX / (size_t)n)
		return luaL_error(L, "resulting string too large");
	size = size * (size_t)n - sep_len;
	sb_rep_push(L, s, len, sep, sep_len, size);
	return 1;
}

const luaL_Reg sb_string_funcs[] = {{"rep", sb_rep}, {NULL, NULL}};
