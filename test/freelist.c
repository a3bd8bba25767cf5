/* SPDX-License-Identifier: BSD-2-Clause */
/* freelist - each promise of freelist.h; cases 29 to 33 of the field. */
#include "freelist_fixture.h"

static void huge_sizes_are_refused_and_change_nothing(void **state)
{
	static const size_t limits[] = {MIB, 0};

	(void)state;
	for (size_t i = 0; i < 2 * lengthof(limits); i++) {
		size_t limit = limits[i / 2];

		open_with(limit, i % 2 ? 8 : 16);
		for (size_t k = 0; k <= 64; k++)
			refuses(SIZE_MAX - k);
#if SIZE_MAX > UINT32_MAX
		refuses((size_t)1 << 63);
		refuses(((size_t)1 << 63) + 1);
		assert_int_equal(freelist_last_refusal(f), FREELIST_SYSTEM);
		if (limit == 0)
			refuses((size_t)1 << 37);
#endif
		for (size_t k = 0; limit != 0 && k <= 64; k++)
			refuses(limit - 32 + k);
		if (limit != 0) {
			refuses((size_t)1 << 31);
#if SIZE_MAX > UINT32_MAX
			refuses((size_t)1 << 32);
			refuses(((size_t)1 << 32) + 16);
#endif
			assert_int_equal(freelist_last_refusal(f),
			                 FREELIST_LIMIT);
		}
		freelist_destroy(f);
	}
	f = NULL;
}

static void zero_and_null_do_nothing(void **state)
{
	(void)state;
	open_with(64 * KIB, 16);
	assert_null(freelist_alloc(f, 0));
	freelist_free(f, NULL, 0);
	assert_null(freelist_realloc(f, NULL, 0, 0));
	assert_int_equal(freelist_last_refusal(f), FREELIST_NONE);
	void *ptr = freelist_realloc(f, NULL, 7, 20);
	assert_non_null(ptr);
	assert_int_equal(freelist_used(f), 20);
	assert_null(freelist_realloc(f, ptr, 20, 0));
	assert_int_equal(freelist_used(f), 0);
}

/* --- the limit (30) --- */

static void in_a_buffer(size_t size, size_t granule)
{
	static _Alignas(16) char buf[64 * KIB + 64];
	struct freelist_opts opts = {.granule = granule};
	struct freelist *small_one;
	void *ptr;

	memset(buf + size, 0x77, 64);
	small_one = freelist_create_in(buf, size, &opts);
	if (small_one == NULL) {
		assert_true(size < FREELIST_SIZE_MIN);
		return;
	}
	assert_ptr_equal(freelist_check(small_one), NULL);
	ptr = freelist_alloc(small_one, 1);
	assert_non_null(ptr);
	memset(ptr, 1, 1);
	ptr = freelist_alloc(small_one, freelist_largest_free(small_one));
	assert_null(freelist_alloc(small_one, 64));
	assert_ptr_equal(freelist_check(small_one), NULL);
	freelist_destroy(small_one);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(buf[size + i], 0x77);
}

static void in_a_region(size_t limit, size_t granule)
{
	struct freelist_opts opts = {.limit = limit, .granule = granule};
	size_t page = small_getpagesize(), charged;

	f = freelist_create(&core.region, &opts);
	if (limit == 0)
		assert_non_null(f);
	else if (f == NULL)
		assert_true(limit < FREELIST_SIZE_MIN);
	if (f == NULL)
		return;
	assert_non_null(freelist_alloc(f, 1));
	if (limit != 0) {
		freelist_alloc(f, freelist_largest_free(f));
		charged = quota_used(&core.quota);
		assert_true(charged <= small_align(limit, page));
		assert_int_equal(charged, freelist_total(f));
	}
	check();
	freelist_destroy(f);
	f = NULL;
}

static void every_limit_to_64_kib_creates_or_refuses_cleanly(void **state)
{
	/* All of them at full scale; strides of a prime otherwise. */
	size_t step = 1 + 17 / test_scale(17);

	(void)state;
	for (size_t size = 0; size <= 64 * KIB; size += step) {
		in_a_buffer(size, 16);
		in_a_buffer(size, 8);
		if (size % 4 == 0 || size < 2 * KIB) {
			in_a_region(size, 16);
			in_a_region(size, 8);
		}
	}
	in_a_buffer(FREELIST_SIZE_MIN, 16);
	in_a_buffer(FREELIST_SIZE_MIN, 8);
	in_a_region(FREELIST_SIZE_MIN, 8);
	in_a_region(FREELIST_SIZE_MIN, 16);
}

static void options_that_make_no_sense_are_refused(void **state)
{
	static const struct freelist_opts bad[] = {
		{.granule = 4},
		{.granule = 32},
		{.limit = 2 * MIB, .max_limit = MIB},
		{.limit = MIB, .reserve = 2 * MIB},
		{.limit = SIZE_MAX},
#if SIZE_MAX > UINT32_MAX
		{.limit = (size_t)1 << 40},
		{.limit = MIB, .max_limit = (size_t)1 << 40},
#endif
	};
	static char buf[KIB];

	(void)state;
	for (size_t i = 0; i < lengthof(bad); i++)
		assert_null(freelist_create(&core.region, &bad[i]));
	assert_null(freelist_create_in(buf, sizeof(buf), &bad[0]));
	assert_null(freelist_create_in(buf, sizeof(buf), &bad[2]));
	assert_null(freelist_create_in(NULL, sizeof(buf), NULL));
	assert_int_equal(quota_used(&core.quota), 0);
}

static void pages_are_charged_as_the_piece_grows(void **state)
{
	struct freelist_opts opts = {.limit = 4 * MIB};
	size_t page = small_getpagesize();

	(void)state;
	f = freelist_create(&core.region, &opts);
	assert_non_null(f);
	assert_true(quota_used(&core.quota) <=
	            small_align(16 * KIB + 64, page));
	while (freelist_alloc(f, 5000) != NULL) {
		size_t used = quota_used(&core.quota);

		assert_int_equal(used, freelist_total(f));
		/* An eighth, or four common pages, ahead of need. */
		assert_true(used <=
		            (freelist_used(f) + 64 * KIB) * 9 / 8 + 2 * page);
		assert_true(used <= small_align(4 * MIB, page));
	}
	assert_int_equal(freelist_last_refusal(f), FREELIST_LIMIT);
	assert_true(freelist_used(f) > 4 * MIB * 97 / 100);
}

static void a_reserve_is_charged_at_once(void **state)
{
	struct freelist_opts opts = {.limit = MIB, .reserve = MIB};

	(void)state;
	f = freelist_create(&core.region, &opts);
	assert_non_null(f);
	assert_int_equal(quota_used(&core.quota), MIB);
	quota_set(&core.quota, MIB);
	while (freelist_alloc(f, 100) != NULL)
		continue;
	assert_int_equal(freelist_last_refusal(f), FREELIST_LIMIT);
	assert_int_equal(quota_used(&core.quota), MIB);
	freelist_destroy(f);
	opts.reserve = 0;
	f = freelist_create(&core.region, &opts);
	assert_int_equal(freelist_reserve(f, MIB), 0);
	assert_int_equal(quota_used(&core.quota), MIB);
	assert_int_equal(freelist_reserve(f, SIZE_MAX), 0);
}

static void the_last_page_of_a_quota_is_used(void **state)
{
	size_t page = small_getpagesize(), quota = 100 * page;

	(void)state;
	open_with(0, 16);
	assert_int_equal(quota_set(&core.quota, quota), quota);
	while (freelist_alloc(f, 64) != NULL)
		continue;
	assert_int_equal(freelist_last_refusal(f), FREELIST_QUOTA);
	assert_int_equal(quota_used(&core.quota), quota);
	assert_true(quota_set(&core.quota, 2 * quota) > 0);
	assert_non_null(freelist_alloc(f, 64));
}

static void every_acquisition_can_fail_and_then_succeed(void **state)
{
	static const unsigned kinds[] = {FAULT_QUOTA, FAULT_COMMIT, FAULT_MMAP,
	                                 FAULT_SLAB};

	(void)state;
	open_with(8 * MIB, 16);
	for (size_t i = 0; i < lengthof(kinds); i++) {
		struct freelist_opts opts = {.limit = MIB};
		struct freelist *other;
		size_t used = quota_used(&core.quota);

		fault_set(kinds[i], 1, true);
		other = freelist_create(&core.region, &opts);
		assert_true(fault_refused() > 0);
		assert_null(other);
		fault_clear();
		assert_int_equal(quota_used(&core.quota), used);
		other = freelist_create(&core.region, &opts);
		assert_non_null(other);
		freelist_destroy(other);
	}
	for (size_t i = 0; i < 2; i++) {
		size_t used = freelist_used(f), charge;
		enum freelist_cause cause =
			i == 0 ? FREELIST_QUOTA : FREELIST_SYSTEM;

		charge = quota_used(&core.quota);
		fault_set(kinds[i], 1, true);
		assert_null(freelist_alloc(f, MIB));
		assert_true(fault_refused() > 0);
		fault_clear();
		assert_int_equal(freelist_last_refusal(f), cause);
		assert_int_equal(freelist_used(f), used);
		assert_int_equal(quota_used(&core.quota), charge);
		check();
		assert_non_null(freelist_alloc(f, MIB));
	}
}

/* One refusal of more than is needed: the smaller step is taken. */
static void a_smaller_step_is_tried_before_a_refusal(void **state)
{
	(void)state;
	open_with(8 * MIB, 16);
	alloc(MIB);
	for (size_t i = 0; i < 50; i++) {
		fault_set(FAULT_COMMIT, 1, false);
		assert_non_null(freelist_alloc(f, 20000));
		fault_clear();
	}
}

static void the_nth_failure_leaves_a_realloc_as_it_was(void **state)
{
	(void)state;
	open_with(8 * MIB, 8);
	char *a = alloc(30000), *b = alloc(10);

	fault_set(FAULT_ALL, 1, true);
	assert_null(freelist_realloc(f, a, 30000, MIB));
	fault_clear();
	assert_filled(a, 30000, 30000);
	assert_filled(b, 10, 10);
	check();
	a = freelist_realloc(f, a, 30000, MIB);
	assert_non_null(a);
	assert_filled(a, 30000, 30000);
}

/* --- sums (31) --- */

static void largest_free_can_be_had(void **state)
{
	static void *blocks[20000];

	(void)state;
	for (size_t granule = 8; granule <= 16; granule += 8) {
		open_with(256 * KIB, granule);
		size_t n = fill(300, blocks, lengthof(blocks)), largest;

		largest = freelist_largest_free(f);
		assert_true(largest < 300 + granule);
		for (size_t i = 0; i < n; i += 2)
			freelist_free(f, blocks[i], 300);
		for (size_t i = 1; i < 21; i += 2)
			freelist_free(f, blocks[i], 300);
		largest = freelist_largest_free(f);
		assert_true(largest >= 21 * 300);
		assert_null(freelist_alloc(f, largest + 1));
		assert_non_null(freelist_alloc(f, largest));
		check();
		freelist_destroy(f);
	}
	f = NULL;
}

/* Time at which a NULL was exact: a repeat of it takes no search. */
static void a_repeated_refusal_is_constant_time(void **state)
{
	static void *blocks[20000];
	size_t n, steps;

	(void)state;
	open_with(MIB, 16);
	n = fill(100, blocks, lengthof(blocks));
	for (size_t i = 0; i < n; i += 2)
		freelist_free(f, blocks[i], 100);
	assert_null(freelist_alloc(f, 2000));
	steps = f->steps;
	for (size_t i = 0; i < 100; i++)
		assert_null(freelist_alloc(f, 2000 + i));
	assert_int_equal(f->steps, steps);
	freelist_free(f, blocks[1], 100);
	assert_non_null(freelist_alloc(f, 300));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(huge_sizes_are_refused_and_change_nothing),
		TEST(zero_and_null_do_nothing),
		TEST(every_limit_to_64_kib_creates_or_refuses_cleanly),
		TEST(options_that_make_no_sense_are_refused),
		TEST(pages_are_charged_as_the_piece_grows),
		TEST(a_reserve_is_charged_at_once),
		TEST(the_last_page_of_a_quota_is_used),
		TEST(every_acquisition_can_fail_and_then_succeed),
		TEST(a_smaller_step_is_tried_before_a_refusal),
		TEST(the_nth_failure_leaves_a_realloc_as_it_was),
		TEST(largest_free_can_be_had),
		TEST(a_repeated_refusal_is_constant_time),
	};

	return cmocka_run_group_tests_name("freelist", tests, NULL, NULL);
}
