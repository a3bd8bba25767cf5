/* SPDX-License-Identifier: BSD-2-Clause */
/* lua_rows - compares each operation over the arms. */
#include "lua_rows.h"

#include <stdlib.h>
#include <string.h>

#include "lua_store.h"

void case_check(struct lua_case *c, int failed)
{
	if (!failed)
		return;
	fprintf(stderr, "perf: %s: %s: %s\n", c->row->name, host_name(c->arm),
	        lua_tostring(c->host.L, -1));
	exit(1);
}

static lua_CFunction prepare_case;

static int case_open(struct perf_arm *arm)
{
	struct lua_case *c = arm->self;

	if (host_open(&c->host, c->arm) != 0)
		return -1;
	c->store = store_create();
	host_libs(&c->host);
	host_setup(&c->host, prepare_case, c);
	return 0;
}

static void case_close(struct perf_arm *arm)
{
	struct lua_case *c = arm->self;

	host_close(&c->host);
	store_destroy(c->store);
}

static __attribute__((noinline)) void case_loop(struct perf_arm *arm,
                                                uint64_t ops)
{
	struct lua_case *c = arm->self;

	for (uint64_t i = 0; i < ops; i++)
		c->row->op(c, i);
}

static struct perf_arm *native;
static double allocs;

static void report(struct perf_arm *arm)
{
	struct lua_case *c = arm->self;

	perf_put(" ratio_native=%.3f",
	         perf_arm_median(arm) / perf_arm_median(native));
	if (c->arm == HOST_STOCK)
		allocs = host_growths(c->host.L, arm, c->row->count);
	perf_put(" allocs_op=%.3g", allocs);
}

static bool takes_part(const struct lua_row *row, enum host_arm arm)
{
	if (arm >= HOST_ALLOCATORS && !row->calls)
		return false;
	return host_is_here(arm) && arm != HOST_RAW &&
	       (arm != HOST_ARMED || perf.level == PERF_FULL);
}

static void compare_row(const char *bench, const struct lua_row *row)
{
	static struct perf_arm arms[HOST_ARMS];
	static struct lua_case cases[HOST_ARMS];
	size_t n = 0;

	memset(arms, 0, sizeof(arms));
	for (int k = 0; k < HOST_ARMS; k++) {
		struct perf_arm *arm = &arms[n];

		if (!takes_part(row, (enum host_arm)k))
			continue;
		cases[k].row = row;
		cases[k].arm = (enum host_arm)k;
		if (k == HOST_NATIVE)
			native = arm;
		perf_key(arm, "lua=%s row=%s arm=%s timeout=%s", HOST_LUA,
		         row->name, host_name(cases[k].arm),
		         k == HOST_ARMED ? "armed" : "none");
		arm->ops = row->ops * perf_pick(1, 1, 4);
		arm->count = row->count;
		arm->is_gate = host_is_gate((enum host_arm)k) && !row->is_long;
		arm->base = &arms[0];
		arm->self = &cases[k];
		arm->open = case_open;
		arm->loop = case_loop;
		arm->report = report;
		arm->close = case_close;
		n++;
	}
	perf_compare(bench, arms, n);
}

void bench_rows(const char *bench, const struct lua_row *rows, size_t count,
                lua_CFunction prepare)
{
	prepare_case = prepare;
	for (size_t i = 0; i < count; i++)
		compare_row(bench, &rows[i]);
}
