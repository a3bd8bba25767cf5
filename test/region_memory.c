/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region_memory - what is held after very many equal requests: at most twice
 * the largest request of each region, the garbage cap and two arena slabs.
 */
#include "core.h"

#define MIB      ((size_t)1 << 20)
#define SLAB     (4 * MIB)
#define REGIONS  100
#define REQUESTS ((size_t)1000 * 1000)

static struct core core;
static struct region regions[REGIONS];
static size_t peaks[REGIONS]; /* the most that each has held */

/* Sizes of a request, from a number between 0 and UINT64_MAX. */
struct mix {
	size_t (*size)(uint64_t random);
	size_t bytes; /* of a request, at least */
};

static size_t log_uniform(uint64_t random)
{
	size_t base = (size_t)16 << random % 16;

	return base + (size_t)(random >> 8) % base;
}

static size_t page_payload(uint64_t random)
{
	static const size_t sizes[] = {4040, 4041, 4096, 8136, 8137};

	return sizes[random % lengthof(sizes)];
}

static size_t mostly_small(uint64_t random)
{
	return random % 4096 == 0 ? 9 * MIB : (size_t)random % 600 + 1;
}

static size_t powers(uint64_t random)
{
	return (size_t)1 << random % 20;
}

static void create(void)
{
	core_create(&core, 1024 * MIB, SLAB);
	slab_arena_set_retain(&core.arena, 0);
	for (size_t i = 0; i < REGIONS; i++)
		region_create(&regions[i], &core.cache);
	memset(peaks, 0, sizeof(peaks));
}

static void destroy(void)
{
	for (size_t i = 0; i < REGIONS; i++)
		region_destroy(&regions[i]);
	core_destroy(&core);
}

/* A request of region i: its blocks, then the reset. */
static void serve(const struct mix *mix, size_t i, uint64_t *seed)
{
	while (region_used(&regions[i]) < mix->bytes)
		assert_non_null(region_alloc(&regions[i],
		                             mix->size(test_random(seed))));
	if (peaks[i] < region_total(&regions[i]))
		peaks[i] = region_total(&regions[i]);
}

/* Each region in turn serves and is reset when its turn comes again: up to
 * `count` requests are open at a time. */
static void bounded(const struct mix *mix, size_t count)
{
	size_t most = 0, sum = 0, requests = test_scale(REQUESTS);
	uint64_t seed = test_seed("region_memory");

	requests = requests * 4096 / mix->bytes + 2 * count;
	create();
	for (size_t i = 0; i < requests; i++) {
		region_reset(&regions[i % count]);
		serve(mix, i % count, &seed);
		if (most < quota_used(&core.quota))
			most = quota_used(&core.quota);
	}
	for (size_t i = 0; i < count; i++)
		sum += peaks[i];
	printf("%zu requests, %zu regions: peaks %zu KiB, held %zu KiB\n",
	       requests, count, sum >> 10, most >> 10);
	assert_true(most <= 2 * sum + SLAB_CACHE_GARBAGE_CAP + 2 * SLAB);
	destroy();
}

static const struct mix mixes[] = {
	{log_uniform, 4096},        {page_payload, 4096},
	{page_payload, 100 * 1000}, {log_uniform, 300 * 1000},
	{log_uniform, 4000 * 1000}, {mostly_small, 50 * 1000},
	{powers, 1000 * 1000},
};

static void one_region_holds_twice_a_request_at_most(void **state)
{
	(void)state;
	for (size_t i = 0; i < lengthof(mixes); i++)
		bounded(&mixes[i], 1);
}

static void a_hundred_regions_hold_twice_their_requests_at_most(void **state)
{
	(void)state;
	for (size_t i = 0; i < lengthof(mixes); i++)
		bounded(&mixes[i], REGIONS);
}

/* After one huge request each reset works garbage off, two slabs a time. */
static void a_huge_request_is_worked_off_by_small_ones(void **state)
{
	size_t count = 0, slabs = 64 * 16;

	(void)state;
	create();
	for (size_t i = 0; i < slabs; i++)
		assert_non_null(region_alloc(&regions[0], MIB / 4 - 64));
	region_reset(&regions[0]);
	while (slab_cache_garbage(&core.cache) > SLAB_CACHE_GARBAGE_CAP) {
		assert_non_null(region_alloc(&regions[0], 100));
		region_reset(&regions[0]);
		count++;
	}
	assert_in_range(count, 1, slabs / 2);
	assert_true(quota_used(&core.quota) <=
	            SLAB_CACHE_GARBAGE_CAP + 4 * SLAB);
	destroy();
}

static void another_region_reuses_the_garbage_at_once(void **state)
{
	size_t held;

	(void)state;
	create();
	for (int i = 0; i < 400; i++)
		assert_non_null(region_alloc(&regions[0], MIB / 4 - 64));
	held = quota_used(&core.quota);
	region_reset(&regions[0]);
	for (int i = 0; i < 400; i++)
		assert_non_null(region_alloc(&regions[1], MIB / 4 - 64));
	assert_true(quota_used(&core.quota) <= held + SLAB);
	destroy();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_region_holds_twice_a_request_at_most),
		cmocka_unit_test(
			a_hundred_regions_hold_twice_their_requests_at_most),
		cmocka_unit_test(a_huge_request_is_worked_off_by_small_ones),
		cmocka_unit_test(another_region_reuses_the_garbage_at_once),
	};

	return cmocka_run_group_tests_name("region_memory", tests, NULL, NULL);
}
