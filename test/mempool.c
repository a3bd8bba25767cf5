/* SPDX-License-Identifier: BSD-2-Clause */
/* mempool - each promise of mempool.h; cases 26 and 28 of the field. */
#include "pool.h"

static struct mslab *slab_of(const char *object)
{
	return (struct mslab *)((uintptr_t)object & pool.slab_mask);
}

/* cases.md 26 */
static void neighbours_stay_intact_whatever_the_size(void **state)
{
	static const size_t sizes[] = {1,  4,   7,    8,    12,   16,   24,
	                               63, 100, 1000, 4095, 4096, 70000};

	(void)state;
	for (size_t s = 0; s < lengthof(sizes); s++) {
		size_t size = sizes[s], count;

		mempool_create(&pool, &core.cache, size);
		assert_true(mempool_is_initialized(&pool));
		assert_int_equal(pool.objsize, small_align(size, 8));
		count = pool.objcount * 2 + 3;
		take(0, count);
		assert_int_equal(mempool_count(&pool), count);
		assert_int_equal(mempool_used(&pool), count * pool.objsize);
		for (size_t i = 0; i < count; i++) {
			for (size_t k = 0; k < pool.objsize; k++)
				assert_int_equal((unsigned char)objects[i][k],
				                 i & 255);
		}
		put(0, count);
		assert_int_equal(mempool_count(&pool), 0);
		mempool_destroy(&pool);
		assert_false(mempool_is_initialized(&pool));
	}
}

static void objects_are_aligned_to_what_divides_their_size(void **state)
{
	size_t sizes[70], count = 0;

	(void)state;
	for (size_t size = 1; size <= 64; size++)
		sizes[count++] = size;
	sizes[count++] = 2048;
	sizes[count++] = 4096;
	sizes[count++] = 3 * 4096;
	sizes[count++] = 192;
	for (size_t s = 0; s < count; s++) {
		size_t rounded = small_align(sizes[s], 8);
		size_t align = rounded & (0 - rounded);

		if (align > small_getpagesize())
			align = small_getpagesize();
		mempool_create(&pool, &core.cache, sizes[s]);
		take(0, pool.objcount + 1);
		for (size_t i = 0; i <= pool.objcount; i++)
			assert_int_equal((uintptr_t)objects[i] % align, 0);
		put(0, pool.objcount + 1);
		mempool_destroy(&pool);
	}
}

static void a_size_that_no_slab_holds_gives_NULL(void **state)
{
	size_t most =
		(4 * MIB - offsetof(struct mslab, free) - sizeof(uint64_t)) /
		8 * 8;

	(void)state;
	mempool_create(&pool, &core.cache, most);
	take(0, 1);
	put(0, 1);
	mempool_destroy(&pool);
	mempool_create(&pool, &core.cache, most + 1);
	assert_null(mempool_alloc(&pool));
	check();
	mempool_destroy(&pool);
	for (size_t i = 0; i <= 64; i++) {
		mempool_create(&pool, &core.cache, SIZE_MAX - i);
		assert_null(mempool_alloc(&pool));
		assert_int_equal(mempool_total(&pool), 0);
		check();
		mempool_destroy(&pool);
	}
	for (size_t bits = 31; bits < sizeof(size_t) * 8; bits++) {
		mempool_create(&pool, &core.cache, (size_t)1 << bits);
		assert_null(mempool_alloc(&pool));
		check();
		mempool_destroy(&pool);
		mempool_create_with_order(&pool, &core.cache,
		                          ((size_t)1 << bits) + 16, 0);
		assert_null(mempool_alloc(&pool));
		mempool_free_spare_slab(&pool);
		check();
		mempool_destroy(&pool);
	}
}

static void the_order_keeps_the_loss_at_one_percent(void **state)
{
	(void)state;
	for (size_t size = 8; size <= 8192; size += 8) {
		size_t lost, bits;

		mempool_create(&pool, &core.cache, size);
		bits = (pool.objcount + 63) / 64 * 8;
		lost = slab_size() - pool.objcount * size - bits;
		assert_true(lost <= slab_size() / 50);
		/* And none smaller does. */
		assert_true(pool.slab_order == 0 || slab_size() / 200 < size ||
		            slab_size() / 200 < offsetof(struct mslab, free));
		mempool_destroy(&pool);
	}
	for (uint8_t order = 0; order <= core.cache.order_max; order++) {
		mempool_create_with_order(&pool, &core.cache, 48, order);
		assert_int_equal(pool.slab_order, order);
		take(0, pool.objcount < 60000 ? pool.objcount : 60000);
		assert_int_equal(mempool_total(&pool), slab_size());
		mempool_destroy(&pool);
	}
}

static void one_object_a_slab_gives_its_slab_back(void **state)
{
	(void)state;
	mempool_create_with_order(&pool, &core.cache, 3000, 0);
	assert_int_equal(pool.objcount, small_getpagesize() / 3000);
	mempool_destroy(&pool);
	mempool_create_with_order(&pool, &core.cache,
	                          small_getpagesize() / 2 + 8, 0);
	assert_int_equal(pool.objcount, 1);
	take(0, 10);
	assert_int_equal(mempool_total(&pool), 10 * slab_size());
	put(0, 10);
	assert_int_equal(mempool_total(&pool), slab_size());
	mempool_free_spare_slab(&pool);
	assert_int_equal(mempool_total(&pool), 0);
	assert_int_equal(slab_cache_used(&core.cache), 0);
	take(0, 10);
	for (size_t i = 10; i-- > 0;)
		put(i, i + 1);
	assert_int_equal(mempool_total(&pool), slab_size());
}

static void at_most_one_empty_slab_stays(void **state)
{
	size_t count;

	(void)state;
	mempool_create(&pool, &core.cache, 64);
	count = SLABS * pool.objcount;
	for (int round = 0; round < 3; round++) {
		take(0, count);
		assert_int_equal(mempool_total(&pool), SLABS * slab_size());
		if (round == 0) {
			put(0, count);
		} else if (round == 1) {
			for (size_t i = count; i-- > 0;)
				mempool_free(&pool, objects[i]);
		} else {
			for (size_t i = 0; i < count; i++)
				mempool_free(&pool, objects[i * 7919 % count]);
		}
		check();
		assert_int_equal(mempool_count(&pool), 0);
		assert_int_equal(mempool_total(&pool), slab_size());
	}
	mempool_free_spare_slab(&pool);
	assert_int_equal(mempool_total(&pool), 0);
	mempool_free_spare_slab(&pool);
	check();
}

static void a_spare_slab_is_one_without_live_objects(void **state)
{
	(void)state;
	mempool_create(&pool, &core.cache, 64);
	take(0, 1);
	mempool_free_spare_slab(&pool);
	assert_int_equal(mempool_total(&pool), slab_size());
	assert_int_equal(mempool_count(&pool), 1);
	put(0, 1);
	mempool_free_spare_slab(&pool);
	assert_int_equal(mempool_total(&pool), 0);
	assert_int_equal(mempool_count(&pool), 0);
	take(0, 3);
	put(0, 3);
}

/* Slabs empty, and are needed, while there is no current one. */
static void a_pool_goes_on_without_its_spare_slab(void **state)
{
	size_t n;

	(void)state;
	mempool_create(&pool, &core.cache, 64);
	n = pool.objcount;
	take(0, 3 * n);
	put(2 * n, 3 * n);
	mempool_free_spare_slab(&pool);
	assert_int_equal(mempool_total(&pool), 2 * slab_size());
	assert_null(pool.current);
	check();
	put(0, n);
	assert_int_equal(mempool_total(&pool), 2 * slab_size());
	mempool_free_spare_slab(&pool);
	put(n, n + n / 2);
	take(n, n + n / 2);
	assert_int_equal(mempool_total(&pool), slab_size());
	put(n, 2 * n);
	assert_int_equal(mempool_count(&pool), 0);
}

static void a_freed_object_comes_back_first(void **state)
{
	char *held, *ptr;

	(void)state;
	mempool_create(&pool, &core.cache, 64);
	held = mempool_alloc(&pool);
	ptr = mempool_alloc(&pool);
	for (int i = 0; i < 1000; i++) {
		mempool_free(&pool, ptr);
		assert_ptr_equal(mempool_alloc(&pool), ptr);
	}
	mempool_free(&pool, held);
	assert_ptr_equal(mempool_alloc(&pool), held);
}

/* Two objects come and go where a slab ends: no slab does. */
static void a_border_is_crossed_once(void **state)
{
	static const size_t sizes[] = {8, 64, 1024, 40000};

	(void)state;
	for (size_t s = 0; s < lengthof(sizes); s++) {
		size_t n, total;

		mempool_create(&pool, &core.cache, sizes[s]);
		n = pool.objcount;
		take(0, n + 1);
		put(n - 1, n + 1);
		total = mempool_total(&pool);
		fault_set(FAULT_ALL, 1, true);
		for (int i = 0; i < 1000; i++) {
			take(n - 1, n + 1);
			mempool_free(&pool, objects[n - (size_t)(i & 1)]);
			mempool_free(&pool, objects[n - (size_t)(~i & 1)]);
			assert_int_equal(mempool_total(&pool), total);
		}
		assert_int_equal(fault_seen(), 0);
		fault_clear();
		mempool_destroy(&pool);
	}
}

/* Free as many objects of each slab but the current one as make it warm, take
 * what is free there, then see in which order the slabs are filled. */
static void warm_slabs_are_filled_by_address(void **state)
{
	size_t n, count, k = 0;
	struct mslab *last = NULL;

	(void)state;
	mempool_create(&pool, &core.cache, 64);
	n = pool.objcount;
	count = SLABS * n;
	take(0, count);
	for (size_t i = 0; i < count; i++) {
		if (slab_of(objects[i]) != pool.current &&
		    i % n < pool.warm_count)
			mempool_free(&pool, objects[i]);
	}
	check();
	fault_set(FAULT_ALL, 1, true);
	for (size_t i = 0; i < (SLABS - 1) * pool.warm_count; i++) {
		struct mslab *slab = slab_of(mempool_alloc(&pool));

		if (slab == last)
			continue;
		assert_true(slab > last);
		last = slab;
		k++;
	}
	assert_int_equal(k, SLABS - 1);
	assert_int_equal(fault_seen(), 0);
	fault_clear();
	check();
	assert_int_equal(mempool_count(&pool), count);
	assert_int_equal(mempool_total(&pool), SLABS * slab_size());
}

/* With the current slab full an emptied one goes back when there is a warm
 * one, so that a high one does not stay because it happened to be empty. */
static void an_emptied_slab_is_not_kept_beside_warm_ones(void **state)
{
	size_t n;

	(void)state;
	mempool_create(&pool, &core.cache, 64);
	n = pool.objcount;
	take(0, 4 * n);
	put(0, n / 2);
	assert_non_null(pool.warm);
	put(2 * n, 3 * n);
	assert_int_equal(mempool_total(&pool), 3 * slab_size());
	assert_int_equal(mempool_count(&pool), 4 * n - n / 2 - n);
}

/* cases.md 28: full, cold, warm, current and empty slabs. */
static void destroy_takes_slabs_of_every_state(void **state)
{
	(void)state;
	for (int kind = 0; kind < 5; kind++) {
		size_t n;

		mempool_create(&pool, &core.cache, 64);
		n = pool.objcount;
		take(0, kind == 0 ? 1 : SLABS * n);
		if (kind == 1)
			put(0, 1);
		if (kind == 2)
			put(0, n / 2);
		if (kind == 3)
			put(0, SLABS * n);
		if (kind == 4) {
			put(1, n / 2);
			put(n, n + 3);
			put(2 * n, 3 * n);
		}
		mempool_destroy(&pool);
		assert_false(mempool_is_initialized(&pool));
		assert_int_equal(slab_cache_used(&core.cache), 0);
		core_check(&core);
		memset(&pool, 0xff, sizeof(pool));
	}
	mempool_create(&pool, &core.cache, 64);
	mempool_destroy(&pool);
}

static void mark(void *object, void *arg)
{
	size_t *sum = arg;

	sum[0]++;
	sum[1] += (unsigned char)*(char *)object;
}

static void foreach_sees_what_is_live(void **state)
{
	size_t sum[2] = {0, 0}, want = 0, count = 0;

	(void)state;
	mempool_create(&pool, &core.cache, 24);
	mempool_foreach(&pool, mark, sum);
	assert_int_equal(sum[0], 0);
	take(0, 3000);
	for (size_t i = 0; i < 3000; i++) {
		if (i * 2654435761u >> 3 & 1) {
			mempool_free(&pool, objects[i]);
			continue;
		}
		want += i & 255;
		count++;
	}
	mempool_foreach(&pool, mark, sum);
	assert_int_equal(sum[0], count);
	assert_int_equal(sum[1], want);
	assert_int_equal(mempool_count(&pool), count);
}

/* The count of frees in the current slab starts again, and objects that were
 * freed before that are found. */
static void the_count_of_frees_may_run_out(void **state)
{
	size_t n;

	(void)state;
	mempool_create(&pool, &core.cache, 64);
	n = pool.objcount;
	take(0, 2 * n);
	put(n, n + 5);
	/* As after that many more pairs of alloc and free. */
	pool.live -= pool.current->left - 3;
	pool.current->left = 3;
	check();
	put(n + 5, n + 9);
	assert_int_equal(mempool_count(&pool), 2 * n - 9);
	take(n, n + 9);
	assert_int_equal(mempool_total(&pool), 2 * slab_size());
}

static void objsize_max_is_a_sixteenth(void **state)
{
	(void)state;
	assert_int_equal(mempool_objsize_max(4 * MIB), MIB / 4);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(neighbours_stay_intact_whatever_the_size),
		TEST(objects_are_aligned_to_what_divides_their_size),
		TEST(a_size_that_no_slab_holds_gives_NULL),
		TEST(the_order_keeps_the_loss_at_one_percent),
		TEST(one_object_a_slab_gives_its_slab_back),
		TEST(at_most_one_empty_slab_stays),
		TEST(a_spare_slab_is_one_without_live_objects),
		TEST(a_pool_goes_on_without_its_spare_slab),
		TEST(a_freed_object_comes_back_first),
		TEST(a_border_is_crossed_once),
		TEST(warm_slabs_are_filled_by_address),
		TEST(an_emptied_slab_is_not_kept_beside_warm_ones),
		TEST(destroy_takes_slabs_of_every_state),
		TEST(foreach_sees_what_is_live),
		TEST(the_count_of_frees_may_run_out),
		cmocka_unit_test(objsize_max_is_a_sixteenth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
