/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mempool_misuse - what a program does wrong, and which words it dies with;
 * what the tools say; what mempool_check() calls a field that was changed.
 * Case 27 of the field.
 */
#include "core.h"
#include "die.h"

#include <small/mempool.h>

#define MIB ((size_t)1 << 20)

static struct core core;
static struct mempool pool, other;
static char *object, *held[9000];
static char *volatile more[9000]; /* so that a leak check sees them */
static size_t count; /* of held: seven slabs and a half, at any page size */

static int setup(void **state)
{
	*state = &core;
	core_create(&core, 64 * MIB, 4 * MIB);
	mempool_create(&pool, &core.cache, 64);
	mempool_create(&other, &core.cache, 64);
	count = pool.objcount * 15 / 2;
	assert_true(count <= lengthof(held));
	for (size_t i = 0; i < count; i++) {
		held[i] = mempool_alloc(&pool);
		assert_non_null(held[i]);
		memset(held[i], 'x', 64);
	}
	object = held[pool.objcount * 4 - 16];
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_ptr_equal(mempool_check(&pool), NULL);
	assert_ptr_equal(mempool_check(&other), NULL);
	mempool_destroy(&pool);
	mempool_destroy(&other);
	core_destroy(&core);
	return 0;
}

static struct mslab *slab_of(const char *ptr)
{
	return (struct mslab *)((uintptr_t)ptr & pool.slab_mask);
}

static void free_to_pool(void *ptr)
{
	mempool_free(&pool, ptr);
}

static void free_to_other(void *ptr)
{
	mempool_free(&other, ptr);
}

static void free_twice(void *ptr)
{
	mempool_free(&pool, ptr);
	mempool_free(&pool, ptr);
}

static void free_all_then_again(void *ptr)
{
	for (size_t i = 0; i < count; i++)
		mempool_free(&pool, held[i]);
	mempool_free(&pool, ptr);
}

static void a_double_free_dies(void **state)
{
	char *fresh;

	(void)state;
	assert_dies(free_twice, object, "mempool_free: double free");
	assert_dies(free_twice, held[0], "mempool_free: double free");
	assert_dies(free_twice, held[count - 1], "mempool_free: double free");
	/* Of what was never allocated, too. */
	fresh = held[count - 1] + 64;
	assert_ptr_equal(slab_of(fresh), pool.current);
	assert_dies(free_to_pool, fresh, "mempool_free: double free");
	/* And in the empty slab that stays. */
	assert_dies(free_all_then_again, held[count - 1],
	            "mempool_free: double free");
}

static void free_to_other_twice(void *ptr)
{
	mempool_free(&other, ptr);
	mempool_free(&other, ptr);
}

/* All sizes have the bit. */
static void a_double_free_dies_whatever_the_size(void **state)
{
	static const size_t sizes[] = {1, 8, 24, 4096, 3000000};

	(void)state;
	for (size_t i = 0; i < lengthof(sizes); i++) {
		char *ptr;

		mempool_destroy(&other);
		mempool_create(&other, &core.cache, sizes[i]);
		ptr = mempool_alloc(&other);
		assert_non_null(ptr);
		assert_dies(free_to_other_twice, ptr,
		            "mempool_free: double free");
		mempool_free(&other, ptr);
	}
}

static void a_pointer_inside_an_object_dies(void **state)
{
	static const char line[] = "mempool_free: a pointer that is not an "
				   "object's start";

	(void)state;
	for (size_t i = 1; i < 64; i++)
		assert_dies(free_to_pool, object + i, line);
	assert_dies(free_to_pool, object - 1, line);
	for (size_t i = 0; i < pool.offset; i += 8)
		assert_dies(free_to_pool, (char *)slab_of(object) + i, line);
}

/* By hand, for every byte of a slab, and for sizes of all kinds. */
static void only_an_objects_start_has_a_number(void **state)
{
	static const size_t sizes[] = {8, 24, 40, 64, 72, 1000, 4096, 12288};

	(void)state;
	for (size_t s = 0; s < lengthof(sizes); s++) {
		struct mempool sized;
		struct mslab *slab;
		char *start;

		mempool_create(&sized, &core.cache, sizes[s]);
		assert_non_null(mempool_alloc(&sized));
		slab = sized.current;
		start = (char *)slab;
		for (size_t i = 0; i < slab->slab.size; i++) {
			uint64_t n = mempool_index(&sized, slab, start + i);
			bool is_start = i >= sized.offset &&
			                (i - sized.offset) % sizes[s] == 0;

			if (is_start != (n < sized.objcount) ||
			    (is_start && n != (i - sized.offset) / sizes[s]))
				fail_msg("size %zu byte %zu: %" PRIu64,
				         sizes[s], i, n);
		}
		mempool_destroy(&sized);
	}
}

static void an_object_of_another_pool_dies(void **state)
{
	static const char line[] = "mempool_free: an object of another pool";
	struct mempool large;
	char *ptr, *mine;

	(void)state;
	assert_dies(free_to_other, object, line);
	ptr = mempool_alloc(&other);
	assert_non_null(ptr);
	assert_dies(free_to_pool, ptr, line);
	mempool_free(&other, ptr);
	assert_dies(free_to_pool, ptr, line);
	/* Slabs of another order. */
	mempool_create(&large, &core.cache, 4096);
	mine = mempool_alloc(&large);
	assert_non_null(mine);
	memset(mine, 0, 4096);
	assert_true(large.slab_order > pool.slab_order);
	assert_dies(free_to_pool, (char *)large.current + large.offset, line);
	mempool_free(&large, mine);
	mempool_destroy(&large);
}

static void memory_of_no_pool_dies(void **state)
{
	static const char line[] = "mempool_free: not an object of a pool";
	char *ptr = region_alloc(&core.region, 100);

	(void)state;
	assert_non_null(ptr);
	memset(ptr, 0, 100);
	assert_dies(free_to_pool, ptr, line);
}

static void alloc_one(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < lengthof(more); i++)
		more[i] = mempool_alloc(&pool);
}

/* Writes before object 0 of a slab, as far back as `size`. */
static void overwrite(struct mslab *slab, size_t offset, size_t size)
{
	memset((char *)slab + offset, 0x5a, size);
}

static void an_overwritten_header_dies(void **state)
{
	static const char on_free[] = "mempool_free: a slab's header is "
				      "overwritten";
	static const char on_alloc[] = "mempool_alloc: a slab's header is "
				       "overwritten";
	char **mine = &held[pool.objcount]; /* the second slab */
	struct mslab *slab = slab_of(*mine), saved = *slab;

	(void)state;
	overwrite(slab, offsetof(struct mslab, key), sizeof(slab->key));
	assert_dies(free_to_pool, *mine, on_free);
	*slab = saved;

	/* A cold slab, then a warm one: the pool needs them. */
	for (size_t i = 0; i < pool.warm_count; i++) {
		if (i + 1 == pool.warm_count) {
			saved = *slab;
			overwrite(slab, offsetof(struct mslab, link),
			          sizeof(slab->link));
			assert_dies(free_to_pool, mine[i], on_free);
			*slab = saved;
		}
		mempool_free(&pool, mine[i]);
	}
	assert_int_equal(slab->state, MSLAB_WARM);
	saved = *slab;
	overwrite(slab, offsetof(struct mslab, link), sizeof(slab->link));
	assert_dies(alloc_one, NULL, on_alloc);
	*slab = saved;
	overwrite(slab, offsetof(struct mslab, state), sizeof(slab->state));
	assert_dies(alloc_one, NULL, on_alloc);
	*slab = saved;

	saved = *pool.current;
	pool.current->slab.magic = 0;
	assert_dies(alloc_one, NULL, on_alloc);
	*pool.current = saved;
}

/* There is no link in a free object that a stale write could bend. */
static void stale_writes_do_not_reach_the_pool(void **state)
{
	(void)state;
#if !TRACK_ASAN
	for (size_t i = 0; i < count; i++) {
		mempool_free(&pool, held[i]);
		track_undefined(held[i], 64);
		memset(held[i], 0xa5, 64);
		track_noaccess(held[i], 64);
		assert_ptr_equal(mempool_check(&pool), NULL);
	}
	for (size_t i = 0; i < count; i++) {
		held[i] = mempool_alloc(&pool);
		memset(held[i], 'y', 64);
	}
	for (size_t i = 0; i < count * 64; i++)
		assert_int_equal(held[i / 64][i % 64], 'y');
#endif
}

static void read_freed(void *arg)
{
	volatile char *ptr = arg;

	mempool_free(&pool, arg);
	(void)ptr[0];
}

static void write_freed(void *arg)
{
	volatile char *ptr = arg;

	mempool_free(&pool, arg);
	ptr[63] = 1;
}

static void read_unallocated(void *arg)
{
	volatile char *ptr = arg;

	(void)ptr[64];
}

static void read_after_destroy(void *arg)
{
	volatile char *ptr = arg;

	mempool_destroy(&pool);
	(void)ptr[0];
}

static void the_tools_see_each_touch_of_a_free_object(void **state)
{
	(void)state;
	assert_asan_dies(read_freed, object);
	assert_asan_dies(write_freed, object);
	assert_asan_dies(read_unallocated, held[count - 1]);
	assert_asan_dies(read_after_destroy, object);
}

static void a_free_fills_in_debug(void **state)
{
	(void)state;
#if TRACK_ENABLED && !TRACK_ASAN
	mempool_free(&pool, object);
	track_defined(object, 64);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(object[i], '#');
	track_noaccess(object, 64);
#endif
}

static void alloc_in_wrong_thread(void *arg)
{
	(void)arg;
	core.cache.owner ^= 1;
	alloc_one(NULL);
}

static void free_in_wrong_thread(void *arg)
{
	core.cache.owner ^= 1;
	mempool_free(&pool, arg);
}

static void debug_names_a_wrong_thread(void **state)
{
	(void)state;
#ifndef NDEBUG
	assert_dies(alloc_in_wrong_thread, NULL,
	            "mempool_alloc: called by a thread that is not the owner "
	            "(see slab_cache_set_thread)");
	assert_dies(free_in_wrong_thread, object,
	            "mempool_free: called by a thread that is not the owner "
	            "(see slab_cache_set_thread)");
#else
	(void)alloc_in_wrong_thread, (void)free_in_wrong_thread;
#endif
}

/* --- mempool_check: the name that a changed field is given --- */

#define assert_broken(lvalue, value, name)           \
 do {                                                \
  __typeof__(lvalue) saved_ = (lvalue);              \
  (lvalue) = (__typeof__(lvalue))(value);            \
  assert_ptr_not_equal(mempool_check(&pool), NULL);  \
  assert_string_equal(mempool_check(&pool), (name)); \
  (lvalue) = saved_;                                 \
  assert_ptr_equal(mempool_check(&pool), NULL);      \
 } while (0)

static void check_names_what_is_wrong_in_the_pool(void **state)
{
	(void)state;
	assert_broken(pool.objsize, 72, "geometry");
	assert_broken(pool.stride, 72, "geometry");
	assert_broken(pool.objcount, pool.objcount - 1, "geometry");
	assert_broken(pool.fast_count, pool.fast_count + 1, "geometry");
	assert_broken(pool.factor, pool.factor + 1, "geometry");
	assert_broken(pool.slab_mask, pool.slab_mask << 1, "geometry");
	assert_broken(pool.offset, pool.offset - 64, "geometry");
	assert_broken(pool.warm_count, 1, "geometry");
	assert_broken(pool.slab_order, pool.slab_order + 1, "geometry");
	assert_broken(pool.slab_order, 255, "geometry");
	assert_broken(pool.salt, pool.salt + 1, "header");
	assert_broken(pool.word, NULL, "cursor");
	assert_broken(pool.word_base, pool.word_base + 64, "cursor");
	assert_broken(pool.current_word, 1000, "cursor");
	assert_broken(pool.none, 1, "cursor");
	assert_broken(pool.current, NULL, "cursor");
	assert_broken(pool.current_free, 0, "live");
	assert_broken(pool.live, 0, "live");
	assert_broken(pool.slabs.stats.total, 0, "slabs");
	assert_broken(pool.warm, slab_of(object), "warm");
}

static void check_names_what_is_wrong_in_a_slab(void **state)
{
	struct mslab *slab = slab_of(object);
	uint64_t *bits = slab->free;
	size_t words = (pool.objcount + 63) / 64;

	(void)state;
	assert_broken(slab->slab.magic, 0, "header");
	assert_broken(slab->slab.order, 7, "header");
	assert_broken(slab->key, 0, "header");
	assert_broken(slab->pool, NULL, "header");
	assert_broken(slab->state, 0, "header");
	assert_broken(slab->state, 9, "header");
	assert_broken(slab->state, MSLAB_CURRENT, "header");
	assert_broken(slab->state, MSLAB_COLD, "left");
	assert_broken(slab->left, 2, "left");
	assert_broken(bits[0], 1, "left");
	assert_broken(bits[words - 1], (uint64_t)1 << 63, "left");
	assert_broken(pool.current->left, 7, "live");
	assert_broken(pool.current->state, MSLAB_FULL, "left");

	mempool_free(&pool, object);
	assert_int_equal(slab->state, MSLAB_COLD);
	assert_broken(pool.cold.next, &pool.cold, "cold");
	assert_broken(slab->link.cold.next, &slab->link.cold, "cold");
	assert_broken(slab->left, slab->left - 1, "left");
}

/* Warm slabs, all of them below the first. */
static void check_names_what_is_wrong_among_warm_slabs(void **state)
{
	struct mslab *top, *below;
	size_t side;

	(void)state;
	for (size_t i = 0; i < count; i++) {
		if (i % 4 == 0)
			mempool_free(&pool, held[i]);
	}
	assert_ptr_equal(mempool_check(&pool), NULL);
	top = pool.warm;
	side = top->link.warm[0] == NULL;
	below = top->link.warm[side];
	assert_non_null(below);
	assert_broken(pool.warm, below, "warm");
	assert_broken(pool.warm, NULL, "warm");
	assert_broken(top->link.warm[side], NULL, "warm");
	assert_broken(top->link.warm[!side], below, "warm");
	assert_broken(below->link.warm[0], top, "warm");
	assert_broken(below->link.warm[1], top, "warm");
	assert_broken(top->left, top->left + 1, "left");
}

/* As a slab that should have gone back. */
static void check_finds_an_empty_slab(void **state)
{
	struct mslab *slab = slab_of(object), saved = *slab;
	uint64_t *bits = slab->free, kept[32];
	size_t words = (pool.objcount + 63) / 64;

	(void)state;
	assert_true(words <= lengthof(kept));
	memcpy(kept, bits, words * sizeof(*bits));
	memset(bits, 0xff, words * sizeof(*bits));
	bits[words - 1] >>= words * 64 - pool.objcount;
	slab->state = MSLAB_WARM;
	slab->left = 0;
	assert_string_equal(mempool_check(&pool), "empty");
	memcpy(bits, kept, words * sizeof(*bits));
	*slab = saved;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_double_free_dies),
		TEST(a_double_free_dies_whatever_the_size),
		TEST(a_pointer_inside_an_object_dies),
		TEST(only_an_objects_start_has_a_number),
		TEST(an_object_of_another_pool_dies),
		TEST(memory_of_no_pool_dies),
		TEST(an_overwritten_header_dies),
		TEST(stale_writes_do_not_reach_the_pool),
		TEST(the_tools_see_each_touch_of_a_free_object),
		TEST(a_free_fills_in_debug),
		TEST(debug_names_a_wrong_thread),
		TEST(check_names_what_is_wrong_in_the_pool),
		TEST(check_names_what_is_wrong_in_a_slab),
		TEST(check_names_what_is_wrong_among_warm_slabs),
		TEST(check_finds_an_empty_slab),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
