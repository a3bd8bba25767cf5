/* SPDX-License-Identifier: BSD-2-Clause */
/* freelist - each promise of freelist.h; cases 29 to 33 of the field. */
#include "core.h"

#include <small/freelist_impl.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static struct core core;
static struct freelist *f;

static void *setup_with(size_t quota)
{
	core_create(&core, quota, MIB);
	f = NULL;
	return &core;
}

static int setup(void **state)
{
	*state = setup_with(QUOTA_MAX);
	return 0;
}

static void check(void)
{
	struct freelist_stats st;
	const char *broken = freelist_check(f);

	if (broken != NULL)
		fail_msg("broken: %s", broken);
	freelist_stats(f, &st);
	assert_int_equal(st.used + st.free + st.overhead, st.total);
	assert_int_equal(st.metadata + st.rounding, st.overhead);
	assert_int_equal(st.used, freelist_used(f));
	assert_true(st.peak >= st.used);
}

static int teardown(void **state)
{
	(void)state;
	fault_clear();
	if (f != NULL) {
		check();
		freelist_destroy(f);
	}
	core_destroy(&core);
	return 0;
}

static void open_with(size_t limit, size_t granule)
{
	struct freelist_opts opts = {.limit = limit, .granule = granule};

	f = freelist_create(&core.region, &opts);
	assert_non_null(f);
	check();
}

static void *alloc(size_t size)
{
	void *ptr = freelist_alloc(f, size);

	assert_non_null(ptr);
	memset(ptr, (int)size, size);
	return ptr;
}

static void assert_filled(const void *ptr, size_t size, size_t upto)
{
	const unsigned char *bytes = ptr;

	for (size_t i = 0; i < upto; i++)
		if (bytes[i] != (unsigned char)size)
			fail_msg("byte %zu of %zu was changed", i, size);
}

/* Blocks of this size until one is refused; how many. */
static size_t fill(size_t size, void **blocks, size_t max)
{
	size_t n = 0;

	while (n < max && (blocks[n] = freelist_alloc(f, size)) != NULL)
		n++;
	return n;
}

/* --- sizes (29) --- */

static void refuses(size_t size)
{
	struct freelist_stats before, after;
	void *block = alloc(100);

	freelist_stats(f, &before);
	assert_null(freelist_alloc(f, size));
	assert_null(freelist_realloc(f, block, 100, size));
	assert_filled(block, 100, 100);
	freelist_stats(f, &after);
	assert_int_equal(after.refused, before.refused + 2);
	after.refused = before.refused;
	after.steps = before.steps;
	after.deferred = before.deferred;
	after.largest_free = before.largest_free;
	assert_memory_equal(&after, &before, sizeof(after));
	freelist_free(f, block, 100);
	check();
}

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

static void peak_is_the_most_that_was_used(void **state)
{
	(void)state;
	open_with(MIB, 16);
	void *a = alloc(1000), *b = alloc(500);

	freelist_free(f, a, 1000);
	assert_int_equal(freelist_peak(f), 1500);
	a = alloc(900);
	assert_int_equal(freelist_peak(f), 1500);
	a = freelist_realloc(f, a, 900, 1100);
	assert_int_equal(freelist_peak(f), 1600);
	assert_int_equal(freelist_used(f), 1600);
	freelist_free(f, b, 500);
	freelist_reset(f);
	assert_int_equal(freelist_used(f), 0);
	assert_int_equal(freelist_peak(f), 1600);
}

/* --- shrinking (32) --- */

static void shrinking_never_fails_and_never_moves(void **state)
{
	static void *blocks[4096];
	size_t n;

	(void)state;
	for (size_t granule = 8; granule <= 16; granule += 8) {
		open_with(256 * KIB, granule);
		n = fill(512, blocks, lengthof(blocks));
		assert_int_equal(freelist_set_limit(f, 100 * KIB), 0);
		for (size_t i = 0; i < n; i++) {
			memset(blocks[i], (int)i, 512);
			assert_ptr_equal(
				freelist_realloc(f, blocks[i], 512, 308),
				blocks[i]);
			assert_ptr_equal(
				freelist_realloc(f, blocks[i], 308, 307),
				blocks[i]);
			assert_ptr_equal(
				freelist_realloc(f, blocks[i], 307, 307),
				blocks[i]);
			assert_filled(blocks[i], i, 307);
		}
		check();
		for (size_t i = 0; i < n; i++)
			assert_ptr_equal(freelist_realloc(f, blocks[i], 307, 1),
			                 blocks[i]);
		check();
		freelist_destroy(f);
	}
	f = NULL;
}

/* --- growing (33) --- */

static void growing_uses_what_is_free_behind(void **state)
{
	(void)state;
	open_with(MIB, 16);
	char *a = alloc(2000), *b;

	/* At the top of what is used. */
	b = freelist_realloc(f, a, 2000, 10000);
	assert_ptr_equal(a, b);
	assert_filled(b, 2000, 2000);
	/* Into a free neighbour. */
	char *c = alloc(5000);
	alloc(2000);
	freelist_free(f, c, 5000);
	b = freelist_realloc(f, a, 10000, 14000);
	assert_ptr_equal(a, b);
	assert_filled(b, 2000, 2000);
	check();
	/* Neither: it moves, and the old place is free after that. */
	b = freelist_realloc(f, a, 14000, 300000);
	assert_ptr_not_equal(a, b);
	assert_filled(b, 2000, 2000);
	c = freelist_alloc(f, 14000);
	assert_true(c >= a && c < b);
	check();
	/* A request that can not be met leaves the block where it is. */
	memset(b, (int)300000, 300000);
	assert_null(freelist_realloc(f, b, 300000, MIB));
	assert_filled(b, 300000, 300000);
}

/* Neither the old size beside the new one fits, but both places joined. */
static void a_large_block_slides_into_the_space_before_it(void **state)
{
	(void)state;
	open_with(64 * KIB, 16);
	char *a = alloc(25000), *b = alloc(15000), *c;

	alloc(100);
	while (freelist_alloc(f, 1000) != NULL)
		continue;
	freelist_free(f, a, 25000);
	c = freelist_realloc(f, b, 15000, 38000);
	assert_non_null(c);
	assert_filled(c, 15000, 15000);
	check();
}

/* --- set_limit --- */

static void the_limit_falls_below_use_and_only_growth_is_refused(void **state)
{
	static void *blocks[20000];
	size_t n, charge, i;
	void *one;

	(void)state;
	open_with(MIB, 16);
	n = fill(100, blocks, lengthof(blocks));
	charge = quota_used(&core.quota);
	assert_int_equal(freelist_set_limit(f, MIB / 2), 0);
	assert_int_equal(freelist_limit(f), MIB / 2);
	check();
	assert_null(freelist_alloc(f, 1));
	assert_null(freelist_realloc(f, blocks[0], 100, 200));
	assert_int_equal(freelist_last_refusal(f), FREELIST_LIMIT);
	/* Every second one: still more than half with what lies between. */
	for (i = 0; i < n; i += 2)
		freelist_free(f, blocks[i], 100);
	check();
	for (i = 1; (one = freelist_alloc(f, 100)) == NULL; i += 2) {
		assert_true(i < n);
		freelist_free(f, blocks[i], 100);
	}
	assert_true(freelist_used(f) > MIB / 2 * 80 / 100);
	assert_true(freelist_used(f) < MIB / 2);
	freelist_free(f, one, 100);
	for (; i < n; i += 2)
		freelist_free(f, blocks[i], 100);
	check();
	assert_true(quota_used(&core.quota) < charge);
	assert_int_equal(freelist_set_limit(f, 0), 0);
	assert_int_equal(freelist_limit(f), MIB);
	assert_true(fill(100, blocks, lengthof(blocks)) > n * 9 / 10 - 20);
	assert_int_equal(freelist_set_limit(f, MIB + 1), -1);
	assert_int_equal(freelist_limit(f), MIB);
}

static void the_limit_can_be_raised_up_to_the_maximum(void **state)
{
	struct freelist_opts opts = {.limit = 32 * KIB, .max_limit = 16 * MIB};
	size_t before = 0, limit;

	(void)state;
	f = freelist_create(&core.region, &opts);
	for (limit = 32 * KIB; limit <= 16 * MIB; limit *= 2) {
		assert_int_equal(freelist_set_limit(f, limit), 0);
		while (freelist_alloc(f, 700) != NULL)
			continue;
		assert_true(freelist_used(f) >
		            before + (limit - before) * 9 / 10 - 8 * KIB);
		before = freelist_used(f);
		assert_true(quota_used(&core.quota) <=
		            small_align(limit, small_getpagesize()));
		check();
	}
}

static void a_freed_piece_over_its_limit_gives_its_pages_back(void **state)
{
	(void)state;
	open_with(4 * MIB, 16);
	char *a = alloc(MIB), *b = alloc(2 * MIB);

	assert_int_equal(freelist_set_limit(f, 64 * KIB), 0);
	freelist_free(f, b, 2 * MIB);
	assert_true(quota_used(&core.quota) < MIB + 128 * KIB);
	check();
	freelist_free(f, a, MIB);
	assert_true(quota_used(&core.quota) <=
	            small_align(64 * KIB, small_getpagesize()));
	assert_non_null(freelist_alloc(f, 1000));
}

/* --- the rest --- */

static void reset_forgets_all_in_few_steps(void **state)
{
	size_t steps;

	(void)state;
	open_with(0, 8);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < 20000; i++)
			alloc(1 + i % 300);
		steps = f->steps;
		freelist_reset(f);
		assert_true(f->steps - steps < 4);
		assert_int_equal(freelist_used(f), 0);
		check();
	}
}

static void a_region_drops_its_pieces(void **state)
{
	(void)state;
	open_with(MIB, 16);
	open_with(MIB, 16);
	alloc(100000);
	region_reset(&core.region);
	f = NULL;
	region_free(&core.region);
	assert_int_equal(region_total(&core.region), 0);
}

static void nothing_between_the_watermarks_is_touched(void **state)
{
	struct freelist_opts opts = {.granule = 8};
	static _Alignas(16) unsigned char buf[256 * KIB];
	struct freelist_extent extent;

	(void)state;
	memset(buf, 0xab, sizeof(buf));
	f = freelist_create_in(buf, sizeof(buf), &opts);
	for (size_t i = 1; i < 300; i++) {
		alloc(i % 90 + 1);
		if (i % 3 == 0)
			freelist_free(f, alloc(i), i);
	}
	freelist_extent(f, &extent);
	assert_true(extent.low < extent.high);
	assert_int_equal(extent.end, sizeof(buf));
	freelist_destroy(f);
	f = NULL;
	track_defined(buf, sizeof(buf));
	for (size_t i = extent.low; i < extent.high; i++)
		assert_int_equal(buf[i], 0xab);
}

/* One call's steps against the bounds of the header. */
static void steps_within(size_t cap, size_t granules)
{
	static _Alignas(16) char buf[128 * KIB];
	static struct {
		void *ptr;
		size_t size;
	} slot[512];
	struct freelist_opts opts = {.cap = cap};
	uint64_t random = test_seed("freelist");
	size_t n = test_scale(400000), nulls = 0;

	memset(slot, 0, sizeof(slot));
	f = freelist_create_in(buf, sizeof(buf), &opts);
	for (size_t i = 0; i < n; i++) {
		uint64_t r = test_random(&random);
		size_t k = r % lengthof(slot), steps = f->steps;

		if (slot[k].ptr != NULL) {
			freelist_free(f, slot[k].ptr, slot[k].size);
			assert_true(f->steps - steps <= FREELIST_STEPS_FREE);
			steps = f->steps;
		}
		slot[k].size = 1 + (r >> 20) % (r % 7 == 0 ? 8000 : 300);
		slot[k].ptr = freelist_alloc(f, slot[k].size);
		nulls += slot[k].ptr == NULL;
		if (slot[k].ptr != NULL)
			assert_true(f->steps - steps <=
			            FREELIST_STEPS_ALLOC + 5 * granules);
		else
			assert_true(f->steps - steps <=
			            FREELIST_STEPS_ALLOC + 5 * granules + 512);
	}
	assert_true(nulls > n / 1000);
	freelist_destroy(f);
	f = NULL;
}

static void steps_stay_within_their_bounds(void **state)
{
	(void)state;
	steps_within(FREELIST_CAP_NONE, 0);
	steps_within(16, 16);
	steps_within(256, 256);
}

/* All state is in the piece: its bytes put back are an earlier piece. */
static void copied_bytes_bring_an_earlier_state_back(void **state)
{
	struct freelist_extent extent;
	char *copy, *a;

	(void)state;
	open_with(4 * MIB, 16);
	a = alloc(10000);
	for (size_t i = 1; i < 500; i++)
		alloc(i);
	freelist_extent(f, &extent);
	copy = small_xmalloc(extent.low);
	/* What the tools know of free blocks is not part of the copy. */
	track_defined(f, extent.low);
	memcpy(copy, f, extent.low);
	for (size_t i = 1; i < 300; i++)
		alloc(i);
	freelist_free(f, a, 10000);
	memset(alloc(9000), 9, 9000);
	track_defined(f, extent.low);
	memcpy(f, copy, extent.low);
	assert_int_equal(freelist_used(f), 10000 + 499 * 250);
	assert_filled(a, 10000, 10000);
	check();
	free(copy);
}

static void check_names_what_was_broken(void **state)
{
	(void)state;
	open_with(MIB, 16);
	void *a = alloc(5000), *b = alloc(5000), *c = alloc(40);

	alloc(40);
	freelist_free(f, a, 5000);
	freelist_free(f, c, 40);
	check();
#define BREAK(field, value, name)                      \
 do {                                                  \
  struct freelist saved = *f;                          \
  f->field = value;                                    \
  assert_string_equal(freelist_check(f), name);        \
  memcpy(f, &saved, offsetof(struct freelist, quick)); \
  assert_ptr_equal(freelist_check(f), NULL);           \
 } while (0)
	BREAK(magic, 0, "control");
	BREAK(low, f->end + 1u, "control");
	BREAK(bump_end, 1, "control");
	BREAK(shift, 5, "control");
	BREAK(cover, 1, "control");
	BREAK(table, 0, "control");
	BREAK(cursor, 0, "control");
	BREAK(cleared, 0, "control");
	BREAK(peak_room, -1, "control");
	BREAK(limit, f->max_limit + 1, "limit");
	BREAK(is_squeezed, 1, "limit");
	BREAK(end, f->lim + 1, "limit");
	BREAK(defer_room, f->defer_room - 1, "deferred");
	BREAK(indexed, f->indexed + 1, "sum");
	BREAK(peak, MIB * 2, "sum");
#undef BREAK
	f->classes[0] ^= 1;
	assert_string_equal(freelist_check(f), "index");
	f->classes[0] ^= 1;
	f->bitmap[f->low / 64] |= (uint64_t)1 << (f->low % 64);
	assert_string_equal(freelist_check(f), "bitmap");
	f->bitmap[f->low / 64] &= ~((uint64_t)1 << (f->low % 64));
	assert_ptr_equal(freelist_check(f), NULL);
	freelist_free(f, b, 5000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

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
		TEST(peak_is_the_most_that_was_used),
		TEST(shrinking_never_fails_and_never_moves),
		TEST(growing_uses_what_is_free_behind),
		TEST(a_large_block_slides_into_the_space_before_it),
		TEST(the_limit_falls_below_use_and_only_growth_is_refused),
		TEST(the_limit_can_be_raised_up_to_the_maximum),
		TEST(a_freed_piece_over_its_limit_gives_its_pages_back),
		TEST(reset_forgets_all_in_few_steps),
		TEST(a_region_drops_its_pieces),
		TEST(nothing_between_the_watermarks_is_touched),
		TEST(steps_stay_within_their_bounds),
		TEST(copied_bytes_bring_an_earlier_state_back),
		TEST(check_names_what_was_broken),
	};

	return cmocka_run_group_tests_name("freelist", tests, NULL, NULL);
}
