/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FREELIST_FIXTURE_H
#define TEST_FREELIST_FIXTURE_H
/* freelist_fixture - a core for each test, and the freelist on it. */
#include "core.h"

#include <small/freelist_impl.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static struct core core;
static struct freelist *f;

static inline void *setup_with(size_t quota)
{
	core_create(&core, quota, MIB);
	f = NULL;
	return &core;
}

static inline int setup(void **state)
{
	*state = setup_with(QUOTA_MAX);
	return 0;
}

static inline void check(void)
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

static inline int teardown(void **state)
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

static inline void open_with(size_t limit, size_t granule)
{
	struct freelist_opts opts = {.limit = limit, .granule = granule};

	f = freelist_create(&core.region, &opts);
	assert_non_null(f);
	check();
}

static inline void *alloc(size_t size)
{
	void *ptr = freelist_alloc(f, size);

	assert_non_null(ptr);
	memset(ptr, (int)size, size);
	return ptr;
}

static inline void assert_filled(const void *ptr, size_t size, size_t upto)
{
	const unsigned char *bytes = ptr;

	for (size_t i = 0; i < upto; i++)
		if (bytes[i] != (unsigned char)size)
			fail_msg("byte %zu of %zu was changed", i, size);
}

/* Blocks of this size until one is refused; how many. */
static inline size_t fill(size_t size, void **blocks, size_t max)
{
	size_t n = 0;

	while (n < max && (blocks[n] = freelist_alloc(f, size)) != NULL)
		n++;
	return n;
}

/* --- sizes (29) --- */

static inline void refuses(size_t size)
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif /* TEST_FREELIST_FIXTURE_H */
