/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stock - the slabs that a cache keeps as a pool emptied them: what comes back
 * from there, how many, and who else gets them.
 */
#include <small/slab_cache_impl.h>

#include "need.h"
#include "pool.h"

#include <pthread.h>
#include <sched.h>

#define SLAB (4 * MIB) /* the arena's */

static int setup_small(void **state)
{
	setup(state);
	return quota_set(&core.quota, 16 * SLAB) < 0;
}

/* Slabs in stock, of any order. */
static size_t stocked(void)
{
	size_t count = 0;

	for (size_t order = 0; order <= ORDER_MAX; order++) {
		struct rlist *item = core.cache.stock[order];

		for (; item != NULL; item = item->next)
			count++;
	}
	return count;
}

/* Frees the first `count` slabs of a few more. */
static void fill_stock(size_t objsize, size_t count)
{
	size_t n;

	mempool_create(&pool, &core.cache, objsize);
	n = pool.objcount;
	take(0, (count + 3) * n);
	put(0, (count + 1) * n); /* the first becomes the current one */
	check();
}

static void a_batch_comes_and_goes_without_a_slab(void **state)
{
	static const size_t sizes[] = {16, 64, 256, 1000, 4096};

	(void)state;
	for (size_t s = 0; s < lengthof(sizes); s++) {
		size_t total;

		mempool_create(&pool, &core.cache, sizes[s]);
		take(0, 1024);
		put(0, 1024);
		total = core.cache.allocated.stats.total;
		fault_set(FAULT_ALL, 1, true);
		for (int i = 0; i < 10; i++) {
			take(0, 1024);
			put(0, 1024);
		}
		assert_int_equal(fault_seen(), 0);
		fault_clear();
		assert_int_equal(core.cache.allocated.stats.total, total);
		core_check(&core);
		mempool_destroy(&pool);
		assert_int_equal(stocked(), 0);
	}
}

static void the_stock_is_bounded(void **state)
{
	uint8_t order = 0;
	size_t room;

	(void)state;
	fill_stock(64, 40);
	room = SLAB / slab_order_size(&core.cache, pool.slab_order);
	assert_int_equal(stocked(), room < SLAB_CACHE_STOCK_MAX
	                                    ? room
	                                    : SLAB_CACHE_STOCK_MAX);
	core_check(&core);
	mempool_destroy(&pool);

	/* Slabs of 1 MiB: no more bytes than one of the arena's. */
	while (slab_order_size(&core.cache, order) < MIB)
		order++;
	mempool_create_with_order(&pool, &core.cache, 4096, order);
	take(0, 8 * pool.objcount);
	put(0, 8 * pool.objcount);
	assert_int_equal(stocked(), SLAB / MIB);
	core_check(&core);
}

static void what_is_in_stock_is_free_in_the_statistics(void **state)
{
	struct slab_cache_stats stats;

	(void)state;
	fill_stock(256, 4);
	assert_int_equal(stocked(), 4);
	slab_cache_stats(&core.cache, &stats);
	assert_int_equal(stats.used, mempool_total(&pool));
	assert_int_equal(stats.garbage, 0);
	assert_int_equal(stats.used + stats.free, stats.total);
}

/* Another pool of slabs of the same order takes 512 objects. */
static void use_other(struct mempool *other)
{
	void *ptrs[512];

	for (size_t i = 0; i < lengthof(ptrs); i++) {
		ptrs[i] = mempool_alloc(other);
		assert_non_null(ptrs[i]);
		memset(ptrs[i], 'x', other->objsize);
	}
	assert_ptr_equal(mempool_check(other), NULL);
	check();
	for (size_t i = 0; i < lengthof(ptrs); i++)
		mempool_free(other, ptrs[i]);
	assert_int_equal(mempool_count(other), 0);
	mempool_destroy(other);
}

static void a_pool_makes_what_others_left_its_own(void **state)
{
	struct mempool other;

	(void)state;
	fill_stock(64, 6);
	mempool_create_with_order(&other, &core.cache, 80, pool.slab_order);
	use_other(&other);
}

/* Of smaller objects: its bits lie where the others' first ones were. */
static void a_pool_of_more_bits_does_so_too(void **state)
{
	struct mempool other;

	(void)state;
	fill_stock(512, 4);
	assert_int_not_equal(stocked(), 0);
	mempool_create_with_order(&other, &core.cache, 16, pool.slab_order);
	assert_true(other.offset > pool.offset);
	use_other(&other);
}

/* As if one that was never destroyed had stood where this one is. */
static void a_pool_at_the_same_address_is_another_one(void **state)
{
	struct mempool other;
	struct rlist *item;

	(void)state;
	fill_stock(64, 6);
	item = core.cache.stock[pool.slab_order];
	for (; item != NULL; item = item->next)
		((struct mslab *)(void *)item)->pool = &other;
	mempool_create_with_order(&other, &core.cache, 72, pool.slab_order);
	use_other(&other);
}

/* The memory is enough for one large slab only without the stock. */
static void a_get_has_what_is_in_stock(void **state)
{
	struct slab *slabs[16];
	size_t count = 0;

	(void)state;
	/* Eight slabs of half a MiB, of one arena slab or of two. */
	fill_stock(4096, 9);
	assert_int_equal(stocked(), SLAB_CACHE_STOCK_MAX);
	mempool_free_spare_slab(&pool);
	assert_int_equal(stocked(), 0);
	take(0, 8 * pool.objcount);
	put(0, 8 * pool.objcount);
	assert_int_not_equal(stocked(), 0);
	while (count < lengthof(slabs) &&
	       (slabs[count] = slab_get_with_order(
			&core.cache, core.cache.order_max)) != NULL)
		count++;
	assert_int_equal(stocked(), 0);
	/* All but what the live objects are in. */
	assert_true(count >= 13);
	while (count > 0)
		slab_put(&core.cache, slabs[--count]);
}

static void a_trim_merges_the_stock(void **state)
{
	(void)state;
	fill_stock(64, 8);
	assert_int_not_equal(stocked(), 0);
	slab_cache_trim(&core.cache);
	assert_int_equal(stocked(), 0);
	core_check(&core);
}

static void check_names_a_broken_stock(void **state)
{
	struct slab *slab;
	uint8_t order;

	(void)state;
	fill_stock(64, 4);
	order = pool.slab_order;
	slab = rlist_entry(core.cache.stock[order], struct slab, next_in_list);
	core.cache.stock_room++;
	assert_string_equal(slab_cache_check(&core.cache), "stock");
	core.cache.stock_room--;
	slab->magic++;
	assert_string_equal(slab_cache_check(&core.cache), "magic");
	slab->magic--;
	slab->order++;
	assert_string_equal(slab_cache_check(&core.cache), "order_size");
	slab->order--;
	core_check(&core);
}

/* --- other threads --- */

/* Takes every arena slab that the quota has room for. */
static void *take_all(void *arg)
{
	struct slab_cache cache;
	size_t *count = arg;

	slab_cache_create(&cache, &core.arena);
	while (slab_get_with_order(&cache, cache.order_max) != NULL)
		++*count;
	need(slab_cache_check(&cache) == NULL);
	slab_cache_destroy(&cache);
	return NULL;
}

static void another_thread_gets_what_is_in_stock(void **state)
{
	const size_t taken = (size_t)12 * 1024;
	pthread_t thread;
	size_t count = 0, kept;

	(void)state;
	mempool_create(&pool, &core.cache, 4096);
	take(0, taken);
	/* Every eighth of a slab's objects last: the stock is everywhere. */
	for (size_t k = 0; k < 8; k++) {
		for (size_t i = 0; i < taken; i++) {
			if (i / pool.objcount % 8 == k)
				mempool_free(&pool, objects[i]);
		}
	}
	assert_int_not_equal(stocked(), 0);
	assert_int_equal(pthread_create(&thread, NULL, take_all, &count), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(stocked(), 0);
	/* One arena slab has the pool's current one. */
	kept = core.cache.allocated.stats.total / SLAB;
	assert_int_equal(kept, 1);
	assert_int_equal(count, 15);
	core_check(&core);
}

static bool stop;

/* Is refused again and again, and takes all stocks each time. */
static void *press(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		need(quota_use(&core.quota, 17 * SLAB) < 0);
		sched_yield();
	}
	return NULL;
}

static void a_visitor_and_the_owner_agree(void **state)
{
	size_t rounds = test_scale(2000);
	pthread_t thread;

	(void)state;
	track_atomic(&stop, sizeof(stop));
	__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
	mempool_create(&pool, &core.cache, 1000);
	assert_int_equal(pthread_create(&thread, NULL, press, NULL), 0);
	for (size_t i = 0; i < rounds; i++) {
		take(0, 1200);
		for (size_t k = 0; k < 1200; k++)
			memset(objects[k], (int)i, 1000);
		put(0, 1200);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	core_check(&core);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_small, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_batch_comes_and_goes_without_a_slab),
		TEST(the_stock_is_bounded),
		TEST(what_is_in_stock_is_free_in_the_statistics),
		TEST(a_pool_makes_what_others_left_its_own),
		TEST(a_pool_of_more_bits_does_so_too),
		TEST(a_pool_at_the_same_address_is_another_one),
		TEST(a_get_has_what_is_in_stock),
		TEST(a_trim_merges_the_stock),
		TEST(check_names_a_broken_stock),
		TEST(another_thread_gets_what_is_in_stock),
		TEST(a_visitor_and_the_owner_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
