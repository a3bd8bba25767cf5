/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lua - what a hard limit costs a script (L5), in time against the C
 * library's malloc and mimalloc, and in memory against an ideal allocator
 * (lua_limits.c); and the list of the group's benches.
 *
 * Time: a whole life - open, libraries, compile, run, close - per round, arms
 * interleaved; processor time.
 */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "lua_benches.h"
#include "lua_hosts.h"
#include "lua_scripts.h"

/* native says nothing about a limit: only with --full. */
static bool takes_part(int arm)
{
	return host_is_here((enum host_arm)arm) &&
	       (arm != HOST_NATIVE || perf.level == PERF_FULL);
}

/* 0 when the script ran to its end. */
static int run_in(struct host *h, const struct lua_script *s)
{
	host_libs(h);
	if (luaL_loadstring(h->L, s->text) != 0)
		return -1;
	lua_pushinteger(h->L, s->size);
	return lua_pcall(h->L, 1, 1, 0);
}

/* Processor time of this thread: what other programs take does not count. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static double life_ms(enum host_arm arm, const struct lua_script *s)
{
	uint64_t start = cpu_ns();
	struct host h;

	if (host_open(&h, arm) != 0 || run_in(&h, s) != 0) {
		fprintf(stderr, "perf: %s: %s failed\n", host_name(arm),
		        s->name);
		exit(1);
	}
	host_close(&h);
	return (double)(cpu_ns() - start) / 1e6;
}

/* Sums of logarithms for the geometric means. */
struct means {
	double to_malloc[HOST_ALLOCATORS], to_mimalloc[HOST_ALLOCATORS],
		ms[HOST_ALLOCATORS];
	double limits;
	size_t scripts, limit_scripts;
};

static void put_limits(const struct lua_script *s, struct means *means)
{
	double limit = min_limit_ratio(s, 3);

	perf_put(" min_limit_ratio=%.3f", limit);
	means->limits += log(limit);
	means->limit_scripts++;
	if (perf.level != PERF_FULL)
		return;
	limit = min_limit_ratio(s, 6);
	perf_put(" min_limit_ratio_6=%.3f", limit);
	means->limits += log(limit);
	means->limit_scripts++;
}

static void put_ratios(const struct perf_spread *spread, size_t i,
                       struct means *means)
{
	double over = spread[i].median / spread[HOST_STOCK].median;

	perf_put(" ratio_malloc=%.3f", over);
	means->to_malloc[i] += log(over);
	means->ms[i] += log(spread[i].median);
	if (spread[HOST_MIMALLOC].median == 0)
		return;
	over = spread[i].median / spread[HOST_MIMALLOC].median;
	perf_put(" ratio_mimalloc=%.3f", over);
	means->to_mimalloc[i] += log(over);
}

static void report(const struct lua_script *s,
                   double ms[HOST_ALLOCATORS][PERF_ROUNDS_MAX],
                   struct means *means)
{
	struct perf_spread spread[HOST_ALLOCATORS] = {{0, 0, 0}};

	for (int i = 0; i < HOST_ALLOCATORS; i++) {
		if (takes_part(i))
			spread[i] = perf_spread(ms[i], perf.rounds);
	}
	for (int i = 0; i < HOST_ALLOCATORS; i++) {
		if (spread[i].median == 0)
			continue;
		perf_begin("lua_script", "lua=%s script=%s arm=%s", HOST_LUA,
		           s->name, host_name((enum host_arm)i));
		perf_put("ms=%.2f ms_min=%.2f ms_max=%.2f", spread[i].median,
		         spread[i].min, spread[i].max);
		put_ratios(spread, (size_t)i, means);
		if (i == HOST_MANAGED_LIMIT)
			put_limits(s, means);
		perf_end();
	}
	means->scripts++;
}

static void report_means(const struct means *m)
{
	double n = (double)m->scripts;

	for (int i = 0; i < HOST_ALLOCATORS; i++) {
		if (!takes_part(i))
			continue;
		perf_begin("lua_script", "lua=%s script=geomean arm=%s",
		           HOST_LUA, host_name((enum host_arm)i));
		perf_put("ms=%.2f ratio_malloc=%.3f", exp(m->ms[i] / n),
		         exp(m->to_malloc[i] / n));
		if (host_is_here(HOST_MIMALLOC))
			perf_put(" ratio_mimalloc=%.3f",
			         exp(m->to_mimalloc[i] / n));
		if (i == HOST_MANAGED_LIMIT)
			perf_put(" min_limit_ratio=%.3f",
			         exp(m->limits / (double)m->limit_scripts));
		perf_end();
	}
}

static void bench_script(void)
{
	static double ms[HOST_ALLOCATORS][PERF_ROUNDS_MAX];
	struct means means = {.scripts = 0};

	for (size_t s = 0; s < lua_scripts_count; s++) {
		for (size_t round = 0; round <= perf.rounds; round++) {
			/* the first round warms up */
			size_t at = round == 0 ? 0 : round - 1;

			for (int i = 0; i < HOST_ALLOCATORS; i++) {
				if (takes_part(i))
					ms[i][at] = life_ms((enum host_arm)i,
					                    &lua_scripts[s]);
			}
		}
		report(&lua_scripts[s], ms, &means);
	}
	report_means(&means);
}

static const struct perf_bench benches[] = {
	{"lua_life", bench_life, false},
	{"lua_cache", bench_cache, false},
	{"lua_calls", bench_calls, false},
	{"lua_batch", bench_batch, false},
	{"lua_script", bench_script, true},
	{"lua_min_limit", bench_min_limit, true},
	{"lua_rollback", bench_rollback, true},
	{"lua_drop", bench_drop, true},
	{"lua_pool", bench_pool, false},
};

int main(int argc, char **argv)
{
	if (hosts_create() != 0)
		return 1;
	return perf_main(argc, argv, benches, lengthof(benches));
}
