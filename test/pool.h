/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_POOL_H
#define TEST_POOL_H
/*
 * pool - a mempool on a core for a test, its objects by number, and the
 * teardown that every test of it ends with.
 */
#include "core.h"

#include <small/mempool.h>

#define MIB   ((size_t)1 << 20)
#define SLABS 8 /* that most tests fill */

static struct core core;
static struct mempool pool;
static char *objects[1 << 16];

static inline int setup(void **state)
{
	*state = &core;
	core_create(&core, 1024 * MIB, 4 * MIB);
	memset(&pool, 0xff, sizeof(pool));
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	if (mempool_is_initialized(&pool)) {
		assert_ptr_equal(mempool_check(&pool), NULL);
		mempool_destroy(&pool);
	}
	core_destroy(&core);
	return 0;
}

static inline void check(void)
{
	struct mempool_stats stats;

	assert_ptr_equal(mempool_check(&pool), NULL);
	assert_ptr_equal(slab_cache_check(&core.cache), NULL);
	mempool_stats(&pool, &stats);
	assert_int_equal(stats.objcount, mempool_count(&pool));
	assert_int_equal(stats.totals.used, mempool_used(&pool));
	assert_int_equal(stats.totals.total, mempool_total(&pool));
	assert_int_equal(stats.slabcount * stats.slabsize,
	                 mempool_total(&pool));
}

/* objects[from..to) */
static inline void take(size_t from, size_t to)
{
	assert_true(to <= lengthof(objects));
	for (size_t i = from; i < to; i++) {
		objects[i] = mempool_alloc(&pool);
		assert_non_null(objects[i]);
		memset(objects[i], (int)i, pool.objsize);
	}
	check();
}

static inline void put(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		mempool_free(&pool, objects[i]);
	check();
}

static inline size_t slab_size(void)
{
	return slab_order_size(&core.cache, pool.slab_order);
}

#endif /* TEST_POOL_H */
