/* SPDX-License-Identifier: BSD-2-Clause */
/* region - R1 (allocate, savepoint) and R5 (slab pairs), and the group. */
#include "foreign.h"
#include "reset/chain.h"
#include "stage.h"

#include <small/region.h>

enum {
	SIZES = 4096,   /* precomputed requests, a power of two */
	BATCH = 100000, /* allocations before a reset */
	ARMS_MAX = 8,
};

/* What the loop of R1 asks for and where it stores the answer. */
static struct {
	uint16_t size;
	uint16_t slot;
} table[SIZES];

static void *slots[SIZES];

static void fill_table(void)
{
	uint64_t state = perf.seed;

	for (size_t i = 0; i < SIZES; i++) {
		table[i].size = (uint16_t)perf_uniform(&state, 16, 64);
		table[i].slot = (uint16_t)perf_uniform(&state, 0, SIZES - 1);
	}
}

/* What an arm of R1 allocates from. */
struct source {
	char *pos; /* the floor's */
	struct region region;
	struct chain *chain;
	const struct perf_allocator *allocator;
	void **pieces;
	struct stage stage;
};

static char bump_block[BATCH * 64];

static inline void *bump_alloc(struct source *s, size_t size)
{
	char *ptr = s->pos;

	s->pos = ptr + size;
	return ptr;
}

static inline void bump_reset(struct source *s)
{
	s->pos = bump_block;
}

static inline void *ours_alloc(struct source *s, size_t size)
{
	return region_alloc(&s->region, size);
}

static inline void *ours_alloc_aligned(struct source *s, size_t size)
{
	return region_aligned_alloc(&s->region, size, 8);
}

static inline void ours_reset(struct source *s)
{
	if (region_used(&s->region) < BATCH * 16)
		strategy_failed();
	region_reset(&s->region);
}

static inline void *theirs_alloc(struct source *s, size_t size)
{
	return chain_alloc(s->chain, size, chain_add);
}

static inline void theirs_reset(struct source *s)
{
	chain_free(s->chain);
}

static inline void *foreign_alloc(struct source *s, size_t size)
{
	return *s->pieces++ = s->allocator->alloc(size);
}

static inline void foreign_reset(struct source *s)
{
	for (size_t i = 0; i < BATCH; i++)
		s->allocator->release(*--s->pieces);
}

/*
 * The loop of R1, the same for all: ops is a multiple of BATCH. Inlined with
 * its calls, so it is compiled once for each arm.
 */
static inline __attribute__((always_inline)) void
alloc_loop(struct source *s, uint64_t ops,
           void *(*alloc)(struct source *, size_t),
           void (*reset)(struct source *))
{
	for (uint64_t done = 0; done < ops; done += BATCH) {
		for (size_t i = 0; i < BATCH; i++) {
			size_t k = i & (SIZES - 1);

			slots[table[k].slot] = alloc(s, table[k].size);
			perf_keep(slots);
		}
		reset(s);
	}
}

static void bump_loop(struct perf_arm *arm, uint64_t ops)
{
	alloc_loop(arm->self, ops, bump_alloc, bump_reset);
}

static void ours_loop(struct perf_arm *arm, uint64_t ops)
{
	alloc_loop(arm->self, ops, ours_alloc, ours_reset);
}

static void ours_aligned_loop(struct perf_arm *arm, uint64_t ops)
{
	alloc_loop(arm->self, ops, ours_alloc_aligned, ours_reset);
}

static void theirs_loop(struct perf_arm *arm, uint64_t ops)
{
	alloc_loop(arm->self, ops, theirs_alloc, theirs_reset);
}

static void foreign_loop(struct perf_arm *arm, uint64_t ops)
{
	alloc_loop(arm->self, ops, foreign_alloc, foreign_reset);
}

static int source_open(struct perf_arm *arm)
{
	struct source *s = arm->self;

	stage_open(&s->stage, STAGE_SLAB);
	region_create(&s->region, &s->stage.cache);
	s->chain = chain_create(NULL, &s->stage.cache);
	s->pieces = perf_malloc(BATCH * sizeof(*s->pieces));
	s->pos = bump_block;
	return 0;
}

static void source_report(struct perf_arm *arm)
{
	struct source *s = arm->self;

	perf_put(" held_kib=%zu used_after=%zu",
	         region_total(&s->region) / 1024, region_used(&s->region));
	stage_put(&s->stage);
}

static void source_close(struct perf_arm *arm)
{
	struct source *s = arm->self;

	region_destroy(&s->region);
	chain_destroy(s->chain);
	free(s->pieces);
	stage_close(&s->stage);
}

static void arm_fill(struct perf_arm *arm, struct source *s, size_t ops)
{
	arm->ops = arm->count = ops;
	arm->self = s;
	arm->open = source_open;
	arm->close = source_close;
}

static void compare_alloc(int align, const struct perf_arm *own, size_t count)
{
	static const char *const names[] = {"malloc", "jemalloc", "mimalloc"};
	static struct source sources[ARMS_MAX];
	struct perf_arm arms[ARMS_MAX];

	for (size_t i = 0; i < count; i++)
		arms[i] = own[i];
	for (size_t i = 0; align == 8 && i < lengthof(names); i++) {
		sources[count].allocator = perf_foreign(names[i]);
		if (sources[count].allocator == NULL)
			continue;
		memset(&arms[count], 0, sizeof(arms[count]));
		perf_key(&arms[count], "align=8 strategy=%s", names[i]);
		arms[count++].loop = foreign_loop;
	}
	for (size_t i = 0; i < count; i++)
		arm_fill(&arms[i], &sources[i], BATCH);
	perf_compare("region_alloc", arms, count);
}

static void bench_alloc(void)
{
	const struct perf_arm unaligned[] = {
		{.key = "align=1 strategy=floor",
	         .is_gate = true,
	         .is_floor = true,
	         .loop = bump_loop},
		{.key = "align=1 strategy=garbage",
	         .is_gate = true,
	         .loop = ours_loop,
	         .report = source_report},
		{.key = "align=1 strategy=free_all", .loop = theirs_loop},
	};
	const struct perf_arm aligned[] = {
		{.key = "align=8 strategy=floor",
	         .is_gate = true,
	         .is_floor = true,
	         .loop = bump_loop},
		{.key = "align=8 strategy=garbage",
	         .is_gate = true,
	         .loop = ours_aligned_loop,
	         .report = source_report},
	};

	fill_table();
	compare_alloc(1, unaligned, lengthof(unaligned));
	compare_alloc(8, aligned, lengthof(aligned));
}

static void bump_savepoint_loop(struct perf_arm *arm, uint64_t ops)
{
	struct source *s = arm->self;

	for (uint64_t i = 0; i < ops; i++) {
		size_t k = i & (SIZES - 1);
		char *svp = s->pos;

		slots[table[k].slot] = bump_alloc(s, table[k].size);
		perf_keep(slots);
		s->pos = svp;
	}
}

static void savepoint_loop(struct perf_arm *arm, uint64_t ops)
{
	struct source *s = arm->self;

	for (uint64_t i = 0; i < ops; i++) {
		size_t k = i & (SIZES - 1);
		size_t svp = region_used(&s->region);

		slots[table[k].slot] = region_alloc(&s->region, table[k].size);
		perf_keep(slots);
		region_truncate(&s->region, svp);
	}
}

/* A savepoint is taken where something lies before it. */
static int savepoint_open(struct perf_arm *arm)
{
	struct source *s = arm->self;

	source_open(arm);
	if (region_alloc(&s->region, 10) == NULL)
		return -1;
	return 0;
}

static void bench_savepoint(void)
{
	static struct source sources[2];
	struct perf_arm arms[] = {
		{.key = "strategy=floor",
	         .is_gate = true,
	         .is_floor = true,
	         .loop = bump_savepoint_loop},
		{.key = "strategy=garbage",
	         .is_gate = true,
	         .loop = savepoint_loop,
	         .report = source_report},
	};

	fill_table();
	for (size_t i = 0; i < lengthof(arms); i++) {
		arm_fill(&arms[i], &sources[i], BATCH);
		arms[i].open = savepoint_open;
	}
	perf_compare("region_savepoint", arms, lengthof(arms));
}

/* R5. The size of the pair being measured, header not included. */
static size_t pair_size;

static void pair_loop(struct perf_arm *arm, uint64_t ops)
{
	struct source *s = arm->self;

	for (uint64_t i = 0; i < ops; i++) {
		struct slab *slab = slab_get(&s->stage.cache, pair_size);

		slots[0] = slab;
		slab_put(&s->stage.cache, slab);
	}
}

static void pair_foreign_loop(struct perf_arm *arm, uint64_t ops)
{
	const struct perf_allocator *a =
		((struct source *)arm->self)->allocator;

	for (uint64_t i = 0; i < ops; i++) {
		slots[0] = a->alloc(pair_size);
		a->release(slots[0]);
	}
}

static void pair_floor_loop(struct perf_arm *arm, uint64_t ops)
{
	for (uint64_t i = 0; i < ops; i++) {
		slots[0] = arm;
		perf_keep(slots[0]);
	}
}

static void pair_report(struct perf_arm *arm)
{
	stage_put(&((struct source *)arm->self)->stage);
}

static void bench_pair(void)
{
	static const struct {
		const char *name;
		size_t size;
		size_t ops;
	} cases[] = {
		{"4KiB", 4096, 100000},
		{"64KiB", 65536, 100000},
		{"5MiB", 5 * 1024 * 1024, 100}, /* a mapping each */
	};
	static struct source sources[3];

	for (size_t i = 0; i < lengthof(cases); i++) {
		struct perf_arm arms[] = {
			{.is_gate = true,
		         .is_floor = true,
		         .loop = pair_floor_loop},
			{.is_gate = true,
		         .loop = pair_loop,
		         .report = pair_report},
			{.loop = pair_foreign_loop},
		};

		pair_size = cases[i].size - slab_sizeof();
		sources[2].allocator = perf_foreign("malloc");
		perf_key(&arms[0], "size=%s arm=floor", cases[i].name);
		perf_key(&arms[1], "size=%s arm=small", cases[i].name);
		perf_key(&arms[2], "size=%s arm=malloc", cases[i].name);
		for (size_t k = 0; k < lengthof(arms); k++)
			arm_fill(&arms[k], &sources[k], cases[i].ops);
		perf_compare("slab_pair", arms, lengthof(arms));
	}
}

static const struct perf_bench benches[] = {
	{"region_alloc", bench_alloc, false},
	{"region_savepoint", bench_savepoint, false},
	{"region_request", bench_request, false},
	{"region_collapse", bench_collapse, true},
	/* After R3: its large blocks teach malloc not to trim. */
	{"region_reset", bench_reset, false},
	{"region_drain", bench_drain, true},
	{"slab_pair", bench_pair, false},
};

int main(int argc, char **argv)
{
	return perf_main(argc, argv, benches, lengthof(benches));
}
