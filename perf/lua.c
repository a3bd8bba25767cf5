/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lua - what a hard limit costs a script (L5), in time against the C
 * library's malloc and mimalloc, and in memory against an ideal allocator
 * that adds no byte to what is asked for.
 *
 * Time: a whole life - open, libraries, compile, run, close - per round, arms
 * interleaved; processor time. Memory: the smallest limit that a script passes,
 * found in steps of 1/64 from the ideal's smallest upward: the first of three
 * consecutive steps that pass.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

#include <small/lua/sandbox.h>
#include <small/quota_lessor.h>

#include "foreign.h"
#include "lua_calls.h"
#include "lua_scripts.h"
#include "perf.h"

#define ARMS_MAX 7
/* Of tracked and managed_limit: well above what the scripts need, so that
 * what is measured is the cost of having a limit. */
#define LIMIT ((size_t)32 << 20)

static struct quota quota;
static struct slab_arena arena;
static struct slab_cache cache;
static struct quota_lessor lessor;

struct arm {
	const char *name;
	bool is_default; /* runs without --full */
	lua_State *(*open)(struct arm *arm);
	void (*close)(struct arm *arm);
	lua_State *L;
	const struct perf_allocator *foreign;
	struct luamem mem;
	struct luamem_opts opts;
};

static void check_lua(lua_State *L, const char *what)
{
	if (L == NULL) {
		fprintf(stderr, "perf: no state for %s\n", what);
		exit(1);
	}
}

/* -- arms ------------------------------------------------------------------ */

static lua_State *open_stock(struct arm *arm)
{
	(void)arm;
	return luaL_newstate();
}

static void close_stock(struct arm *arm)
{
	lua_close(arm->L);
}

static void *foreign_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
	const struct perf_allocator *a = ud;

	(void)osize;
	if (nsize == 0) {
		a->release(ptr);
		return NULL;
	}
	return ptr == NULL ? a->alloc(nsize) : a->resize(ptr, nsize);
}

static lua_State *open_foreign(struct arm *arm)
{
	return lua_newstate(foreign_alloc, (void *)(uintptr_t)arm->foreign);
}

static lua_State *open_small(struct arm *arm)
{
	if (luamem_create(&arm->mem, &arm->opts, NULL) != 0)
		return NULL;
	return lua_newstate(luamem_alloc, &arm->mem);
}

static void close_small(struct arm *arm)
{
	lua_close(arm->L);
	luamem_destroy(&arm->mem);
}

static struct arm arms[ARMS_MAX] = {
	{.name = "stock",
         .is_default = true,
         .open = open_stock,
         .close = close_stock},
	{.name = "native",
         .open = open_small,
         .close = close_small,
         .opts = {.mode = LUAMEM_NATIVE}},
	{.name = "tracked",
         .open = open_small,
         .close = close_small,
         .opts = {.mode = LUAMEM_TRACKED, .limit = LIMIT, .lessor = &lessor}},
	{.name = "managed",
         .open = open_small,
         .close = close_small,
         .opts = {.cache = &cache}},
	{.name = "managed_limit",
         .is_default = true,
         .open = open_small,
         .close = close_small,
         .opts = {.cache = &cache, .limit = LIMIT}},
	{.name = "jemalloc", .open = open_foreign, .close = close_stock},
	{.name = "mimalloc",
         .is_default = true,
         .open = open_foreign,
         .close = close_stock},
};

static bool is_here(struct arm *arm)
{
	if (!arm->is_default && perf.level != PERF_FULL)
		return false;
	if (arm->open == open_foreign && arm->foreign == NULL)
		arm->foreign = perf_foreign(arm->name);
	return arm->open != open_foreign || arm->foreign != NULL;
}

/* -- time -------------------------------------------------------------------
 */

/* 0 when the script ran to its end. */
static int run_in(lua_State *L, const struct lua_script *s, int size)
{
	luaL_openlibs(L);
	if (luaL_loadstring(L, s->text) != LUA_OK)
		return -1;
	lua_pushinteger(L, size);
	return lua_pcall(L, 1, 1, 0) == LUA_OK ? 0 : -1;
}

/* Processor time of this thread: what other programs take does not count. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static double life_ms(struct arm *arm, const struct lua_script *s)
{
	uint64_t start = cpu_ns();

	arm->L = arm->open(arm);
	check_lua(arm->L, arm->name);
	if (run_in(arm->L, s, s->size) != 0) {
		fprintf(stderr, "perf: %s: %s\n", s->name,
		        lua_tostring(arm->L, -1));
		exit(1);
	}
	arm->close(arm);
	return (double)(cpu_ns() - start) / 1e6;
}

/* Sums of logarithms for the geometric means. */
struct means {
	double to_malloc[ARMS_MAX], to_mimalloc[ARMS_MAX], ms[ARMS_MAX];
	double limits;
	size_t scripts, limit_scripts;
};

/* -- smallest limits ---------------------------------------------------------
 */

/* The ideal: malloc that counts what was asked for, and nothing else. */
struct ideal {
	size_t used, limit;
};

static void *ideal_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
	struct ideal *ideal = ud;

	if (ptr == NULL)
		osize = 0;
	if (nsize == 0) {
		free(ptr);
		ideal->used -= osize;
		return NULL;
	}
	if (nsize > osize && ideal->used + nsize - osize > ideal->limit)
		return NULL;
	ptr = realloc(ptr, nsize);
	ideal->used += nsize - osize;
	return ptr;
}

static int protected_run(lua_State *L)
{
	const struct lua_script *s = lua_touserdata(L, 1);
	int size = (int)lua_tointeger(L, 2);

	return run_in(L, s, size) == 0 ? 0 : luaL_error(L, "failed");
}

static bool passes_on(lua_State *L, const struct lua_script *s, int size)
{
	bool passed;

	if (L == NULL)
		return false;
	lua_pushcfunction(L, protected_run);
	lua_pushlightuserdata(L, (void *)(uintptr_t)s);
	lua_pushinteger(L, size);
	passed = lua_pcall(L, 2, 0, 0) == LUA_OK;
	lua_close(L);
	return passed;
}

static bool ideal_passes(const struct lua_script *s, int size, size_t limit)
{
	struct ideal ideal = {.limit = limit};

	return passes_on(lua_newstate(ideal_alloc, &ideal), s, size);
}

static bool managed_passes(const struct lua_script *s, int size, size_t limit)
{
	struct luamem_opts opts = {.cache = &cache, .limit = limit};
	struct luamem mem;
	bool passed;

	if (luamem_create(&mem, &opts, NULL) != 0)
		return false;
	passed = passes_on(lua_newstate(luamem_alloc, &mem), s, size);
	luamem_destroy(&mem);
	return passed;
}

static size_t ideal_limit(const struct lua_script *s, int size)
{
	size_t low = 16 << 10, high = 32 << 20;

	while (high - low > low / 256) {
		size_t middle = low + (high - low) / 2;

		if (ideal_passes(s, size, middle))
			high = middle;
		else
			low = middle;
	}
	return high;
}

/* Ours over the ideal. */
static double min_limit_ratio(const struct lua_script *s, int size)
{
	size_t ideal = ideal_limit(s, size), limit = ideal, passed = 0;

	for (int step = 0; passed < 3 && step < 256; step++) {
		limit = ideal + ideal / 64 * (size_t)step;
		passed = managed_passes(s, size, limit) ? passed + 1 : 0;
	}
	return (double)(limit - 2 * (ideal / 64)) / (double)ideal;
}

/* -- the bench ----------------------------------------------------------------
 */

static void report(const struct lua_script *s, double ms[ARMS_MAX][64],
                   struct means *means)
{
	struct perf_spread spread[ARMS_MAX] = {{0, 0, 0}};
	struct arm *ours = &arms[4];
	double limit;

	for (size_t i = 0; i < ARMS_MAX; i++) {
		if (is_here(&arms[i]))
			spread[i] = perf_spread(ms[i], perf.rounds);
	}
	for (size_t i = 0; i < ARMS_MAX; i++) {
		double over = spread[i].median / spread[0].median;

		if (spread[i].median == 0)
			continue;
		perf_begin("lua_script", "lua=5.4 script=%s arm=%s", s->name,
		           arms[i].name);
		perf_put(" ms=%.2f ms_min=%.2f ms_max=%.2f", spread[i].median,
		         spread[i].min, spread[i].max);
		perf_put(" ratio_malloc=%.3f", over);
		means->to_malloc[i] += log(over);
		means->ms[i] += log(spread[i].median);
		if (spread[6].median != 0) {
			over = spread[i].median / spread[6].median;
			perf_put(" ratio_mimalloc=%.3f", over);
			means->to_mimalloc[i] += log(over);
		}
		if (&arms[i] == ours) {
			limit = min_limit_ratio(s, 3);
			means->limits += log(limit);
			means->limit_scripts++;
			if (perf.level == PERF_FULL) {
				double six = min_limit_ratio(s, 6);

				means->limits += log(six);
				means->limit_scripts++;
				perf_put(" min_limit_ratio_6=%.3f", six);
			}
			perf_put(" min_limit_ratio=%.3f", limit);
		}
		perf_end();
	}
	means->scripts++;
}

static void report_means(const struct means *m)
{
	double n = (double)m->scripts;

	for (size_t i = 0; i < ARMS_MAX; i++) {
		if (!is_here(&arms[i]))
			continue;
		perf_begin("lua_script", "lua=5.4 script=geomean arm=%s",
		           arms[i].name);
		perf_put(" ms=%.2f ratio_malloc=%.3f", exp(m->ms[i] / n),
		         exp(m->to_malloc[i] / n));
		if (is_here(&arms[6]))
			perf_put(" ratio_mimalloc=%.3f",
			         exp(m->to_mimalloc[i] / n));
		if (i == 4)
			perf_put(" min_limit_ratio=%.3f",
			         exp(m->limits / (double)m->limit_scripts));
		perf_end();
	}
}

static void bench_script(void)
{
	static double ms[ARMS_MAX][PERF_ROUNDS_MAX];
	struct means means = {.scripts = 0};

	for (size_t s = 0; s < lua_scripts_count; s++) {
		for (size_t round = 0; round <= perf.rounds; round++) {
			for (size_t i = 0; i < ARMS_MAX; i++) {
				/* the first round warms up */
				size_t at = round == 0 ? 0 : round - 1;

				if (is_here(&arms[i]))
					ms[i][at] = life_ms(&arms[i],
					                    &lua_scripts[s]);
			}
		}
		report(&lua_scripts[s], ms, &means);
	}
	report_means(&means);
}

static void bench_lua_calls(void)
{
	bench_calls(&cache);
}

static const struct perf_bench benches[] = {
	{"lua_script", bench_script, true},
	{"lua_calls", bench_lua_calls, false},
};

int main(int argc, char **argv)
{
	quota_init(&quota, QUOTA_MAX);
	if (slab_arena_create(&arena, &quota, 0, (size_t)4 << 20,
	                      SLAB_ARENA_PRIVATE) != 0 ||
	    quota_lessor_create(&lessor, &quota) != 0)
		return 1;
	slab_cache_create(&cache, &arena);
	return perf_main(argc, argv, benches, lengthof(benches));
}
