/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases - misuse of region, cache and arena: what every build names, what the
 * debug build names, what ASan and memcheck see; cases 4, 15 and 17.
 */
#include "core.h"
#include "die.h"

#include <pthread.h>
#include <sys/syscall.h>

#define MIB ((size_t)1 << 20)

static struct core core;

static int setup(void **state)
{
	*state = NULL;
	memset(&core, 0xff, sizeof(core));
	core_create(&core, 256 * MIB, 4 * MIB);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	core_destroy(&core);
	return 0;
}

static char *fill(size_t size)
{
	char *ptr = region_alloc(&core.region, size);

	assert_non_null(ptr);
	return memset(ptr, 'a', size);
}

/* A read and a branch on it, so that memcheck looks at what was read. */
static void touch(const char *ptr)
{
	if (*(const volatile char *)ptr == 'z')
		fputs("z", stderr);
}

/* Seen by the tools, and by them only: elsewhere the memory is still there. */
static void assert_seen(void (*misuse)(void *))
{
	char text[4096];
	bool seen = die_of(misuse, NULL, text, sizeof(text));

	if (seen != die_watched())
		fail_msg("%s: %s", seen ? "seen" : "not seen", text);
}

static void assert_unseen(void (*use)(void *))
{
	char text[4096];

	if (die_of(use, NULL, text, sizeof(text)))
		fail_msg("seen: %s", text);
}

/* --- what the tools see --- */

static void read_after_reset(void *arg)
{
	char *ptr = fill(100);

	(void)arg;
	region_reset(&core.region);
	touch(ptr);
}

static void read_an_old_slab_after_reset(void *arg)
{
	char *ptr = fill(100);

	(void)arg;
	for (int i = 0; i < 100; i++)
		fill(3000);
	region_reset(&core.region);
	touch(ptr);
}

static void read_the_rest_after_reset(void *arg)
{
	char *ptr;

	(void)arg;
	region_set_retain(&core.region, 0);
	ptr = fill(3000);
	region_reset(&core.region);
	touch(ptr);
}

static void use_after_reset_is_seen(void **state)
{
	(void)state;
	assert_seen(read_after_reset);
	assert_seen(read_an_old_slab_after_reset);
	assert_seen(read_the_rest_after_reset);
}

static void write_one_past(void *arg)
{
	char *ptr = fill(101);

	(void)arg;
	ptr[101] = 'x';
}

static void write_one_past_an_aligned_block(void *arg)
{
	char *ptr = region_aligned_alloc(&core.region, 64, 64);

	(void)arg;
	ptr[64] = 'x';
}

static void write_one_past_what_is_left_of_a_reserve(void *arg)
{
	char *ptr = region_reserve(&core.region, 100);

	(void)arg;
	ptr[99] = 'x';
	ptr = region_alloc(&core.region, 50);
	ptr[50] = 'x';
}

static void write_one_past_a_reserve(void *arg)
{
	char *ptr = region_reserve(&core.region, 104);

	(void)arg;
	ptr[104] = 'x';
}

static void one_byte_past_the_end_is_seen(void **state)
{
	(void)state;
	assert_seen(write_one_past);
	assert_seen(write_one_past_an_aligned_block);
	assert_seen(write_one_past_what_is_left_of_a_reserve);
	assert_seen(write_one_past_a_reserve);
}

static void read_after_rollback(void *arg)
{
	struct region_svp svp = region_create_svp(&core.region);
	char *ptr = fill(100);

	(void)arg;
	region_rollback_to_svp(&core.region, &svp);
	touch(ptr);
}

static void read_after_truncate(void *arg)
{
	char *ptr;

	(void)arg;
	fill(10);
	ptr = fill(10);
	region_truncate(&core.region, 10);
	touch(ptr);
}

static void read_a_left_slab_after_truncate(void *arg)
{
	char *ptr;

	(void)arg;
	fill(10);
	ptr = fill(20000);
	fill(60000);
	region_truncate(&core.region, 10);
	touch(ptr);
}

static void use_after_rollback_is_seen(void **state)
{
	(void)state;
	assert_seen(read_after_rollback);
	assert_seen(read_after_truncate);
	assert_seen(read_a_left_slab_after_truncate);
}

static void read_after_free(void *arg)
{
	char *ptr = fill(100);

	(void)arg;
	region_free(&core.region);
	touch(ptr);
}

static void read_after_slab_put(void *arg)
{
	struct slab *slab = slab_get(&core.cache, 100);
	char *ptr = slab_data(slab);

	(void)arg;
	memset(ptr, 'a', 100);
	slab_put(&core.cache, slab);
	touch(ptr);
}

static void read_after_slab_unmap(void *arg)
{
	char *ptr = slab_map(&core.arena);

	(void)arg;
	memset(ptr, 'a', 100);
	slab_unmap(&core.arena, ptr);
	touch(ptr);
}

static void use_of_what_was_given_back_is_seen(void **state)
{
	(void)state;
	assert_seen(read_after_free);
	assert_seen(read_after_slab_put);
	assert_seen(read_after_slab_unmap);
}

static void read_what_was_never_written(void *arg)
{
	char *ptr;

	(void)arg;
	fill(100);
	region_reset(&core.region);
	ptr = region_alloc(&core.region, 100);
	touch(ptr + 50);
}

static void an_old_value_is_no_value_for_memcheck(void **state)
{
	char text[4096];

	(void)state;
	assert_int_equal(
		die_of(read_what_was_never_written, NULL, text, sizeof(text)),
		die_watched() && !TRACK_ASAN);
}

/* Past the interceptors of the tools, which would open the range. */
static void *map_at(void *ptr, size_t size)
{
	int prot = PROT_READ | PROT_WRITE;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

#if defined(SYS_mmap) && SIZE_MAX > UINT32_MAX
	return (void *)syscall(SYS_mmap, ptr, size, prot, flags, -1, 0);
#else
	return mmap(ptr, size, prot, flags, -1, 0);
#endif
}

/* Everything goes back to the OS, poisoned as it was; then somebody else maps
 * the same addresses. */
static void map_where_slabs_were(void *arg)
{
	char *large = fill(9 * MIB), *small = fill(100);
	char *grown = region_growable(&core.region, MIB, 2 * MIB);
	char *slab = (char *)((uintptr_t)small & ~(4 * MIB - 1));

	(void)arg;
	region_reset(&core.region);
	region_free(&core.region);
	slab_cache_trim(&core.cache);
	slab_arena_trim(&core.arena);
	if (quota_used(&core.quota) != 0)
		abort();
	large = map_at((char *)((uintptr_t)large & ~(4 * MIB - 1)), 9 * MIB);
	slab = map_at(slab, 4 * MIB);
	grown = map_at((char *)((uintptr_t)grown & ~(4 * MIB - 1)), MIB);
	memset(large, 'a', 9 * MIB);
	memset(slab, 'a', 4 * MIB);
	memset(grown, 'a', MIB);
}

static void memory_goes_back_to_the_os_open(void **state)
{
	(void)state;
	assert_unseen(map_where_slabs_were);
}

static void shrink_and_grow(void *arg)
{
	char *ptr = region_growable(&core.region, 3 * MIB, 4 * MIB);

	(void)arg;
	memset(ptr, 'a', 3 * MIB);
	region_resize_growable(&core.region, ptr, 10);
	region_resize_growable(&core.region, ptr, 3 * MIB);
	memset(ptr, 'a', 3 * MIB);
}

static void store_behind_a_growable_block(void *arg)
{
	char *ptr = region_growable(&core.region, 10, 4 * MIB);

	(void)arg;
	ptr[MIB] = 'a';
}

static void a_growable_block_has_no_memory_behind_its_last_page(void **state)
{
	char text[4096];

	(void)state;
	assert_unseen(shrink_and_grow);
	assert_true(die_of(store_behind_a_growable_block, NULL, text,
	                   sizeof(text)));
}

/* --- what every build names --- */

static void truncate_to_500(void *arg)
{
	(void)arg;
	region_truncate(&core.region, 500);
}

static void join_500(void *arg)
{
	(void)arg;
	region_join(&core.region, 500);
}

static void more_than_is_used_is_named(void **state)
{
	(void)state;
	assert_panics(truncate_to_500, NULL, "region_truncate", "more than");
	fill(100);
	assert_panics(truncate_to_500, NULL, "region_truncate", "more than");
	assert_panics(join_500, NULL, "region_join", "more than");
	assert_int_equal(region_used(&core.region), 100);
}

static void align_to(void *align)
{
	region_aligned_alloc(&core.region, 100, *(size_t *)align);
}

static void reserve_at(void *align)
{
	region_aligned_reserve(&core.region, 100, *(size_t *)align);
}

/* In release where the library is reached, as here by a new slab. */
static void an_alignment_that_is_no_power_of_two_is_named(void **state)
{
	static size_t aligns[] = {0, 3, 24, 100};

	(void)state;
	for (size_t i = 0; i < lengthof(aligns); i++) {
		assert_panics(align_to, &aligns[i], "region_alloc",
		              "power of two");
		assert_panics(reserve_at, &aligns[i], "region_reserve",
		              "power of two");
	}
}

static void resize_block(void *ptr)
{
	region_resize_growable(&core.region, ptr, 10);
}

static void drop_block(void *ptr)
{
	region_drop_growable(&core.region, ptr);
}

static void a_block_that_can_not_grow_is_named(void **state)
{
	char *ptr = fill(100);

	(void)state;
	assert_panics(resize_block, ptr, "region_resize_growable",
	              "not a growable");
	assert_panics(drop_block, ptr, "region_drop_growable",
	              "not a growable");
}

/* --- threads --- */

static void *alloc_there(void *arg)
{
	(void)arg;
	(void)region_alloc(&core.region, 1);
	return NULL;
}

static void *get_there(void *arg)
{
	(void)arg;
	return slab_get(&core.cache, 1);
}

static void elsewhere(void *f)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, *(void *(**)(void *))f, NULL) == 0)
		pthread_join(thread, NULL);
}

static void a_thread_that_is_not_the_owner_is_named_in_debug(void **state)
{
	static void *(*calls[])(void *) = {alloc_there, get_there};
	static const char *names[] = {"region_alloc", "slab_get"};
	char text[4096];

	(void)state;
	(void)names;
	for (size_t i = 0; i < lengthof(calls); i++) {
#ifdef NDEBUG
		assert_false(die_of(elsewhere, &calls[i], text, sizeof(text)));
#else
		(void)text;
		assert_panics(elsewhere, &calls[i], names[i], "not the owner");
#endif
	}
}

static void structs_are_created_on_any_bytes(void **state)
{
	(void)state; /* setup has filled them with 0xff */
	fill(100);
	fill(1000000);
	core_check(&core);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(use_after_reset_is_seen),
		T(one_byte_past_the_end_is_seen),
		T(use_after_rollback_is_seen),
		T(use_of_what_was_given_back_is_seen),
		T(an_old_value_is_no_value_for_memcheck),
		T(memory_goes_back_to_the_os_open),
		T(a_growable_block_has_no_memory_behind_its_last_page),
		T(more_than_is_used_is_named),
		T(an_alignment_that_is_no_power_of_two_is_named),
		T(a_block_that_can_not_grow_is_named),
		T(a_thread_that_is_not_the_owner_is_named_in_debug),
		T(structs_are_created_on_any_bytes),
	};

	return cmocka_run_group_tests_name("cases", tests, NULL, NULL);
}
