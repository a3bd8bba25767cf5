/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lua_calls - L3: what a protected call costs. One-liners in a warm state,
 * by lua_pcall in a stock state (arm stock), by lua_pcall in a sandbox's
 * state (raw) and by sandbox_call in each mode, with and without a time limit
 * armed. The record of arm managed_limit puts its ratio to raw beside.
 */
#include <string.h>

#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

#include <small/lua/sandbox.h>

#include "lua_calls.h"
#include "perf.h"

struct row {
	const char *name, *text;
	bool has_keys; /* KEYS[1] is set before each call */
	uint64_t ops, count;
};

static const struct row rows[] = {
	{"return", "return", false, 200000, 2000},
	{"add", "return 1 + 1", false, 200000, 2000},
	{"keys", "return KEYS[1]", true, 200000, 2000},
	{"call", "return call(KEYS[1])", true, 200000, 2000},
	{"loop", "local s = 0 for i = 1, 10000 do s = s + i end return s",
         false, 200, 20},
};

enum kind { STOCK, RAW, NATIVE, MANAGED, ARMED, KINDS };

static const char *const keys[KINDS] = {
	"arm=stock timeout=none", "arm=raw timeout=none",
	"arm=native timeout=none", "arm=managed_limit timeout=none",
	"arm=managed_limit timeout=armed"};

/* One arm of one row. */
struct caller {
	const struct row *row;
	enum kind kind;
	struct slab_cache *cache;
	struct sandbox *sb;
	lua_State *L;
	int fn, keys, key; /* references */
};

static int call_stub(lua_State *L)
{
	lua_settop(L, 1);
	return 1;
}

static int prepare(lua_State *L)
{
	struct caller *c = lua_touserdata(L, 1);

	lua_newtable(L);
	lua_pushvalue(L, -1);
	lua_setglobal(L, "KEYS");
	c->keys = luaL_ref(L, LUA_REGISTRYINDEX);
	lua_pushliteral(L, "some key");
	c->key = luaL_ref(L, LUA_REGISTRYINDEX);
	lua_pushcfunction(L, call_stub);
	lua_setglobal(L, "call");
	if (luaL_loadstring(L, c->row->text) != 0)
		return lua_error(L);
	c->fn = luaL_ref(L, LUA_REGISTRYINDEX);
	return 0;
}

static int caller_open(struct perf_arm *arm)
{
	struct caller *c = arm->self;
	struct sandbox_opts opts = {.cache = c->cache, .limit = 2 << 20};

	if (c->kind == STOCK) {
		c->L = luaL_newstate();
		luaL_openlibs(c->L);
		lua_pushlightuserdata(c->L, c);
		prepare(c->L);
		lua_settop(c->L, 0);
		return 0;
	}
	if (c->kind == NATIVE)
		opts = (struct sandbox_opts){.mode = LUAMEM_NATIVE};
	if (c->kind == ARMED)
		opts.timeout_ns = 10000000000;
	if (sandbox_open(&opts, &c->sb) != SANDBOX_OK)
		return -1;
	c->L = sandbox_state(c->sb);
	return sandbox_protect(c->sb, prepare, c) == SANDBOX_OK ? 0 : -1;
}

static void caller_close(struct perf_arm *arm)
{
	struct caller *c = arm->self;

	if (c->kind == STOCK)
		lua_close(c->L);
	else
		sandbox_close(c->sb);
}

static void set_keys(const struct caller *c)
{
	lua_rawgeti(c->L, LUA_REGISTRYINDEX, c->keys);
	lua_rawgeti(c->L, LUA_REGISTRYINDEX, c->key);
	lua_rawseti(c->L, -2, 1);
	lua_settop(c->L, 0);
}

static __attribute__((noinline)) void raw_loop(struct perf_arm *arm,
                                               uint64_t ops)
{
	const struct caller *c = arm->self;

	for (uint64_t i = 0; i < ops; i++) {
		if (c->row->has_keys)
			set_keys(c);
		lua_rawgeti(c->L, LUA_REGISTRYINDEX, c->fn);
		lua_pcall(c->L, 0, 1, 0);
		lua_settop(c->L, 0);
	}
}

static __attribute__((noinline)) void box_loop(struct perf_arm *arm,
                                               uint64_t ops)
{
	const struct caller *c = arm->self;

	for (uint64_t i = 0; i < ops; i++) {
		if (c->row->has_keys)
			set_keys(c);
		lua_rawgeti(c->L, LUA_REGISTRYINDEX, c->fn);
		sandbox_call(c->sb, 0, 1);
		lua_settop(c->L, 0);
	}
}

static struct perf_arm *arms_of_row;

static double median_of(const struct perf_arm *arm)
{
	double ns[PERF_ROUNDS_MAX];

	memcpy(ns, arm->ns, sizeof(ns));
	return perf_spread(ns, arm->rounds).median;
}

static void report(struct perf_arm *arm)
{
	struct perf_arm *raw = &arms_of_row[RAW];
	struct perf_arm *native = &arms_of_row[NATIVE];

	if (arm->rounds == 0 || raw->rounds == 0 || native->rounds == 0)
		return;
	perf_put(" ratio_raw=%.3f", median_of(arm) / median_of(raw));
	perf_put(" ratio_native=%.3f", median_of(arm) / median_of(native));
}

void bench_calls(struct slab_cache *cache)
{
	for (size_t i = 0; i < lengthof(rows); i++) {
		struct caller callers[KINDS];
		struct perf_arm arms[KINDS];

		memset(arms, 0, sizeof(arms));
		for (int k = 0; k < KINDS; k++) {
			callers[k] = (struct caller){.row = &rows[i],
			                             .kind = (enum kind)k,
			                             .cache = cache};
			perf_key(&arms[k], "lua=5.4 row=%s %s", rows[i].name,
			         keys[k]);
			arms[k].ops = rows[i].ops / perf_pick(10, 4, 1);
			arms[k].count = rows[i].count;
			arms[k].is_gate = true;
			arms[k].self = &callers[k];
			arms[k].open = caller_open;
			arms[k].loop = k <= RAW ? raw_loop : box_loop;
			arms[k].report = report;
			arms[k].close = caller_close;
		}
		arms_of_row = arms;
		perf_compare("lua_calls", arms, KINDS);
	}
}
