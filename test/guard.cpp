/* SPDX-License-Identifier: BSD-2-Clause */
/* guard - RegionGuard and the headers as a C++ program uses them. */
#include <small/quota.h>
#include <small/region.h>

#include <cstdio>
#include <cstdlib>

static struct quota quota;
static struct slab_arena arena;
static struct slab_cache cache;
static struct region region;

#define NEED(cond) \
 ((cond) ? (void)0 : (std::fprintf(stderr, "%s\n", #cond), std::exit(1)))

/* Leaves its scope with more in use than it found. */
static void guarded(std::size_t size)
{
	RegionGuard guard(&region);

	NEED(guard.used() == region_used(&region));
	NEED(region_alloc(&region, size) != nullptr);
	if (size > 100)
		guarded(size / 2);
}

int main()
{
	std::size_t size;

	quota_init(&quota, 64 << 20);
	NEED(slab_arena_create(&arena, &quota, 0, 1 << 20,
	                       SLAB_ARENA_PRIVATE) == 0);
	slab_cache_create(&cache, &arena);
	region_create(&region, &cache);
	NEED(region_alloc_object(&region, double, &size) != nullptr);
	NEED(size == sizeof(double));
	guarded(1000);
	guarded(3000000);
	NEED(region_used(&region) == sizeof(double));
	region_destroy(&region);
	slab_cache_destroy(&cache);
	slab_arena_destroy(&arena);
	NEED(quota_used(&quota) == 0);
	return 0;
}
