/* SPDX-License-Identifier: BSD-2-Clause */
/* strategy - the list of them, and the one that does nothing. */
#include "strategy.h"

const struct strategy *const strategies[] = {
	&strategy_keep_head,        &strategy_zero_all,
	&strategy_zero_all_release, &strategy_free_all,
	&strategy_policy_128k,      &strategy_garbage,
	&strategy_malloc,           &strategy_jemalloc,
	&strategy_mimalloc,         NULL,
};

void strategy_failed(void)
{
	fprintf(stderr, "perf: a strategy was refused memory\n");
	exit(1);
}

static char nowhere[64];

static void *floor_create(const struct strategy *s, struct slab_cache *cache)
{
	(void)s;
	(void)cache;
	return nowhere;
}

static inline void *take(void *self, size_t size)
{
	(void)size;
	return self;
}

static inline void end(void *self)
{
	perf_keep(self);
}

static size_t floor_zero(const void *self)
{
	(void)self;
	return 0;
}

#define SELF void
#include "loops.h"

const struct strategy strategy_floor = {
	.name = "floor",
	.create = floor_create,
	.reset = one_end,
	.used = floor_zero,
	.held = floor_zero,
	.slabs = floor_zero,
	.destroy = one_end,
	STRATEGY_LOOPS,
};

void load_fill(uint32_t sizes[REQUEST_PIECES], uint32_t payload)
{
	static const uint32_t small[] = {120, 64, 96};

	sizes[0] = 200;
	for (uint32_t k = 0; k < 3; k++) {
		sizes[1 + 2 * k] = payload + 30 + 5 * k;
		sizes[2 + 2 * k] = small[k];
	}
}

/* Log-uniform in 16 bytes .. 1 MiB: a uniform power, then uniform in it. */
static uint32_t log_size(uint64_t *state)
{
	size_t from = (size_t)1 << perf_uniform(state, 4, 19);

	return (uint32_t)perf_uniform(state, from, 2 * from);
}

void load_fill_log(uint32_t sizes[REQUEST_PIECES], uint64_t *state)
{
	for (size_t i = 0; i < REQUEST_PIECES; i++)
		sizes[i] = log_size(state);
}
