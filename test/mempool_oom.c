/* SPDX-License-Identifier: BSD-2-Clause */
/* mempool_oom - what a pool does when it is refused a slab. */
#include "pool.h"

static void cold_slabs_serve_when_there_is_no_new_one(void **state)
{
	size_t n, count;

	(void)state;
	mempool_create(&pool, &core.cache, 64);
	n = pool.objcount;
	count = SLABS * n;
	take(0, count);
	for (size_t i = 0; i < SLABS; i++) {
		mempool_free(&pool, objects[i * n]);
		mempool_free(&pool, objects[i * n + 9]);
	}
	check();
	fault_set(FAULT_SLAB, 1, true);
	for (size_t i = 0; i < 2 * SLABS; i++)
		assert_non_null(mempool_alloc(&pool));
	for (int i = 0; i < 10; i++) {
		assert_null(mempool_alloc(&pool));
		check();
	}
	fault_clear();
	assert_int_equal(mempool_count(&pool), count);
	assert_int_equal(mempool_total(&pool), SLABS * slab_size());
	assert_non_null(mempool_alloc(&pool));
	check();
}

/* Takes objects until one is refused; -1 when none was. */
static ssize_t take_until_refused(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		objects[i] = mempool_alloc(&pool);
		if (objects[i] == NULL)
			return (ssize_t)i;
	}
	return -1;
}

static void refuse_nth(size_t n, bool from_then_on)
{
	size_t count, total;
	ssize_t at;

	mempool_create(&pool, &core.cache, 100000);
	count = 100;
	fault_set(FAULT_ALL, n, from_then_on);
	at = take_until_refused(count);
	assert_true(at >= 0 || fault_refused() == 0 || !from_then_on);
	if (at >= 0) {
		total = mempool_total(&pool);
		check();
		assert_int_equal(mempool_count(&pool), at);
		if (from_then_on)
			assert_null(mempool_alloc(&pool));
		assert_int_equal(mempool_total(&pool), total);
		fault_clear();
		take((size_t)at, count);
	}
	fault_clear();
	put(0, count);
	mempool_destroy(&pool);
	slab_cache_trim(&core.cache);
	slab_arena_trim(&core.arena);
	assert_int_equal(quota_used(&core.quota), 0);
}

static void every_refusal_leaves_the_pool_as_it_was(void **state)
{
	size_t n = 1, seen;

	(void)state;
	do {
		refuse_nth(n, false);
		refuse_nth(n, true);
		mempool_create(&pool, &core.cache, 100000);
		fault_set(FAULT_ALL, SIZE_MAX, false);
		assert_int_equal(take_until_refused(100), -1);
		seen = fault_seen();
		fault_clear();
		mempool_destroy(&pool);
		slab_cache_trim(&core.cache);
		slab_arena_trim(&core.arena);
	} while (n++ < seen);
	assert_true(seen >= 3);
}

/* cases.md 14 */
static void a_full_quota_refuses_again_and_again(void **state)
{
	size_t count = 0;

	(void)state;
	assert_int_equal(quota_set(&core.quota, 8 * MIB), 8 * MIB);
	mempool_create(&pool, &core.cache, 1000);
	while (count < lengthof(objects) &&
	       (objects[count] = mempool_alloc(&pool)) != NULL)
		count++;
	assert_true(count >= 8 * MIB / 1100);
	for (int i = 0; i < 100; i++)
		assert_null(mempool_alloc(&pool));
	check();
	put(0, 100);
	take(0, 100);
	assert_null(mempool_alloc(&pool));
	put(0, count);
	assert_int_equal(mempool_total(&pool), slab_size());
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cold_slabs_serve_when_there_is_no_new_one),
		TEST(every_refusal_leaves_the_pool_as_it_was),
		TEST(a_full_quota_refuses_again_and_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
