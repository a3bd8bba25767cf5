/* SPDX-License-Identifier: BSD-2-Clause */
/* stage - quota, arena and cache for an arm. */
#include "stage.h"

void stage_open(struct stage *stage, size_t slab_size)
{
	quota_init(&stage->quota, QUOTA_MAX);
	if (slab_arena_create(&stage->arena, &stage->quota, 0, slab_size,
	                      SLAB_ARENA_PRIVATE) != 0) {
		fprintf(stderr, "perf: no arena\n");
		exit(1);
	}
	slab_cache_create(&stage->cache, &stage->arena);
}

void stage_close(struct stage *stage)
{
	slab_cache_destroy(&stage->cache);
	slab_arena_destroy(&stage->arena);
}

size_t stage_garbage(const struct stage *stage)
{
	struct slab_cache_stats stats;

	slab_cache_stats(&stage->cache, &stats);
	return stats.garbage;
}

void stage_put(const struct stage *stage)
{
	perf_put(" garbage_kib=%zu quota_kib=%zu", stage_garbage(stage) / 1024,
	         quota_used(&stage->quota) / 1024);
}
