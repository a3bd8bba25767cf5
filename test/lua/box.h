/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_LUA_BOX_H
#define TEST_LUA_BOX_H
/*
 * box - a sandbox over a core of its own, for the tests that are compiled
 * once per Lua; and the teardown that each ends with: no broken invariant,
 * nothing in use after close, the quota back at the start.
 */
#include "../core.h"

#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

#include <small/lua/sandbox.h>

#ifdef LUA_LJDIR
# define BOX_JIT 1
#else
# define BOX_JIT 0
#endif
#define BOX_51 (LUA_VERSION_NUM == 501) /* LuaJIT too */
#define BOX_53 (LUA_VERSION_NUM == 503)
#define BOX_54 (LUA_VERSION_NUM == 504)

#define BOX_MIB ((size_t)1 << 20)
#define BOX_MS  ((uint64_t)1000000)

struct box {
	struct core core;
	struct sandbox *sb;
	lua_State *L;
	size_t lost; /* bytes that the interpreter may lose track of */
};

/* Everything that the stand-alone interpreter has. */
#define BOX_FULL \
 (SANDBOX_ALLOW_STDLIB | SANDBOX_ALLOW_BYTECODE | SANDBOX_ALLOW_GC)

static inline int box_try(struct box *box, struct sandbox_opts opts)
{
	int rc;

	box->lost = 0;
	core_create(&box->core, SIZE_MAX, 65536);
	if (opts.mode == LUAMEM_MANAGED)
		opts.cache = &box->core.cache;
	rc = sandbox_open(&opts, &box->sb);
	assert_true((rc == SANDBOX_OK) == (box->sb != NULL));
	box->L = box->sb != NULL ? sandbox_state(box->sb) : NULL;
	return rc;
}

static inline void box_open(struct box *box, struct sandbox_opts opts)
{
	assert_int_equal(box_try(box, opts), SANDBOX_OK);
}

static inline void box_close(struct box *box)
{
	if (box->sb != NULL) {
		assert_ptr_equal(sandbox_check(box->sb), NULL);
		assert_true(sandbox_close(box->sb) <= box->lost);
	}
	core_destroy(&box->core);
}

static inline int box_load(struct box *box, const char *text)
{
	return sandbox_load(box->sb, text, strlen(text), "=test");
}

/* Compiles and runs; leaves nresults values, or the error. */
static inline int box_run(struct box *box, const char *text, int nresults)
{
	int rc = box_load(box, text);

	return rc == SANDBOX_OK ? sandbox_call(box->sb, 0, nresults) : rc;
}

/* Runs and expects a code; the stack is then as before. */
static inline void box_expect(struct box *box, const char *text, int rc)
{
	int top = lua_gettop(box->L), got = box_run(box, text, 0);

	if (got != rc)
		print_message("%s\n -> %s: %s\n", text, sandbox_rc_name(got),
		              sandbox_message(box->sb));
	assert_int_equal(got, rc);
	assert_int_equal(lua_gettop(box->L), top + (rc != SANDBOX_OK));
	lua_settop(box->L, top);
	assert_ptr_equal(sandbox_check(box->sb), NULL);
}

/* After whatever happened the state still computes. */
static inline void box_still_works(struct box *box)
{
	int top = lua_gettop(box->L);
	const char *text = "local t = {} for i = 1, 10 do t[i] = i * i end "
			   "return table.concat(t, ' ')";

	assert_int_equal(box_run(box, text, 1), SANDBOX_OK);
	assert_string_equal(lua_tostring(box->L, -1),
	                    "1 4 9 16 25 36 49 64 81 100");
	lua_settop(box->L, top);
}

/* What no call can be made of: a code, and the stack as it was. */
static inline void box_calls_wrongly(struct box *box)
{
	static const int bad[][2] = {
		{-1, 0},       {INT_MIN, 0}, {2, 0},
		{INT_MAX, 0},  {0, -2},      {0, INT_MIN},
		{0, 1000000},  {0, INT_MAX}, {INT_MAX, INT_MAX},
		{-1, INT_MIN},
	};

	for (size_t i = 0; i < lengthof(bad); i++) {
		lua_settop(box->L, 0);
		assert_int_equal(box_load(box, "return 1"), SANDBOX_OK);
		assert_int_equal(sandbox_push_nil(box->sb), SANDBOX_OK);
		assert_int_equal(sandbox_call(box->sb, bad[i][0], bad[i][1]),
		                 SANDBOX_MISUSE);
		assert_int_equal(lua_gettop(box->L), 2);
		assert_ptr_equal(sandbox_check(box->sb), NULL);
	}
	box_still_works(box);
}

static inline struct luamem_stats box_mem(const struct box *box)
{
	struct sandbox_stats stats;

	sandbox_stats(box->sb, &stats);
	return stats.mem;
}

#endif /* TEST_LUA_BOX_H */
