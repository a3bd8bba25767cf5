/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_LUA_HOSTS_H
#define PERF_LUA_HOSTS_H
/*
 * lua_hosts - the arms of the Lua group: who gives an interpreter its memory,
 * and who calls it. Compiled once per Lua.
 *
 * stock to mimalloc are called by a bare lua_pcall and differ by their
 * allocator only. raw, sandbox and armed have a sandbox's state: raw calls it
 * by lua_pcall, sandbox by sandbox_call, armed the same under a time limit.
 * On LuaJIT the JIT is off in all of them, as it has to be under a limit.
 *
 * Threads: one. Cost: as measured.
 * Errors:  host_open() returns -1 when the arm is not here.
 */
#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

#include <small/lua/sandbox.h>

#include "perf.h"

#ifdef LUA_LJDIR /* in LuaJIT's luaconf.h */
# define HOST_JIT 1
# define HOST_LUA "luajit"
#elif LUA_VERSION_NUM == 501
# define HOST_JIT 0
# define HOST_LUA "5.1"
#elif LUA_VERSION_NUM == 503
# define HOST_JIT 0
# define HOST_LUA "5.3"
#else
# define HOST_JIT 0
# define HOST_LUA "5.4"
#endif
/* What lua_newstate may not meet (LuaJIT), nor luaopen_io (5.1): a refusal. */
#define HOST_INFALLIBLE (LUA_VERSION_NUM == 501)

enum host_arm {
	HOST_STOCK,
	HOST_NATIVE,
	HOST_TRACKED,
	HOST_MANAGED,
	HOST_MANAGED_LIMIT,
	HOST_JEMALLOC,
	HOST_MIMALLOC,
	HOST_ALLOCATORS, /* those before */
	HOST_RAW = HOST_ALLOCATORS,
	HOST_SANDBOX,
	HOST_ARMED,
	HOST_ARMS
};

/* One open interpreter, its stack empty. */
struct host {
	enum host_arm arm;
	lua_State *L;
	struct luamem mem;  /* native to managed_limit */
	struct sandbox *sb; /* raw, sandbox, armed */
};

/* The core that managed and sandbox arms take their memory from. */
int hosts_create(void);
struct slab_cache *hosts_cache(void);

const char *host_name(enum host_arm arm);
/* Whether this run measures it: --full all, else a few; and on this machine. */
bool host_is_here(enum host_arm arm);
/* Whether its instructions are counted in a default run. */
bool host_is_gate(enum host_arm arm);

/* A state without libraries; raw to armed: with the whitelist. */
int host_open(struct host *h, enum host_arm arm);
/* Opens all libraries (raw to armed have theirs). */
void host_libs(struct host *h);
void host_close(struct host *h);

/* Runs fn with ud as a light userdata, exits 1 when it fails. */
void host_setup(struct host *h, lua_CFunction fn, void *ud);
/* Compiles; 0 and the function is on the stack. */
int host_load(struct host *h, const char *text, size_t size, const char *name);

/* Blocks that an operation of the loop gets or grows, with a stock state. */
double host_growths(lua_State *L, struct perf_arm *arm, uint64_t ops);

/* Calls what is on the stack, as the arm does it; 0: all went well. */
static inline int host_call(struct host *h, int nargs, int nresults)
{
	if (h->arm >= HOST_SANDBOX)
		return sandbox_call(h->sb, nargs, nresults);
	return lua_pcall(h->L, nargs, nresults, 0);
}

#endif /* PERF_LUA_HOSTS_H */
