/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slab_cache - a buddy system that merges lazily: what is put stays as a
 * spare of its order while there is room, and only what overflows is merged
 * with its neighbours. Dropped chains wait in `garbage` and are merged two at
 * a time. A whole arena slab that merging yields goes back to the arena when
 * the cache holds another one.
 *
 * Waste:  inside a slab, up to half of it for a buddy order, less than a page
 *         beyond; idle memory as the header says. slab_cache_stats() shows
 *         all of it.
 * Steps:  get and put split or merge at most order_max times and sort at most
 *         SLAB_CACHE_SORT garbage slabs; a get that finds nothing merges the
 *         spares (their number is bounded), and drains all garbage only
 *         before it would fail.
 */
#include <small/slab_cache_impl.h>
#include <small/fault.h>

/* The owner's side of the stats: nobody else writes `used`. */
static void count_used(struct slab_cache *cache, struct slab *slab)
{
	set_state(slab, cache->mark);
	stat_add(&cache->allocated.stats.used, slab->size);
}

/* --- the owner's side: spares --- */

static struct slab *spare_pop(struct slab_cache *cache, uint8_t order)
{
	struct slab_spare *spare = &cache->spare[order];
	struct rlist *top = spare->top;

	if (top == NULL)
		return NULL;
	spare->top = top->next;
	__atomic_store_n(&spare->count, spare->count - 1, __ATOMIC_RELAXED);
	return rlist_entry(top, struct slab, next_in_list);
}

static bool spare_push(struct slab_cache *cache, struct slab *slab)
{
	struct slab_spare *spare = &cache->spare[slab->order];

	if (spare->count >= spare->max)
		return false;
	__atomic_store_n(&spare->count, spare->count + 1, __ATOMIC_RELAXED);
	set_state(slab, SLAB_SPARE);
	slab->next_in_list.next = spare->top;
	spare->top = &slab->next_in_list;
	return true;
}

/* With the lock. */
static void merge_spares(struct slab_cache *cache)
{
	uint8_t order = 0;

	for (; order <= cache->order_max; order++) {
		struct slab *slab;

		while ((slab = spare_pop(cache, order)) != NULL)
			cache_merge(cache, slab);
	}
}

/* --- create, destroy --- */

static void client_reclaim(struct slab_arena_client *client)
{
	struct slab_cache *cache =
		rlist_entry(client, struct slab_cache, client);
	struct rlist *whole = &cache->free[cache->order_max];

	cache_lock(cache);
	cache_sort(cache, SIZE_MAX);
	while (!rlist_empty(whole)) {
		struct slab *slab =
			rlist_first_entry(whole, struct slab, next_in_list);

		cache_free_del(cache, slab);
		rlist_del(&slab->next_in_cache);
		stat_sub(&cache->allocated.stats.total, slab->size);
		slab_unmap(cache->arena, slab);
	}
	cache_unlock(cache);
}

/* A quarter of an arena slab in sum, one whole one apart. */
static uint32_t spare_bound(const struct slab_cache *cache, uint8_t order)
{
	size_t room =
		cache->arena->slab_size / 16 / (cache->order0_size << order);

	if (order == cache->order_max)
		return 1;
	return room < SLAB_CACHE_SPARE_MAX ? (uint32_t)room
	                                   : SLAB_CACHE_SPARE_MAX;
}

/* 64 odd numbers in turn: what tells a cache's slabs from a neighbour's. */
static uint8_t new_mark(void)
{
	static uint8_t last;

	return __atomic_add_fetch(&last, 4, __ATOMIC_RELAXED) | 1;
}

void slab_cache_create(struct slab_cache *cache, struct slab_arena *arena)
{
	size_t lb = small_lb(small_getpagesize());
	size_t slab_lb = small_lb(arena->slab_size);

	memset(cache, 0, sizeof(*cache));
	if (slab_lb - lb > ORDER_MAX)
		lb = slab_lb - ORDER_MAX;
	cache->arena = arena;
	cache->order0_size = (size_t)1 << lb;
	cache->order0_size_lb = (uint8_t)lb;
	cache->order_max = (uint8_t)(slab_lb - lb);
	cache->mark = new_mark();
	cache->garbage_cap = SLAB_CACHE_GARBAGE_CAP;
	slab_list_create(&cache->allocated);
	rlist_create(&cache->large);
	rlist_create(&cache->garbage);
	for (uint8_t order = 0; order <= ORDER_MAX; order++)
		rlist_create(&cache->free[order]);
	for (uint8_t order = 0; order <= cache->order_max; order++)
		cache->spare[order].max = spare_bound(cache, order);
	slab_cache_set_thread(cache);
	track_atomic(&cache->lock, sizeof(cache->lock));
	track_atomic(&cache->allocated.stats, sizeof(struct small_stats));
	track_atomic(&cache->garbage_bytes, sizeof(size_t));
	track_atomic(&cache->overhead, sizeof(size_t));
	track_atomic(cache->spare, sizeof(cache->spare));
	cache->client.reclaim = client_reclaim;
	slab_arena_add_client(arena, &cache->client);
}

void slab_cache_destroy(struct slab_cache *cache)
{
	struct slab *slab, *next;

	slab_arena_del_client(cache->arena, &cache->client);
	rlist_foreach_entry_safe (slab, &cache->large, next_in_cache, next)
		cache_unmap_large(cache, slab);
	rlist_foreach_entry_safe (slab, &cache->allocated.slabs, next_in_cache,
	                          next)
		slab_unmap(cache->arena, slab);
	memset(cache, 0, sizeof(*cache));
}

void slab_cache_set_thread(struct slab_cache *cache)
{
	cache->owner = small_thread_id();
}

void slab_cache_check_thread(const struct slab_cache *cache, const char *call)
{
#ifndef NDEBUG
	if (cache->owner != small_thread_id())
		small_panic(call, "called by a thread that is not the owner "
		                  "(see slab_cache_set_thread)");
#else
	(void)cache, (void)call;
#endif
}

/* --- get --- */

/* Adds a fresh arena slab to the locked side; false when there is none. */
static bool grow(struct slab_cache *cache)
{
	struct slab *slab = slab_map(cache->arena);

	if (slab == NULL)
		return false;
	cache_lock(cache);
	slab_init(slab, cache->order_max, cache->arena->slab_size);
	rlist_add(&cache->allocated.slabs, &slab->next_in_cache);
	stat_add(&cache->allocated.stats.total, slab->size);
	track_noaccess(slab + 1, slab->size - sizeof(*slab));
	cache_free_add(cache, slab);
	cache_unlock(cache);
	return true;
}

static struct slab *get_locked(struct slab_cache *cache,
                               const struct want *want, size_t sort_count)
{
	struct slab *slab;

	cache_lock(cache);
	slab = cache_garbage_take(cache, want, sort_count);
	if (slab == NULL)
		slab = cache_take(cache, want->order);
	cache_unlock(cache);
	return slab;
}

static struct slab *get_slow(struct slab_cache *cache, const struct want *want)
{
	struct slab *slab = get_locked(cache, want, SLAB_CACHE_SORT);

	if (slab != NULL)
		return slab;
	cache_lock(cache);
	merge_spares(cache);
	slab = cache_take(cache, want->order);
	cache_unlock(cache);
	if (slab != NULL)
		return slab;
	if (!grow(cache)) {
		slab = get_locked(cache, want, SIZE_MAX);
		/* Sorting may have given whole slabs to the arena. */
		if (slab != NULL || !grow(cache))
			return slab;
	}
	return get_locked(cache, want, 0);
}

struct slab *slab_get_with_order(struct slab_cache *cache, uint8_t order)
{
	struct slab *slab;

	assert(order <= cache->order_max);
	slab_cache_check_thread(cache, "slab_get");
	if (fault_hit(FAULT_SLAB))
		return NULL;
	slab = spare_pop(cache, order);
	if (small_unlikely(slab == NULL)) {
		struct want want = {order, cache->order0_size << order};

		slab = get_slow(cache, &want);
		if (slab == NULL)
			return NULL;
	}
	slab->tag = 0;
	count_used(cache, slab);
	track_undefined(slab + 1, slab->size - sizeof(*slab));
	return slab;
}

/* A charged mapping of its own; size includes the header. */
static struct slab *map_large(struct slab_cache *cache, size_t size,
                              uint8_t reserve)
{
	size_t mapped = small_align(size, small_getpagesize());
	struct slab *slab = slab_arena_map_large(
		cache->arena, mapped,
		reserve != 0 ? reserve_size(reserve) : mapped);

	if (slab == NULL)
		return NULL;
	cache_lock(cache);
	slab_init(slab, (uint8_t)(cache->order_max + 1), size);
	slab->reserve = reserve;
	rlist_add(&cache->large, &slab->next_in_cache);
	stat_add(&cache->allocated.stats.total, size);
	stat_add(&cache->overhead, mapped - size);
	cache_unlock(cache);
	return slab;
}

/* As map_large(), once more after all that this cache holds is merged: a
 * spare may be what keeps a whole slab from going back. */
static struct slab *get_mapping(struct slab_cache *cache, size_t size,
                                uint8_t reserve)
{
	struct slab *slab = map_large(cache, size, reserve);

	if (slab != NULL)
		return slab;
	slab_cache_trim(cache);
	return map_large(cache, size, reserve);
}

/* True when size + header is no size that could ever be mapped. */
static bool large_size(size_t size, size_t *with_header)
{
	return small_add(size, sizeof(struct slab), with_header) ||
	       *with_header > PTRDIFF_MAX;
}

struct slab *slab_get_large(struct slab_cache *cache, size_t size)
{
	struct want want = {(uint8_t)(cache->order_max + 1), 0};
	struct slab *slab;

	slab_cache_check_thread(cache, "slab_get_large");
	if (large_size(size, &want.size) || fault_hit(FAULT_SLAB))
		return NULL;
	cache_lock(cache);
	slab = cache_garbage_take(cache, &want, SLAB_CACHE_SORT);
	cache_unlock(cache);
	if (slab == NULL)
		slab = get_mapping(cache, want.size, 0);
	if (slab == NULL)
		return NULL;
	slab->tag = 0;
	count_used(cache, slab);
	track_undefined(slab + 1, slab->size - sizeof(*slab));
	return slab;
}

struct slab *slab_get(struct slab_cache *cache, size_t size)
{
	uint8_t order = slab_order(cache, size);

	if (small_unlikely(order > cache->order_max))
		return slab_get_large(cache, size);
	return slab_get_with_order(cache, order);
}

struct slab *slab_get_growable(struct slab_cache *cache, size_t size,
                               size_t max_size)
{
	struct slab *slab;
	uint8_t reserve;

	slab_cache_check_thread(cache, "slab_get_growable");
	if (size > max_size || large_size(size, &size) ||
	    large_size(max_size, &max_size) || fault_hit(FAULT_SLAB))
		return NULL;
	reserve = reserve_code(max_size);
	if (reserve == 0)
		return NULL;
	slab = get_mapping(cache, size, reserve);
	if (slab != NULL)
		count_used(cache, slab);
	return slab;
}

int slab_resize(struct slab_cache *cache, struct slab *slab, size_t size)
{
	size_t page = small_getpagesize(), mapped = large_mapped(slab), want;

	slab_cache_check_thread(cache, "slab_resize");
	if (slab->reserve == 0)
		small_panic("slab_resize", "the slab is not growable");
	if (large_size(size, &size) || size > large_reserved(slab))
		return -1;
	want = small_align(size, page);
	if (slab_arena_resize_large(cache->arena, slab, mapped, want) != 0)
		return -1;
	cache_lock(cache);
	stat_add(&cache->allocated.stats.total, size - slab->size);
	stat_add(&cache->overhead, (want - size) - (mapped - slab->size));
	cache_unlock(cache);
	stat_add(&cache->allocated.stats.used, size - slab->size);
	slab->size = size;
	return 0;
}

/* --- put --- */

/* The last slab in use is back: everything merges, one arena slab stays. */
static void settle(struct slab_cache *cache)
{
	merge_spares(cache);
	if (cache->garbage_bytes <= cache->garbage_cap)
		cache_sort(cache, SIZE_MAX);
}

static void put_slow(struct slab_cache *cache, struct slab *slab)
{
	cache_lock(cache);
	cache_sort(cache, SLAB_CACHE_SORT);
	if (slab != NULL)
		cache_sort_one(cache, slab);
	if (cache->allocated.stats.used == 0 &&
	    cache->allocated.stats.total > cache->arena->slab_size)
		settle(cache);
	cache_unlock(cache);
}

/* Uncounts a slab; a second put of it is caught here. */
static void uncount_used(struct slab_cache *cache, struct slab *slab,
                         const char *call)
{
	slab_cache_check_thread(cache, call);
	if (small_unlikely(slab->magic != slab_magic ||
	                   get_state(slab) != cache->mark))
		small_panic(call, "not a slab in use");
	stat_sub(&cache->allocated.stats.used, slab->size);
}

void slab_put_with_order(struct slab_cache *cache, struct slab *slab)
{
	uncount_used(cache, slab, "slab_put");
	track_noaccess(slab + 1, slab->size - sizeof(*slab));
	if (!spare_push(cache, slab))
		put_slow(cache, slab);
	else if (cache->allocated.stats.used == 0 &&
	         stat_load(&cache->allocated.stats.total) >
	                 cache->arena->slab_size)
		put_slow(cache, NULL);
}

void slab_put_large(struct slab_cache *cache, struct slab *slab)
{
	uncount_used(cache, slab, "slab_put_large");
	set_state(slab, SLAB_FREE);
	put_slow(cache, slab);
}

void slab_put(struct slab_cache *cache, struct slab *slab)
{
	if (small_unlikely(is_large(cache, slab)))
		slab_put_large(cache, slab);
	else
		slab_put_with_order(cache, slab);
}

/* --- garbage --- */

void slab_cache_sort(struct slab_cache *cache)
{
	slab_cache_check_thread(cache, "slab_cache_sort");
	cache_lock(cache);
	cache_sort(cache, SLAB_CACHE_SORT);
	cache_unlock(cache);
}

void slab_cache_drop(struct slab_cache *cache, struct rlist *chain,
                     size_t bytes)
{
	slab_cache_check_thread(cache, "slab_cache_drop");
	cache_lock(cache);
	if (small_unlikely(cache->garbage_bytes > cache->garbage_cap))
		cache_sort(cache, SLAB_CACHE_SORT);
	rlist_splice_tail(&cache->garbage, chain);
	stat_add(&cache->garbage_bytes, bytes);
	stat_sub(&cache->allocated.stats.used, bytes);
	cache_unlock(cache);
}

void slab_cache_set_garbage_cap(struct slab_cache *cache, size_t bytes)
{
	cache->garbage_cap = bytes;
}

void slab_cache_trim(struct slab_cache *cache)
{
	slab_cache_check_thread(cache, "slab_cache_trim");
	cache_lock(cache);
	merge_spares(cache);
	cache_unlock(cache);
	client_reclaim(&cache->client);
}
