/* SPDX-License-Identifier: BSD-2-Clause */
/* held - a program that stops with known amounts in every layer; with HELD_LUA
 * in a sandbox, too. */
#include <small/freelist.h>
#include <small/mempool.h>
#include <small/region.h>
#ifdef HELD_LUA
# include <small/lua/sandbox.h>
# include <string.h>
#endif

struct held {
	struct region *region;
	struct mempool *pool;
	struct freelist *list;
	struct sandbox *lua;
};

void held(const struct held *all);

/* Where gdb stops and dumps. */
__attribute__((noinline)) void held(const struct held *all)
{
	__asm__ volatile("" : : "r"(all) : "memory");
}

/* 1234 objects of 64 bytes, of which 234 are freed. */
static int take_objects(struct mempool *pool)
{
	static void *objects[1234];

	for (int i = 0; i < 1234; i++) {
		objects[i] = mempool_alloc(pool);
		if (objects[i] == NULL)
			return 1;
	}
	for (int i = 1000; i < 1234; i++)
		mempool_free(pool, objects[i]);
	return 0;
}

/* 5000 bytes; one refusal. */
static int take_blocks(struct freelist *list)
{
	void *block;

	if (list == NULL || freelist_alloc(list, 5000) == NULL)
		return 1;
	block = freelist_alloc(list, 3000);
	if (block == NULL)
		return 1;
	freelist_free(list, block, 3000);
	return freelist_alloc(list, 2 << 20) != NULL;
}

static int open_lua(struct slab_cache *cache, struct sandbox **lua)
{
#ifdef HELD_LUA
	struct sandbox_opts opts = {
		.cache = cache, .limit = 2 << 20, .timeout_ns = 1000000000};
	const char *script = "x = 1";

	if (sandbox_open(&opts, lua) != SANDBOX_OK)
		return 1;
	if (sandbox_load(*lua, script, strlen(script), "=script") != SANDBOX_OK)
		return 1;
	return sandbox_call(*lua, 0, 0) != SANDBOX_OK;
#else
	(void)cache;
	*lua = NULL;
	return 0;
#endif
}

int main(void)
{
	struct freelist_opts opts = {.limit = 1 << 20};
	struct quota quota;
	struct slab_arena arena;
	struct slab_cache cache;
	struct region region;
	struct mempool pool;
	struct held all = {&region, &pool, NULL, NULL};
	struct slab *slab;

	quota_init(&quota, 64 << 20);
	if (slab_arena_create(&arena, &quota, 0, 1 << 20, SLAB_ARENA_PRIVATE))
		return 1;
	slab_cache_create(&cache, &arena);
	region_create(&region, &cache);
	for (int i = 0; i < 10; i++)
		if (region_alloc(&region, 12345) == NULL)
			return 1;
	mempool_create(&pool, &cache, 64);
	all.list = freelist_create(&region, &opts);
	if (take_objects(&pool) || take_blocks(all.list) ||
	    open_lua(&cache, &all.lua))
		return 1;
	slab = slab_get(&cache, 5000);
	if (slab == NULL)
		return 1;
	slab_put(&cache, slab); /* a spare, no garbage */
	held(&all);
#ifdef HELD_LUA
	sandbox_close(all.lua);
#endif
	freelist_destroy(all.list);
	mempool_destroy(&pool);
	region_destroy(&region);
	slab_cache_destroy(&cache);
	slab_arena_destroy(&arena);
	return 0;
}
