/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_SLAB_CACHE_FIXTURE_H
#define TEST_SLAB_CACHE_FIXTURE_H
/* slab_cache_fixture - a cache for each test, and its slabs by number. */
#include "core.h"

#define MIB ((size_t)1 << 20)

static struct core core;
static struct slab *slabs[4096];
static size_t page, slab_size; /* 16 orders-0 slabs are one arena slab */

static inline int setup(void **state)
{
	*state = NULL;
	page = small_getpagesize();
	slab_size = 16 * page;
	memset(&core, 0xff, sizeof(core));
	core_create(&core, 64 * slab_size, slab_size);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	fault_clear();
	core_destroy(&core);
	return 0;
}

/* The same core with other numbers. */
static inline void create(size_t total, size_t size)
{
	core_destroy(&core);
	core_create(&core, total, size);
}

static inline void get(size_t first, size_t count, size_t size)
{
	for (size_t i = first; i < first + count; i++) {
		slabs[i] = slab_get(&core.cache, size);
		assert_non_null(slabs[i]);
	}
}

static inline void put(size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++)
		slab_put(&core.cache, slabs[i]);
}

/* Drops slabs as a region does; returns their bytes. */
static inline size_t drop(size_t first, size_t count)
{
	struct rlist *head, **tail = &head;
	size_t bytes = 0;
	struct slab_chain chain = {&head, NULL, &bytes};

	for (size_t i = first; i < first + count; i++) {
		*tail = &slabs[i]->next_in_list;
		tail = &slabs[i]->next_in_list.next;
		bytes += slabs[i]->size;
	}
	chain.tail = tail;
	if (!slab_cache_drop(&core.cache, &chain))
		slab_cache_drop_slow(&core.cache, &chain);
	return bytes;
}

static inline size_t garbage_count(void)
{
	struct rlist *item;
	size_t count = 0;

	for (item = core.cache.garbage; item != NULL; item = item->next)
		count++;
	return count;
}

#endif /* TEST_SLAB_CACHE_FIXTURE_H */
