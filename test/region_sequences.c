/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region_sequences - every sequence of up to seven steps over an
 * alphabet, on an arena of two slabs, each from a fresh cache and checked at
 * its end.
 */
#include "model.h"
#include "test.h"

#define LENGTH 7 /* steps at most */

static struct world world;

/* Drops what the newest block of the first region added. */
static void cut_last(void)
{
	size_t count = world.models[0].count;

	world_step(&world, OP_TRUNCATE, 0, count > 0 ? count - 1 : 0, 0);
}

/* A savepoint, or back to it when there is one. */
static void save_or_roll_back(void)
{
	bool live = world.models[0].svp_live[0];

	world_step(&world, live ? OP_ROLLBACK : OP_SVP, 0, 0, 0);
}

struct letter {
	void (*run)(void); /* or, when NULL, the step */
	enum model_op op;
	size_t who, n, m;
};

/* One region: sizes of three orders, what moves its cursor, and what looks
 * at bytes again. */
static const struct letter region_letters[] = {
	{NULL, OP_ALLOC, 0, 100, 0},      {NULL, OP_ALLOC, 0, 5000, 0},
	{NULL, OP_ALLOC, 0, 40000, 0},    {NULL, OP_RESERVE, 0, 3000, 10},
	{NULL, OP_JOIN, 0, 4200, 0},      {NULL, OP_RESET, 0, 0, 0},
	{cut_last, OP_TRUNCATE, 0, 0, 0}, {save_or_roll_back, OP_SVP, 0, 0, 0},
};

/* What shares a cache: two regions and a slab beside them. */
static const struct letter cache_letters[] = {
	{NULL, OP_ALLOC, 0, 30000, 0},    {NULL, OP_ALLOC, 1, 9000, 0},
	{NULL, OP_RESET, 0, 0, 0},        {NULL, OP_FREE, 1, 0, 0},
	{NULL, OP_SLAB_GET, 0, 20000, 0}, {NULL, OP_SLAB_PUT, 0, 0, 0},
};

static void run_sequence(const struct letter *letters, size_t count,
                         size_t length, size_t number)
{
	for (size_t i = 0; i < length; i++, number /= count) {
		const struct letter *letter = &letters[number % count];

		if (letter->run != NULL)
			letter->run();
		else
			world_step(&world, letter->op, letter->who, letter->n,
			           letter->m);
	}
	world_check(&world);
	world_restart(&world);
}

/* All of them, or at a smaller scale every n-th from a random one on. */
static void run_all(const struct letter *letters, size_t count)
{
	uint64_t seed = test_seed("region_sequences");
	size_t stride = 1000 / test_scale(1000), all = 1, ran = 0;

	world_create(&world, 2 * SLAB_MIN_SIZE, SLAB_MIN_SIZE);
	for (size_t length = 1; length <= LENGTH; length++) {
		size_t first = (size_t)test_random(&seed) % stride;

		all *= count;
		for (size_t i = first; i < all; i += stride, ran++)
			run_sequence(letters, count, length, i);
	}
	printf("%zu sequences\n", ran);
	world_destroy(&world);
}

static void every_short_sequence_on_a_region_holds(void **state)
{
	(void)state;
	run_all(region_letters, lengthof(region_letters));
}

static void every_short_sequence_on_a_cache_holds(void **state)
{
	(void)state;
	run_all(cache_letters, lengthof(cache_letters));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_short_sequence_on_a_region_holds),
		cmocka_unit_test(every_short_sequence_on_a_cache_holds),
	};

	return cmocka_run_group_tests_name("region_sequences", tests, NULL,
	                                   NULL);
}
