/* SPDX-License-Identifier: BSD-2-Clause */
/* mempool - pairs of alloc and free in five states, and fragmentation. */
#include "mempool_arms.h"

#include <stdlib.h>

/* What is live around the loop, and which loop it is. */
struct pool_state {
	const char *name;
	enum pool_loop loop;
	enum { HELD_NONE, HELD_ONE, HELD_SLAB } held;
};

static const struct pool_state states[] = {
	{"empty", POOL_PAIR, HELD_NONE},
	{"held", POOL_PAIR, HELD_ONE},
	/* All of a slab but one object: two more cross its border. */
	{"boundary", POOL_TWO, HELD_SLAB},
	{"batch_lifo", POOL_LIFO, HELD_NONE},
	{"batch_random", POOL_RANDOM, HELD_NONE},
};

static const struct pool_state *running;

static int open_arm(struct perf_arm *arm)
{
	struct pool_bench *b = arm->self;

	if (b->arm->create(b) != 0)
		return -1;
	b->held_count = running->held == HELD_NONE  ? 0
	                : running->held == HELD_ONE ? 1
	                                            : b->arm->capacity(b) - 1;
	b->held = perf_malloc(b->held_count * sizeof(*b->held));
	for (size_t i = 0; i < b->held_count; i++) {
		b->held[i] = b->arm->alloc(b);
		if (b->held[i] == NULL)
			exit(1);
	}
	return 0;
}

static void close_arm(struct perf_arm *arm)
{
	struct pool_bench *b = arm->self;

	for (size_t i = 0; i < b->held_count; i++)
		b->arm->release(b, b->held[i]);
	free(b->held);
	b->arm->destroy(b);
}

static void compare(const struct pool_state *state, size_t size)
{
	static struct pool_bench benches[POOL_ARMS];
	struct perf_arm arms[POOL_ARMS];

	running = state;
	memset(benches, 0, sizeof(benches));
	memset(arms, 0, sizeof(arms));
	for (size_t i = 0; i < POOL_ARMS; i++) {
		benches[i].arm = &pool_arms[i];
		benches[i].size = size;
		perf_key(&arms[i], "state=%s size=%zu arm=%s", state->name,
		         size, pool_arms[i].name);
		arms[i].ops = perf_pick(20, 100, 400) * POOL_BATCH;
		arms[i].count = 40 * POOL_BATCH;
		arms[i].is_gate = pool_arms[i].is_gate;
		arms[i].is_floor = i == 0;
		arms[i].self = &benches[i];
		arms[i].open = open_arm;
		arms[i].loop = pool_arms[i].loops[state->loop];
		arms[i].close = close_arm;
	}
	perf_compare("mempool_pair", arms, POOL_ARMS);
}

static void bench_pair(void)
{
	static const size_t sizes[] = {16, 64, 256, 4096};

	pool_set_order();
	for (size_t s = 0; s < lengthof(sizes); s++) {
		for (size_t i = 0; i < lengthof(states); i++)
			compare(&states[i], sizes[s]);
	}
}

static const struct perf_bench benches[] = {
	{"mempool_pair", bench_pair, false},
	{"mempool_fragmentation", bench_fragmentation, true},
};

int main(int argc, char **argv)
{
	return perf_main(argc, argv, benches, lengthof(benches));
}
