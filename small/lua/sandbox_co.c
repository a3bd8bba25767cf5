/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox_co: coroutine.resume, wrap and close for PUC Lua, where a hook
 * belongs to one thread: a resume says which thread runs, so that a deadline
 * finds it, charges it a step, and looks at the verdict when it comes back.
 * create, yield, status, running and isyieldable are the stock ones.
 */
#include <small/lua/sandbox_internal.h>

#if SB_JIT
const luaL_Reg sb_co_funcs[] = {{NULL, NULL}};
#else

/* Arguments that fit on a coroutine's stack without growing it: fewer than
 * the LUA_MINSTACK slots that each C function and new thread has. */
# define SB_RESUME_FITS (LUA_MINSTACK - 4)

static lua_State *sb_get_co(lua_State *L)
{
	lua_State *co = lua_tothread(L, 1);

# if SB_54
	luaL_argexpected(L, co, 1, "thread");
# elif SB_53
	luaL_argcheck(L, co, 1, "thread expected");
# else
	luaL_argcheck(L, co, 1, "coroutine expected");
# endif
	return co;
}

# if SB_51
/* NULL when co can be resumed, or what it is instead. */
static const char *sb_not_suspended(lua_State *L, lua_State *co)
{
	lua_Debug ar;

	if (L == co)
		return "running";
	if (lua_status(co) == LUA_YIELD)
		return NULL;
	if (lua_status(co) != 0)
		return "dead";
	if (lua_getstack(co, 0, &ar) > 0)
		return "normal";
	return lua_gettop(co) == 0 ? "dead" : NULL;
}
# else
/* lua_resume() finds the rest, and says it. */
static const char *sb_not_suspended(lua_State *L, lua_State *co)
{
	(void)L;
	if (SB_53 && lua_status(co) == LUA_OK && lua_gettop(co) == 0)
		return "dead";
	return NULL;
}
# endif

# if SB_51
static int sb_grow_co(lua_State *co)
{
	int n = *(int *)lua_touserdata(co, 1);

	if (!lua_checkstack(co, n))
		return luaL_error(co, "stack overflow");
	return 0;
}

/* In 5.1 a failure on the stack of a thread that does not run is no error
 * but the end of the process, so it grows under protection of its own. */
static int sb_room_for(lua_State *co, int n)
{
	if (n <= SB_RESUME_FITS)
		return 1;
	if (lua_cpcall(co, sb_grow_co, &n) == 0)
		return 1;
	lua_settop(co, -2); /* its message */
	return 0;
}

static int sb_lua_resume(lua_State *co, lua_State *L, int narg, int *nres)
{
	int status;

	lua_setlevel(L, co); /* C calls nest across coroutines */
	status = lua_resume(co, narg);
	*nres = lua_gettop(co);
	return status;
}
# else
static int sb_room_for(lua_State *co, int n)
{
	return lua_checkstack(co, n);
}

#  if SB_53
static int sb_lua_resume(lua_State *co, lua_State *L, int narg, int *nres)
{
	int status = lua_resume(co, L, narg);

	*nres = lua_gettop(co);
	return status;
}
#  else
#   define sb_lua_resume lua_resume
#  endif
# endif

/* Runs co as part of the sandbox's call. */
static int sb_run_co(lua_State *L, lua_State *co, int narg, int *nres)
{
	struct sandbox *sb = sb_of(L);
	size_t felt = luamem_felt(&sb->mem);
	int status;

	if (sb->active && sb->instructions != 0) {
		if (sb_charge(sb))
			sb_set_verdict(sb, SANDBOX_INSTRUCTIONS);
		sb_poll(L);
	}
	__atomic_store_n(&sb->running, co, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (sb->active)
		sb_enter_thread(sb, co);
	status = sb_lua_resume(co, L, narg, nres);
	__atomic_store_n(&sb->running, L, __ATOMIC_RELAXED);
	if (small_unlikely(status != SB_STATUS_OK && status != LUA_YIELD))
		sb_caught(L, status, felt);
	else
		sb_poll(L);
	return status;
}

/* Moves narg arguments to co and what it gives back to L: their number, or
 * -1 with a message. */
static int sb_resume(lua_State *L, lua_State *co, int narg)
{
	const char *state = sb_not_suspended(L, co);
	int nres, status;

	if (small_unlikely(!sb_room_for(co, narg))) {
		if (SB_51)
			luaL_error(L, "too many arguments to resume");
		lua_pushliteral(L, "too many arguments to resume");
		return -1;
	}
	if (small_unlikely(state != NULL)) {
		lua_pushfstring(L, "cannot resume %s coroutine", state);
		return -1;
	}
	lua_xmove(L, co, narg);
	status = sb_run_co(L, co, narg, &nres);
	if (small_unlikely(status != SB_STATUS_OK && status != LUA_YIELD)) {
		lua_xmove(co, L, 1);
		return -1;
	}
	if (small_unlikely(!lua_checkstack(L, nres + 1))) {
		if (SB_51)
			luaL_error(L, "too many results to resume");
		lua_pop(co, nres);
		lua_pushliteral(L, "too many results to resume");
		return -1;
	}
	lua_xmove(co, L, nres);
	return nres;
}

static int sb_co_resume(lua_State *L)
{
	lua_State *co = sb_get_co(L);
	int n = sb_resume(L, co, lua_gettop(L) - 1);

	lua_pushboolean(L, n >= 0);
	if (n < 0)
		n = 1;
	lua_insert(L, -(n + 1));
	return n + 1;
}

# if SB_54
/* lua_resetthread() of a thread whose closing methods are part of the run. */
static int sb_reset_co(lua_State *L, lua_State *co)
{
	struct sandbox *sb = sb_of(L);
	size_t felt = luamem_felt(&sb->mem);
	int status;

	__atomic_store_n(&sb->running, co, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (sb->active)
		sb_enter_thread(sb, co);
	status = lua_resetthread(co);
	__atomic_store_n(&sb->running, L, __ATOMIC_RELAXED);
	if (status != LUA_OK)
		sb_caught(L, status, felt);
	else
		sb_poll(L);
	return status;
}

static int sb_co_close(lua_State *L)
{
	lua_State *co = sb_get_co(L);
	lua_Debug ar;

	if (co == L || (lua_status(co) == LUA_OK && lua_getstack(co, 0, &ar)))
		return sb_of(L)->stock[SB_STOCK_CO_CLOSE](L); /* raises */
	if (sb_reset_co(L, co) == LUA_OK) {
		lua_pushboolean(L, 1);
		return 1;
	}
	lua_pushboolean(L, 0);
	lua_xmove(co, L, 1);
	return 2;
}

/* The error of a wrapped coroutine ends it, variables to be closed too. */
static bool sb_wrap_failed(lua_State *L, lua_State *co)
{
	int status = lua_status(co);

	if (status != LUA_OK && status != LUA_YIELD) {
		status = sb_reset_co(L, co);
		lua_xmove(co, L, 1);
	}
	return status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING;
}
# else
static bool sb_wrap_failed(lua_State *L, lua_State *co)
{
	(void)co;
	return lua_isstring(L, -1);
}
# endif

static int sb_wrapped(lua_State *L)
{
	lua_State *co = lua_tothread(L, lua_upvalueindex(1));
	int n = sb_resume(L, co, lua_gettop(L));

	if (small_likely(n >= 0))
		return n;
	if (sb_wrap_failed(L, co)) {
		luaL_where(L, 1); /* where the wrap was called */
		lua_insert(L, -2);
		lua_concat(L, 2);
	}
	return lua_error(L);
}

static int sb_co_wrap(lua_State *L)
{
	lua_State *co;

# if SB_51
	luaL_argcheck(L, lua_isfunction(L, 1) && !lua_iscfunction(L, 1), 1,
	              "Lua function expected");
# else
	luaL_checktype(L, 1, LUA_TFUNCTION);
# endif
	co = lua_newthread(L);
	lua_pushvalue(L, 1);
	lua_xmove(L, co, 1);
	lua_pushcclosure(L, sb_wrapped, 1);
	return 1;
}

const luaL_Reg sb_co_funcs[] = {{"resume", sb_co_resume},
                                {"wrap", sb_co_wrap},
# if SB_54
                                {"close", sb_co_close},
# endif
                                {NULL, NULL}};
#endif /* SB_JIT */
