/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_SLAB_CACHE_IMPL_H
#define SMALL_SLAB_CACHE_IMPL_H
/*
 * slab_cache_impl - what the files of slab_cache share: the states
 * of a slab, the lock, the sizes of large slabs. Internal.
 */
#include <small/slab_cache.h>
#include <small/track.h>

#include <sched.h>

/* What `magic` says of a slab that is not in use, and of what was a header
 * before a merge. */
enum { magic_free = 0x1f4ee, magic_spare = 0x159a4e, magic_gone = 0 };

static inline bool is_slab(const struct slab *slab)
{
	return (slab->magic & slab_magic_mask) == slab_magic;
}

/* The owner moves a slab between used and spare while a visitor reads whether
 * it is free, which only the lock's holder makes it. */
static inline void set_magic(struct slab *slab, uint32_t magic)
{
	__atomic_store_n(&slab->magic, magic, __ATOMIC_RELAXED);
}

static inline uint32_t get_magic(const struct slab *slab)
{
	return __atomic_load_n(&slab->magic, __ATOMIC_RELAXED);
}

static inline void cache_lock(struct slab_cache *cache)
{
	while (__atomic_exchange_n(&cache->lock, 1, __ATOMIC_ACQUIRE) != 0)
		sched_yield();
	track_after(&cache->lock);
}

/* False when another thread has it: where there is another way to go on. A
 * caller that never waits needs no stack frame. */
static inline bool cache_trylock(struct slab_cache *cache)
{
	if (__atomic_exchange_n(&cache->lock, 1, __ATOMIC_ACQUIRE) != 0)
		return false;
	track_after(&cache->lock);
	return true;
}

static inline void cache_unlock(struct slab_cache *cache)
{
	track_before(&cache->lock);
	__atomic_store_n(&cache->lock, 0, __ATOMIC_RELEASE);
}

static inline size_t stat_load(const size_t *stat)
{
	return __atomic_load_n(stat, __ATOMIC_RELAXED);
}

static inline bool is_large(const struct slab_cache *cache,
                            const struct slab *slab)
{
	return slab->order > cache->order_max;
}

static inline size_t large_mapped(const struct slab *slab)
{
	return small_align(slab->size, small_getpagesize());
}

/* The address range of a growable slab, 8..15 times a power of two from a
 * page up, as one byte: three bits of mantissa under the exponent + 1. */
static inline size_t reserve_size(uint8_t code)
{
	return (size_t)(8 + code % 8) << (code / 8 + 8);
}

/* The code of the smallest such range >= size that is whole pages; 0 when
 * there is none. */
static inline uint8_t reserve_code(size_t size)
{
	uint8_t code = 8;

	while (reserve_size(code) < size ||
	       reserve_size(code) % small_getpagesize() != 0)
		if (++code / 8 + 12 >= (int)sizeof(size_t) * CHAR_BIT ||
		    code == UINT8_MAX)
			return 0;
	return code;
}

static inline size_t large_reserved(const struct slab *slab)
{
	return slab->reserve != 0 ? reserve_size(slab->reserve)
	                          : large_mapped(slab);
}

/* Where an order stands in the tables of spares. */
static inline uint8_t spare_index(const struct slab_cache *cache, uint8_t order)
{
	return (uint8_t)(cache->order0_size_lb - 1 + order);
}

/* Spares of an order: half of the default cap in sum, so that they alone keep
 * no reset from its short way. */
static inline uint32_t spare_bound(const struct slab_cache *cache,
                                   uint8_t order)
{
	size_t room, most = cache->slab_size / 16;

	if (most > SLAB_CACHE_GARBAGE_CAP / 8)
		most = SLAB_CACHE_GARBAGE_CAP / 8;
	room = most / (cache->order0_size << order);
	return room < SLAB_CACHE_SPARE_MAX ? (uint32_t)room
	                                   : SLAB_CACHE_SPARE_MAX;
}

/* A counter with one writer, read untorn by any thread: one instruction
 * where the compiler may fold it, an atomic store where TSan watches. */
static inline void stat_add(size_t *stat, size_t bytes)
{
#if TRACK_TSAN
	__atomic_store_n(stat, stat_load(stat) + bytes, __ATOMIC_RELAXED);
#else
	*stat += bytes;
#endif
}

static inline void stat_sub(size_t *stat, size_t bytes)
{
	stat_add(stat, 0 - bytes);
}

/* With the lock: `bytes` more are out, and the gate follows. */
static inline void cache_add_out(struct slab_cache *cache, size_t bytes)
{
	stat_add(&cache->out, bytes);
	if (cache->shut == 0)
		__atomic_store_n(&cache->gate,
		                 (ptrdiff_t)(cache->out - cache->garbage_cap),
		                 __ATOMIC_RELAXED);
}

/* With the lock: `bytes` more are held; the owner's put looks at is_many. */
static inline void cache_add_total(struct slab_cache *cache, size_t bytes)
{
	struct small_stats *stats = &cache->allocated.stats;

	stat_add(&stats->total, bytes);
	__atomic_store_n(&cache->is_many, stats->total > cache->slab_size,
	                 __ATOMIC_RELAXED);
}

static inline bool cache_is_many(const struct slab_cache *cache)
{
#if TRACK_TSAN
	return __atomic_load_n(&cache->is_many, __ATOMIC_RELAXED) != 0;
#else
	return cache->is_many;
#endif
}

/* With the lock: one more, or one less, keeps the gate shut. */
static inline void cache_shut(struct slab_cache *cache, bool shut)
{
	cache->shut += shut ? 1 : UINT32_MAX;
	if (cache->shut == 0)
		cache_add_out(cache, 0);
	else if (cache->gate !=
	         PTRDIFF_MAX) /* TSan: shut for good, not again */
		__atomic_store_n(&cache->gate, PTRDIFF_MAX, __ATOMIC_RELAXED);
}

/* In debug builds: aborts with the name of the call in a wrong thread. */
static inline void cache_check_thread(const struct slab_cache *cache,
                                      const char *call)
{
#ifndef NDEBUG
	if (cache->owner != small_thread_id())
		small_panic(call, "called by a thread that is not the owner "
		                  "(see slab_cache_set_thread)");
#else
	(void)cache, (void)call;
#endif
}

static inline void slab_init(struct slab *slab, uint8_t order, size_t size)
{
	track_undefined(slab, sizeof(*slab));
	slab->size = size;
	slab->magic = magic_free;
	slab->order = order;
	slab->size_lb = 0;
	slab->reserve = 0;
	slab->tag = 0;
	track_atomic(&slab->magic, sizeof(slab->magic));
}

/* What a get wants: a buddy order, or a large slab of this size. */
struct want {
	uint8_t order;
	size_t size;
};

/* --- slab_cache_merge.c; all with the lock held --- */

void cache_free_add(struct slab_cache *cache, struct slab *slab)
	SMALL_SYM(cache_free_add);
void cache_free_del(struct slab_cache *cache, struct slab *slab)
	SMALL_SYM(cache_free_del);
/* Merges a slab that is on no list as far as it goes and lists the result,
 * or gives it to the arena when it is whole and not the only whole one. */
void cache_merge(struct slab_cache *cache, struct slab *slab)
	SMALL_SYM(cache_merge);
/* Takes a free slab of this order, splitting a larger one; NULL if none. */
struct slab *cache_take(struct slab_cache *cache, uint8_t order)
	SMALL_SYM(cache_take);
void cache_unmap_large(struct slab_cache *cache, struct slab *slab)
	SMALL_SYM(cache_unmap_large);
/* Merges or unmaps what is on no list. */
void cache_sort_one(struct slab_cache *cache, struct slab *slab)
	SMALL_SYM(cache_sort_one);
/* Sorts up to count slabs of garbage. */
void cache_sort(struct slab_cache *cache, size_t count) SMALL_SYM(cache_sort);
/* Merges all of the stock. */
void cache_merge_stock(struct slab_cache *cache) SMALL_SYM(cache_merge_stock);
/* As cache_sort(), but stops at a slab that fits as it is and returns it. */
struct slab *cache_garbage_take(struct slab_cache *cache,
                                const struct want *want, size_t count)
	SMALL_SYM(cache_garbage_take);

/* --- the stock --- */

/*
 * Whole slabs of a buddy order that their user will know again. All of it is
 * behind the lock, so that visitors reach it, but the owner looks without it
 * whether there is any. A visitor that has the lock is one that takes the
 * stock away: the owner goes on as if there were none.
 */

/* What a slab takes of stock_room. */
static inline size_t stock_charge(const struct slab_cache *cache,
                                  const struct slab *slab)
{
	size_t least = cache->slab_size / SLAB_CACHE_STOCK_MAX;

	return slab->size > least ? slab->size : least;
}

/* Takes a slab that is in use; false when there is no room, it is as it was. */
static inline bool slab_stock_put(struct slab_cache *cache, struct slab *slab)
{
	struct rlist **top = &cache->stock[slab->order];

	/* Visitors only make room. A second put is slab_put()'s to tell. */
	if (stat_load(&cache->stock_room) < stock_charge(cache, slab) ||
	    get_magic(slab) != cache->magic || !cache_trylock(cache))
		return false;
	stat_sub(&cache->stock_room, stock_charge(cache, slab));
	slab->next_in_list.next = *top;
	__atomic_store_n(top, &slab->next_in_list, __ATOMIC_RELAXED);
	cache_add_out(cache, 0 - slab->size);
	stat_sub(&cache->allocated.stats.used, slab->size);
	cache_unlock(cache);
	return true;
}

/* With the lock: the latest of this order, which is on no list then. */
static inline struct slab *cache_stock_pop(struct slab_cache *cache,
                                           uint8_t order)
{
	struct rlist *top = cache->stock[order];
	struct slab *slab;

	if (small_unlikely(top == NULL))
		return NULL;
	slab = rlist_entry(top, struct slab, next_in_list);
	__atomic_store_n(&cache->stock[order], top->next, __ATOMIC_RELAXED);
	stat_add(&cache->stock_room, stock_charge(cache, slab));
	cache_add_out(cache, slab->size);
	return slab;
}

/* The slab that was put last, its contents as they were, or NULL. */
static inline struct slab *slab_stock_get(struct slab_cache *cache,
                                          uint8_t order)
{
	struct slab *slab;

	if (__atomic_load_n(&cache->stock[order], __ATOMIC_RELAXED) == NULL ||
	    !cache_trylock(cache))
		return NULL;
	slab = cache_stock_pop(cache, order);
	cache_unlock(cache);
	if (small_likely(slab != NULL))
		stat_add(&cache->allocated.stats.used, slab->size);
	return slab;
}

/* Merges all of it. */
static inline void slab_stock_merge(struct slab_cache *cache)
{
	cache_lock(cache);
	cache_merge_stock(cache);
	cache_unlock(cache);
}

#endif /* SMALL_SLAB_CACHE_IMPL_H */
