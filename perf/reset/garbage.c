/* SPDX-License-Identifier: BSD-2-Clause */
/* garbage - ours: keep what the retain bound allows, drop the rest unsorted
 * on the cache's garbage list. */
#include "strategy.h"

#include <small/region.h>

static void *garbage_create(const struct strategy *s, struct slab_cache *cache)
{
	struct region *region = perf_malloc(sizeof(*region));

	(void)s;
	region_create(region, cache);
	return region;
}

static size_t garbage_used(const void *self)
{
	return region_used(self);
}

static size_t garbage_held(const void *self)
{
	return region_total(self);
}

static size_t garbage_slabs(const void *self)
{
	struct region_stats stats;

	region_stats(self, &stats);
	return stats.slabs;
}

static void garbage_destroy(void *self)
{
	region_destroy(self);
	free(self);
}

static inline void *take(struct region *region, size_t size)
{
	return region_alloc(region, size);
}

static inline void end(struct region *region)
{
	region_reset(region);
}

#define SELF struct region
#include "loops.h"

const struct strategy strategy_garbage = {
	.name = "garbage",
	.has_cache = true,
	.create = garbage_create,
	.reset = one_end,
	.used = garbage_used,
	.held = garbage_held,
	.slabs = garbage_slabs,
	.destroy = garbage_destroy,
	STRATEGY_LOOPS,
};
