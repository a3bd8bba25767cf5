/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region_model - ten million random steps on two regions, their cache and its
 * arena, against plain arrays, with small and with real slabs.
 */
#include "model.h"
#include "test.h"

#define STEPS ((size_t)5 * 1000 * 1000) /* for each size of slabs */
/* Steps from one check of all invariants to the next, and of all bytes. */
#define CHECK  64
#define VERIFY 4096

static struct world world;

/* How often each step comes, out of 256; the rest are plain allocations. */
static const unsigned char weights[OP_COUNT] = {
	[OP_ALIGNED] = 40,    [OP_RESERVE] = 10,   [OP_ALIGNED_RESERVE] = 8,
	[OP_JOIN] = 6,        [OP_TRUNCATE] = 20,  [OP_SVP] = 8,
	[OP_ROLLBACK] = 8,    [OP_RESET] = 4,      [OP_FREE] = 1,
	[OP_FREE_AFTER] = 2,  [OP_RETAIN] = 1,     [OP_CALLBACKS] = 2,
	[OP_GROWABLE] = 4,    [OP_SLAB_GET] = 10,  [OP_SLAB_PUT] = 10,
	[OP_CACHE_TRIM] = 1,  [OP_ARENA_TRIM] = 1, [OP_ARENA_RETAIN] = 1,
	[OP_GARBAGE_CAP] = 1,
};

static enum model_op pick_op(uint64_t r)
{
	unsigned left = (unsigned)r & 255;

	for (unsigned op = 0; op < OP_COUNT; op++) {
		if (left < weights[op])
			return (enum model_op)op;
		left -= weights[op];
	}
	return OP_ALLOC;
}

/* Mostly small, one in sixteen up to a page or two, a few up to a slab and
 * beyond. */
static size_t pick_size(uint64_t r, size_t slab_size)
{
	size_t most = (r & 15) != 0         ? 160
	              : (r >> 4 & 63) != 0  ? 10000
	              : (r >> 10 & 15) != 0 ? 70000
	                                    : slab_size + slab_size / 2;

	return (size_t)(r >> 20) % most + 1;
}

static size_t pick_bytes(enum model_op op, uint64_t r, size_t slab_size)
{
	switch (op) {
	case OP_FREE_AFTER:
	case OP_RETAIN:
	case OP_GARBAGE_CAP:
		return (size_t)(r >> 20) % (4 * REGION_RETAIN);
	case OP_ARENA_RETAIN:
		return (size_t)(r >> 20) % (8 * slab_size);
	case OP_GROWABLE:
		return r % 3 == 0 ? 0 : (size_t)(r >> 20) % 40000 + 1;
	case OP_TRUNCATE:
	case OP_SVP:
	case OP_ROLLBACK:
	case OP_CALLBACKS:
		return (size_t)(r >> 20);
	default:
		return pick_size(r, slab_size);
	}
}

static void walk(size_t total, size_t slab_size)
{
	uint64_t seed = test_seed("region_model");
	size_t steps = test_scale(STEPS), refused = 0;

	world_create(&world, total, slab_size);
	for (size_t i = 0; i < steps; i++) {
		uint64_t r = test_random(&seed), s = test_random(&seed);
		enum model_op op = pick_op(r >> 32);
		size_t m = op == OP_ALIGNED || op == OP_ALIGNED_RESERVE
		                   ? (size_t)(s % 13)
		                   : (size_t)(s >> 8);

		if (!world_step(&world, op, (size_t)(s >> 60),
		                pick_bytes(op, r, slab_size), m))
			refused++;
		if (i % CHECK == 0)
			world_check(&world);
		if (i % VERIFY == 0)
			world_verify(&world);
	}
	printf("%zu steps, %zu refused\n", steps, refused);
	world_destroy(&world);
}

static void random_steps_match_an_array_on_small_slabs(void **state)
{
	(void)state;
	walk((size_t)1 << 20, SLAB_MIN_SIZE);
}

static void random_steps_match_an_array_on_real_slabs(void **state)
{
	(void)state;
	walk((size_t)12 << 20, (size_t)4 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_steps_match_an_array_on_small_slabs),
		cmocka_unit_test(random_steps_match_an_array_on_real_slabs),
	};

	return cmocka_run_group_tests_name("region_model", tests, NULL, NULL);
}
