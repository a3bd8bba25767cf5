/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_CORE_H
#define TEST_CORE_H
/*
 * core - quota, arena, cache and region stacked up for a test, and the
 * teardown that every test of them ends with: no broken invariant, and the
 * quota back at the start.
 */
#include "test.h"

#include <small/region.h>

struct core {
	struct quota quota;
	struct slab_arena arena;
	struct slab_cache cache;
	struct region region;
};

static inline void core_create_with(struct core *core, size_t total,
                                    size_t slab_size, int flags)
{
	quota_init(&core->quota, total);
	assert_int_equal(slab_arena_create(&core->arena, &core->quota, 0,
	                                   slab_size, flags),
	                 0);
	slab_cache_create(&core->cache, &core->arena);
	region_create(&core->region, &core->cache);
}

static inline void core_create(struct core *core, size_t total,
                               size_t slab_size)
{
	core_create_with(core, total, slab_size, SLAB_ARENA_PRIVATE);
}

/* Fails with the name of a broken invariant, if any. */
static inline void core_check(struct core *core)
{
	struct slab_cache_stats cache;
	struct slab_arena_stats arena;
	struct region_stats region;

	assert_ptr_equal(region_check(&core->region), NULL);
	assert_ptr_equal(slab_cache_check(&core->cache), NULL);
	assert_ptr_equal(slab_arena_check(&core->arena), NULL);
	assert_ptr_equal(quota_check(&core->quota), NULL);
	region_stats(&core->region, &region);
	assert_int_equal(region.used + region.free + region.overhead +
	                         region.growable,
	                 region.total);
	slab_cache_stats(&core->cache, &cache);
	assert_int_equal(cache.used + cache.free + cache.garbage +
	                         cache.overhead,
	                 cache.total);
	slab_arena_stats(&core->arena, &arena);
	assert_int_equal(arena.used + arena.large, quota_used(&core->quota));
}

static inline void core_destroy(struct core *core)
{
	core_check(core);
	region_destroy(&core->region);
	core_check(core);
	assert_int_equal(region_total(&core->region), 0);
	slab_cache_destroy(&core->cache);
	slab_arena_destroy(&core->arena);
	assert_int_equal(quota_used(&core->quota), 0);
}

#endif /* TEST_CORE_H */
