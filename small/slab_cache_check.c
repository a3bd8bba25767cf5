/* SPDX-License-Identifier: BSD-2-Clause */
/* slab_cache_check - the statistics and the invariants of a slab cache. */
#include <small/slab_cache_impl.h>

static bool aligned(const void *ptr, size_t align)
{
	return ((uintptr_t)ptr & (align - 1)) == 0;
}

void slab_cache_stats(const struct slab_cache *cache,
                      struct slab_cache_stats *stats)
{
	stats->used = stat_load(&cache->allocated.stats.used);
	stats->garbage = stat_load(&cache->garbage_bytes);
	stats->overhead = stat_load(&cache->overhead);
	stats->total = stat_load(&cache->allocated.stats.total);
	stats->free = stats->total - stats->used - stats->garbage;
	stats->total += stats->overhead;
}

/* A buddy slab's header as its order wants it. */
static const char *check_slab(const struct slab_cache *cache,
                              const struct slab *slab, uint8_t order,
                              uint8_t state)
{
	if (slab->magic != slab_magic)
		return "magic";
	if (slab->order != order || get_state(slab) != state ||
	    slab->size != slab_order_size(cache, order))
		return "order_size";
	if (!aligned(slab, slab->size))
		return "aligned";
	return NULL;
}

static const char *check_free(const struct slab_cache *cache, uint8_t order,
                              size_t *sum)
{
	const struct rlist *head = &cache->free[order];
	const char *broken;
	struct slab *slab;

	if (rlist_empty(head) == (cache->free_bits >> order & 1))
		return "bitmap";
	rlist_foreach_entry (slab, head, next_in_list) {
		uintptr_t other = (uintptr_t)slab ^ slab->size;
		const struct slab *buddy = (const struct slab *)other;

		broken = check_slab(cache, slab, order, SLAB_FREE);
		if (broken != NULL)
			return broken;
		if (order < cache->order_max && get_state(buddy) == SLAB_FREE &&
		    buddy->order == order)
			return "merged";
		*sum += slab->size;
	}
	return NULL;
}

static const char *check_spare(const struct slab_cache *cache, uint8_t order,
                               size_t *sum)
{
	const struct slab_spare *spare = &cache->spare[order];
	struct rlist *item = spare->top;
	uint32_t count = 0;

	if (spare->count > spare->max)
		return "spare_bound";
	for (; item != NULL; item = item->next) {
		struct slab *slab =
			rlist_entry(item, struct slab, next_in_list);
		const char *broken;

		if (++count > spare->count)
			return "spare_bound";
		broken = check_slab(cache, slab, order, SLAB_SPARE);
		if (broken != NULL)
			return broken;
		*sum += slab->size;
	}
	return count == spare->count ? NULL : "spare_bound";
}

/* The bytes of arena and large slabs, those of garbage and of free ones must
 * give what the counters say. */
static const char *check_sum(const struct slab_cache *cache, size_t unused)
{
	size_t total = 0, garbage = 0, overhead = 0;
	struct slab *slab;

	rlist_foreach_entry (slab, &cache->allocated.slabs, next_in_cache) {
		if (slab->magic != slab_magic)
			return "magic";
		if (!aligned(slab, cache->arena->slab_size))
			return "aligned";
		total += cache->arena->slab_size;
	}
	rlist_foreach_entry (slab, &cache->large, next_in_cache) {
		if (slab->magic != slab_magic)
			return "magic";
		if (!aligned(slab, cache->arena->slab_size))
			return "aligned";
		if (!is_large(cache, slab))
			return "order_size";
		total += slab->size;
		overhead += large_mapped(slab) - slab->size;
	}
	rlist_foreach_entry (slab, &cache->garbage, next_in_list) {
		if (slab->magic != slab_magic)
			return "magic";
		garbage += slab->size;
	}
	if (total != cache->allocated.stats.total ||
	    overhead != cache->overhead || garbage != cache->garbage_bytes ||
	    unused + garbage + cache->allocated.stats.used != total)
		return "sum";
	return NULL;
}

static const char *check_locked(const struct slab_cache *cache)
{
	size_t unused = 0;

	for (uint8_t order = 0; order <= cache->order_max; order++) {
		const char *broken = check_free(cache, order, &unused);

		if (broken == NULL)
			broken = check_spare(cache, order, &unused);
		if (broken != NULL)
			return broken;
	}
	return check_sum(cache, unused);
}

const char *slab_cache_check(struct slab_cache *cache)
{
	const char *broken;

	cache_lock(cache);
	broken = check_locked(cache);
	cache_unlock(cache);
	return broken;
}
