// SPDX-License-Identifier: BSD-2-Clause
// The side that uses this library: 0 when each call reached it.
#include <small/region.h>

int ours()
{
	struct quota quota;
	struct slab_arena arena;
	struct slab_cache cache;
	struct region region;
	bool ok;

	quota_init(&quota, 64 << 20);
	if (slab_arena_create(&arena, &quota, 0, 1 << 20, SLAB_ARENA_PRIVATE))
		return 1;
	slab_cache_create(&cache, &arena);
	region_create(&region, &cache);
	{
		RegionGuard guard(&region);

		ok = region_alloc(&region, 100) != 0;
	}
	ok = ok && region_used(&region) == 0;
	region_free(&region);
	struct slab *slab = slab_get(&cache, 5000);

	ok = ok && slab != 0 && slab_capacity(slab) >= 5000;
	slab_put(&cache, slab);
	slab_cache_destroy(&cache);
	slab_arena_destroy(&arena);
	return ok && quota_used(&quota) == 0 ? 0 : 1;
}
