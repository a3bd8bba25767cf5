/* SPDX-License-Identifier: BSD-2-Clause */
/* held - a program that stops with known amounts in every layer. */
#include <small/region.h>

void held(struct region *region);

/* Where gdb stops and dumps. */
__attribute__((noinline)) void held(struct region *region)
{
	__asm__ volatile("" : : "r"(region) : "memory");
}

int main(void)
{
	struct quota quota;
	struct slab_arena arena;
	struct slab_cache cache;
	struct region region;
	struct slab *slab;

	quota_init(&quota, 64 << 20);
	if (slab_arena_create(&arena, &quota, 0, 1 << 20, SLAB_ARENA_PRIVATE))
		return 1;
	slab_cache_create(&cache, &arena);
	slab = slab_get(&cache, 5000);
	if (slab == NULL)
		return 1;
	slab_put(&cache, slab); /* a spare, no garbage */
	region_create(&region, &cache);
	for (int i = 0; i < 10; i++)
		if (region_alloc(&region, 12345) == NULL)
			return 1;
	held(&region);
	region_destroy(&region);
	slab_cache_destroy(&cache);
	slab_arena_destroy(&arena);
	return 0;
}
