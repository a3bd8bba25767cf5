/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mempool_fragmentation - a million objects, replaced at random; then nine of
 * ten are freed, and the rest is replaced at random. How many slabs are held
 * beyond those that the live objects would fill, and what share of the slabs
 * that could go back has gone back.
 */
#include "mempool_arms.h"

#include <stdlib.h>

/* Rules that are compared, by their names among the arms. */
static const char *const names[] = {"small", "eighth"};

struct phase {
	struct pool_bench *b;
	void **live;
	size_t count;
	size_t peak_slabs;
	uint64_t seed;
};

static size_t slab_bytes(const struct pool_bench *b)
{
	return slab_order_size(&b->stage.cache, b->pool.slab_order);
}

/* The eighth's slabs are counted apart: its arm has an unused pool, too. */
static size_t slabs_held(const struct pool_bench *b)
{
	return b->eighth.slabs + mempool_total(&b->pool) / slab_bytes(b);
}

static void report(struct phase *phase, const char *name, double ns_op)
{
	struct pool_bench *b = phase->b;
	size_t capacity = b->arm->capacity(b), slabs = slabs_held(b);
	size_t ideal = (phase->count + capacity - 1) / capacity;
	size_t most = phase->peak_slabs - ideal;

	perf_begin("mempool_fragmentation", "phase=%s size=%zu order=%u arm=%s",
	           name, b->size, b->pool.slab_order, b->arm->name);
	perf_put("live=%zu slabs=%zu ideal=%zu over=%.3f", phase->count, slabs,
	         ideal, (double)slabs / (double)ideal);
	if (most > 0)
		perf_put(" returned=%.3f",
		         (double)(phase->peak_slabs - slabs) / (double)most);
	perf_put(" ns_op=%.4g", ns_op);
	perf_end();
}

/* Frees an object and allocates one, `steps` times. */
static double replace(struct phase *phase, size_t steps)
{
	const struct pool_arm *arm = phase->b->arm;
	uint64_t start = perf_now_ns();

	for (size_t i = 0; i < steps; i++) {
		void **slot =
			&phase->live[perf_random(&phase->seed) % phase->count];

		arm->release(phase->b, *slot);
		*slot = arm->alloc(phase->b);
		if (*slot == NULL)
			exit(1);
	}
	return (double)(perf_now_ns() - start) / (double)steps;
}

static void fill(struct phase *phase, size_t count)
{
	const struct pool_arm *arm = phase->b->arm;

	for (phase->count = 0; phase->count < count; phase->count++) {
		phase->live[phase->count] = arm->alloc(phase->b);
		if (phase->live[phase->count] == NULL)
			exit(1);
	}
}

static void free_random(struct phase *phase, size_t keep)
{
	while (phase->count > keep) {
		void **slot =
			&phase->live[perf_random(&phase->seed) % phase->count];

		phase->b->arm->release(phase->b, *slot);
		*slot = phase->live[--phase->count];
	}
}

static void run(struct pool_bench *b, size_t count)
{
	struct phase phase = {
		.b = b,
		.live = perf_malloc(count * sizeof(void *)),
		.seed = perf.seed,
	};
	size_t few = count / 10;
	double ns;

	fill(&phase, count);
	ns = replace(&phase, 4 * count);
	phase.peak_slabs = slabs_held(b);
	report(&phase, "replaced", ns);
	free_random(&phase, few);
	report(&phase, "freed_90", 0);
	ns = replace(&phase, few);
	report(&phase, "replaced_1x", ns);
	ns = replace(&phase, 3 * few);
	report(&phase, "replaced_4x", ns);
	free_random(&phase, 0);
	free(phase.live);
}

/* order 255: the pool's own choice. */
static void run_arm(const struct pool_arm *arm, size_t size, uint8_t order,
                    size_t count)
{
	static struct pool_bench b;

	memset(&b, 0, sizeof(b));
	b.arm = arm;
	b.size = size;
	if (arm->create(&b) != 0)
		return;
	if (order != 255) {
		mempool_destroy(&b.pool);
		mempool_create_with_order(&b.pool, &b.stage.cache, size, order);
		if (b.eighth.cache != NULL)
			eighth_create(&b.eighth, &b.stage.cache, size, order);
	}
	run(&b, count);
	arm->destroy(&b);
}

void bench_fragmentation(void)
{
	static const struct {
		size_t size;
		uint8_t order;
	} cases[] = {{64, 255}, {256, 255}, {256, 0}};
	size_t count = perf_pick(100000, 1000000, 1000000);

	for (size_t c = 0; c < lengthof(cases); c++) {
		for (size_t i = 0; i < POOL_ARMS; i++) {
			for (size_t n = 0; n < lengthof(names); n++) {
				if (strcmp(names[n], pool_arms[i].name) == 0)
					run_arm(&pool_arms[i], cases[c].size,
					        cases[c].order, count);
			}
		}
	}
}
