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
#include <small/membarrier.h>

/* --- the owner's side: spares --- */

/* One writer, the owner; stats read it from anywhere. */
static inline int32_t room_add(struct slab_cache *cache, size_t index,
                               int32_t room)
{
#if TRACK_TSAN
	return __atomic_add_fetch(&cache->spare_room[index], room,
	                          __ATOMIC_RELAXED);
#else
	return cache->spare_room[index] += room;
#endif
}

static inline struct slab *spare_pop(struct slab_cache *cache, size_t index)
{
	struct rlist *top = cache->spare[index];

	if (small_unlikely(top == NULL))
		return NULL;
	cache->spare[index] = top->next;
	room_add(cache, index, 1);
	return rlist_entry(top, struct slab, next_in_list);
}

static inline bool spare_push(struct slab_cache *cache, struct slab *slab)
{
	size_t index = slab->size_lb;

	if (small_unlikely(room_add(cache, index, -1) < 0))
		return false; /* put_slow() puts this right */
	set_magic(slab, magic_spare);
	slab->next_in_list.next = cache->spare[index];
	cache->spare[index] = &slab->next_in_list;
	return true;
}

/* With the lock: all that is idle, but garbage. */
static void merge_spares(struct slab_cache *cache)
{
	uint8_t order = 0;

	cache_merge_stock(cache);
	for (; order <= cache->order_max; order++) {
		size_t index = spare_index(cache, order);
		struct slab *slab;

		while ((slab = spare_pop(cache, index)) != NULL)
			cache_merge(cache, slab);
	}
}

/* --- create, destroy --- */

/* With the lock: keeps the owner's drops out as well. */
static void visit(struct slab_cache *cache)
{
	cache_shut(cache, true);
	membarrier_all();
	while (__atomic_load_n(&cache->busy, __ATOMIC_ACQUIRE) != 0)
		sched_yield();
}

static void client_reclaim(struct slab_arena_client *client)
{
	struct slab_cache *cache =
		rlist_entry(client, struct slab_cache, client);
	struct rlist *whole = &cache->free[cache->order_max];

	cache_lock(cache);
	visit(cache);
	cache_sort(cache, SIZE_MAX);
	cache_merge_stock(cache);
	while (!rlist_empty(whole)) {
		struct slab *slab =
			rlist_first_entry(whole, struct slab, next_in_list);

		cache_free_del(cache, slab);
		rlist_del(&slab->next_in_cache);
		cache_add_total(cache, 0 - slab->size);
		slab_unmap(cache->arena, slab);
	}
	cache_shut(cache, false);
	cache_unlock(cache);
}

/* The magics of 256 caches in turn differ. */
static uint32_t new_magic(void)
{
	static uint32_t last;

	return __atomic_add_fetch(&last, (uint32_t)1 << 24, __ATOMIC_RELAXED) |
	       slab_magic;
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
	cache->order0_half = cache->order0_size / 2;
	cache->slab_size = arena->slab_size;
	cache->magic = new_magic();
	cache->garbage_cap = SLAB_CACHE_GARBAGE_CAP;
	cache->stock_room = arena->slab_size;
	slab_list_create(&cache->allocated);
	rlist_create(&cache->large);
	for (uint8_t order = 0; order <= ORDER_MAX; order++)
		rlist_create(&cache->free[order]);
	for (uint8_t order = 0; order <= cache->order_max; order++)
		cache->spare_room[spare_index(cache, order)] =
			(int32_t)spare_bound(cache, order);
	slab_cache_set_thread(cache);
	track_atomic(&cache->lock, sizeof(cache->lock));
	track_atomic(&cache->allocated.stats, sizeof(struct small_stats));
	track_atomic(&cache->out, sizeof(cache->out));
	track_atomic(&cache->overhead, sizeof(size_t));
	track_atomic(cache->spare, sizeof(cache->spare));
	track_atomic(cache->spare_room, sizeof(cache->spare_room));
	track_atomic(cache->stock, sizeof(cache->stock));
	track_atomic(&cache->stock_room, sizeof(cache->stock_room));
	cache_shut(cache, true);
	if (membarrier_init())
		cache_shut(cache, false);
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
	cache_add_total(cache, slab->size);
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

/* The last step of every get; nobody but the owner writes `used`. */
static struct slab *hand_out(struct slab_cache *cache, struct slab *slab)
{
	set_magic(slab, cache->magic);
	stat_add(&cache->allocated.stats.used, slab->size);
	track_undefined(slab + 1, slab->size - sizeof(*slab));
	return slab;
}

/* Out of line, so that the fast path saves no registers. */
static __attribute__((noinline)) struct slab *
get_order_slow(struct slab_cache *cache, uint8_t order)
{
	struct want want = {order, cache->order0_size << order};
	struct slab *slab = get_slow(cache, &want);

	return slab == NULL ? NULL : hand_out(cache, slab);
}

struct slab *slab_get_with_order(struct slab_cache *cache, uint8_t order)
{
	struct slab *slab;

	assert(order <= cache->order_max);
	cache_check_thread(cache, "slab_get");
	if (fault_hit(FAULT_SLAB))
		return NULL;
	slab = spare_pop(cache, spare_index(cache, order));
	if (slab == NULL)
		return get_order_slow(cache, order);
	return hand_out(cache, slab);
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
	set_magic(slab, cache->magic);
	slab->reserve = reserve;
	rlist_add(&cache->large, &slab->next_in_cache);
	cache_add_out(cache, size);
	cache_add_total(cache, size);
	stat_add(&cache->overhead, mapped - size);
	cache_unlock(cache);
	return slab;
}

/* As map_large(), once more after all that this cache holds is merged, as a
 * spare may be what keeps a whole slab from going back, and after idle slabs
 * are unmapped: not only the quota refuses. */
static struct slab *get_mapping(struct slab_cache *cache, size_t size,
                                uint8_t reserve)
{
	struct slab *slab = map_large(cache, size, reserve);

	if (slab != NULL)
		return slab;
	slab_cache_trim(cache);
	slab_arena_trim(cache->arena);
	return map_large(cache, size, reserve);
}

/* True when size + header is no size that could ever be mapped. */
static bool large_size(size_t size, size_t *with_header)
{
	return small_add(size, sizeof(struct slab), with_header) ||
	       *with_header > PTRDIFF_MAX;
}

static struct slab *get_large(struct slab_cache *cache, size_t size)
{
	struct want want = {(uint8_t)(cache->order_max + 1), 0};
	struct slab *slab;

	if (large_size(size, &want.size))
		return NULL;
	cache_lock(cache);
	slab = cache_garbage_take(cache, &want, SLAB_CACHE_SORT);
	cache_unlock(cache);
	if (slab == NULL)
		slab = get_mapping(cache, want.size, 0);
	return slab == NULL ? NULL : hand_out(cache, slab);
}

struct slab *slab_get_large(struct slab_cache *cache, size_t size)
{
	cache_check_thread(cache, "slab_get_large");
	if (fault_hit(FAULT_SLAB))
		return NULL;
	return get_large(cache, size);
}

static __attribute__((noinline)) struct slab *
get_any_slow(struct slab_cache *cache, size_t size)
{
	uint8_t order = slab_order(cache, size);

	if (order > cache->order_max)
		return get_large(cache, size);
	return get_order_slow(cache, order);
}

struct slab *slab_get(struct slab_cache *cache, size_t size)
{
	struct slab *slab = NULL;
	size_t last;

	cache_check_thread(cache, "slab_get");
	if (fault_hit(FAULT_SLAB))
		return NULL;
	/* log2 of (header + size - 1), but at least of half of order 0, is
	 * log2 of half the slab that fits. */
	if (small_likely(!small_add(size, sizeof(struct slab) - 1, &last)))
		slab = spare_pop(cache, small_lb(last | cache->order0_half));
	if (small_unlikely(slab == NULL))
		return get_any_slow(cache, size);
	return hand_out(cache, slab);
}

struct slab *slab_get_growable(struct slab_cache *cache, size_t size,
                               size_t max_size)
{
	struct slab *slab;
	uint8_t reserve;

	cache_check_thread(cache, "slab_get_growable");
	if (size > max_size || large_size(size, &size) ||
	    large_size(max_size, &max_size) || fault_hit(FAULT_SLAB))
		return NULL;
	reserve = reserve_code(max_size);
	if (reserve == 0)
		return NULL;
	cache_lock(cache);
	cache_sort(cache, SLAB_CACHE_SORT);
	cache_unlock(cache);
	slab = get_mapping(cache, size, reserve);
	return slab == NULL ? NULL : hand_out(cache, slab);
}

int slab_resize(struct slab_cache *cache, struct slab *slab, size_t size)
{
	size_t page = small_getpagesize(), mapped = large_mapped(slab), want;

	cache_check_thread(cache, "slab_resize");
	if (slab->reserve == 0)
		small_panic("slab_resize", "the slab is not growable");
	if (large_size(size, &size) || size > large_reserved(slab))
		return -1;
	want = small_align(size, page);
	if (slab_arena_resize_large(cache->arena, slab, mapped, want) != 0)
		return -1;
	cache_lock(cache);
	cache_add_out(cache, size - slab->size);
	cache_add_total(cache, size - slab->size);
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
	if (cache->out <= cache->garbage_cap)
		cache_sort(cache, SIZE_MAX);
}

static bool is_settling(const struct slab_cache *cache)
{
	return cache->allocated.stats.used == 0 && cache_is_many(cache);
}

/* slab: one that found no room among the spares, or NULL. */
static __attribute__((noinline)) void put_slow(struct slab_cache *cache,
                                               struct slab *slab)
{
	cache_lock(cache);
	cache_sort(cache, SLAB_CACHE_SORT);
	if (slab != NULL) {
		room_add(cache, slab->size_lb, 1);
		cache_sort_one(cache, slab);
	}
	if (is_settling(cache))
		settle(cache);
	cache_unlock(cache);
}

void slab_put(struct slab_cache *cache, struct slab *slab)
{
	size_t size = slab->size;
	bool is_spare;

	cache_check_thread(cache, "slab_put");
	/* A second put is caught here, too. */
	if (small_unlikely(slab->magic != cache->magic))
		small_panic("slab_put", "not a slab in use");
	track_noaccess(slab + 1, size - sizeof(*slab));
	is_spare = spare_push(cache, slab); /* a large one finds no room */
	stat_sub(&cache->allocated.stats.used, size);
	if (small_unlikely(!is_spare))
		put_slow(cache, slab);
	else if (small_unlikely(cache->allocated.stats.used == 0) &&
	         is_settling(cache))
		put_slow(cache, NULL);
}

void slab_put_with_order(struct slab_cache *cache, struct slab *slab)
{
	assert(!is_large(cache, slab));
	slab_put(cache, slab);
}

void slab_put_large(struct slab_cache *cache, struct slab *slab)
{
	assert(is_large(cache, slab));
	slab_put(cache, slab);
}

/* --- garbage --- */

void slab_cache_drop_slow(struct slab_cache *cache,
                          const struct slab_chain *chain)
{
	cache_check_thread(cache, "slab_cache_drop");
	cache_lock(cache);
	if (cache->out - cache->allocated.stats.used > cache->garbage_cap)
		cache_sort(cache, SLAB_CACHE_SORT);
	*chain->tail = cache->garbage;
	cache->garbage = *chain->first;
	stat_sub(&cache->allocated.stats.used, *chain->bytes);
	cache_unlock(cache);
}

void slab_cache_shut(struct slab_cache *cache, bool shut)
{
	cache_lock(cache);
	cache_shut(cache, shut);
	cache_unlock(cache);
}

void slab_cache_set_garbage_cap(struct slab_cache *cache, size_t bytes)
{
	cache_lock(cache);
	cache->garbage_cap = bytes < PTRDIFF_MAX ? bytes : PTRDIFF_MAX;
	cache_add_out(cache, 0);
	cache_unlock(cache);
}

void slab_cache_trim(struct slab_cache *cache)
{
	cache_check_thread(cache, "slab_cache_trim");
	cache_lock(cache);
	merge_spares(cache);
	cache_unlock(cache);
	client_reclaim(&cache->client);
}
