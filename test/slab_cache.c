/* SPDX-License-Identifier: BSD-2-Clause */
/* slab_cache - each promise of slab_cache.h; cases 8 and 10 to 15. */
#include "die.h"
#include "slab_cache_fixture.h"

static void a_slab_is_of_the_smallest_order_that_fits(void **state)
{
	struct slab_cache *cache = &core.cache;

	(void)state;
	assert_int_equal(cache->order0_size, page);
	assert_int_equal(slab_real_size(cache, 0), page);
	for (uint8_t order = 0; order <= cache->order_max; order++) {
		size_t most = slab_order_size(cache, order) - slab_sizeof();

		assert_int_equal(slab_order(cache, most), order);
		assert_int_equal(slab_order(cache, most + 1), order + 1);
		assert_int_equal(slab_order_size(cache, order), page << order);
		get(0, 1, most);
		assert_int_equal(slabs[0]->order, order);
		assert_int_equal(slabs[0]->size, slab_real_size(cache, most));
		assert_int_equal(slab_capacity(slabs[0]), most);
		assert_int_equal((uintptr_t)slabs[0] % slabs[0]->size, 0);
		assert_ptr_equal(slab_from_data(slab_data(slabs[0])), slabs[0]);
		assert_ptr_equal(
			slab_from_ptr((char *)slab_data(slabs[0]) + most - 1,
		                      ~(intptr_t)(slabs[0]->size - 1)),
			slabs[0]);
		memset(slab_data(slabs[0]), 'x', most);
		put(0, 1);
		slabs[0] = slab_get_with_order(cache, order);
		assert_int_equal(slabs[0]->order, order);
		slab_put_with_order(cache, slabs[0]);
	}
}

/* No slab of 32 bits has that many orders. */
static void the_page_size_is_raised_where_orders_run_out(void **state)
{
	(void)state;
	create(SIZE_MAX / 8, SIZE_MAX / 16 + 1 < page << (ORDER_MAX + 2)
	                             ? 64 * page
	                             : page << (ORDER_MAX + 2));
	assert_true(core.cache.order_max <= ORDER_MAX);
	assert_int_equal(core.cache.order0_size << core.cache.order_max,
	                 core.arena.slab_size);
	assert_true(core.cache.order0_size == page ||
	            core.cache.order_max == ORDER_MAX);
	get(0, 1, 1);
	assert_int_equal(slabs[0]->size, core.cache.order0_size);
	put(0, 1);
}

static void all_put_back_leaves_one_arena_slab(void **state)
{
	uint64_t seed = test_seed("slab_cache");
	size_t count;

	(void)state;
	for (int round = 0; round < 50; round++) {
		for (count = 0; count < 300; count++) {
			size_t size = (size_t)test_random(&seed) % (8 * page);

			slabs[count] = slab_get(&core.cache, size);
			if (slabs[count] == NULL)
				break;
		}
		for (size_t i = 0; i < count; i++) {
			size_t j = i + (size_t)test_random(&seed) % (count - i);
			struct slab *slab = slabs[j];

			slabs[j] = slabs[i];
			slab_put(&core.cache, slab);
		}
		core_check(&core);
		assert_int_equal(slab_cache_used(&core.cache), 0);
		assert_int_equal(core.cache.allocated.stats.total, slab_size);
	}
}

static void a_get_merges_before_it_maps(void **state)
{
	(void)state;
	get(0, 17, 1);
	assert_int_equal(core.cache.allocated.stats.total, 2 * slab_size);
	put(0, 16);
	get(0, 1, slab_size / 2);
	assert_int_equal(core.cache.allocated.stats.total, 2 * slab_size);
	put(0, 1);
	put(16, 1);
}

static void a_pair_on_an_idle_cache_neither_splits_nor_maps(void **state)
{
	uint32_t bits;

	(void)state;
	get(0, 1, 1);
	put(0, 1);
	bits = core.cache.free_bits;
	for (int i = 0; i < 1000; i++) {
		get(1, 1, 1);
		assert_ptr_equal(slabs[1], slabs[0]);
		assert_int_equal(core.cache.free_bits, bits);
		put(1, 1);
	}
}

static void spares_never_exceed_their_bound(void **state)
{
	(void)state;
	create(512 * 256 * page, 256 * page);
	get(0, 400, 1);
	put(0, 400);
	for (uint8_t order = 0; order <= core.cache.order_max; order++) {
		get(0, 10, slab_order_size(&core.cache, order) / 2);
		put(0, 9);
		core_check(&core);
		put(9, 1);
	}
}

static void what_is_above_the_quota_is_refused_and_charges_nothing(void **state)
{
	size_t used;

	(void)state;
	create(8 * MIB, MIB);
	get(0, 1, 1);
	used = quota_used(&core.quota);
	assert_null(slab_get(&core.cache, 16 * MIB));
	assert_null(slab_get_large(&core.cache, 16 * MIB));
	assert_null(slab_get_growable(&core.cache, 16 * MIB, 32 * MIB));
	assert_int_equal(quota_used(&core.quota), used);
	put(0, 1);
}

static void
a_slab_above_the_arena_s_is_charged_aligned_and_counted(void **state)
{
	size_t used = quota_used(&core.quota), size = 3 * slab_size + 100;
	struct slab_cache_stats stats;

	(void)state;
	get(0, 1, size);
	assert_int_equal(slabs[0]->size, size + slab_sizeof());
	assert_int_equal(slabs[0]->order, core.cache.order_max + 1);
	assert_int_equal((uintptr_t)slabs[0] % slab_size, 0);
	assert_int_equal(quota_used(&core.quota) - used, 3 * slab_size + page);
	slab_cache_stats(&core.cache, &stats);
	assert_int_equal(stats.used, size + slab_sizeof());
	assert_int_equal(stats.overhead, page - 100 - slab_sizeof());
	memset(slab_data(slabs[0]), 'x', size);
	core_check(&core);
	put(0, 1);
	assert_int_equal(quota_used(&core.quota), used);
}

static void another_cache_gets_what_the_first_put_back(void **state)
{
	struct slab_cache other;
	struct slab *slab;

	(void)state;
	create(3 * slab_size, slab_size);
	slab_cache_create(&other, &core.arena);
	get(0, 3, slab_size / 2);
	assert_null(slab_get(&core.cache, slab_size / 2));
	assert_null(slab_get(&other, 1));
	put(0, 3);
	slab = slab_get(&other, slab_size / 2);
	assert_non_null(slab);
	slab_put(&other, slab);
	slab_cache_trim(&other);
	/* From the garbage, too, and by a large slab. */
	get(0, 3, slab_size / 2);
	drop(0, 3);
	slab = slab_get(&other, 2 * slab_size - slab_sizeof());
	assert_non_null(slab);
	slab_put(&other, slab);
	slab_cache_destroy(&other);
}

static void idle_slabs_give_their_quota_to_one_large_block(void **state)
{
	static const size_t sizes[] = {100, 5000, 60000, 500000, 2 * MIB};

	(void)state;
	for (size_t i = 0; i < lengthof(sizes); i++) {
		size_t count = 0, used = 0;

		create(64 * MIB, 4 * MIB);
		while (used < 28 * MIB && count < lengthof(slabs)) {
			get(count, 1, sizes[i]);
			used += slabs[count++]->size;
		}
		put(0, count);
		get(0, 1, 40 * MIB);
		put(0, 1);
	}
}

/* The quota has room: it is the OS that lacks memory. */
static void idle_slabs_are_unmapped_when_the_os_refuses(void **state)
{
	(void)state;
	create(64 * MIB, MIB);
	slab_arena_set_retain(&core.arena, 8 * MIB);
	get(0, 8, MIB - slab_sizeof());
	put(0, 8);
	assert_true(core.arena.used >= 7 * MIB);
	fault_set(FAULT_MMAP, 1, false);
	get(0, 1, 2 * MIB);
	assert_int_equal(fault_refused(), 1);
	assert_true(quota_used(&core.quota) <= 4 * MIB);
	fault_clear();
	put(0, 1);
}

/* The first of an order to be put stay as spares, here each the last piece of
 * another arena slab. */
static void spares_do_not_keep_a_large_block_from_its_quota(void **state)
{
	size_t size = 256 * page;

	(void)state;
	create(11 * size, size);
	get(0, 10 * 256, 1);
	for (size_t i = 0; i < 9; i++)
		put(i * 256, 1);
	for (size_t i = 0; i < 9; i++)
		put(i * 256 + 1, 255);
	put(9 * 256, 255);
	get(0, 1, 9 * size);
	put(0, 1);
	put(9 * 256 + 255, 1);
}

/* Another size each time, in a memory that just holds one of them. */
static void a_change_of_sizes_finds_all_memory_again(void **state)
{
	size_t steps = test_scale(320), stride = steps < 32 ? 32 / steps : 1;

	(void)state;
	create(512 * MIB, 16 * MIB);
	get(0, 1024, 500 * 1024);
	put(0, 1024);
	for (size_t j = 9; j <= 40; j += stride) {
		get(0, 1024, j * 8 * 1024);
		put(0, 1024);
	}
}

static void
asking_on_after_a_refusal_stays_refused_until_some_are_freed(void **state)
{
	size_t count;

	(void)state;
	create(10 * MIB, MIB);
	for (int round = 0; round < 3; round++) {
		for (count = 0; count < lengthof(slabs); count++)
			if ((slabs[count] = slab_get(&core.cache, 10000)) ==
			    NULL)
				break;
		assert_true(count >= 600 * 4096 / page);
		for (int i = 0; i < 1000; i++)
			assert_null(slab_get(&core.cache, 10000));
		put(count / 2, 1);
		get(count / 2, 1, 10000);
		assert_null(slab_get(&core.cache, 10000));
		put(0, count);
	}
}

static void garbage_is_counted_apart_until_it_is_sorted(void **state)
{
	struct slab_cache_stats before, after;
	size_t bytes;

	(void)state;
	get(0, 10, page);
	get(10, 1, 2 * slab_size);
	slab_cache_stats(&core.cache, &before);
	bytes = drop(0, 11);
	slab_cache_stats(&core.cache, &after);
	assert_int_equal(slab_cache_garbage(&core.cache), bytes);
	assert_int_equal(after.garbage, bytes);
	assert_int_equal(after.used, 0);
	assert_int_equal(after.total, before.total);
	core_check(&core);
	slab_cache_trim(&core.cache);
	slab_cache_stats(&core.cache, &after);
	assert_int_equal(after.total, 0);
}

/* Slow paths of each kind; each sorts, none more than two. */
static void a_slow_path_sorts_two_at_most(void **state)
{
	size_t before;

	(void)state;
	get(0, 400, 1);
	drop(0, 400);
	for (size_t i = 400; i < 420; i++) {
		before = garbage_count();
		get(i, 1, (i & 1) == 0 ? slab_size / 2 : slab_size);
		assert_in_range(garbage_count(), before - 2, before - 1);
	}
	for (size_t i = 400; i < 420; i++) {
		before = garbage_count();
		put(i, 1);
		assert_in_range(garbage_count(), before - 2, before);
	}
}

static void a_drop_sorts_only_above_the_cap(void **state)
{
	(void)state;
	slab_cache_set_garbage_cap(&core.cache, 9 * page);
	get(0, 30, 1);
	drop(0, 10); /* over the cap, but not before */
	assert_int_equal(garbage_count(), 10);
	drop(10, 1);
	assert_int_equal(garbage_count(), 9);
	drop(11, 1);
	assert_int_equal(garbage_count(), 10);
	drop(12, 18);
	assert_int_equal(garbage_count(), 26);
}

static void a_get_takes_a_fitting_slab_off_the_garbage_as_it_is(void **state)
{
	size_t used;

	(void)state;
	get(0, 2, 2 * slab_size);
	get(2, 1, page);
	used = quota_used(&core.quota);
	drop(0, 3);
	get(10, 2, 2 * slab_size);
	assert_ptr_equal(slabs[10], slabs[0]);
	assert_ptr_equal(slabs[11], slabs[1]);
	get(12, 1, page);
	assert_ptr_equal(slabs[12], slabs[2]);
	assert_int_equal(quota_used(&core.quota), used);
	put(10, 3);
}

static void all_garbage_is_drained_before_a_get_fails(void **state)
{
	(void)state;
	create(4 * slab_size, slab_size);
	for (int round = 0; round < 4; round++) {
		get(0, 64, 1);
		drop(0, 64);
		get(0, 4, slab_size / 2); /* 4 whole slabs of 64 pieces */
		assert_null(slab_get(&core.cache, 1));
		drop(0, 4);
		get(0, 1, 3 * slab_size + page);
		drop(0, 1);
	}
}

static void a_growable_slab_is_charged_by_the_page_and_never_moves(void **state)
{
	size_t used = quota_used(&core.quota), head = slab_sizeof();
	struct slab *slab = slab_get_growable(&core.cache, 0, 40 * slab_size);

	(void)state;
	assert_non_null(slab);
	assert_int_equal((uintptr_t)slab % slab_size, 0);
	assert_int_equal(quota_used(&core.quota) - used, page);
	for (size_t size = 0; size <= 40 * slab_size; size += 3 * page / 2) {
		assert_int_equal(slab_resize(&core.cache, slab, size), 0);
		assert_int_equal(slab->size, size + head);
		assert_int_equal(quota_used(&core.quota) - used,
		                 small_align(size + head, page));
		if (size != 0)
			((char *)slab_data(slab))[size - 1] = 'e';
	}
	core_check(&core);
	assert_int_equal(slab_resize(&core.cache, slab, 100), 0);
	assert_int_equal(quota_used(&core.quota) - used, page);
	core_check(&core);
	slab_put(&core.cache, slab);
	assert_int_equal(quota_used(&core.quota), used);
}

static void a_refused_resize_changes_nothing(void **state)
{
	struct slab *slab =
		slab_get_growable(&core.cache, 100, 100 * slab_size);
	static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 40,
	                               SIZE_MAX / 2 + 1, (size_t)1 << 31};
	size_t used = quota_used(&core.quota), total = slab->size;

	(void)state;
	assert_int_equal(slab_resize(&core.cache, slab, 99 * slab_size), -1);
	for (size_t i = 0; i < lengthof(sizes); i++)
		assert_int_equal(slab_resize(&core.cache, slab, sizes[i]), -1);
	fault_set(FAULT_COMMIT, 1, false);
	assert_int_equal(slab_resize(&core.cache, slab, slab_size), -1);
	assert_int_equal(fault_refused(), 1);
	assert_int_equal(quota_used(&core.quota), used);
	assert_int_equal(slab->size, total);
	core_check(&core);
	assert_int_equal(slab_resize(&core.cache, slab, slab_size), 0);
	slab_put(&core.cache, slab);
}

static void growable_sizes_that_can_not_be_mapped_are_refused(void **state)
{
	size_t used = quota_used(&core.quota);

	(void)state;
	for (size_t n = SIZE_MAX - 64; n != 0; n++) {
		assert_null(slab_get_growable(&core.cache, 0, n));
		assert_null(slab_get_growable(&core.cache, n, n));
	}
	assert_null(slab_get_growable(&core.cache, 2, 1));
	assert_null(slab_get_growable(&core.cache, 0, SIZE_MAX / 2 + 1));
#if SIZE_MAX > UINT32_MAX
	assert_null(slab_get_growable(&core.cache, 0, SIZE_MAX / 4));
#endif
	assert_int_equal(quota_used(&core.quota), used);
}

static void destroy_frees_what_is_in_use_and_in_the_garbage(void **state)
{
	(void)state;
	get(0, 40, 1);
	get(40, 3, 2 * slab_size);
	assert_non_null(slab_get_growable(&core.cache, 1, 9 * slab_size));
	drop(10, 32);
	region_destroy(&core.region);
	slab_cache_destroy(&core.cache);
	slab_arena_trim(&core.arena);
	assert_int_equal(quota_used(&core.quota), 0);
	slab_cache_create(&core.cache, &core.arena);
	region_create(&core.region, &core.cache);
}

/* --- misuse --- */

static void put_again(void *slab)
{
	slab_put(&core.cache, slab);
}

static void a_slab_put_twice_is_named(void **state)
{
	(void)state;
	get(0, 1, 1);
	put(0, 1);
	assert_panics(put_again, slabs[0], "slab_put", "not a slab in use");
}

static void a_slab_put_twice_is_named_after_it_was_merged(void **state)
{
	(void)state;
	get(0, 16, 1);
	put(0, 16);
	for (size_t i = 0; i < 16; i += 3)
		assert_panics(put_again, slabs[i], "slab_put",
		              "not a slab in use");
}

static void put_to_another_cache(void *slab)
{
	struct slab_cache other;

	slab_cache_create(&other, &core.arena);
	slab_put(&other, slab);
}

static void a_slab_put_to_another_cache_is_named(void **state)
{
	static const size_t sizes[] = {1, 1000000};

	(void)state;
	for (size_t i = 0; i < lengthof(sizes); i++) {
		get(0, 1, sizes[i]);
		assert_panics(put_to_another_cache, slabs[0], "slab_put",
		              "not a slab in use");
		put(0, 1);
	}
}

static void what_is_no_slab_is_named_when_put(void **state)
{
	static struct slab zero;

	(void)state;
	assert_panics(put_again, &zero, "slab_put", "not a slab in use");
}

static void resize(void *slab)
{
	slab_resize(&core.cache, slab, 1);
}

static void a_slab_that_can_not_grow_is_named_by_resize(void **state)
{
	(void)state;
	get(0, 1, 1000000);
	assert_panics(resize, slabs[0], "slab_resize", "not growable");
	put(0, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_slab_is_of_the_smallest_order_that_fits),
		T(the_page_size_is_raised_where_orders_run_out),
		T(all_put_back_leaves_one_arena_slab),
		T(a_get_merges_before_it_maps),
		T(a_pair_on_an_idle_cache_neither_splits_nor_maps),
		T(spares_never_exceed_their_bound),
		T(what_is_above_the_quota_is_refused_and_charges_nothing),
		T(a_slab_above_the_arena_s_is_charged_aligned_and_counted),
		T(another_cache_gets_what_the_first_put_back),
		T(idle_slabs_give_their_quota_to_one_large_block),
		T(idle_slabs_are_unmapped_when_the_os_refuses),
		T(spares_do_not_keep_a_large_block_from_its_quota),
		T(a_change_of_sizes_finds_all_memory_again),
		T(asking_on_after_a_refusal_stays_refused_until_some_are_freed),
		T(garbage_is_counted_apart_until_it_is_sorted),
		T(a_slow_path_sorts_two_at_most),
		T(a_drop_sorts_only_above_the_cap),
		T(a_get_takes_a_fitting_slab_off_the_garbage_as_it_is),
		T(all_garbage_is_drained_before_a_get_fails),
		T(a_growable_slab_is_charged_by_the_page_and_never_moves),
		T(a_refused_resize_changes_nothing),
		T(growable_sizes_that_can_not_be_mapped_are_refused),
		T(destroy_frees_what_is_in_use_and_in_the_garbage),
		T(a_slab_put_twice_is_named),
		T(a_slab_put_twice_is_named_after_it_was_merged),
		T(a_slab_put_to_another_cache_is_named),
		T(what_is_no_slab_is_named_when_put),
		T(a_slab_that_can_not_grow_is_named_by_resize),
	};

	return cmocka_run_group_tests_name("slab_cache", tests, NULL, NULL);
}
