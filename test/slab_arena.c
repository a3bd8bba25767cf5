/* SPDX-License-Identifier: BSD-2-Clause */
/* slab_arena - each promise of slab_arena.h; cases 14 and 16 of the field. */
#include "die.h"

#include <small/slab_arena.h>

#define SLAB SLAB_MIN_SIZE

static struct quota quota;
static struct slab_arena arena;
static void *slabs[64];

static void create(size_t total, size_t prealloc, size_t slab_size)
{
	quota_init(&quota, total);
	assert_int_equal(slab_arena_create(&arena, &quota, prealloc, slab_size,
	                                   SLAB_ARENA_PRIVATE),
	                 0);
}

static int setup(void **state)
{
	*state = NULL;
	create(64 * SLAB, 0, SLAB);
	return 0;
}

/* Nothing broken, and what is charged is what is mapped. */
static void check(void)
{
	struct slab_arena_stats stats;

	assert_ptr_equal(slab_arena_check(&arena), NULL);
	assert_ptr_equal(quota_check(&quota), NULL);
	slab_arena_stats(&arena, &stats);
	assert_int_equal(stats.used + stats.large, quota_used(&quota));
	assert_int_equal(stats.used, arena.used);
}

static int teardown(void **state)
{
	(void)state;
	fault_clear();
	check();
	slab_arena_destroy(&arena);
	assert_int_equal(quota_used(&quota), 0);
	return 0;
}

static void map(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		slabs[i] = slab_map(&arena);
		assert_non_null(slabs[i]);
		memset(slabs[i], (int)i, 100);
	}
}

static void unmap(size_t count)
{
	for (size_t i = 0; i < count; i++)
		slab_unmap(&arena, slabs[i]);
}

static void slab_sizes_are_rounded_up_or_refused(void **state)
{
	static const size_t sizes[][2] = {
		{0, SLAB},
		{1, SLAB},
		{0x10000, SLAB},
		{0x10001, 2 * SLAB},
		{4000000, (size_t)1 << 22},
		{(size_t)1 << 28, (size_t)1 << 28},
#if SIZE_MAX > UINT32_MAX
		{(size_t)1 << 31, (size_t)1 << 31},
		{((size_t)1 << 31) + 1, (size_t)1 << 32},
#endif
	};
	struct slab_arena other;

	(void)state;
	for (size_t i = 0; i < lengthof(sizes); i++) {
		assert_int_equal(slab_arena_create(&other, &quota, 0,
		                                   sizes[i][0],
		                                   SLAB_ARENA_PRIVATE),
		                 0);
		assert_int_equal(other.slab_size, sizes[i][1]);
		slab_arena_destroy(&other);
	}
	for (size_t n = SIZE_MAX - 64; n != 0; n++)
		assert_int_equal(slab_arena_create(&other, &quota, 0, n,
		                                   SLAB_ARENA_PRIVATE),
		                 -1);
	assert_int_equal(slab_arena_create(&other, &quota, 0, SIZE_MAX / 2 + 1,
	                                   SLAB_ARENA_PRIVATE),
	                 -1);
	assert_int_equal(quota_used(&quota), 0);
}

static void a_slab_of_two_gigabytes_is_aligned_and_charged(void **state)
{
	size_t size = (size_t)1 << (SIZE_MAX > UINT32_MAX ? 31 : 26);
	struct quota wide;
	struct slab_arena other;
	char *slab;

	(void)state;
	quota_init(&wide, size + size / 2);
	assert_int_equal(
		slab_arena_create(&other, &wide, 0, size, SLAB_ARENA_PRIVATE),
		0);
	slab = slab_map(&other);
	assert_non_null(slab);
	assert_int_equal((uintptr_t)slab & (size - 1), 0);
	slab[0] = slab[size - 1] = 1;
	assert_int_equal(quota_used(&wide), size);
	assert_null(slab_map(&other));
	assert_int_equal(quota_used(&wide), size);
	slab_unmap(&other, slab);
	slab_arena_destroy(&other);
	assert_int_equal(quota_used(&wide), 0);
}

static void slabs_are_aligned_apart_and_writable(void **state)
{
	(void)state;
	map(64);
	assert_null(slab_map(&arena));
	for (size_t i = 0; i < 64; i++) {
		assert_int_equal((uintptr_t)slabs[i] % SLAB, 0);
		assert_int_equal(*(unsigned char *)slabs[i], i);
		for (size_t j = 0; j < i; j++)
			assert_ptr_not_equal(slabs[i], slabs[j]);
	}
	unmap(64);
}

static void an_idle_slab_comes_back_first(void **state)
{
	(void)state;
	map(3);
	unmap(3);
	assert_int_equal(arena.used, 3 * SLAB);
	assert_ptr_equal(slab_map(&arena), slabs[2]);
	assert_ptr_equal(slab_map(&arena), slabs[1]);
	assert_int_equal(arena.used, 3 * SLAB);
	slab_unmap(&arena, slabs[1]);
	slab_unmap(&arena, slabs[2]);
	slab_unmap(&arena, NULL);
}

static void idle_slabs_above_the_retain_bound_go_back_to_the_quota(void **state)
{
	(void)state;
	assert_int_equal(arena.retain, 16 * SLAB);
	map(64);
	unmap(64);
	check();
	assert_int_equal(quota_used(&quota), 16 * SLAB);
	slab_arena_set_retain(&arena, 5 * SLAB + 1);
	assert_int_equal(arena.retain, 5 * SLAB);
	assert_int_equal(quota_used(&quota), 5 * SLAB);
	assert_int_equal(slab_arena_trim(&arena), 5 * SLAB);
	assert_int_equal(slab_arena_trim(&arena), 0);
	assert_int_equal(quota_used(&quota), 0);
	slab_arena_set_retain(&arena, 0);
	map(2);
	unmap(2);
	assert_int_equal(quota_used(&quota), 0);
	slab_arena_set_retain(&arena, SIZE_MAX);
#if SIZE_MAX > UINT32_MAX
	assert_true(arena.retain <= ((size_t)1 << 20) * (SLAB >> 10) << 10);
#endif
	map(64);
	unmap(64);
	assert_int_equal(quota_used(&quota), 64 * SLAB);
}

/* The bound of 2^20 slabs is 2^42 bytes here: no number of 32 bits. */
static void the_default_retain_bound_is_sixteen_slabs_of_any_size(void **state)
{
	(void)state;
	for (size_t size = SLAB; size <= 64 * SLAB; size *= 2) {
		slab_arena_destroy(&arena);
		create(1024 * SLAB, 0, size);
		assert_int_equal(arena.retain, 16 * size);
	}
}

static void idle_slabs_are_given_up_before_any_refusal(void **state)
{
	struct slab_arena other;
	void *slab;

	(void)state;
	slab_arena_set_retain(&arena, SIZE_MAX);
	assert_int_equal(slab_arena_create(&other, &quota, 0, 2 * SLAB,
	                                   SLAB_ARENA_PRIVATE),
	                 0);
	map(64);
	assert_int_equal(quota_use(&quota, 1), -1);
	assert_null(slab_map(&other));
	unmap(63);
	slab = slab_map(&other);
	assert_non_null(slab);
	assert_int_equal(quota_use(&quota, 60 * SLAB), 60 * SLAB);
	assert_int_equal(quota_used(&quota), 64 * SLAB);
	quota_release(&quota, 60 * SLAB);
	slab_unmap(&other, slab);
	assert_int_equal(quota_set(&quota, SLAB), SLAB);
	assert_int_equal(quota_set(&quota, 0), -1);
	slab_unmap(&arena, slabs[63]);
	assert_int_equal(quota_set(&quota, 0), 0);
	slab_arena_destroy(&other);
}

static void
asking_on_after_a_refusal_stays_refused_until_some_are_freed(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) {
		map(64);
		for (int i = 0; i < 1000; i++)
			assert_null(slab_map(&arena));
		slab_unmap(&arena, slabs[10]);
		slabs[10] = slab_map(&arena);
		assert_non_null(slabs[10]);
		assert_null(slab_map(&arena));
		unmap(64);
	}
}

static void
preallocation_is_charged_slab_by_slab_and_starts_the_mapping(void **state)
{
	(void)state;
	slab_arena_destroy(&arena);
	create(64 * SLAB, 19 * SLAB - 1, SLAB);
	assert_int_equal(arena.prealloc, 19 * SLAB);
	assert_int_equal(arena.retain, 19 * SLAB);
	assert_int_equal(quota_used(&quota), 0);
	map(20);
	for (size_t i = 0; i < 19; i++)
		assert_ptr_equal(slabs[i], (char *)arena.arena + i * SLAB);
	assert_int_equal(quota_used(&quota), 20 * SLAB);
	unmap(20);
	assert_int_equal(quota_used(&quota), 19 * SLAB);
}

static void a_preallocation_above_the_quota_is_cut_to_it(void **state)
{
	(void)state;
	slab_arena_destroy(&arena);
	create(3 * SLAB + 1, SIZE_MAX, SLAB);
	assert_int_equal(arena.prealloc, 4 * SLAB);
	map(3);
	assert_null(slab_map(&arena));
	unmap(3);
}

static void create_that_fails_leaves_nothing(void **state)
{
	struct slab_arena other;

	(void)state;
	for (size_t n = 1; n <= 2; n++) {
		fault_set(FAULT_MMAP, n, false);
		assert_int_equal(slab_arena_create(&other, &quota, 4 * SLAB,
		                                   SLAB, SLAB_ARENA_PRIVATE),
		                 -1);
		assert_int_equal(fault_refused(), 1);
		assert_int_equal(quota_used(&quota), 0);
		assert_ptr_equal(quota_check(&quota), NULL);
	}
	fault_clear();
	assert_int_equal(slab_arena_create(&other, &quota, 4 * SLAB, SLAB,
	                                   SLAB_ARENA_PRIVATE),
	                 0);
	slab_arena_destroy(&other);
}

/* A host that has as many mappings as the kernel allows can not split one. */
static void what_the_os_refuses_to_unmap_stays_idle_and_charged(void **state)
{
	(void)state;
	slab_arena_set_retain(&arena, SLAB);
	map(4);
	fault_set(FAULT_MUNMAP, 1, true);
	unmap(4);
	check();
	assert_int_equal(quota_used(&quota), 4 * SLAB);
	assert_int_equal(slab_arena_trim(&arena), 0);
	check();
	fault_clear();
	assert_int_equal(slab_arena_trim(&arena), 4 * SLAB);
	assert_int_equal(quota_used(&quota), 0);
}

static void a_full_table_sends_slabs_back_to_the_os(void **state)
{
	size_t size = arena.table_size;

	(void)state;
	slab_arena_set_retain(&arena, SIZE_MAX);
	arena.table_size = 2;
	map(4);
	unmap(4);
	check();
	assert_int_equal(quota_used(&quota), 2 * SLAB);
	slab_arena_set_retain(&arena, SIZE_MAX);
	assert_int_equal(arena.retain, 2 * SLAB);
	arena.table_size = size;
}

static void raw_mmap_flags_are_accepted(void **state)
{
	static const int flags[] = {MAP_PRIVATE, MAP_SHARED, SLAB_ARENA_PRIVATE,
	                            SLAB_ARENA_SHARED,
	                            SLAB_ARENA_PRIVATE | SLAB_ARENA_HUGEPAGE};

	(void)state;
	for (size_t i = 0; i < lengthof(flags); i++) {
		slab_arena_destroy(&arena);
		quota_init(&quota, 64 * SLAB);
		assert_int_equal(slab_arena_create(&arena, &quota, 2 * SLAB,
		                                   SLAB, flags[i]),
		                 0);
		map(4);
		unmap(4);
		check();
	}
}

static void store(void *ptr)
{
	*(volatile char *)ptr = 77;
}

static void a_shared_slab_is_shared_with_a_forked_process(void **state)
{
	char text[256];

	(void)state;
	map(1);
	*(char *)slabs[0] = 1;
	assert_false(die_of(store, slabs[0], text, sizeof(text)));
	assert_int_equal(*(volatile char *)slabs[0], 1);
	unmap(1);
	slab_arena_destroy(&arena);
	quota_init(&quota, 64 * SLAB);
	assert_int_equal(
		slab_arena_create(&arena, &quota, 0, SLAB, SLAB_ARENA_SHARED),
		0);
	map(1);
	*(char *)slabs[0] = 1;
	assert_false(die_of(store, slabs[0], text, sizeof(text)));
	assert_int_equal(*(volatile char *)slabs[0], 77);
	unmap(1);
}

static void protect_and_store(void *ptr)
{
	slab_arena_mprotect(&arena);
	store(ptr);
}

static void mprotect_makes_the_preallocation_read_only(void **state)
{
	char text[4096];

	(void)state;
	slab_arena_mprotect(&arena);
	slab_arena_destroy(&arena);
	create(64 * SLAB, 2 * SLAB, SLAB);
	map(3);
	assert_true(die_of(protect_and_store, slabs[1], text, sizeof(text)));
	assert_false(die_of(protect_and_store, slabs[2], text, sizeof(text)));
	unmap(3);
}

static void mprotect_never_reaches_a_mapping_of_others(void **state)
{
	void *place;

	(void)state;
	slab_arena_destroy(&arena);
	create(64 * SLAB, 2 * SLAB, SLAB);
	map(2);
	unmap(2);
	assert_int_equal(slab_arena_trim(&arena), 2 * SLAB);
	place = mmap(slabs[1], SLAB, PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(place != MAP_FAILED);
	slab_arena_mprotect(&arena);
	store(place);
	munmap(place, SLAB);
	map(3);
	unmap(3);
}

static void unmap_inside(void *slab)
{
	slab_unmap(&arena, (char *)slab + 64);
}

static void an_address_inside_a_slab_is_named(void **state)
{
	(void)state;
	map(1);
	assert_panics(unmap_inside, slabs[0], "slab_unmap", "not a slab");
	unmap(1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(slab_sizes_are_rounded_up_or_refused),
		T(a_slab_of_two_gigabytes_is_aligned_and_charged),
		T(slabs_are_aligned_apart_and_writable),
		T(an_idle_slab_comes_back_first),
		T(idle_slabs_above_the_retain_bound_go_back_to_the_quota),
		T(the_default_retain_bound_is_sixteen_slabs_of_any_size),
		T(idle_slabs_are_given_up_before_any_refusal),
		T(asking_on_after_a_refusal_stays_refused_until_some_are_freed),
		T(preallocation_is_charged_slab_by_slab_and_starts_the_mapping),
		T(a_preallocation_above_the_quota_is_cut_to_it),
		T(create_that_fails_leaves_nothing),
		T(what_the_os_refuses_to_unmap_stays_idle_and_charged),
		T(a_full_table_sends_slabs_back_to_the_os),
		T(raw_mmap_flags_are_accepted),
		T(a_shared_slab_is_shared_with_a_forked_process),
		T(mprotect_makes_the_preallocation_read_only),
		T(mprotect_never_reaches_a_mapping_of_others),
		T(an_address_inside_a_slab_is_named),
	};

	return cmocka_run_group_tests_name("slab_arena", tests, NULL, NULL);
}
