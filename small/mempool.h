/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_MEMPOOL_H
#define SMALL_MEMPOOL_H
/*
 * mempool - objects of one size, from slabs of a slab_cache.
 *
 *   | header | free bits | - | object 0 | object 1 | ... | object n - 1 |
 *              1 = free    gap                    ends where the slab ends
 *
 * All that the pool knows about an object is one bit in the slab's header. A
 * free object holds no link, so what a program writes there after freeing it
 * can not lead an alloc astray, and a bit tells a double free exactly,
 * whatever the size.
 *
 * One slab is current. An alloc takes the lowest free object of a word of 64
 * in it, and goes on to the next word that has one. Only when the slab is
 * full another one becomes current:
 *
 *   current --full--> full --first free--> cold --1/16 free--> warm
 *      ^                                                             |
 *      +-- 1. the warm slab of the lowest address -------------------+
 *          2. a new slab   3. a cold slab, when there is no new one
 *
 * A slab that a free empties goes back to the cache at once, unless the next
 * alloc would need a new one: then it becomes the current one. So at most one
 * empty slab stays, the current one, and an alloc and a free at a slab's
 * border find it where they left it. The cache keeps the first few that come
 * back as they are (its stock, see slab_cache.h), so that a batch that comes
 * and goes does not split and merge; they are the cache's, any thread under
 * pressure may have them, and mempool_total() does not count them.
 *
 * Threads: the owner of the slab cache; debug builds name a wrong one.
 * Cost:    alloc and free: about 10 and 20 instructions. A word that is used
 *          up costs a scan of at most objcount / 64 words, a full slab an
 *          operation on the warm slabs (about log2 of their number of
 *          steps, never more than the bits of an address), both far less
 *          than once per alloc: a warm slab has a sixteenth of its objects
 *          free.
 * Waste:   header and bits, 1 % of a slab as long as an object is (the slab
 *          order is chosen for that) plus 1 bit an object; less than a
 *          sixteenth of the objects of other slabs, until those are warm; the
 *          sum is in mempool_stats().
 * Errors:  mempool_alloc() returns NULL when no slab has a free object and the
 *          quota or the OS refuses a new one, and always when no slab is large
 *          enough for one object; nothing has changed then.
 * Misuse:  in every build mempool_free() aborts with one line on stderr on a
 *          double free, a pointer inside an object or in a header, and an
 *          object of another pool; a slab's header that a program overwrote
 *          is found by the free of an object in it or when the pool needs
 *          it. A pointer that was never in a slab of the arena is found too
 *          if the memory at its slab's start can be read at all.
 *
 * INV(geometry)  objsize, slab order, objcount and the masks fit each other
 * INV(header)    each slab's header is of this pool and has the state of the
 *                list that it is on
 * INV(cursor)    word and word_base are those of the current slab's word
 * INV(left)      a slab's `left` and state give the number of its free bits;
 *                no bit stands for an object behind the last one
 * INV(empty)     no slab but the current one is empty
 * INV(warm)      a warm slab has a lower address than those below it, which
 *                hang where the digits of their addresses say
 * INV(cold)      the cold list holds the cold slabs and no others
 * INV(live)      mempool_count() is the number of live objects in all slabs
 * INV(slabs)     the slabs sum up to slabs.stats.total
 */
#include <small/slab_cache.h>

/* A slab is warm once 1 / MEMPOOL_WARM of its objects are free. When objects
 * are replaced at random, 8 leaves 9 % of the memory idle, 16 leaves 4 % and
 * 32 leaves 1 %, and each doubling picks slabs twice as often (perf/run
 * mempool). */
#define MEMPOOL_WARM 16
/* Where the factor puts the number of an object: half a word for it, half for
 * what tells that there is none. */
#define MEMPOOL_INDEX_BITS 32

#ifdef __cplusplus
extern "C" {
#endif

struct mslab;

/* A slab is on one of these at a time. */
union mslab_link {
	struct rlist cold;
	struct mslab *warm[2]; /* higher ones, by a digit of their address */
};

enum mslab_state { MSLAB_CURRENT = 1, MSLAB_FULL, MSLAB_COLD, MSLAB_WARM };

/* Starts each slab of a pool: 96 bytes on 64-bit machines, and the bits. */
struct mslab {
	struct slab slab;
	uint64_t key; /* what an object's address is compared to */
	size_t left;  /* frees until mempool_relist() is due */
	struct mempool *pool;
	union mslab_link link;
	uint32_t state;   /* enum mslab_state */
	uint32_t stride;  /* the pool's, when the bits were set */
	uint64_t free[1]; /* a bit an object, as many words as that takes */
};

struct mempool {
	/* What alloc needs. */
	uint64_t *word;  /* free bits to take from; `none` when shut */
	char *word_base; /* the object of its lowest bit */
	uint32_t stride; /* objsize; see mempool_geometry() */
	/* What free needs. */
	uintptr_t slab_mask; /* an address to that of its slab */
	uint64_t factor;     /* see mempool_index() */
	uint64_t salt;       /* differs between pools */
	size_t fast_count;   /* objcount, or 0 in debug and ASan builds of
	                        the library: each free is annotated there */
	size_t live;         /* see mempool_count() */
	/* What the slow paths need. */
	size_t objsize;        /* bytes, a multiple of 8 */
	size_t objcount;       /* objects in a slab; 0: none fits */
	struct mslab *current; /* NULL with no slab */
	size_t current_word;   /* index of the word to take from */
	size_t current_free;   /* its free objects when it became current */
	struct mslab *warm;    /* the one with the lowest address, or NULL */
	struct rlist cold;
	struct slab_list slabs; /* all of them, by next_in_list */
	struct slab_cache *cache;
	size_t offset;     /* from a slab's start to object 0 */
	size_t words;      /* of free bits in a slab */
	size_t warm_count; /* free objects that make a slab warm */
	uintptr_t
		path_factor; /* a slab's address to its place among warm ones */
	uint64_t none;       /* 0: no free object here, ask the library */
	uint8_t slab_order;  /* as in slab_order_size() */
};

/* totals.used + free objects + headers == totals.total. */
struct mempool_stats {
	size_t objsize;            /* as rounded */
	size_t objcount;           /* live objects */
	size_t slabsize;           /* bytes of a slab, header included */
	size_t slabcount;          /* slabs held */
	struct small_stats totals; /* bytes: of live objects, of slabs */
};

/*
 * No allocation. objsize > 0 is rounded up to a multiple of 8; objects are
 * aligned to the largest power of two that divides the result, up to the page
 * size. The slab order is the smallest of which an object and the header are
 * at most 1 %, or the cache's largest.
 */
SMALL_API void mempool_create(struct mempool *pool, struct slab_cache *cache,
                              size_t objsize) SMALL_SYM(mempool_create);
/* As above, with slabs of this order, at most cache->order_max. */
SMALL_API void mempool_create_with_order(struct mempool *pool,
                                         struct slab_cache *cache,
                                         size_t objsize, uint8_t order)
	SMALL_SYM(mempool_create_with_order);
/* Gives all slabs back, whatever is live; the struct is zeroes afterwards. */
SMALL_API void mempool_destroy(struct mempool *pool) SMALL_SYM(mempool_destroy);

/* Out-of-line parts of the calls below. */
SMALL_API void *mempool_alloc_slow(struct mempool *pool)
	SMALL_SYM(mempool_alloc_slow);
SMALL_API void mempool_free_slow(struct mempool *pool, void *ptr)
	SMALL_SYM(mempool_free_slow);
SMALL_API void mempool_relist(struct mempool *pool, struct mslab *slab)
	SMALL_SYM(mempool_relist);

/*
 * The number of the object that starts at ptr, or one that is too large to be
 * any. Modulo 2^64 the factor takes a multiple of objsize to that many times
 * 2^MEMPOOL_INDEX_BITS, and of what is no multiple either leaves bits below
 * or makes a large number; rotating brings both to where they exceed
 * objcount. The key stands for object 0 and the pool's salt, so with the
 * object of another pool, or a key that was overwritten, all 64 bits are as
 * chance has it.
 */
static inline uint64_t mempool_index(const struct mempool *pool,
                                     const struct mslab *slab, const void *ptr)
{
	uint64_t x = (uintptr_t)ptr * pool->factor + pool->salt - slab->key;

	return x >> MEMPOOL_INDEX_BITS | x << (64 - MEMPOOL_INDEX_BITS);
}

/* x86 clears or sets a bit and tells what it was in one instruction, for
 * which compilers emit two to four. */
#if defined(__x86_64__) && defined(__GCC_ASM_FLAG_OUTPUTS__)
# define MEMPOOL_X86 1
#else
# define MEMPOOL_X86 0
#endif

/* Clears the lowest bit of *bits, which is not 0; its number. */
static inline uint64_t mempool_take_bit(uint64_t *bits)
{
	uint64_t bit;

#if MEMPOOL_X86
	__asm__("rep bsfq %1, %0\n\tbtrq %0, %1" : "=&r"(bit), "+r"(*bits));
#else
	bit = (uint64_t)__builtin_ctzll(*bits);
	*bits &= *bits - 1;
#endif
	return bit;
}

/* Sets the free bit of object n; false when it was set before. `word` is
 * listed as changed only to keep its address from being computed apart. */
static inline bool mslab_set_free(struct mslab *slab, uint64_t n)
{
	uint64_t word = n / 64, bits = slab->free[word];

#if MEMPOOL_X86
	bool was_set;

	__asm__("btsq %3, %0"
	        : "+r"(bits), "=@ccc"(was_set), "+r"(word)
	        : "r"(n));
	if (small_unlikely(was_set))
		return false;
#else
	if (small_unlikely((bits >> n % 64 & 1) != 0))
		return false;
	bits |= (uint64_t)1 << n % 64;
#endif
	slab->free[word] = bits;
	return true;
}

/* An object, its contents undefined, or NULL. */
static inline void *mempool_alloc(struct mempool *pool)
{
	uint64_t *word = pool->word;
	uint64_t bits = *word;
	uint32_t bit;

	if (small_unlikely(bits == 0))
		return mempool_alloc_slow(pool);
	bit = (uint32_t)mempool_take_bit(&bits);
	*word = bits;
	return pool->word_base + (size_t)(bit * pool->stride);
}

/* ptr is a live object of the pool. Never fails. */
static inline void mempool_free(struct mempool *pool, void *ptr)
{
	uintptr_t start = (uintptr_t)ptr & pool->slab_mask;
	struct mslab *slab = (struct mslab *)start;
	uint64_t index = mempool_index(pool, slab, ptr);

	if (small_unlikely(index >= pool->fast_count ||
	                   !mslab_set_free(slab, index))) {
		mempool_free_slow(pool, ptr);
		return;
	}
	pool->live--;
	if (small_unlikely(--slab->left == 0))
		mempool_relist(pool, slab);
}

static inline bool mempool_is_initialized(const struct mempool *pool)
{
	return pool->cache != NULL;
}

/* Live objects. Linear in the words of one slab. */
SMALL_API size_t mempool_count(const struct mempool *pool)
	SMALL_SYM(mempool_count);

/* Bytes of live objects, as rounded. */
static inline size_t mempool_used(const struct mempool *pool)
{
	return mempool_count(pool) * pool->objsize;
}

/* Bytes of the slabs held. */
static inline size_t mempool_total(const struct mempool *pool)
{
	return pool->slabs.stats.total;
}

SMALL_API void mempool_stats(const struct mempool *pool,
                             struct mempool_stats *stats)
	SMALL_SYM(mempool_stats);

/* The size up to which an arena with slabs of slab_size bytes serves objects
 * without much waste. */
static inline size_t mempool_objsize_max(size_t slab_size)
{
	return slab_size / 16;
}

/* Gives the empty slab that a pool may keep back to the cache, and merges what
 * the cache has in stock. */
SMALL_API void mempool_free_spare_slab(struct mempool *pool)
	SMALL_SYM(mempool_free_spare_slab);

/* Calls f for each live object, slab by slab in no order, for debugging; f
 * neither allocates from the pool nor frees to it. */
SMALL_API void mempool_foreach(const struct mempool *pool,
                               void (*f)(void *object, void *arg), void *arg)
	SMALL_SYM(mempool_foreach);

/* NULL or the name of the first broken invariant. */
SMALL_API const char *mempool_check(const struct mempool *pool)
	SMALL_SYM(mempool_check);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_MEMPOOL_H */
