/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compat - a program as its users write it: every call, field and macro that
 * code for quota, slab_arena, slab_cache, region and rlist relies on.
 */
#include "test.h"

#include <small/quota.h>
#include <small/region.h>
#include <small/rlist.h>
#include <small/slab_arena.h>
#include <small/slab_cache.h>
#include <small/slab_list.h>

static struct quota quota;
static struct slab_arena arena;
static struct slab_cache cache;

static int setup(void **state)
{
	*state = NULL;
	quota_init(&quota, 64 * 1024 * 1024);
	if (slab_arena_create(&arena, &quota, 1000000, 1 << 20,
	                      SLAB_ARENA_PRIVATE | SLAB_ARENA_DONTDUMP) != 0)
		return -1;
	slab_cache_create(&cache, &arena);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	slab_cache_destroy(&cache);
	slab_arena_destroy(&arena);
	return quota_used(&quota) == 0 ? 0 : -1;
}

static void quota_calls_and_names(void **state)
{
	struct quota q;
	size_t total, used;

	(void)state;
	assert_int_equal(QUOTA_UNIT_SIZE, 1024);
	quota_init(&q, QUOTA_MAX);
	quota_init(&q, 10 * 1024 - 1);
	assert_int_equal(quota_total(&q), 10 * 1024);
	assert_int_equal(quota_use(&q, 1), 1024);
	quota_get_total_and_used(&q, &total, &used);
	assert_int_equal(total, 10 * 1024);
	assert_int_equal(used, quota_used(&q));
	assert_int_equal(quota_set(&q, 2000), 2048);
	assert_int_equal(quota_use(&q, 4096), -1);
	assert_int_equal(quota_release(&q, 1), 1024);
}

static void arena_calls_and_fields(void **state)
{
	struct slab_arena a;
	void *slab;

	(void)state;
	assert_int_equal(SLAB_MIN_SIZE, 65536);
	assert_true(SMALL_UNLIMITED == SIZE_MAX);
	assert_true(IS_SLAB_ARENA_FLAG(arena.flags, SLAB_ARENA_PRIVATE));
	assert_true(IS_SLAB_ARENA_FLAG(arena.flags, SLAB_ARENA_DONTDUMP));
	assert_false(IS_SLAB_ARENA_FLAG(arena.flags, SLAB_ARENA_SHARED));
	assert_false(IS_SLAB_ARENA_FLAG(MAP_PRIVATE, SLAB_ARENA_PRIVATE));
	assert_true((SLAB_ARENA_SHARED & SLAB_ARENA_FLAG_MARK) != 0);
	assert_int_equal(SLAB_ARENA_FLAG(1), SLAB_ARENA_PRIVATE);
	assert_int_equal(slab_arena_create(&a, &quota, 0, 0, MAP_PRIVATE), 0);
	assert_int_equal(a.slab_size, SLAB_MIN_SIZE);
	slab = slab_map(&a);
	assert_int_equal(a.used, a.slab_size);
	assert_int_equal(a.prealloc, 0);
	assert_ptr_equal(a.quota, &quota);
	slab_unmap(&a, slab);
	slab_unmap(&a, NULL);
	slab_arena_mprotect(&a);
	slab_arena_destroy(&a);
}

static void cache_calls_and_fields(void **state)
{
	struct slab *slab = slab_get(&cache, 1000), *large;
	intptr_t mask = ~((intptr_t)slab->size - 1);

	(void)state;
	assert_int_equal(slab_magic, slab->magic & slab_magic_mask);
	assert_ptr_equal(cache.arena, &arena);
	assert_int_equal(slab->order, slab_order(&cache, 1000));
	assert_int_equal(slab->size, slab_real_size(&cache, 1000));
	assert_int_equal(slab_real_size(&cache, 0), cache.order0_size);
	assert_int_equal(slab_real_size(&cache, 1 << 20),
	                 (1 << 20) + slab_sizeof());
	assert_int_equal(slab_order(&cache, 1 << 20), cache.order_max + 1);
	assert_int_equal(slab_order_size(&cache, cache.order_max),
	                 arena.slab_size);
	assert_int_equal(slab_capacity(slab), slab->size - slab_sizeof());
	assert_ptr_equal(slab_from_data(slab_data(slab)), slab);
	assert_ptr_equal(slab_from_ptr(slab_data(slab), mask), slab);
	assert_int_equal(slab_cache_used(&cache), slab->size);
	assert_int_equal(cache.allocated.stats.used, slab->size);
	assert_int_equal(ORDER_MAX, 16);
	large = slab_get_large(&cache, 10);
	assert_int_equal(large->size, 10 + slab_sizeof());
	slab_put_large(&cache, large);
	slab_put(&cache, slab);
	slab = slab_get_with_order(&cache, cache.order_max);
	slab_put_with_order(&cache, slab);
	slab_cache_set_thread(&cache);
	assert_ptr_equal(slab_cache_check(&cache), NULL);
	assert_int_equal(cache.allocated.stats.total, arena.slab_size);
}

static void slab_lists_count_what_they_hold(void **state)
{
	struct slab *a = slab_get(&cache, 100), *b = slab_get(&cache, 9000);
	struct slab_list list;
	struct small_stats *stats = &list.stats;

	(void)state;
	slab_list_create(&list);
	slab_list_add(&list, a, next_in_list);
	slab_list_add(&list, b, next_in_list);
	assert_int_equal(stats->total, a->size + b->size);
	assert_ptr_equal(
		rlist_first_entry(&list.slabs, struct slab, next_in_list), b);
	slab_list_del(&list, a, next_in_list);
	assert_int_equal(stats->total, b->size);
	assert_int_equal(stats->used, 0);
	small_stats_reset(stats);
	slab_put(&cache, a);
	slab_put(&cache, b);
}

static void on_alloc(struct region *region, size_t size, void *arg)
{
	(void)region;
	*(size_t *)arg += size;
}

static void on_truncate(struct region *region, size_t used, void *arg)
{
	(void)region;
	*(size_t *)arg = used;
}

static void region_calls(void **state)
{
	region_on_alloc_f alloc_f = on_alloc;
	region_on_truncate_f truncate_f = on_truncate;
	struct region region;
	size_t seen = 0, size = 100, used;
	char *ptr;

	(void)state;
	region_create(&region, &cache);
	region_set_callbacks(&region, alloc_f, &seen, truncate_f, &seen);
	ptr = region_reserve(&region, 10);
	assert_ptr_equal(region_alloc(&region, 10), ptr);
	assert_int_equal(seen, 10);
	ptr = region_aligned_reserve(&region, 10, 32);
	assert_ptr_equal(region_aligned_alloc(&region, 10, 32), ptr);
	assert_int_equal(seen, region_used(&region));
	used = region_used(&region);
	assert_non_null(region_alloc_cb(&region, 5));
	assert_non_null(region_reserve_cb(&region, &size));
	assert_true(size >= 100);
	region_truncate(&region, used);
	assert_int_equal(seen, used);
	assert_non_null(region_join(&region, used));
	region_free_after(&region, region_used(&region));
	assert_int_equal(region_used(&region), used);
	assert_true(region_total(&region) >= used);
	region_reset(&region);
	region_free(&region);
	region_destroy(&region);
}

static void region_macros_and_slabs(void **state)
{
	struct pair {
		uint64_t a, b;
	} * pair, *pairs;
	struct region region;
	struct rslab *rslab;
	size_t size = 0;

	(void)state;
	region_create(&region, &cache);
	pair = region_alloc_object(&region, struct pair, &size);
	assert_int_equal(size, sizeof(*pair));
	pairs = region_alloc_array(&region, struct pair, 10, &size);
	assert_int_equal(size, 10 * sizeof(*pair));
	assert_int_equal((uintptr_t)pairs % __alignof__(struct pair), 0);
	rslab = (struct rslab *)((uintptr_t)pair & ~(cache.order0_size - 1));
	assert_ptr_equal(rslab_data(rslab), pair);
	assert_int_equal((char *)rslab_data_end(rslab) - (char *)rslab,
	                 rslab->slab.size);
	assert_int_equal((char *)pair - (char *)rslab, rslab_sizeof());
	region_destroy(&region);
}

static void util_names(void **state)
{
	int array[7];
	void *ptr = small_xmalloc(10);

	(void)state;
	free(ptr);
	(void)array;
	assert_int_equal(lengthof(array), 7);
	assert_int_equal(small_align(13, 8), 16);
	assert_int_equal(small_align_down(13, 8), 8);
	assert_int_equal(small_round(1000), 1024);
	assert_int_equal(small_lb(1023), 9);
	assert_true(small_likely(true) && !small_unlikely(false));
	assert_true(small_getpagesize() >= 4096);
	/* The headers that users have always got with ours. */
	assert_true(INT_MAX > 0 && PRIu64[0] != '\0' && (ssize_t)-1 < 0);
}

struct item {
	int n;
	struct rlist link;
};

static void rlist_calls(void **state)
{
	RLIST_HEAD(head);
	RLIST_HEAD(other);
	struct item a = {1, RLIST_LINK_INITIALIZER}, b = {2, {NULL, NULL}};
	struct item c = {3, {NULL, NULL}}, *item, *tmp;
	struct rlist *link, *next;
	int sum = 0;

	(void)state;
	rlist_create(&other);
	assert_true(rlist_empty(&head) && rlist_empty(rlist_nil()));
	rlist_add_entry(&head, &a, link);
	rlist_add_tail_entry(&head, &b, link);
	rlist_add_tail(&head, &c.link);
	assert_ptr_equal(rlist_first(&head), &a.link);
	assert_ptr_equal(rlist_last(&head), &c.link);
	assert_ptr_equal(rlist_next(&a.link), &b.link);
	assert_ptr_equal(rlist_prev(&b.link), &a.link);
	assert_ptr_equal(rlist_entry(&b.link, struct item, link), &b);
	assert_ptr_equal(rlist_first_entry(&head, struct item, link), &a);
	assert_ptr_equal(rlist_last_entry(&head, struct item, link), &c);
	assert_ptr_equal(rlist_next_entry(&a, link), &b);
	assert_ptr_equal(rlist_prev_entry(&b, link), &a);
	assert_null(rlist_prev_entry_safe(&a, &head, link));
	rlist_foreach_entry (item, &head, link)
		sum = sum * 10 + item->n;
	assert_true(rlist_entry_is_head(item, &head, link));
	rlist_foreach_entry_reverse (item, &head, link)
		sum = sum * 10 + item->n;
	rlist_foreach (link, &head)
		sum++;
	rlist_foreach_reverse(link, &head) sum++;
	assert_int_equal(sum, 123321 + 6);
	rlist_cut_before(&other, &head, &c.link);
	rlist_swap(&head, &other);
	rlist_move(&other, &a.link);
	rlist_move_tail(&other, &b.link);
	rlist_move_entry(&head, &a, link);
	rlist_move_tail_entry(&head, &b, link);
	rlist_splice(&head, &other);
	rlist_splice_tail(&other, &head);
	assert_ptr_equal(rlist_shift_entry(&other, struct item, link), &c);
	assert_ptr_equal(rlist_shift_tail_entry(&other, struct item, link), &b);
	assert_ptr_equal(rlist_shift(&other), &a.link);
	rlist_add(&other, &a.link);
	assert_ptr_equal(rlist_shift_tail(&other), &a.link);
	rlist_add(&other, &a.link);
	rlist_add(&other, &b.link);
	rlist_foreach_safe (link, &other, next)
		rlist_del(link);
	rlist_add(&other, &a.link);
	rlist_foreach_entry_safe (item, &other, link, tmp)
		rlist_del_entry(item, link);
	rlist_add(&other, &a.link);
	rlist_foreach_entry_safe_reverse (item, &other, link, tmp)
		rlist_del_entry(item, link);
	assert_true(rlist_empty(&other));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quota_calls_and_names),
		T(arena_calls_and_fields),
		T(cache_calls_and_fields),
		T(slab_lists_count_what_they_hold),
		T(region_calls),
		T(region_macros_and_slabs),
		cmocka_unit_test(util_names),
		cmocka_unit_test(rlist_calls),
	};

	return cmocka_run_group_tests_name("compat", tests, NULL, NULL);
}
