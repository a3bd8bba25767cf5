/* SPDX-License-Identifier: BSD-2-Clause */
/* freelist_limits - resizing, limits that move, resets; what check names. */
#include "freelist_fixture.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
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

	return cmocka_run_group_tests_name("freelist_limits", tests, NULL,
	                                   NULL);
}
