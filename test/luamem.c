/* SPDX-License-Identifier: BSD-2-Clause */
/* luamem: the lua_Alloc contract, its limit and its accounting. */
#include "core.h"

#include <small/freelist.h>
#include <small/lua/luamem.h>
#include <small/quota_lessor.h>

#define LIMIT ((size_t)256 * 1024)

struct fixture {
	struct core core;
	struct quota_lessor lessor;
	struct luamem mem;
};

static void open_mode(struct fixture *f, enum luamem_mode mode, size_t limit,
                      size_t total)
{
	struct luamem_opts opts = {.mode = mode, .limit = limit};

	core_create(&f->core, total, 65536);
	assert_int_equal(quota_lessor_create(&f->lessor, &f->core.quota), 0);
	if (mode == LUAMEM_MANAGED) {
		opts.cache = &f->core.cache;
		opts.max_limit = limit == 0 ? 0 : 4 * limit;
	}
	if (mode == LUAMEM_TRACKED)
		opts.lessor = &f->lessor;
	assert_int_equal(luamem_create(&f->mem, &opts, NULL), 0);
}

static void close_mode(struct fixture *f)
{
	assert_ptr_equal(luamem_check(&f->mem), NULL);
	luamem_destroy(&f->mem);
	quota_lessor_destroy(&f->lessor);
	core_destroy(&f->core);
}

#define for_each_mode(mode) \
 for (int mode = LUAMEM_MANAGED; mode <= LUAMEM_NATIVE; mode++)

static void *grow(struct luamem *m, size_t size)
{
	return luamem_alloc(m, NULL, 0, size);
}

static struct luamem_stats stats_of(const struct luamem *m)
{
	struct luamem_stats s;

	luamem_stats(m, &s);
	return s;
}

/* Without a pointer osize says what kind of object it will be. */
static void type_tag_is_no_size(void **state)
{
	struct fixture f;

	(void)state;
	for_each_mode(mode)
	{
		open_mode(&f, (enum luamem_mode)mode, 0, SIZE_MAX);
		for (size_t tag = 0; tag <= 10; tag++) {
			for (size_t n = 8; n <= 64; n++) {
				void *p = luamem_alloc(&f.mem, NULL, tag, n);

				assert_non_null(p);
				assert_int_equal(luamem_used(&f.mem), n);
				memset(p, 0xa5, n);
				luamem_alloc(&f.mem, p, n, 0);
				assert_int_equal(luamem_used(&f.mem), 0);
			}
			assert_null(luamem_alloc(&f.mem, NULL, tag, 0));
			assert_int_equal(luamem_used(&f.mem), 0);
		}
		assert_int_equal(stats_of(&f.mem).refused, 0);
		close_mode(&f);
	}
}

static void huge_sizes_are_refused(void **state)
{
	static const size_t sizes[] = {
		SIZE_MAX,      SIZE_MAX - 1,  SIZE_MAX - 7,
		SIZE_MAX - 8,  SIZE_MAX - 15, SIZE_MAX - 16,
		SIZE_MAX - 63, SIZE_MAX - 64, SIZE_MAX / 2 + 1};
	struct fixture f;

	(void)state;
	for_each_mode(mode)
	{
		open_mode(&f, (enum luamem_mode)mode, 0, SIZE_MAX);
		char *p = grow(&f.mem, 100);
		memset(p, 7, 100);
		for (size_t i = 0; i < lengthof(sizes); i++) {
			assert_null(grow(&f.mem, sizes[i]));
			assert_null(luamem_alloc(&f.mem, p, 100, sizes[i]));
			assert_int_equal(luamem_used(&f.mem), 100);
			assert_int_equal(
				luamem_enter_infallible(&f.mem, sizes[i]), -1);
			assert_int_equal(luamem_take(&f.mem, sizes[i]), -1);
		}
		for (int i = 0; i < 100; i++)
			assert_int_equal(p[i], 7);
		luamem_alloc(&f.mem, p, 100, 0);
		close_mode(&f);
	}
}

/* 2^31 and 2^32 + 16 are not cut to an int on the way to a limit. */
static void limit_sees_all_bits_of_a_size(void **state)
{
	static const size_t sizes[] = {
#if SIZE_MAX > UINT32_MAX
		(size_t)1 << 31,
		(size_t)1 << 32,
		((size_t)1 << 32) + 16,
#else
		(size_t)1 << 30, /* more is no matter of a limit there */
#endif
	};
	struct fixture f;

	(void)state;
	for_each_mode(mode)
	{
		if (mode == LUAMEM_NATIVE)
			continue;
		open_mode(&f, (enum luamem_mode)mode, LIMIT, SIZE_MAX);
		for (size_t i = 0; i < lengthof(sizes); i++)
			assert_null(grow(&f.mem, sizes[i]));
		assert_int_equal(stats_of(&f.mem).by_cause[LUAMEM_LIMIT],
		                 lengthof(sizes));
		assert_int_equal(stats_of(&f.mem).first_refused, sizes[0]);
		assert_int_equal(stats_of(&f.mem).largest_refused,
		                 sizes[lengthof(sizes) - 1]);
		close_mode(&f);
	}
}

/* A refused growth leaves block and counters; the same one granted later is
 * a recovery, another one is not. */
static void refusals_and_recoveries_are_apart(void **state)
{
	struct fixture f;

	(void)state;
	for_each_mode(mode)
	{
		if (mode == LUAMEM_NATIVE)
			continue;
		open_mode(&f, (enum luamem_mode)mode, LIMIT, SIZE_MAX);
		char *big = grow(&f.mem, LIMIT / 4 * 3);
		char *p = grow(&f.mem, 64);
		memset(p, 9, 64);
		size_t used = luamem_used(&f.mem);
		assert_null(luamem_alloc(&f.mem, p, 64, LIMIT / 2));
		assert_int_equal(luamem_used(&f.mem), used);
		luamem_alloc(&f.mem, big, LIMIT / 4 * 3, 0);
		p = luamem_alloc(&f.mem, p, 64, LIMIT / 2);
		assert_non_null(p);
		for (int i = 0; i < 64; i++)
			assert_int_equal(p[i], 9);
		assert_int_equal(stats_of(&f.mem).refused, 1);
		assert_int_equal(stats_of(&f.mem).recovered, 1);
		assert_int_equal(luamem_felt(&f.mem), 0);
		assert_null(grow(&f.mem, LIMIT));
		char *q = grow(&f.mem, 16);
		assert_non_null(q);
		assert_null(grow(&f.mem, LIMIT));
		assert_int_equal(luamem_felt(&f.mem), 2);
		assert_int_equal(stats_of(&f.mem).peak, used);
		luamem_reset_stats(&f.mem);
		assert_int_equal(stats_of(&f.mem).refused, 0);
		assert_int_equal(stats_of(&f.mem).peak, luamem_used(&f.mem));
		luamem_alloc(&f.mem, q, 16, 0);
		luamem_alloc(&f.mem, p, LIMIT / 2, 0);
		close_mode(&f);
	}
}

/* Over a lowered limit frees, shrinks and equal sizes pass, growth does not
 * until use is under it. */
static void limit_below_use_stops_growth_only(void **state)
{
	struct fixture f;

	(void)state;
	for_each_mode(mode)
	{
		if (mode == LUAMEM_NATIVE)
			continue;
		open_mode(&f, (enum luamem_mode)mode, LIMIT, SIZE_MAX);
		void *p[100];
		for (size_t i = 0; i < lengthof(p); i++)
			assert_non_null(p[i] = grow(&f.mem, 1024));
		assert_int_equal(luamem_set_limit(&f.mem, LIMIT / 8), 0);
		assert_null(grow(&f.mem, 2000));
		p[0] = luamem_alloc(&f.mem, p[0], 1024, 1024);
		p[1] = luamem_alloc(&f.mem, p[1], 1024, 1000);
		p[2] = luamem_alloc(&f.mem, p[2], 1024, 8);
		assert_true(p[0] != NULL && p[1] != NULL && p[2] != NULL);
		assert_null(luamem_alloc(&f.mem, p[2], 8, 100000));
		luamem_alloc(&f.mem, p[0], 1024, 0);
		luamem_alloc(&f.mem, p[1], 1000, 0);
		luamem_alloc(&f.mem, p[2], 8, 0);
		for (size_t i = 3; i < lengthof(p); i++)
			luamem_alloc(&f.mem, p[i], 1024, 0);
		assert_int_equal(luamem_used(&f.mem), 0);
		p[0] = grow(&f.mem, LIMIT / 16);
		assert_non_null(p[0]);
		luamem_alloc(&f.mem, p[0], LIMIT / 16, 0);
		assert_int_equal(luamem_set_limit(&f.mem, 2 * LIMIT), 0);
		p[0] = grow(&f.mem, LIMIT + LIMIT / 2);
		assert_non_null(p[0]);
		luamem_alloc(&f.mem, p[0], LIMIT + LIMIT / 2, 0);
		close_mode(&f);
	}
}

static void causes_are_told_apart(void **state)
{
	struct fixture f;
	void *p;

	(void)state;
	for_each_mode(mode)
	{
		if (mode == LUAMEM_NATIVE)
			continue;
		open_mode(&f, (enum luamem_mode)mode, LIMIT, SIZE_MAX);
		assert_null(grow(&f.mem, LIMIT + 1));
		assert_int_equal(stats_of(&f.mem).cause, LUAMEM_LIMIT);
		fault_set(FAULT_BLOCK, 1, false);
		assert_null(grow(&f.mem, 100));
		fault_clear();
		assert_int_equal(stats_of(&f.mem).cause, LUAMEM_SYSTEM);
		close_mode(&f);

		open_mode(&f, (enum luamem_mode)mode, 64 * LIMIT, 8 * LIMIT);
		p = grow(&f.mem, LIMIT);
		assert_non_null(p);
		assert_null(grow(&f.mem, 16 * LIMIT));
		assert_int_equal(stats_of(&f.mem).cause, LUAMEM_QUOTA);
		luamem_alloc(&f.mem, p, LIMIT, 0);
		assert_int_equal(stats_of(&f.mem).by_cause[LUAMEM_QUOTA], 1);
		close_mode(&f);
	}
}

static void options_that_make_no_sense_are_refused(void **state)
{
	struct core core;
	struct luamem m;
	enum luamem_cause cause = LUAMEM_LIMIT;

	(void)state;
	core_create(&core, SIZE_MAX, 65536);
	struct luamem_opts bad[] = {
		{.mode = LUAMEM_MANAGED},
		{.region = &core.region, .cache = &core.cache},
		{.cache = &core.cache, .granule = 12},
		{.cache = &core.cache, .limit = 65536, .reserve = 65537},
		{.cache = &core.cache, .limit = 65537, .max_limit = 65536},
		{.mode = LUAMEM_TRACKED, .reserve = 1},
		{.mode = LUAMEM_NATIVE, .max_limit = 1},
		{.mode = (enum luamem_mode)3},
	};
	for (size_t i = 0; i < lengthof(bad); i++) {
		assert_int_equal(luamem_create(&m, &bad[i], &cause), -1);
		assert_int_equal(cause, LUAMEM_NONE);
	}
	struct luamem_opts small = {.cache = &core.cache, .limit = 64};
	assert_int_equal(luamem_create(&m, &small, &cause), -1);
	assert_int_equal(cause, LUAMEM_LIMIT);
	core_destroy(&core);
}

/* Inside a section nothing fails up to what was said, for any limit; what is
 * over the limit afterwards shows, and growth waits until it is gone. */
static void infallible_section_never_fails(void **state)
{
	uint64_t seed = test_seed("infallible");

	(void)state;
	for_each_mode(mode)
	{
		for (size_t limit = 4096; limit < 65536; limit += 4096) {
			struct fixture f;
			void *p[64], *fill[256];
			size_t size[64], sum = 0;

			open_mode(&f, (enum luamem_mode)mode, limit, SIZE_MAX);
			while (mode != LUAMEM_NATIVE &&
			       (fill[sum] = grow(&f.mem, 500)) != NULL)
				sum++;
			luamem_reset_stats(&f.mem);
			assert_int_equal(luamem_enter_infallible(&f.mem, 32768),
			                 0);
			assert_int_equal(luamem_enter_infallible(&f.mem, 1),
			                 -1);
			for (int i = 0; i < 64; i++) {
				size[i] = test_random(&seed) % 480 + 1;
				p[i] = grow(&f.mem, size[i]);
				assert_non_null(p[i]);
				memset(p[i], i, size[i]);
			}
			assert_int_equal(stats_of(&f.mem).refused, 0);
			size_t over = luamem_exit_infallible(&f.mem);
			if (mode != LUAMEM_NATIVE) {
				assert_true(over > 0);
				assert_null(grow(&f.mem, 3000));
			}
			assert_int_equal(stats_of(&f.mem).overflow, over);
			for (int i = 0; i < 64; i++) {
				char *c = p[i];

				assert_int_equal(c[size[i] - 1], i);
				luamem_alloc(&f.mem, p[i], size[i], 0);
			}
			assert_int_equal(stats_of(&f.mem).overflow, 0);
			assert_int_equal(luamem_used(&f.mem), sum * 500);
			while (sum > 0)
				luamem_alloc(&f.mem, fill[--sum], 500, 0);
			close_mode(&f);
		}
	}
}

/* Entering it is what can fail, with nothing changed. */
static void infallible_section_is_refused_first(void **state)
{
	struct fixture f;

	(void)state;
	open_mode(&f, LUAMEM_MANAGED, LIMIT, 4 * LIMIT);
	size_t used = quota_used(&f.core.quota);
	assert_int_equal(luamem_enter_infallible(&f.mem, 8 * LIMIT), -1);
	assert_int_equal(quota_used(&f.core.quota), used);
	assert_int_equal(luamem_enter_infallible(&f.mem, 1000), 0);
	assert_int_equal(luamem_exit_infallible(&f.mem), 0);
	close_mode(&f);
}

static void taken_memory_counts(void **state)
{
	struct fixture f;

	(void)state;
	for_each_mode(mode)
	{
		if (mode == LUAMEM_NATIVE)
			continue;
		open_mode(&f, (enum luamem_mode)mode, LIMIT, SIZE_MAX);
		for (int i = 0; i < 10; i++)
			assert_int_equal(luamem_take(&f.mem, 1000), 0);
		assert_int_equal(luamem_take(&f.mem, LIMIT / 2), 0);
		assert_int_equal(stats_of(&f.mem).taken, 10000 + LIMIT / 2);
		assert_int_equal(luamem_used(&f.mem), 10000 + LIMIT / 2);
		assert_null(grow(&f.mem, LIMIT / 2));
		assert_int_equal(luamem_take(&f.mem, LIMIT / 2), -1);
		assert_int_equal(stats_of(&f.mem).refused, 2);
		luamem_give(&f.mem, 10000 + LIMIT / 2);
		void *p = grow(&f.mem, LIMIT / 2);
		assert_non_null(p);
		luamem_alloc(&f.mem, p, LIMIT / 2, 0);
		close_mode(&f);
	}
}

static void add_delta(void *arg, ptrdiff_t delta)
{
	ptrdiff_t *sum = arg;

	assert_true(delta >= 1000 || delta <= -1000);
	*sum += delta;
}

static void pressure_is_told_in_batches(void **state)
{
	struct fixture f;

	(void)state;
	for_each_mode(mode)
	{
		ptrdiff_t sum = 0;
		void *p[500];

		open_mode(&f, (enum luamem_mode)mode, 0, SIZE_MAX);
		luamem_set_pressure_cb(&f.mem, add_delta, &sum, 1000);
		for (size_t i = 0; i < lengthof(p); i++)
			p[i] = grow(&f.mem, 30);
		assert_true(sum > 500 * 30 - 1000 && sum <= 500 * 30);
		for (size_t i = 0; i < lengthof(p); i++)
			luamem_alloc(&f.mem, p[i], 30, 0);
		assert_true(sum > -1000 && sum < 1000);
		luamem_set_pressure_cb(&f.mem, NULL, NULL, 0);
		close_mode(&f);
	}
}

static size_t next_mark(void *arg, size_t used)
{
	size_t *calls = arg;

	(*calls)++;
	return used + 1000;
}

static void mark_is_called_as_use_grows(void **state)
{
	struct fixture f;
	size_t calls = 0;
	void *p[100];

	(void)state;
	open_mode(&f, LUAMEM_MANAGED, LIMIT, SIZE_MAX);
	luamem_set_mark(&f.mem, 1000, next_mark, &calls);
	for (size_t i = 0; i < lengthof(p); i++)
		p[i] = grow(&f.mem, 100);
	assert_true(calls >= 8 && calls <= 10);
	assert_int_equal(stats_of(&f.mem).peak, 10000);
	for (size_t i = 0; i < lengthof(p); i++)
		luamem_alloc(&f.mem, p[i], 100, 0);
	close_mode(&f);
}

/* The adapter against a table of blocks: contents, sums, peak. */
static void random_steps_keep_contents_and_sums(void **state)
{
	uint64_t seed = test_seed("luamem");

	(void)state;
	for_each_mode(mode)
	{
		struct fixture f;
		unsigned char *p[256] = {NULL};
		size_t n[256] = {0}, used = 0, peak = 0;

		open_mode(&f, (enum luamem_mode)mode, LIMIT, SIZE_MAX);
		for (size_t step = 0; step < test_scale(200000); step++) {
			size_t i = test_random(&seed) % 256;
			size_t to = test_random(&seed) % 8 == 0
			                    ? 0
			                    : test_random(&seed) % 3000;
			unsigned char *q = luamem_alloc(&f.mem, p[i], n[i], to);
			size_t keep = to < n[i] ? to : n[i];

			if (q == NULL && to > 0) {
				assert_true(to > n[i]);
				continue;
			}
			for (size_t k = 0; k < keep; k += 37)
				assert_int_equal(q[k], i);
			if (to > 0)
				memset(q, (int)i, to);
			used = used - n[i] + to;
			peak = used > peak ? used : peak;
			p[i] = q;
			n[i] = to;
			assert_int_equal(luamem_used(&f.mem), used);
		}
		assert_int_equal(stats_of(&f.mem).peak, peak);
		for (size_t i = 0; i < 256; i++)
			luamem_alloc(&f.mem, p[i], n[i], 0);
		assert_int_equal(luamem_used(&f.mem), 0);
		close_mode(&f);
	}
}

static void check_names_what_is_broken(void **state)
{
	struct fixture f;

	(void)state;
	open_mode(&f, LUAMEM_MANAGED, LIMIT, SIZE_MAX);
	struct luamem good = f.mem;
	f.mem.mode = LUAMEM_NATIVE;
	assert_string_equal(luamem_check(&f.mem), "mode");
	f.mem = good;
	f.mem.room = -1;
	assert_string_equal(luamem_check(&f.mem), "room");
	f.mem = good;
	f.mem.refused++;
	assert_string_equal(luamem_check(&f.mem), "refused");
	f.mem = good;
	f.mem.overflow_buf = (char *)&f;
	assert_string_equal(luamem_check(&f.mem), "overflow");
	f.mem = good;
	/* its own list heads were not moved */
	close_mode(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(type_tag_is_no_size),
		cmocka_unit_test(huge_sizes_are_refused),
		cmocka_unit_test(limit_sees_all_bits_of_a_size),
		cmocka_unit_test(refusals_and_recoveries_are_apart),
		cmocka_unit_test(limit_below_use_stops_growth_only),
		cmocka_unit_test(causes_are_told_apart),
		cmocka_unit_test(options_that_make_no_sense_are_refused),
		cmocka_unit_test(infallible_section_never_fails),
		cmocka_unit_test(infallible_section_is_refused_first),
		cmocka_unit_test(taken_memory_counts),
		cmocka_unit_test(pressure_is_told_in_batches),
		cmocka_unit_test(mark_is_called_as_use_grows),
		cmocka_unit_test(random_steps_keep_contents_and_sums),
		cmocka_unit_test(check_names_what_is_broken),
	};

	return cmocka_run_group_tests_name("luamem", tests, NULL, NULL);
}
