/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * oom - every acquisition of every call refused, the first, the second and so
 * on, once and from then on: the object is as before, the quota exact, no
 * invariant broken, and the same call then succeeds.
 */
#include "core.h"

#define MIB ((size_t)1 << 20)

static struct core core;
static struct slab *slab; /* a growable one */
static void *block;       /* a growable block */
static void *bytes[3];    /* what the region holds in three slabs */

static const unsigned masks[] = {FAULT_MMAP, FAULT_COMMIT, FAULT_QUOTA,
                                 FAULT_SLAB, FAULT_ALL};

/* --- the calls; true on success, and what they took is given back --- */

static bool alloc_small(void)
{
	return region_alloc(&core.region, 3 * small_getpagesize()) != NULL;
}

static bool alloc_large(void)
{
	return region_alloc(&core.region, 5 * MIB) != NULL;
}

static bool alloc_aligned(void)
{
	return region_aligned_alloc(&core.region, 50000, 4096) != NULL;
}

static bool alloc_array(void)
{
	size_t size;

	return region_alloc_array(&core.region, long, 70000, &size) != NULL;
}

static bool reserve(void)
{
	return region_reserve(&core.region, 100000) != NULL;
}

static bool reserve_aligned(void)
{
	return region_aligned_reserve(&core.region, 100000, 64) != NULL;
}

static bool reserve_cb(void)
{
	size_t size = 100000;
	void *ptr = region_reserve_cb(&core.region, &size);

	assert_int_equal(ptr == NULL, size == 0);
	return ptr != NULL;
}

static bool join(void)
{
	size_t used = region_used(&core.region);

	return used == 0 || region_join(&core.region, used) != NULL;
}

static bool growable(void)
{
	return region_growable(&core.region, 10000, MIB) != NULL;
}

static bool resize_growable(void)
{
	return block == NULL ||
	       region_resize_growable(&core.region, block, 3 * MIB) == 0;
}

static bool get_slab(void)
{
	struct slab *got = slab_get(&core.cache, 100000);

	if (got != NULL)
		slab_put(&core.cache, got);
	return got != NULL;
}

static bool get_order(void)
{
	struct slab *got =
		slab_get_with_order(&core.cache, core.cache.order_max);

	if (got != NULL)
		slab_put_with_order(&core.cache, got);
	return got != NULL;
}

static bool get_large(void)
{
	struct slab *got = slab_get_large(&core.cache, 100);

	if (got != NULL)
		slab_put_large(&core.cache, got);
	return got != NULL;
}

static bool get_growable(void)
{
	struct slab *got = slab_get_growable(&core.cache, 100, 9 * MIB);

	if (got != NULL)
		slab_put(&core.cache, got);
	return got != NULL;
}

static bool resize(void)
{
	return slab == NULL || slab_resize(&core.cache, slab, 3 * MIB) == 0;
}

static bool map(void)
{
	void *got = slab_map(&core.arena);

	slab_unmap(&core.arena, got);
	return got != NULL;
}

static bool create_arena(void)
{
	struct slab_arena arena;

	if (slab_arena_create(&arena, &core.quota, 3 * MIB, MIB,
	                      SLAB_ARENA_PRIVATE) != 0)
		return false;
	slab_arena_destroy(&arena);
	return true;
}

static const struct {
	const char *name;
	bool (*run)(void);
} calls[] = {
	{"region_alloc, a slab", alloc_small},
	{"region_alloc, oversize", alloc_large},
	{"region_aligned_alloc", alloc_aligned},
	{"region_alloc_array", alloc_array},
	{"region_reserve", reserve},
	{"region_aligned_reserve", reserve_aligned},
	{"region_reserve_cb", reserve_cb},
	{"region_join", join},
	{"region_growable", growable},
	{"region_resize_growable", resize_growable},
	{"slab_get", get_slab},
	{"slab_get_with_order", get_order},
	{"slab_get_large", get_large},
	{"slab_get_growable", get_growable},
	{"slab_resize", resize},
	{"slab_map", map},
	{"slab_arena_create", create_arena},
};

/* --- the objects they are called on --- */

static void create(bool filled)
{
	static const size_t sizes[] = {2000, 60000, 2 * MIB};

	core_create(&core, 64 * MIB, MIB);
	slab = NULL;
	block = NULL;
	memset(bytes, 0, sizeof(bytes));
	if (!filled)
		return;
	for (size_t i = 0; i < lengthof(sizes); i++) {
		bytes[i] = region_alloc(&core.region, sizes[i]);
		assert_non_null(bytes[i]);
		memset(bytes[i], (int)i + 1, 2000);
	}
	block = region_growable(&core.region, 100, 4 * MIB);
	slab = slab_get_growable(&core.cache, 100, 4 * MIB);
	assert_true(block != NULL && slab != NULL);
}

static void destroy(void)
{
	if (slab != NULL)
		slab_put(&core.cache, slab);
	core_destroy(&core);
}

static void check_bytes(void)
{
	for (size_t i = 0; i < lengthof(bytes); i++)
		for (size_t j = 0; bytes[i] != NULL && j < 2000; j++)
			assert_int_equal(((char *)bytes[i])[j], i + 1);
}

/* One refusal of acquisition n; false when the call makes no n of them. */
static bool refuse(size_t call, unsigned mask, size_t n, bool from_then_on)
{
	size_t used = region_used(&core.region);
	size_t total = region_total(&core.region);
	size_t taken = slab_cache_used(&core.cache);
	size_t charged = quota_used(&core.quota);
	bool done, hit;

	fault_set(mask, n, from_then_on);
	done = calls[call].run();
	hit = fault_refused() != 0;
	fault_clear();
	if (!hit)
		return false;
	core_check(&core);
	check_bytes();
	if (done) /* another way was found */
		return true;
	if (region_used(&core.region) != used ||
	    region_total(&core.region) > total ||
	    slab_cache_used(&core.cache) > taken ||
	    quota_used(&core.quota) > charged)
		fail_msg("%s changed something", calls[call].name);
	if (!calls[call].run())
		fail_msg("%s fails afterwards", calls[call].name);
	core_check(&core);
	check_bytes();
	return true;
}

static size_t refuse_each(size_t call, unsigned mask, bool from_then_on,
                          bool filled)
{
	size_t n = 0;
	bool more = true;

	while (more) {
		create(filled);
		more = refuse(call, mask, n + 1, from_then_on);
		destroy();
		n += more;
	}
	return n;
}

static void refuse_all(bool filled)
{
	size_t least = 0;

	for (size_t call = 0; call < lengthof(calls); call++) {
		size_t count = 0;

		for (size_t i = 0; i < lengthof(masks); i++) {
			count += refuse_each(call, masks[i], false, filled);
			count += refuse_each(call, masks[i], true, filled);
		}
		least += count != 0;
	}
	/* With nothing there join and the two resizes acquire nothing. */
	assert_int_equal(least, lengthof(calls) - (filled ? 0 : 3));
}

static void a_refusal_leaves_empty_objects_as_they_were(void **state)
{
	(void)state;
	refuse_all(false);
}

static void a_refusal_leaves_full_objects_as_they_were(void **state)
{
	(void)state;
	refuse_all(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refusal_leaves_empty_objects_as_they_were),
		cmocka_unit_test(a_refusal_leaves_full_objects_as_they_were),
	};

	return cmocka_run_group_tests_name("oom", tests, NULL, NULL);
}
