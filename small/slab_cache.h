/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_SLAB_CACHE_H
#define SMALL_SLAB_CACHE_H
/*
 * slab_cache - one thread's buddy system over the slabs of an arena.
 *
 * Orders run from 0 (order0_size, the page size) to order_max (one arena
 * slab); larger slabs are mapped one by one. Three stores, by how much work
 * has gone into what they hold:
 *
 *   spare    a few slabs an order, just put and not merged: get and put are
 *            a pop and a push without a lock
 *   free     the buddy lists proper, merged as far as they go
 *   garbage  slabs that a region dropped as a chain and nobody has looked at
 *            since; each slow get and put sorts at most SLAB_CACHE_SORT of
 *            them, a get takes a fitting one as it is
 *   stock    slabs that a mempool emptied and may need again, the pool's
 *            header still in them: at most SLAB_CACHE_STOCK_MAX, and no more
 *            bytes than an arena slab has; merged before the cache takes
 *            another arena slab
 *
 * Spares are the owner's. The rest is behind a lock that only slow paths
 * take, so that a thread whose charge is about to be refused (a visitor) can
 * sort the garbage and the stock of every cache on the arena and give whole
 * slabs back, also when the owner sleeps. What it can not reach of a cache: the
 * spares (at most a quarter of an arena slab and half a MiB; while anything is
 * in use each may be the last piece of an arena slab of its own, and keeps
 * that), what regions retain, and free pieces of arena slabs of which another
 * piece is in use.
 *
 * A drop is the one thing that the owner does to the locked side without the
 * lock: it says busy, looks at the gate, puts its chain before `garbage`, and
 * is not busy any more, all in plain stores. A visitor holds the lock, shuts
 * the gate, lets membarrier(2) put a barrier into every thread and waits until
 * the owner is not busy; from then on drops take the lock.
 *
 * Threads: the owner (slab_cache_set_thread); slab_cache_used and
 *          slab_cache_stats from any thread. Debug builds name a wrong one.
 * Cost:    get and put of a recently put order: about 30 instructions, no
 *          lock. Slow paths: at most ORDER_MAX splits or merges plus
 *          SLAB_CACHE_SORT sorted slabs; mapping a slab may add system calls.
 * Errors:  NULL when the quota or the OS refuses, after all spares and all
 *          garbage have been merged; nothing has changed then but their
 *          order. A slab put twice or to a foreign cache (one of the 255
 *          created before or after its own) aborts with a line.
 *
 * INV(magic)        each slab on a list carries slab_magic
 * INV(aligned)      a buddy slab is aligned to its size
 * INV(order_size)   slab->size == order0_size << order, up to order_max
 * INV(merged)       no two free buddies of one order
 * INV(bitmap)       bit n set iff free[n] is not empty
 * INV(spare_bound)  spares and room for more of an order give its bound
 * INV(stock)        what stocked slabs are charged and stock_room give the
 *                   arena's slab size
 * INV(sum)          used + free + spare + stock + garbage == total
 * INV(out)          used + spare + garbage == out
 * INV(many)         is_many says whether total is above slab_size
 * INV(gate)         gate == out - garbage_cap, or shut
 */
#include <small/slab_arena.h>
#include <small/slab_list.h>

/* Orders are 0..ORDER_MAX; the page size is raised when slabs need more. */
#define ORDER_MAX 16
/* Garbage slabs sorted by one slow path: two, so that garbage shrinks even
 * while each call adds one. */
#define SLAB_CACHE_SORT 2
/* Bytes of garbage and spares up to which a reset leaves them alone: two
 * hundred pages, enough to refill a usual request without a merge. */
#define SLAB_CACHE_GARBAGE_CAP ((size_t)1024 * 1024)
/* Spares of one order: covers a few regions that oscillate at a border. */
#define SLAB_CACHE_SPARE_MAX 4
/* Slabs in stock: a thousand objects of a pool come and go in eight. Each may
 * be what keeps an arena slab, until a visitor takes it. */
#define SLAB_CACHE_STOCK_MAX 8

#ifdef __cplusplus
extern "C" {
#endif

/* A request's place in the tables of spares is the logarithm of half the size
 * of the slab that it gets: one `or` and one bit scan. */
#define SLAB_LB_MAX (sizeof(size_t) * CHAR_BIT)

struct slab_cache {
	/* The owner's: spares by next_in_list.next, and how many more of them
	 * are welcome (none where slabs are large). First for short code. */
	struct rlist *spare[SLAB_LB_MAX];
	int32_t spare_room[SLAB_LB_MAX];
	/* Read by all, set by create. */
	size_t order0_half; /* order0_size / 2 */
	size_t order0_size;
	size_t slab_size; /* the arena's */
	struct slab_arena *arena;
	uint8_t order0_size_lb;
	uint8_t order_max;
	uint8_t mark;    /* slab->in_use of what it has handed out */
	uint32_t magic;  /* of the slabs that it has handed out */
	uintptr_t owner; /* small_thread_id() */
	uint32_t busy;   /* 1 while a drop without the lock is under way */
	/* Behind the lock, but for allocated.stats.used, the owner's, and
	 * drops. */
	struct slab_list
		allocated;  /* arena slabs; the stats count large ones */
	struct rlist large; /* slabs above the arena's slab size */
	struct rlist free[ORDER_MAX + 1];
	uint32_t free_bits; /* bit n: free[n] is not empty */
	uint32_t lock;
	struct rlist *garbage; /* by next_in_list.next, latest chain first */
	ptrdiff_t gate;        /* a drop takes the lock when less is used */
	bool is_many;          /* more than slab_size bytes are held */
	uint32_t shut;         /* who keeps the gate shut: callbacks, a visitor,
	                          a build without membarrier */
	size_t out;            /* bytes neither free nor with the arena */
	size_t garbage_cap;
	size_t overhead;                 /* page rounding of large slabs */
	struct slab_arena_client client; /* how the arena reaches it all */
	/* Slabs in stock, latest first, and bytes more that are welcome, of
	 * which each slab takes an eighth at least. */
	struct rlist *stock[ORDER_MAX + 1];
	size_t stock_room;
};

/* Bytes. used + free + garbage + overhead == total, exactly for the owner. */
struct slab_cache_stats {
	size_t used;     /* handed out and not put or dropped */
	size_t free;     /* merged, spare or in stock */
	size_t garbage;  /* dropped by regions, not sorted yet */
	size_t overhead; /* page rounding of slabs above the arena's size */
	size_t total;    /* taken from the arena or mapped */
};

SMALL_API void slab_cache_create(struct slab_cache *cache,
                                 struct slab_arena *arena)
	SMALL_SYM(slab_cache_create);

/* Frees what is still mapped, slabs in use included. */
SMALL_API void slab_cache_destroy(struct slab_cache *cache)
	SMALL_SYM(slab_cache_destroy);

/* A slab with room for size bytes after its header: of the smallest order
 * that fits, or large. NULL also when size is too large for arithmetic. */
SMALL_API struct slab *slab_get(struct slab_cache *cache, size_t size)
	SMALL_SYM(slab_get);
/* order <= order_max. */
SMALL_API struct slab *slab_get_with_order(struct slab_cache *cache,
                                           uint8_t order)
	SMALL_SYM(slab_get_with_order);
/* A mapping of its own, whatever the size; slab->size == header + size. */
SMALL_API struct slab *slab_get_large(struct slab_cache *cache, size_t size)
	SMALL_SYM(slab_get_large);

/* Puts a slab of any kind back. Never fails. */
SMALL_API void slab_put(struct slab_cache *cache, struct slab *slab)
	SMALL_SYM(slab_put);
SMALL_API void slab_put_with_order(struct slab_cache *cache, struct slab *slab)
	SMALL_SYM(slab_put_with_order);
SMALL_API void slab_put_large(struct slab_cache *cache, struct slab *slab)
	SMALL_SYM(slab_put_large);

/*
 * A large slab that can grow in place: address space for header + max_size
 * bytes is reserved, rounded up by less than an eighth, of which header + size
 * are committed and charged. slab_resize() moves that border; growing returns
 * -1 and changes nothing when the quota, the OS or the range is exhausted,
 * shrinking can not fail.
 */
SMALL_API struct slab *slab_get_growable(struct slab_cache *cache, size_t size,
                                         size_t max_size)
	SMALL_SYM(slab_get_growable);
SMALL_API int slab_resize(struct slab_cache *cache, struct slab *slab,
                          size_t size) SMALL_SYM(slab_resize);

/*
 * A chain of used slabs, linked by next_in_list.next from the first on. The
 * last link's `next` is *tail and its contents do not matter; in an empty
 * chain tail == first.
 */
struct slab_chain {
	struct rlist **first;
	struct rlist **tail;
	const size_t *bytes; /* of all its slabs */
};

/* Drops a chain with the lock: sorts SLAB_CACHE_SORT older slabs when garbage
 * and spares were above the cap before. Constant time. */
SMALL_API void slab_cache_drop_slow(struct slab_cache *cache,
                                    const struct slab_chain *chain)
	SMALL_SYM(slab_cache_drop_slow);

/* Keeps the gate shut, so that every drop takes the lock, or no more; calls
 * nest. */
SMALL_API void slab_cache_shut(struct slab_cache *cache, bool shut)
	SMALL_SYM(slab_cache_shut);

/* Garbage above this many bytes is worked off by resets, too. */
SMALL_API void slab_cache_set_garbage_cap(struct slab_cache *cache,
                                          size_t bytes)
	SMALL_SYM(slab_cache_set_garbage_cap);

/* Merges everything and gives every whole slab to the arena. */
SMALL_API void slab_cache_trim(struct slab_cache *cache)
	SMALL_SYM(slab_cache_trim);

/* Hands the cache and all that stands on it to the calling thread. */
SMALL_API void slab_cache_set_thread(struct slab_cache *cache)
	SMALL_SYM(slab_cache_set_thread);

/* Bytes dropped and not sorted yet. */
SMALL_API size_t slab_cache_garbage(const struct slab_cache *cache)
	SMALL_SYM(slab_cache_garbage);
SMALL_API void slab_cache_stats(const struct slab_cache *cache,
                                struct slab_cache_stats *stats)
	SMALL_SYM(slab_cache_stats);

/* NULL or the name of the first broken invariant. The owner's call. */
SMALL_API const char *slab_cache_check(struct slab_cache *cache)
	SMALL_SYM(slab_cache_check);

/* Bytes in use, headers included; from any thread. */
static inline size_t slab_cache_used(const struct slab_cache *cache)
{
	return __atomic_load_n(&cache->allocated.stats.used, __ATOMIC_RELAXED);
}

/* Drops a chain in constant time and without the lock: false, and nothing has
 * happened, when the gate is shut or there is garbage to sort. Forgetting the
 * chain is the caller's part. */
static inline bool slab_cache_drop(struct slab_cache *cache,
                                   const struct slab_chain *chain)
{
	size_t used;

	__atomic_store_n(&cache->busy, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	used = cache->allocated.stats.used;
	if (small_unlikely((ptrdiff_t)used < cache->gate)) {
		__atomic_store_n(&cache->busy, 0, __ATOMIC_RELEASE);
		return false;
	}
	*chain->tail = cache->garbage;
	/* Read after the line above: in an empty chain the two are one. */
	cache->garbage = *chain->first;
	__atomic_store_n(&cache->allocated.stats.used, used - *chain->bytes,
	                 __ATOMIC_RELAXED);
	__atomic_store_n(&cache->busy, 0, __ATOMIC_RELEASE);
	return true;
}

/* Bytes of a slab's header. */
static inline size_t slab_sizeof(void)
{
	return sizeof(struct slab);
}

/* Bytes that a slab has room for. */
static inline size_t slab_capacity(const struct slab *slab)
{
	return slab->size - sizeof(struct slab);
}

static inline void *slab_data(struct slab *slab)
{
	return (char *)slab + sizeof(struct slab);
}

static inline struct slab *slab_from_data(void *data)
{
	return (struct slab *)(void *)((char *)data - sizeof(struct slab));
}

/* The buddy slab that ptr is in; mask is ~(its size - 1). */
static inline struct slab *slab_from_ptr(void *ptr, intptr_t mask)
{
	struct slab *slab = (struct slab *)((intptr_t)ptr & mask);

	assert((slab->magic & slab_magic_mask) == slab_magic);
	return slab;
}

/* Bytes of a slab of this order, header included. */
static inline size_t slab_order_size(const struct slab_cache *cache,
                                     uint8_t order)
{
	assert(order <= cache->order_max);
	return cache->order0_size << order;
}

/* The smallest order with room for size bytes; order_max + 1 means large. */
static inline uint8_t slab_order(const struct slab_cache *cache, size_t size)
{
	size_t last = size + sizeof(struct slab) - 1;

	if (small_unlikely(size > cache->slab_size - sizeof(struct slab)))
		return (uint8_t)(cache->order_max + 1);
	/* |1 gives order 0 to all that fits order0_size. */
	return (uint8_t)small_lb(((last >> cache->order0_size_lb) << 1) | 1);
}

/* slab->size of what slab_get(cache, size) returns. */
static inline size_t slab_real_size(const struct slab_cache *cache, size_t size)
{
	uint8_t order = slab_order(cache, size);

	if (order > cache->order_max)
		return size + sizeof(struct slab);
	return slab_order_size(cache, order);
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_SLAB_CACHE_H */
