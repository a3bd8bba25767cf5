// SPDX-License-Identifier: BSD-2-Clause
// The C++ side: a scope that gives back what it took.
#include <small/region.h>

#include <cstdio>

int main()
{
	struct quota quota;
	struct slab_arena arena;
	struct slab_cache cache;
	struct region region;

	quota_init(&quota, 64 << 20);
	if (slab_arena_create(&arena, &quota, 0, 1 << 20, SLAB_ARENA_PRIVATE))
		return 1;
	slab_cache_create(&cache, &arena);
	region_create(&region, &cache);
	{
		RegionGuard guard(&region);

		if (region_alloc(&region, 1000) == nullptr)
			return 1;
	}
	const bool ok = region_used(&region) == 0;
	region_destroy(&region);
	slab_cache_destroy(&cache);
	slab_arena_destroy(&arena);
	std::puts(ok ? "guarded" : "leaked");
	return ok ? 0 : 1;
}
