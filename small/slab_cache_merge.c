/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slab_cache_merge - the side of a slab cache that its lock guards: buddy
 * lists, whole and large slabs, garbage. Every function here is called with
 * the lock held, by the owner or by a thread under pressure.
 */
#include <small/slab_cache_impl.h>

void cache_free_add(struct slab_cache *cache, struct slab *slab)
{
	set_magic(slab, magic_free);
	slab->size_lb = spare_index(cache, slab->order);
	rlist_add(&cache->free[slab->order], &slab->next_in_list);
	cache->free_bits |= 1u << slab->order;
}

void cache_free_del(struct slab_cache *cache, struct slab *slab)
{
	rlist_del(&slab->next_in_list);
	if (rlist_empty(&cache->free[slab->order]))
		cache->free_bits &= ~(1u << slab->order);
}

static struct slab *buddy_of(const struct slab_cache *cache,
                             const struct slab *slab)
{
	return (struct slab *)((uintptr_t)slab ^
	                       (cache->order0_size << slab->order));
}

void cache_merge(struct slab_cache *cache, struct slab *slab)
{
	struct slab_arena *arena = cache->arena;

	cache_add_out(cache, 0 - slab->size);
	track_noaccess(slab + 1, slab->size - sizeof(*slab));
	while (slab->order < cache->order_max) {
		struct slab *buddy = buddy_of(cache, slab), *right = buddy;

		if (get_magic(buddy) != magic_free ||
		    buddy->order != slab->order)
			break;
		cache_free_del(cache, buddy);
		if (buddy < slab) {
			right = slab;
			slab = buddy;
		}
		/* A second put of it is caught. */
		set_magic(right, magic_gone);
		slab->order++;
		slab->size *= 2;
	}
	if (slab->order == cache->order_max &&
	    !rlist_empty(&cache->free[slab->order])) {
		set_magic(slab, magic_gone);
		rlist_del(&slab->next_in_cache);
		cache_add_total(cache, 0 - arena->slab_size);
		slab_unmap(arena, slab);
		return;
	}
	cache_free_add(cache, slab);
}

struct slab *cache_take(struct slab_cache *cache, uint8_t order)
{
	uint32_t bits = cache->free_bits >> order << order;
	struct slab *slab;

	if (bits == 0)
		return NULL;
	slab = rlist_first_entry(&cache->free[__builtin_ctz(bits)], struct slab,
	                         next_in_list);
	cache_free_del(cache, slab);
	while (slab->order > order) {
		struct slab *right;

		slab->order--;
		slab->size /= 2;
		right = buddy_of(cache, slab);
		slab_init(right, slab->order, slab->size);
		cache_free_add(cache, right);
	}
	/* Not free any more, before another thread gets the lock. */
	set_magic(slab, cache->magic);
	slab->size_lb = spare_index(cache, order);
	cache_add_out(cache, slab->size);
	return slab;
}

void cache_unmap_large(struct slab_cache *cache, struct slab *slab)
{
	size_t size = slab->size, mapped = large_mapped(slab);

	rlist_del(&slab->next_in_cache);
	cache_add_out(cache, 0 - size);
	cache_add_total(cache, 0 - size);
	stat_sub(&cache->overhead, mapped - size);
	slab_arena_unmap_large(cache->arena, slab, mapped,
	                       large_reserved(slab));
}

void cache_sort_one(struct slab_cache *cache, struct slab *slab)
{
	if (is_large(cache, slab))
		cache_unmap_large(cache, slab);
	else
		cache_merge(cache, slab);
}

static struct slab *garbage_shift(struct slab_cache *cache)
{
	struct rlist *first = cache->garbage;

	if (first == NULL)
		return NULL;
	cache->garbage = first->next;
	return rlist_entry(first, struct slab, next_in_list);
}

void cache_sort(struct slab_cache *cache, size_t count)
{
	while (count-- > 0) {
		struct slab *slab = garbage_shift(cache);

		if (slab == NULL)
			break;
		cache_sort_one(cache, slab);
	}
}

void cache_merge_stock(struct slab_cache *cache)
{
	uint8_t order = 0;

	for (; order <= cache->order_max; order++) {
		struct slab *slab;

		while ((slab = cache_stock_pop(cache, order)) != NULL) {
			/* What its user would know it by. */
			memset(slab + 1, 0, sizeof(*slab));
			cache_merge(cache, slab);
		}
	}
}

static bool fits(const struct slab *slab, const struct want *want)
{
	return slab->order == want->order && slab->size == want->size &&
	       slab->reserve == 0;
}

struct slab *cache_garbage_take(struct slab_cache *cache,
                                const struct want *want, size_t count)
{
	while (count-- > 0) {
		struct slab *slab = garbage_shift(cache);

		if (slab == NULL || fits(slab, want))
			return slab;
		cache_sort_one(cache, slab);
	}
	return NULL;
}
