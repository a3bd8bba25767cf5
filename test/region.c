/* SPDX-License-Identifier: BSD-2-Clause */
/* region - each promise of region.h; cases 1 and 3 to 9 of the field. */
#include "core.h"

#include <small/track.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static struct core core;

static int setup(void **state)
{
	*state = &core;
	core_create(&core, 1024 * MIB, 4 * MIB);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	core_destroy(&core);
	return 0;
}

static void *fill(size_t size, int byte)
{
	void *ptr = region_alloc(&core.region, size);

	assert_non_null(ptr);
	return memset(ptr, byte, size);
}

static void reset_zeroes_used_whatever_the_slabs(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		fill(3000, 'x');
	region_reset(&core.region);
	assert_int_equal(region_used(&core.region), 0);
	fill(6 * MIB, 'x');
	fill(100, 'y');
	core_check(&core);
	region_reset(&core.region);
	assert_int_equal(region_used(&core.region), 0);
	core_check(&core);
}

static void join_after_reset_sees_new_bytes_only(void **state)
{
	const char *joined;

	(void)state;
	fill(4000, 'S');
	fill(3000, 'T');
	region_reset(&core.region);
	fill(10, 'N');
	joined = region_join(&core.region, region_used(&core.region));
	assert_int_equal(region_used(&core.region), 10);
	assert_memory_equal(joined, "NNNNNNNNNN", 10);
}

static void join_copies_across_slabs_and_keeps_order(void **state)
{
	const char *joined;

	(void)state;
	fill(4000, 'a');
	fill(9000, 'b');
	fill(5 * MIB, 'c');
	fill(20, 'd');
	joined = region_join(&core.region, 5 * MIB + 20 + 9000 + 100);
	assert_non_null(joined);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(joined[i], 'a');
	for (size_t i = 0; i < 9000; i++)
		assert_int_equal(joined[100 + i], 'b');
	for (size_t i = 0; i < 5 * MIB; i++)
		assert_true(joined[9100 + i] == 'c');
	assert_memory_equal(joined + 9100 + 5 * MIB, "dddddddddddddddddddd",
	                    20);
	core_check(&core);
}

static void savepoint_rounds_take_and_put_no_slab(void **state)
{
	size_t total = 0, used;

	(void)state;
	fill(10, 'a');
	used = region_used(&core.region);
	for (int i = 0; i < 1000; i++) {
		fill(10000, 'b');
		region_truncate(&core.region, used);
		assert_int_equal(region_used(&core.region), used);
		if (i == 0)
			total = region_total(&core.region);
		assert_int_equal(region_total(&core.region), total);
	}
	region_reset(&core.region);
	total = region_total(&core.region);
	region_truncate(&core.region, region_used(&core.region));
	assert_int_equal(region_total(&core.region), total);
}

static void a_slab_emptied_exactly_stays_beyond_the_retain_too(void **state)
{
	size_t used, total;

	(void)state;
	region_set_retain(&core.region, 0);
	fill(4096 - sizeof(struct rslab), 'a');
	used = region_used(&core.region);
	fill(50000, 'b');
	total = region_total(&core.region);
	region_truncate(&core.region, used);
	assert_int_equal(region_total(&core.region), total);
	region_truncate(&core.region, used);
	assert_int_equal(region_total(&core.region), total);
	fill(50000, 'b');
	assert_int_equal(region_total(&core.region), total);
}

static void a_stale_savepoint_is_refused(void **state)
{
	struct region_svp svp;

	(void)state;
	fill(10, 'a');
	svp = region_create_svp(&core.region);
	fill(10000, 'b');
	assert_int_equal(region_rollback_to_svp(&core.region, &svp), 0);
	assert_int_equal(region_used(&core.region), 10);
	region_reset(&core.region);
	fill(100, 'c');
	assert_int_equal(region_rollback_to_svp(&core.region, &svp), -1);
	assert_int_equal(region_used(&core.region), 100);
	svp = region_create_svp(&core.region);
	region_free(&core.region);
	assert_int_equal(region_rollback_to_svp(&core.region, &svp), -1);
	assert_int_equal(region_used(&core.region), 0);
}

static void a_reserved_slab_that_was_used_stays_like_any_other(void **state)
{
	size_t total;

	(void)state;
	region_set_retain(&core.region, 0);
	fill(10, 'a');
	assert_non_null(region_reserve(&core.region, 100000));
	fill(100000, 'b');
	total = region_total(&core.region);
	region_truncate(&core.region, 10);
	assert_int_equal(region_total(&core.region), total);
	region_truncate(&core.region, 10);
	assert_int_equal(region_total(&core.region), total);
}

static void truncate_gives_back_what_a_reserve_took(void **state)
{
	size_t total;

	(void)state;
	fill(10, 'a');
	total = region_total(&core.region);
	assert_non_null(region_reserve(&core.region, 100000));
	assert_int_equal(region_used(&core.region), 10);
	region_truncate(&core.region, 10);
	assert_int_equal(region_total(&core.region), total);
	assert_int_equal(region_used(&core.region), 10);
}

static void kept_slabs_grow_to_what_requests_need(void **state)
{
	size_t page = core.cache.order0_size;
	struct region_stats stats;

	(void)state;
	for (int i = 0; i < 3; i++) {
		region_reset(&core.region);
		fill(100, 'a');
		fill(page, 'b');
	}
	region_stats(&core.region, &stats);
	assert_int_equal(stats.slabs, 1);
	assert_int_equal(region_total(&core.region), 2 * page);
	region_reset(&core.region);
	fill(100, 'c');
	assert_int_equal(region_total(&core.region), 2 * page);
}

static void a_kept_slab_with_no_place_in_the_next_stays(void **state)
{
	size_t page = core.cache.order0_size;

	(void)state;
	for (int i = 0; i < 3; i++) {
		region_reset(&core.region);
		fill(page / 2, 'a');
		fill(2 * page - 100, 'b');
		assert_int_equal(region_total(&core.region), 3 * page);
	}
}

static void truncate_fills_what_it_cuts_off(void **state)
{
	(void)state;
#if TRACK_ENABLED && !TRACK_ASAN
	size_t page = core.cache.order0_size;
	char *first, *next;

	first = fill(page - 100, 'a');
	next = fill(page, 'b');
	region_truncate(&core.region, 1);
	track_defined(first, page - 100);
	track_defined(next, page);
	assert_int_equal(first[1], 'P');
	assert_int_equal(first[page - 101], 'P');
	assert_int_equal(next[0], 'P');
	assert_int_equal(next[page - 1], 'P');
	track_noaccess(first + 1, page - 101);
	track_noaccess(next, page);
#endif
}

static void reserve_then_alloc_serves_in_place(void **state)
{
	char *room, *ptr;

	(void)state;
	room = region_reserve(&core.region, 5000);
	memset(room, 'r', 5000);
	ptr = region_alloc(&core.region, 4999);
	assert_ptr_equal(ptr, room);
	assert_int_equal(ptr[4998], 'r');
	room = region_aligned_reserve(&core.region, 64, 64);
	assert_int_equal((uintptr_t)room % 64, 0);
	assert_ptr_equal(region_aligned_alloc(&core.region, 64, 64), room);
	room = region_reserve(&core.region, 10);
	assert_ptr_equal(region_reserve(&core.region, 20), room);
#if SIZE_MAX > UINT32_MAX /* where a slab's header is 64 bytes */
	assert_int_equal(region_used(&core.region) % 64, 0);
#endif
}

static void join_may_copy_the_padding_of_a_reserved_block(void **state)
{
	const char *joined;

	(void)state;
	fill(1, 'a');
	assert_non_null(region_aligned_reserve(&core.region, 64, 64));
	memset(region_aligned_alloc(&core.region, 64, 64), 'b', 64);
	fill(5000, 'c');
	joined = region_join(&core.region, region_used(&core.region));
	assert_int_equal(joined[0], 'a');
	assert_int_equal(joined[64], 'b');
	assert_int_equal(joined[128], 'c');
}

static void reset_is_fine_in_every_state(void **state)
{
	(void)state;
	region_reset(&core.region);
	region_reset(&core.region);
	region_free(&core.region);
	region_reset(&core.region);
	assert_null(region_alloc(&core.region, SIZE_MAX / 2));
	region_reset(&core.region);
	fill(1, 'a');
	region_reset(&core.region);
	assert_int_equal(region_used(&core.region), 0);
}

static void failing_allocs_keep_nothing(void **state)
{
	size_t held;

	(void)state;
	for (int i = 0; i < 3; i++)
		fill(139040, 'a');
	held = region_total(&core.region);
	fault_set(FAULT_SLAB | FAULT_QUOTA | FAULT_MMAP, 1, true);
	for (int i = 0; i < 36; i++) {
		/* What fits goes in; what does not is refused for good. */
		if (region_room(&core.region) >= 128)
			fill(region_room(&core.region), 'b');
		assert_null(region_alloc(&core.region, 128));
		assert_int_equal(region_total(&core.region), held);
	}
	fault_clear();
	fill(128, 'c');
}

static void a_huge_block_leaves_the_size_of_later_slabs(void **state)
{
	size_t total, used;

	(void)state;
	assert_null(region_alloc(&core.region, (size_t)13 << 30));
	fill(64 * MIB, 'x');
	total = region_total(&core.region);
	for (int i = 0; i < 200; i++)
		fill(100, 'y');
	assert_true(region_total(&core.region) - total <=
	            8 * small_getpagesize());
	region_reset(&core.region);
	used = slab_cache_used(&core.cache);
	assert_true(used <= REGION_RETAIN);
	slab_cache_trim(&core.cache);
	slab_arena_trim(&core.arena);
	assert_true(quota_used(&core.quota) <= 4 * MIB);
}

static void alignment_holds_for_the_first_and_for_later_objects(void **state)
{
	static const size_t aligns[] = {1, 2, 8, 16, 32, 64, 4096};

	(void)state;
	for (size_t i = 0; i < lengthof(aligns); i++) {
		region_free(&core.region);
		for (int j = 0; j < 100; j++) {
			void *ptr = region_aligned_alloc(&core.region, 33,
			                                 aligns[i]);

			assert_non_null(ptr);
			assert_int_equal((uintptr_t)ptr % aligns[i], 0);
			memset(ptr, 'a', 33);
			fill(1, 'b');
		}
	}
	assert_int_equal(sizeof(struct rslab) % 16, 0);
}

static void sizes_that_overflow_are_refused(void **state)
{
	static const size_t sizes[] = {SIZE_MAX / 2 + 1, (size_t)1 << 31,
	                               SIZE_MAX / 16 + 17};
	size_t size;

	(void)state;
	fill(10, 'a');
	for (size_t n = SIZE_MAX - 64; n != 0; n++) {
		assert_null(region_alloc(&core.region, n));
		assert_null(region_reserve(&core.region, n));
		assert_null(region_aligned_alloc(&core.region, n, 64));
		assert_null(region_aligned_reserve(&core.region, n, 4096));
		assert_null(region_growable(&core.region, n, n));
		assert_null(slab_get(&core.cache, n));
		assert_null(slab_get_large(&core.cache, n));
	}
	for (size_t i = 0; i < lengthof(sizes); i++) {
		if (sizes[i] <= quota_total(&core.quota))
			continue; /* 32 bits */
		assert_null(region_alloc(&core.region, sizes[i]));
		assert_null(slab_get(&core.cache, sizes[i]));
	}
	assert_null(
		region_alloc_array(&core.region, long, SIZE_MAX / 2, &size));
	assert_true(size == SIZE_MAX);
	assert_int_equal(region_used(&core.region), 10);
}

static size_t seen_alloc, seen_truncate, truncates;

static void on_alloc(struct region *region, size_t size, void *arg)
{
	assert_ptr_equal(region, &core.region);
	assert_ptr_equal(arg, &seen_alloc);
	seen_alloc += size;
}

static void on_truncate(struct region *region, size_t used, void *arg)
{
	assert_ptr_equal(region, &core.region);
	assert_ptr_equal(arg, &seen_truncate);
	assert_int_equal(used, region_used(region));
	seen_truncate = used;
	truncates++;
}

static void callbacks_see_every_byte_and_can_be_unset(void **state)
{
	(void)state;
	region_set_callbacks(&core.region, on_alloc, &seen_alloc, on_truncate,
	                     &seen_truncate);
	seen_alloc = truncates = 0;
	seen_truncate = 1;
	for (int i = 0; i < 1000; i++) {
		assert_non_null(region_aligned_alloc(&core.region, 13, 16));
		assert_int_equal(seen_alloc, region_used(&core.region));
	}
	region_reset(&core.region);
	assert_int_equal(truncates, 1);
	assert_int_equal(seen_truncate, 0);
	region_set_callbacks(&core.region, NULL, NULL, NULL, NULL);
	fill(100, 'a');
	region_free(&core.region);
	assert_int_equal(truncates, 1);
}

static void growable_blocks_grow_in_place_and_go_with_reset(void **state)
{
	size_t before = quota_used(&core.quota), page = small_getpagesize();
	char *ptr = region_growable(&core.region, 100, GIB);

	(void)state;
	assert_non_null(ptr);
#if SIZE_MAX > UINT32_MAX
	assert_int_equal((uintptr_t)ptr % 64, 0);
#endif
	assert_int_equal(quota_used(&core.quota) - before, page);
	memset(ptr, 'a', 100);
	assert_int_equal(region_resize_growable(&core.region, ptr, 10 * MIB),
	                 0);
	memset(ptr, 'b', 10 * MIB);
	core_check(&core);
	assert_int_equal(region_resize_growable(&core.region, ptr, GIB + 1),
	                 -1);
	assert_int_equal(region_resize_growable(&core.region, ptr, 5000), 0);
	assert_int_equal(ptr[4999], 'b');
	core_check(&core);
	assert_int_equal(region_used(&core.region), 0);
	fill(10, 'c');
	region_truncate(&core.region, 0);
	assert_int_equal(ptr[4999], 'b');
	region_reset(&core.region);
	assert_true(region_total(&core.region) <= REGION_RETAIN);
	core_check(&core);
	ptr = region_growable(&core.region, 0, 100);
	assert_non_null(ptr);
	region_drop_growable(&core.region, ptr);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(reset_zeroes_used_whatever_the_slabs),
		T(join_after_reset_sees_new_bytes_only),
		T(join_copies_across_slabs_and_keeps_order),
		T(savepoint_rounds_take_and_put_no_slab),
		T(a_slab_emptied_exactly_stays_beyond_the_retain_too),
		T(a_stale_savepoint_is_refused),
		T(truncate_gives_back_what_a_reserve_took),
		T(a_reserved_slab_that_was_used_stays_like_any_other),
		T(kept_slabs_grow_to_what_requests_need),
		T(a_kept_slab_with_no_place_in_the_next_stays),
		T(truncate_fills_what_it_cuts_off),
		T(reserve_then_alloc_serves_in_place),
		T(join_may_copy_the_padding_of_a_reserved_block),
		T(reset_is_fine_in_every_state),
		T(failing_allocs_keep_nothing),
		T(a_huge_block_leaves_the_size_of_later_slabs),
		T(alignment_holds_for_the_first_and_for_later_objects),
		T(sizes_that_overflow_are_refused),
		T(callbacks_see_every_byte_and_can_be_unset),
		T(growable_blocks_grow_in_place_and_go_with_reset),
	};

	return cmocka_run_group_tests_name("region", tests, NULL, NULL);
}
