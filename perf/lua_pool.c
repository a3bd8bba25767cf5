/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lua_pool - L6: a small request in an interpreter that nobody else has seen:
 * from a pool, or a new one each time; and in one that all requests share,
 * which isolates nothing.
 */
#include <stdlib.h>
#include <string.h>

#include <small/lua/sandbox_pool.h>
#include <small/util.h>

#include "lua_benches.h"
#include "lua_rows.h"

static void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "perf: lua_pool: %s failed\n", what);
	exit(1);
}

static const char request[] = "return KEYS[1]";

/* KEYS and the compiled request, which stays on the stack. */
static int prepare(lua_State *L)
{
	lua_newtable(L);
	lua_pushliteral(L, "some key");
	lua_rawseti(L, -2, 1);
	lua_setglobal(L, "KEYS");
	if (luaL_loadbuffer(L, lua_prelude, strlen(lua_prelude), "=prelude"))
		return lua_error(L);
	lua_call(L, 0, 0);
	if (luaL_loadbuffer(L, request, strlen(request), "=request"))
		return lua_error(L);
	return 1;
}

static int pool_prelude(struct sandbox *sb, void *arg)
{
	return sandbox_protect(sb, prepare, arg);
}

static int pool_open(struct perf_arm *arm)
{
	struct sandbox_pool_opts opts = {
		.sandbox = {.cache = hosts_cache(), .limit = 1 << 20},
		.count = 4,
		.prelude = pool_prelude};

	return sandbox_pool_create(&opts, (struct sandbox_pool **)&arm->self) ==
	                       SANDBOX_OK
	               ? 0
	               : -1;
}

static void pool_close(struct perf_arm *arm)
{
	sandbox_pool_destroy(arm->self);
}

static __attribute__((noinline)) void pool_loop(struct perf_arm *arm,
                                                uint64_t ops)
{
	struct sandbox *sb;

	for (uint64_t i = 0; i < ops; i++) {
		sandbox_pool_checkout(arm->self, &sb);
		must(sandbox_call(sb, 0, 1) != SANDBOX_OK, "call");
		sandbox_pool_return(arm->self, sb);
	}
}

static lua_State *state_open(void)
{
	lua_State *L = luaL_newstate();

	must(L == NULL, "newstate");
	luaL_openlibs(L);
	prepare(L);
	return L;
}

static __attribute__((noinline)) void newstate_loop(struct perf_arm *arm,
                                                    uint64_t ops)
{
	(void)arm;
	for (uint64_t i = 0; i < ops; i++) {
		lua_State *L = state_open();

		must(lua_pcall(L, 0, 1, 0), "call");
		lua_close(L);
	}
}

static int shared_open(struct perf_arm *arm)
{
	arm->self = state_open();
	return 0;
}

static void shared_close(struct perf_arm *arm)
{
	lua_close(arm->self);
}

static __attribute__((noinline)) void shared_loop(struct perf_arm *arm,
                                                  uint64_t ops)
{
	lua_State *L = arm->self;

	for (uint64_t i = 0; i < ops; i++) {
		lua_pushvalue(L, 1);
		must(lua_pcall(L, 0, 1, 0), "call");
		lua_settop(L, 1);
	}
}

static void put_rate(struct perf_arm *arm)
{
	double ns[PERF_ROUNDS_MAX];

	memcpy(ns, arm->ns, sizeof(ns));
	perf_put(" req_s=%.0f", 1e9 / perf_spread(ns, arm->rounds).median);
}

void bench_pool(void)
{
	struct perf_arm arms[] = {
		{.ops = 2000,
	         .count = 200,
	         .open = pool_open,
	         .loop = pool_loop,
	         .close = pool_close},
		{.ops = 50, .count = 20, .loop = newstate_loop},
		{.ops = 20000,
	         .count = 2000,
	         .open = shared_open,
	         .loop = shared_loop,
	         .close = shared_close}};
	static const char *const names[] = {"pool", "newstate", "shared"};

	for (size_t i = 0; i < lengthof(arms); i++) {
		perf_key(&arms[i], "lua=%s arm=%s", HOST_LUA, names[i]);
		arms[i].report = put_rate;
	}
	perf_compare("lua_pool", arms, lengthof(arms));
}
