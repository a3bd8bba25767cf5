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

/* Odd states are the marks of caches: used. */
enum { SLAB_FREE, SLAB_SPARE = 2 };

/* A borrowed state that no other thread may act on is a plain store for the
 * owner; a thief reads it only to see that it is not SLAB_FREE. */
static inline void set_state(struct slab *slab, uint8_t state)
{
	__atomic_store_n(&slab->in_use, state, __ATOMIC_RELAXED);
}

static inline uint8_t get_state(const struct slab *slab)
{
	return __atomic_load_n(&slab->in_use, __ATOMIC_RELAXED);
}

static inline void cache_lock(struct slab_cache *cache)
{
	while (__atomic_exchange_n(&cache->lock, 1, __ATOMIC_ACQUIRE) != 0)
		sched_yield();
	track_after(&cache->lock);
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

/* Spares of an order; a thief reads it too. */
static inline uint32_t spare_count(const struct slab_cache *cache,
                                   uint8_t order)
{
	return __atomic_load_n(&cache->spare[order].count, __ATOMIC_RELAXED);
}

static inline void stat_add(size_t *stat, size_t bytes)
{
	__atomic_store_n(stat, stat_load(stat) + bytes, __ATOMIC_RELAXED);
}

static inline void stat_sub(size_t *stat, size_t bytes)
{
	__atomic_store_n(stat, stat_load(stat) - bytes, __ATOMIC_RELAXED);
}

static inline void slab_init(struct slab *slab, uint8_t order, size_t size)
{
	track_undefined(slab, sizeof(*slab));
	slab->size = size;
	slab->magic = slab_magic;
	slab->order = order;
	slab->reserve = 0;
	slab->tag = 0;
	track_atomic(&slab->in_use, sizeof(slab->in_use));
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
/* As cache_sort(), but stops at a slab that fits as it is and returns it. */
struct slab *cache_garbage_take(struct slab_cache *cache,
                                const struct want *want, size_t count)
	SMALL_SYM(cache_garbage_take);

#endif /* SMALL_SLAB_CACHE_IMPL_H */
