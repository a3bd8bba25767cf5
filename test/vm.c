/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vm - what the kernel says: flags of the mappings, resident memory that
 * falls, address space that comes back.
 */
#include "core.h"

#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* True when the mapping that ptr is in has this two-letter VmFlag. */
static bool has_flag(const void *ptr, const char *flag)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	uintptr_t from, to, at = (uintptr_t)ptr;
	bool inside = false, found = false;
	char line[1024];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
			inside = at >= from && at < to;
		if (inside && strncmp(line, "VmFlags:", 8) == 0)
			found = strstr(line, flag) != NULL;
	}
	fclose(f);
	return found;
}

/* Pages from the second column (of all: the first) of statm, in bytes. */
static size_t statm(bool resident)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t all = 0, rss = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%zu %zu", &all, &rss), 2);
	fclose(f);
	return (resident ? rss : all) * (size_t)sysconf(_SC_PAGESIZE);
}

static void slabs_stay_out_of_dumps(int flags, bool expected)
{
	struct quota quota;
	struct slab_arena arena;
	struct slab_cache cache;
	struct slab *large, *grown;
	void *slabs[4];

	quota_init(&quota, 64 * MIB);
	assert_int_equal(slab_arena_create(&arena, &quota, 2 * MIB, MIB, flags),
	                 0);
	slab_cache_create(&cache, &arena);
	/* Two of the preallocation, one more, and one that came back. */
	for (size_t i = 0; i < 3; i++)
		slabs[i] = slab_map(&arena);
	slab_arena_set_retain(&arena, 0);
	slab_unmap(&arena, slabs[2]);
	slabs[2] = slab_map(&arena);
	slabs[3] = slab_map(&arena);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(has_flag(slabs[i], " dd"), expected);
		slab_unmap(&arena, slabs[i]);
	}
	large = slab_get(&cache, 3 * MIB);
	grown = slab_get_growable(&cache, 1, 3 * MIB);
	assert_int_equal(slab_resize(&cache, grown, 2 * MIB), 0);
	assert_int_equal(slab_resize(&cache, grown, 1), 0);
	assert_int_equal(slab_resize(&cache, grown, 2 * MIB), 0);
	assert_int_equal(has_flag(large, " dd"), expected);
	assert_int_equal(has_flag(grown, " dd"), expected);
	assert_int_equal(has_flag((char *)grown + MIB, " dd"), expected);
	slab_cache_destroy(&cache);
	slab_arena_destroy(&arena);
}

static void dontdump_holds_for_preallocated_later_and_large_slabs(void **state)
{
	(void)state;
	slabs_stay_out_of_dumps(SLAB_ARENA_PRIVATE | SLAB_ARENA_DONTDUMP, true);
	slabs_stay_out_of_dumps(SLAB_ARENA_SHARED | SLAB_ARENA_DONTDUMP, true);
	slabs_stay_out_of_dumps(SLAB_ARENA_PRIVATE, false);
	slabs_stay_out_of_dumps(MAP_PRIVATE, false);
}

/* Fills slabs of the arena, of the cache and above it, gives them back and
 * tells how many bytes became resident and how many of these stay. */
static void use_and_give_back(int flags, size_t *more, size_t *left)
{
	size_t before, size = 64 * MIB;
	struct core core;
	char *ptr;

	quota_init(&core.quota, 256 * MIB);
	assert_int_equal(slab_arena_create(&core.arena, &core.quota, 8 * MIB,
	                                   4 * MIB, flags),
	                 0);
	slab_cache_create(&core.cache, &core.arena);
	region_create(&core.region, &core.cache);
	before = statm(true);
	for (size_t i = 0; i < 32; i++) {
		ptr = region_alloc(&core.region, MIB - 64);
		assert_non_null(ptr);
		memset(ptr, 'r', MIB - 64);
	}
	ptr = region_alloc(&core.region, size / 2);
	assert_non_null(ptr);
	memset(ptr, 'r', size / 2);
	*more = statm(true) - before;
	region_free(&core.region);
	slab_cache_trim(&core.cache);
	slab_arena_trim(&core.arena);
	assert_int_equal(quota_used(&core.quota), 0);
	*left = statm(true) > before ? statm(true) - before : 0;
	core_destroy(&core);
}

static void resident_memory_falls_with_the_quota(void **state)
{
	static const int flags[] = {SLAB_ARENA_PRIVATE, SLAB_ARENA_SHARED};
	size_t more, left;

	(void)state;
	for (size_t i = 0; i < lengthof(flags); i++) {
		use_and_give_back(flags[i], &more, &left);
		assert_true(more >= 60 * MIB);
		/* What a tool keeps beside each byte stays: less than half. */
		assert_true(left <= more / 2);
	}
}

static void a_shrunk_block_gives_its_pages_back(void **state)
{
	struct core core;
	size_t before, most;
	char *ptr;

	(void)state;
	core_create(&core, 256 * MIB, 4 * MIB);
	ptr = region_growable(&core.region, 64 * MIB, 128 * MIB);
	assert_non_null(ptr);
	before = statm(true);
	memset(ptr, 'g', 64 * MIB);
	most = statm(true);
	assert_true(most - before >= 60 * MIB);
	assert_int_equal(region_resize_growable(&core.region, ptr, 1), 0);
	assert_true(statm(true) <= most - 60 * MIB);
	core_destroy(&core);
}

/* Large and growable slabs take their address space with them. */
static void rounds_of_large_slabs_leave_no_address_space_behind(void **state)
{
	size_t before = 0;
	struct core core;

	(void)state;
	core_create(&core, 256 * MIB, 4 * MIB);
	for (size_t i = 0; i < 200; i++) {
		assert_non_null(region_alloc(&core.region, 9 * MIB));
		assert_non_null(region_growable(&core.region, 1, 64 * MIB));
		region_free(&core.region);
		if (i == 10)
			before = statm(false);
	}
	assert_true(statm(false) <= before + 64 * MIB);
	core_destroy(&core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			dontdump_holds_for_preallocated_later_and_large_slabs),
		cmocka_unit_test(resident_memory_falls_with_the_quota),
		cmocka_unit_test(a_shrunk_block_gives_its_pages_back),
		cmocka_unit_test(
			rounds_of_large_slabs_leave_no_address_space_behind),
	};

	return cmocka_run_group_tests_name("vm", tests, NULL, NULL);
}
