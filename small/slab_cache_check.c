/* SPDX-License-Identifier: BSD-2-Clause */
/* slab_cache_check - the statistics and the invariants of a slab cache. */
#include <small/slab_cache_impl.h>

static bool aligned(const void *ptr, size_t align)
{
	return ((uintptr_t)ptr & (align - 1)) == 0;
}

static int32_t room_load(const struct slab_cache *cache, uint8_t order)
{
	return __atomic_load_n(&cache->spare_room[spare_index(cache, order)],
	                       __ATOMIC_RELAXED);
}

static size_t spare_bytes(const struct slab_cache *cache)
{
	size_t bytes = 0;

	for (uint8_t order = 0; order <= cache->order_max; order++)
		bytes += (size_t)((int32_t)spare_bound(cache, order) -
		                  room_load(cache, order)) *
		         slab_order_size(cache, order);
	return bytes;
}

/* a - b; 0 where another thread reads two numbers of different moments. */
static size_t minus(size_t a, size_t b)
{
	return a > b ? a - b : 0;
}

size_t slab_cache_garbage(const struct slab_cache *cache)
{
	return minus(stat_load(&cache->out),
	             stat_load(&cache->allocated.stats.used) +
	                     spare_bytes(cache));
}

void slab_cache_stats(const struct slab_cache *cache,
                      struct slab_cache_stats *stats)
{
	stats->used = stat_load(&cache->allocated.stats.used);
	stats->garbage = slab_cache_garbage(cache);
	stats->overhead = stat_load(&cache->overhead);
	stats->total = stat_load(&cache->allocated.stats.total);
	stats->free = minus(stats->total, stats->used + stats->garbage);
	stats->total += stats->overhead;
}

/* A buddy slab's header as its order wants it. */
static const char *check_slab(const struct slab_cache *cache,
                              const struct slab *slab, uint8_t order,
                              uint32_t magic)
{
	if (get_magic(slab) != magic)
		return "magic";
	if (slab->order != order ||
	    slab->size_lb != spare_index(cache, order) ||
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

		broken = check_slab(cache, slab, order, magic_free);
		if (broken != NULL)
			return broken;
		if (order < cache->order_max &&
		    get_magic(buddy) == magic_free && buddy->order == order)
			return "merged";
		*sum += slab->size;
	}
	return NULL;
}

static const char *check_spare(const struct slab_cache *cache, uint8_t order,
                               size_t *sum)
{
	struct rlist *item = cache->spare[spare_index(cache, order)];
	int32_t count = 0, bound = (int32_t)spare_bound(cache, order);

	for (; item != NULL && count < bound; item = item->next, count++) {
		struct slab *slab =
			rlist_entry(item, struct slab, next_in_list);
		const char *broken =
			check_slab(cache, slab, order, magic_spare);

		if (broken != NULL)
			return broken;
		*sum += slab->size;
	}
	if (item != NULL || count + room_load(cache, order) != bound)
		return "spare_bound";
	return NULL;
}

static const char *check_stock(const struct slab_cache *cache, size_t *sum)
{
	size_t room = cache->stock_room;

	for (uint8_t order = 0; order <= cache->order_max; order++) {
		struct rlist *item = cache->stock[order];

		for (; item != NULL; item = item->next) {
			struct slab *slab =
				rlist_entry(item, struct slab, next_in_list);
			const char *broken =
				check_slab(cache, slab, order, cache->magic);

			if (broken != NULL)
				return broken;
			room += stock_charge(cache, slab);
			if (room > cache->slab_size)
				return "stock";
			*sum += slab->size;
		}
	}
	return room == cache->slab_size ? NULL : "stock";
}

/* The bytes of arena and large slabs, those of garbage and of free ones must
 * give what the counters say. */
static const char *check_sum(const struct slab_cache *cache, size_t unused)
{
	size_t total = 0, garbage = 0, overhead = 0;
	struct rlist *item;
	struct slab *slab;

	rlist_foreach_entry (slab, &cache->allocated.slabs, next_in_cache) {
		if (get_magic(slab) != cache->magic &&
		    get_magic(slab) != magic_free &&
		    get_magic(slab) != magic_spare)
			return "magic";
		if (!aligned(slab, cache->slab_size))
			return "aligned";
		total += cache->slab_size;
	}
	rlist_foreach_entry (slab, &cache->large, next_in_cache) {
		if (slab->magic != cache->magic)
			return "magic";
		if (!aligned(slab, cache->arena->slab_size))
			return "aligned";
		if (!is_large(cache, slab))
			return "order_size";
		total += slab->size;
		overhead += large_mapped(slab) - slab->size;
	}
	for (item = cache->garbage; item != NULL; item = item->next) {
		slab = rlist_entry(item, struct slab, next_in_list);
		if (slab->magic != cache->magic)
			return "magic";
		garbage += slab->size;
	}
	if (total != cache->allocated.stats.total ||
	    overhead != cache->overhead ||
	    unused + garbage + cache->allocated.stats.used != total)
		return "sum";
	if (cache->is_many != (total > cache->slab_size))
		return "many";
	if (cache->allocated.stats.used + spare_bytes(cache) + garbage !=
	    cache->out)
		return "out";
	if (cache->shut != 0 ? cache->gate != PTRDIFF_MAX
	                     : cache->gate != (ptrdiff_t)(cache->out -
	                                                  cache->garbage_cap))
		return "gate";
	return NULL;
}

static const char *check_locked(const struct slab_cache *cache)
{
	size_t unused = 0;
	const char *broken = check_stock(cache, &unused);

	for (uint8_t order = 0; order <= cache->order_max; order++) {
		if (broken == NULL)
			broken = check_free(cache, order, &unused);
		if (broken == NULL)
			broken = check_spare(cache, order, &unused);
	}
	if (broken != NULL)
		return broken;
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
