/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lua_calls - L3: what a call costs. One-liners in a warm state: by a bare
 * lua_pcall over each allocator, and what sandbox_call() adds to a lua_pcall
 * of the same state (arm raw), with and without a time limit armed.
 *
 * ir_ratio is over stock for what differs by its allocator, over raw for
 * calls of a sandbox; so is ratio_raw, in time.
 */
#include <string.h>

#include "lua_benches.h"
#include "lua_hosts.h"

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

/* One arm of one row. */
struct caller {
	const struct row *row;
	enum host_arm arm;
	struct host host;
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

	if (host_open(&c->host, c->arm) != 0)
		return -1;
	host_libs(&c->host);
	host_setup(&c->host, prepare, c);
	return 0;
}

static void caller_close(struct perf_arm *arm)
{
	struct caller *c = arm->self;

	host_close(&c->host);
}

static void set_keys(const struct caller *c)
{
	lua_State *L = c->host.L;

	lua_rawgeti(L, LUA_REGISTRYINDEX, c->keys);
	lua_rawgeti(L, LUA_REGISTRYINDEX, c->key);
	lua_rawseti(L, -2, 1);
	lua_settop(L, 0);
}

static __attribute__((noinline)) void raw_loop(struct perf_arm *arm,
                                               uint64_t ops)
{
	const struct caller *c = arm->self;
	lua_State *L = c->host.L;

	for (uint64_t i = 0; i < ops; i++) {
		if (c->row->has_keys)
			set_keys(c);
		lua_rawgeti(L, LUA_REGISTRYINDEX, c->fn);
		lua_pcall(L, 0, 1, 0);
		lua_settop(L, 0);
	}
}

static __attribute__((noinline)) void box_loop(struct perf_arm *arm,
                                               uint64_t ops)
{
	const struct caller *c = arm->self;
	lua_State *L = c->host.L;

	for (uint64_t i = 0; i < ops; i++) {
		if (c->row->has_keys)
			set_keys(c);
		lua_rawgeti(L, LUA_REGISTRYINDEX, c->fn);
		sandbox_call(c->host.sb, 0, 1);
		lua_settop(L, 0);
	}
}

/* Of the row that is compared. */
static struct perf_arm *arm_of[HOST_ARMS];
static double allocs;

static void report(struct perf_arm *arm)
{
	const struct caller *c = arm->self;

	perf_put(" ratio_native=%.3f",
	         perf_arm_median(arm) / perf_arm_median(arm_of[HOST_NATIVE]));
	if (c->arm >= HOST_SANDBOX)
		perf_put(" ratio_raw=%.3f",
		         perf_arm_median(arm) /
		                 perf_arm_median(arm_of[HOST_RAW]));
	if (c->arm == HOST_STOCK)
		allocs = host_growths(c->host.L, arm, c->row->count);
	perf_put(" allocs_op=%.3g", allocs);
}

static void set_arm(struct perf_arm *arm, struct caller *c)
{
	const struct row *row = c->row;

	memset(arm, 0, sizeof(*arm));
	perf_key(arm, "lua=%s row=%s arm=%s timeout=%s", HOST_LUA, row->name,
	         host_name(c->arm), c->arm == HOST_ARMED ? "armed" : "none");
	arm->ops = row->ops / perf_pick(20, 10, 1);
	arm->count = row->count;
	arm->is_gate = host_is_gate(c->arm);
	arm->base = arm_of[c->arm >= HOST_RAW ? HOST_RAW : HOST_STOCK];
	arm->self = c;
	arm->open = caller_open;
	arm->loop = c->arm < HOST_SANDBOX ? raw_loop : box_loop;
	arm->report = report;
	arm->close = caller_close;
}

void bench_calls(void)
{
	static struct perf_arm arms[HOST_ARMS];
	static struct caller callers[HOST_ARMS];

	for (size_t i = 0; i < lengthof(rows); i++) {
		size_t n = 0;

		for (int k = 0; k < HOST_ARMS; k++) {
			if (!host_is_here((enum host_arm)k))
				continue;
			callers[k].row = &rows[i];
			callers[k].arm = (enum host_arm)k;
			arm_of[k] = &arms[n];
			set_arm(&arms[n++], &callers[k]);
		}
		perf_compare("lua_calls", arms, n);
	}
}
