/* SPDX-License-Identifier: BSD-2-Clause */
/* region - the benches R1 to R5 of the region group. */
#include "foreign.h"
#include "perf.h"

#include <small/util.h>

enum {
	SIZES = 4096,   /* precomputed requests, a power of two */
	BATCH = 100000, /* allocations before a reset */
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

static char bump_block[BATCH * 64];

/* The floor: add, store. Every BATCH operations it starts again. */
static void bump_loop(struct perf_arm *arm, uint64_t ops)
{
	(void)arm;
	for (uint64_t done = 0; done < ops; done += BATCH) {
		char *pos = bump_block;

		for (size_t i = 0; i < BATCH; i++) {
			slots[table[i % SIZES].slot] = pos;
			pos += table[i % SIZES].size;
		}
		perf_keep(pos);
	}
}

static void *pieces[BATCH];

/* One malloc a piece; the reset frees each. */
static void foreign_loop(struct perf_arm *arm, uint64_t ops)
{
	const struct perf_allocator *a = arm->self;

	for (uint64_t done = 0; done < ops; done += BATCH) {
		for (size_t i = 0; i < BATCH; i++) {
			pieces[i] = a->alloc(table[i % SIZES].size);
			slots[table[i % SIZES].slot] = pieces[i];
		}
		for (size_t i = 0; i < BATCH; i++)
			a->release(pieces[i]);
	}
}

static void bench_alloc(void)
{
	static const char *const names[] = {"malloc", "jemalloc", "mimalloc"};
	struct perf_arm arms[4] = {
		{.key = "strategy=floor align=1",
	         .ops = BATCH,
	         .count = BATCH,
	         .is_gate = true,
	         .is_floor = true,
	         .loop = bump_loop},
	};
	size_t count = 1;

	fill_table();
	for (size_t i = 0; i < lengthof(names); i++) {
		const struct perf_allocator *a = perf_foreign(names[i]);

		if (a == NULL)
			continue;
		perf_key(&arms[count], "strategy=%s align=8", names[i]);
		arms[count].ops = arms[count].count = BATCH;
		arms[count].self = (void *)(uintptr_t)a;
		arms[count++].loop = foreign_loop;
	}
	perf_compare("region_alloc", arms, count);
}

static const struct perf_bench benches[] = {
	{"region_alloc", bench_alloc, false},
};

int main(int argc, char **argv)
{
	return perf_main(argc, argv, benches, lengthof(benches));
}
