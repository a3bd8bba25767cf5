/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_misuse - what is seen in every build aborts in a forked child,
 * and what only looks like it does not.
 */
#include "core.h"
#include "die.h"

#include <pthread.h>

#include <small/freelist_shadow.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static struct core core;
static struct freelist *f;

static int setup(void **state)
{
	*state = NULL;
	core_create(&core, QUOTA_MAX, MIB);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	core_destroy(&core);
	return 0;
}

/* One misuse: `call` frees or resizes ptr with a size. */
struct misuse {
	void *ptr;
	size_t size;
	size_t new_size; /* SIZE_MAX: free */
};

static void do_misuse(void *arg)
{
	struct misuse *m = arg;

	if (m->new_size == SIZE_MAX)
		freelist_free(f, m->ptr, m->size);
	else
		freelist_realloc(f, m->ptr, m->size, m->new_size);
}

static void dies(void *ptr, size_t size, const char *what)
{
	struct misuse m = {ptr, size, SIZE_MAX};
	char line[128];

	snprintf(line, sizeof(line), "freelist_free: %s", what);
	assert_dies(do_misuse, &m, line);
	m.new_size = size < SIZE_MAX / 2 ? size + 100 : 100;
	snprintf(line, sizeof(line), "freelist_realloc: %s", what);
	assert_dies(do_misuse, &m, line);
	m.new_size = size / 2;
	if (m.new_size != 0)
		assert_dies(do_misuse, &m, line);
}

static void open_with(size_t granule, size_t cap)
{
	struct freelist_opts opts = {
		.limit = MIB, .granule = granule, .cap = cap};

	f = freelist_create(&core.region, &opts);
	assert_non_null(f);
}

static const size_t granules[] = {8, 16};
static const size_t caps[] = {0, FREELIST_CAP_NONE, 256};
static const size_t sizes[] = {16, 24, 40, 100, 512, 1000, 1024, 5000, 100000};

static void in_each_setting(void (*test)(void))
{
	for (size_t i = 0; i < lengthof(granules) * lengthof(caps); i++) {
		open_with(granules[i % 2], caps[i / 2]);
		test();
		freelist_destroy(f);
	}
}

#define TWICE "the block is free already"

static void twice(void)
{
	for (size_t i = 0; i < lengthof(sizes); i++) {
		void *ptr;

		freelist_alloc(f, 50);
		ptr = freelist_alloc(f, sizes[i]);
		freelist_alloc(f, 50);
		freelist_free(f, ptr, sizes[i]);
		dies(ptr, sizes[i], TWICE);
	}
}

static void a_second_free_is_seen(void **state)
{
	(void)state;
	in_each_setting(twice);
}

static void twice_after_others(void)
{
	char *block[64];

	for (size_t i = 0; i < lengthof(block); i++)
		block[i] = freelist_alloc(f, 200);
	for (size_t i = 0; i < lengthof(block); i += 2)
		freelist_free(f, block[i], 200);
	for (size_t i = 0; i < lengthof(block); i += 2)
		dies(block[i], 200, TWICE);
}

static void a_second_free_is_seen_whatever_was_freed_since(void **state)
{
	(void)state;
	in_each_setting(twice_after_others);
}

static void outside(void)
{
	static const char what[] = "the pointer is no block of the piece";
	static _Alignas(16) char here[64];
	char *ptr = freelist_alloc(f, 100);
	struct freelist_extent extent;

	freelist_extent(f, &extent);
	freelist_alloc(f, 2000);
	for (size_t i = 1; i < 8; i++)
		dies(ptr + i, 50, what);
	if (f->shift == 4)
		dies(ptr + 8, 50, what);
	dies(here, 50, what);
	dies(f, 3000, what);
	dies((char *)f - 1, 50, what);
	dies((char *)f - 16, 50, what);
	dies((char *)f + 32, 3000, what);
	dies((char *)f + extent.end, 50, what);
	dies((char *)f + 64 * MIB, 50, what);
	dies((char *)f - 64 * MIB, 50, what);
	struct misuse null = {NULL, 50, SIZE_MAX};
	assert_dies(do_misuse, &null,
	            "freelist_free: the pointer is no block of the piece");
}

static void a_pointer_that_is_no_block_is_seen(void **state)
{
	(void)state;
	in_each_setting(outside);
}

static void past_the_end(void)
{
	static const char what[] = "the size does not fit the piece";
	char *ptr = freelist_alloc(f, 3000);
	struct freelist_stats st;
	size_t left;

	freelist_stats(f, &st);
	left = st.touched - f->head - (size_t)(ptr - (char *)f);
	dies(ptr, left + 1, what);
	dies(ptr, left + 1000, what);
	dies(ptr, MIB, what);
#if SIZE_MAX > UINT32_MAX
	dies(ptr, (size_t)1 << 32, what);
	dies(ptr, (size_t)1 << 63, what);
#endif
	for (size_t i = 0; i < 20; i++)
		dies(ptr, SIZE_MAX - i - 100, what);
}

static void a_size_past_the_end_is_seen(void **state)
{
	(void)state;
	in_each_setting(past_the_end);
}

/* A small block at the very end: its short path looks, too. */
static void small_past_the_end(void)
{
	struct freelist_extent extent;
	char *ptr, *last = NULL;

	while ((ptr = freelist_alloc(f, 16)) != NULL) {
		freelist_extent(f, &extent);
		last = ptr;
		if (extent.low > 100000)
			break;
	}
	freelist_extent(f, &extent);
	dies(last, (size_t)((char *)f + extent.low - last) + 1,
	     "the size does not fit the piece");
}

static void a_small_size_past_the_end_is_seen(void **state)
{
	(void)state;
	in_each_setting(small_past_the_end);
}

static void over_a_border(void)
{
	static const char what[] = "the size reaches over a free block";
	char *a = freelist_alloc(f, 3000), *b = freelist_alloc(f, 4000);

	freelist_alloc(f, 3000);
	freelist_free(f, b, 4000);
	dies(a, 3000 + 32, what);
	dies(a, 3000 + 3000, what);
	dies(a, 3000 + 5000, what);
	freelist_free(f, a, 3000);
}

static void a_size_over_a_free_block_is_seen(void **state)
{
	(void)state;
	in_each_setting(over_a_border);
}

static void free_and_merge(void *arg)
{
	freelist_free(f, arg, 300);
	freelist_largest_free(f);
}

/* A small block's size is looked at when it is merged, at the latest. */
static void small_over_a_border(void)
{
	char *a = freelist_alloc(f, 100), *b = freelist_alloc(f, 4000), *c;

	/* The piece may have grown a table in between. */
	while (b != a + small_align(100, (size_t)1 << f->shift)) {
		a = freelist_alloc(f, 100);
		c = freelist_alloc(f, 4000);
		b = c;
	}
	freelist_alloc(f, 3000);
	freelist_free(f, b, 4000);
	assert_panics(free_and_merge, a, "freelist_free", "over a free block");
}

static void a_small_size_over_a_free_block_is_seen(void **state)
{
	(void)state;
	in_each_setting(small_over_a_border);
}

static void pop_overwritten(void *arg)
{
	size_t *size = arg;

	for (size_t i = 0; i < 3; i++)
		freelist_alloc(f, *size);
}

static void overwritten(void)
{
	char *first = freelist_alloc(f, 40), *ptr;
	size_t size = 40;

	freelist_alloc(f, 40);
	ptr = freelist_alloc(f, 40);
	freelist_alloc(f, 40);
	freelist_free(f, first, 40);
	freelist_free(f, ptr, 40);
	track_defined(ptr, 16);
	memset(ptr, 0xf0, 16);
	assert_dies(pop_overwritten, &size,
	            "freelist: a free block was overwritten");
}

static void a_link_that_leaves_the_piece_is_seen(void **state)
{
	(void)state;
	in_each_setting(overwritten);
}

/* Contents made to look like a free block cost a look and nothing else. */
static void like_a_stamp(void)
{
	char *block[300];

	for (size_t round = 0; round < 20; round++) {
		for (size_t i = 0; i < lengthof(block); i++) {
			uint32_t stamp = stamp_of(f);

			block[i] = freelist_alloc(f, 16 + i);
			for (size_t k = 0; k + 4 <= 16 + i; k += 4)
				memcpy(block[i] + k, &stamp, 4);
		}
		for (size_t i = 0; i < lengthof(block); i++)
			freelist_free(f, block[i], 16 + i);
		assert_ptr_equal(freelist_check(f), NULL);
	}
}

static void contents_like_a_stamp_are_no_misuse(void **state)
{
	(void)state;
	in_each_setting(like_a_stamp);
}

/* Random contents, a part of them copied from what stands in free blocks. */
static void no_false_alarm_over_random_frees(void **state)
{
	static struct {
		char *ptr;
		size_t size;
	} slot[512];
	uint64_t random = test_seed("freelist_misuse");
	size_t n = test_scale(4000000);

	(void)state;
	if (getenv("FREELIST_FREES") != NULL)
		n = strtoull(getenv("FREELIST_FREES"), NULL, 0);
	open_with(16, 0);
	for (size_t i = 0; i < n; i++) {
		uint64_t r = test_random(&random), word;
		size_t k = r % lengthof(slot);

		if (slot[k].ptr != NULL)
			freelist_free(f, slot[k].ptr, slot[k].size);
		slot[k].size = 8 + (r >> 20) % 600;
		slot[k].ptr = freelist_alloc(f, slot[k].size);
		assert_non_null(slot[k].ptr);
		word = (r >> 40) % 4 == 0
		               ? (uint64_t)stamp_of(f) << 32 | (r >> 32) % 4096
		               : test_random(&random);
		memcpy(slot[k].ptr, &word, 8);
	}
	assert_ptr_equal(freelist_check(f), NULL);
	freelist_destroy(f);
}

#ifndef NDEBUG
static void *another_thread(void *arg)
{
	freelist_alloc(f, (size_t)(uintptr_t)arg);
	return NULL;
}

static void wrong_thread(void *arg)
{
	pthread_t thread;

	pthread_create(&thread, NULL, another_thread, arg);
	pthread_join(thread, NULL);
}

static void a_wrong_thread_is_named(void **state)
{
	(void)state;
	open_with(16, 0);
	assert_dies(wrong_thread, (void *)(uintptr_t)10,
	            "freelist_alloc: called by a thread that does not own it");
	freelist_destroy(f);
}

/* One line, and it names the call. */
static void dies_somehow(void *ptr, size_t size)
{
	struct misuse m = {ptr, size, SIZE_MAX};
	char words[512];

	assert_true(WIFSIGNALED(die_run(do_misuse, &m, words, sizeof(words))));
	assert_non_null(strstr(words, "freelist_free: the "));
	m.new_size = size + 100;
	assert_true(WIFSIGNALED(die_run(do_misuse, &m, words, sizeof(words))));
	assert_non_null(strstr(words, "freelist_realloc: the "));
	assert_ptr_equal(strchr(words, '\n') + 1, words + strlen(words));
}

static void wrong_sizes(void)
{
	static const char what[] = "the size is not that of the block";
	const size_t n = (size_t)1 << f->shift;

	for (size_t i = 0; i < lengthof(sizes); i++) {
		char *ptr = freelist_alloc(f, sizes[i]);

		/* What follows is in use: no border is near. */
		freelist_alloc(f, 1000);
		freelist_alloc(f, 1000);
		if (i == 0) {
			dies(ptr, sizes[i] + 1, what);
			dies(ptr, sizes[i] - 1, what);
		}
		dies_somehow(ptr, sizes[i] + 1);
		dies_somehow(ptr, sizes[i] - 1);
		dies_somehow(ptr, sizes[i] / 2);
		dies_somehow(ptr, sizes[i] + n);
		dies_somehow(ptr + n, sizes[i] > 2 * n ? sizes[i] - n : 1);
		ptr = freelist_realloc(f, ptr, sizes[i], sizes[i] + 30);
		dies_somehow(ptr, sizes[i]);
		ptr = freelist_realloc(f, ptr, sizes[i] + 30, sizes[i] / 2);
		dies_somehow(ptr, sizes[i]);
		dies_somehow(ptr, sizes[i] / 2 + 1);
		freelist_free(f, ptr, sizes[i] / 2);
	}
}

static void any_wrong_size_is_seen_in_debug(void **state)
{
	(void)state;
	in_each_setting(wrong_sizes);
}

/* What a rollback does. */
static void put_back(char *copy, size_t size)
{
	track_defined(f, size);
	memcpy(f, copy, size);
}

static void a_rollback_takes_the_shadow_along_or_shuts_it(void **state)
{
	static const char what[] = "the size is not that of the block";
	struct freelist_extent extent;
	char *block[100], *copy;

	(void)state;
	open_with(8, 0);
	for (size_t i = 0; i < lengthof(block); i++)
		block[i] = freelist_alloc(f, 40);
	freelist_extent(f, &extent);
	copy = small_xmalloc(extent.low);
	track_defined(f, extent.low);
	memcpy(copy, f, extent.low);
	freelist_shadow_save(f);
	for (size_t i = 0; i < lengthof(block); i++)
		freelist_free(f, block[i], 40);
	for (size_t i = 0; i < lengthof(block); i++)
		freelist_alloc(f, 48);
	put_back(copy, extent.low);
	freelist_shadow_load(f);
	dies(block[3], 41, what);
	freelist_free(f, block[0], 40);
	put_back(copy, extent.low);
	for (size_t i = 0; i < lengthof(block); i++)
		freelist_free(f, block[i], 40);
	block[0] = freelist_alloc(f, 40);
	dies(block[0], 41, what);
	freelist_reset(f);
	block[0] = freelist_alloc(f, 40);
	dies(block[0], 50, what);
	freelist_destroy(f);
	free(copy);
}

/* Two buffers side by side, where the first one's piece begins late. */
static void a_new_piece_leaves_the_next_one_its_shadow(void **state)
{
	static char memory[4 * 4096] __attribute__((aligned(16)));
	struct freelist *before, *third;
	char *ptr;

	(void)state;
	f = freelist_create_in(memory + 4096, 4096, NULL);
	ptr = freelist_alloc(f, 100);
	before = freelist_create_in(memory + 8, 4096 - 8, NULL);
	third = freelist_create_in(memory + 8192, 8192, NULL);
	freelist_alloc(before, 100);
	freelist_alloc(third, 100);
	dies(ptr, 101, "the size is not that of the block");
	freelist_free(f, ptr, 100);
	freelist_destroy(third);
	freelist_destroy(before);
	freelist_destroy(f);
}
#endif

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_second_free_is_seen),
		TEST(a_second_free_is_seen_whatever_was_freed_since),
		TEST(a_pointer_that_is_no_block_is_seen),
		TEST(a_size_past_the_end_is_seen),
		TEST(a_small_size_past_the_end_is_seen),
		TEST(a_size_over_a_free_block_is_seen),
		TEST(a_small_size_over_a_free_block_is_seen),
		TEST(a_link_that_leaves_the_piece_is_seen),
		TEST(contents_like_a_stamp_are_no_misuse),
		TEST(no_false_alarm_over_random_frees),
#ifndef NDEBUG
		TEST(a_wrong_thread_is_named),
		TEST(any_wrong_size_is_seen_in_debug),
		TEST(a_rollback_takes_the_shadow_along_or_shuts_it),
		TEST(a_new_piece_leaves_the_next_one_its_shadow),
#endif
	};

	return cmocka_run_group_tests_name("freelist_misuse", tests, NULL,
	                                   NULL);
}
