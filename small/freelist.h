/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_FREELIST_H
#define SMALL_FREELIST_H
/*
 * freelist - blocks of any size from one piece of memory with a strict limit.
 *
 *   f                            low              high                 end
 *   [header|control|index|bitmap|blocks ...| never touched |blocks ... |
 *    `-------------------- at most `limit` bytes ---------------------'
 *
 * The piece is a growable slab of a region, of which pages are committed and
 * charged as blocks need them, or a buffer of the caller's. The limit is the
 * size of the whole piece: slab header, control block, index and bitmap are
 * inside. All mutable state lives in the piece, at [f, low) and [high, end);
 * what lies between has never been touched. Pages are committed from the base
 * on, so everything is packed there: high == end. (Large blocks at the high
 * end of what is free are told apart from small ones just as well: kept apart
 * over the whole piece, they were no denser by 0.1 %.)
 *
 * Blocks carry no header: the caller passes the size it asked for to free and
 * realloc. Sizes are rounded up to granules of 8 or 16 bytes. Small blocks
 * that are freed wait in lists by size, up to the cap, and are merged with
 * their neighbours when memory gets tight; the rest is merged at once.
 *
 * Threads: one owner at a time (freelist_set_thread); debug builds name a
 *          wrong one. A piece of a region also needs the region's thread.
 * Cost:    alloc + free of a block up to 1 KiB: 36 instructions when one of
 *          its size waits. Else, in steps (a list node visited,
 *          a block linked or unlinked, a bitmap word):
 *            free                       at most FREELIST_STEPS_FREE
 *            alloc that returns a block at most FREELIST_STEPS_ALLOC + 5 c,
 *                                       c = cap in granules; amortised O(1)
 *                                       with the adaptive cap
 *            alloc that returns NULL    also the free blocks of one size
 *                                       class; a repeat of that size or a
 *                                       larger one before the next free: O(1)
 *            realloc                    the two, and one copy of the block
 *            create, reset              O(1)
 *          A large block also clears its share of the bitmap (1/1024 step a
 *          granule), and a piece that grows past a power of two copies it.
 * Errors:  NULL means that no free run of that size exists within the limit,
 *          the quota and the system; freelist_last_refusal() says which. All
 *          blocks and counters are then as before. Shrinking and freeing
 *          never fail. Misuse that is seen (below) aborts with one line.
 * Misuse:  seen in every build: a block freed twice while its first granule
 *          is still the first of a free block; a pointer outside the piece or
 *          misaligned; a size that reaches past what was touched; a size over
 *          the border of a merged free block (at once for a block that is
 *          large or resized, for a small one when it is merged); a link that
 *          was overwritten and leaves the piece. Wrong sizes that stay within
 *          blocks in use are seen in debug builds, which remember the size of
 *          each block outside the piece. ASan and memcheck see stale accesses.
 *
 * INV(control)   sizes and positions in the control block fit the piece
 * INV(bitmap)    a bit is set iff its granule is the first or the last of a
 *                free block in the index
 * INV(index)     a class bit is set iff its list is not empty; links, sizes
 *                at both ends and classes agree
 * INV(merged)    no two free blocks of the index are adjacent
 * INV(deferred)  waiting blocks lie in the piece, do not overlap the index
 *                and sum up to what is counted, at most the cap
 * INV(sum)       used + rounding + free granules == granules of the piece
 * INV(limit)     the piece ends at or below the limit, or did when the limit
 *                was set
 */
#include <small/region.h>

/* opts.cap: 0 is adaptive; this one merges every block as it is freed. */
#define FREELIST_CAP_NONE SIZE_MAX
/* Granules one piece can have, less a margin: offsets are 32-bit numbers of
 * granules. A piece without a limit reserves this much, or half of it, a
 * quarter and so on where the system refuses so much address space. */
#define FREELIST_GRANULES_MAX ((size_t)0xfff00000)
/* The smallest buffer, aligned to 16, that serves one allocation of 1 byte;
 * as a limit of a piece of a region, likewise. */
#define FREELIST_SIZE_MIN 640
/* Bounds of the steps above. */
#define FREELIST_STEPS_FREE  16
#define FREELIST_STEPS_ALLOC 48

#ifdef __cplusplus
extern "C" {
#endif

/* The control block at the base of the piece; private. */
struct freelist;

/* All zero, or NULL instead, is: no limit, granule 16, adaptive cap. */
struct freelist_opts {
	size_t limit;     /* bytes of the piece; 0 = max_limit */
	size_t max_limit; /* the most set_limit may ask for; 0 = limit, or
	                     with no limit all that can be reserved */
	size_t reserve;   /* bytes of the piece committed and charged at once */
	size_t granule;   /* 16 (0 too): sizes >= 16 are aligned to 16;
	                     8: all blocks are aligned to 8, denser */
	size_t cap;       /* granules that may wait unmerged; 0 = adaptive,
	                     FREELIST_CAP_NONE = none */
};

/* Why a request was refused. */
enum freelist_cause {
	FREELIST_NONE = 0,
	FREELIST_LIMIT = 1, /* no such run within the limit */
	FREELIST_QUOTA = 2, /* the quota refused the pages for it */
	FREELIST_SYSTEM = 3 /* the system did, or no such size exists */
};

/* Bytes. used + free + overhead == total, exactly, after each call. */
struct freelist_stats {
	size_t used;         /* asked for and not freed */
	size_t free;         /* merged, waiting and never touched, up to the
	                        limit (not all of it need be committed) */
	size_t overhead;     /* metadata + rounding */
	size_t total;        /* the limit, or the piece when it is larger */
	size_t metadata;     /* slab header, control block, index, bitmap and
	                        what alignment costs at the ends */
	size_t rounding;     /* of blocks in use, up to whole granules */
	size_t peak;         /* the most that used has been */
	size_t limit;        /* as set */
	size_t charged;      /* pages held, all of a buffer */
	size_t deferred;     /* of free, waiting unmerged */
	size_t touched;      /* of total, below low and above high */
	size_t refused;      /* allocations answered with NULL */
	size_t largest_free; /* in one run and merged already */
	size_t steps;        /* taken so far, see Cost */
};

/* Where the piece has been touched, as offsets from f. */
struct freelist_extent {
	size_t low;  /* [0, low) may be touched */
	size_t high; /* [low, high) is not */
	size_t end;  /* [high, end) may be; end of what is committed */
};

/*
 * A piece of the region, dropped with it: region_reset() and region_free()
 * end it like freelist_destroy(). NULL when the options make no sense, the
 * limit is too small, or quota or system refuse.
 */
SMALL_API struct freelist *freelist_create(struct region *region,
                                           const struct freelist_opts *opts)
	SMALL_SYM(freelist_create);
/*
 * The same in size bytes of the caller's; opts.limit may be lower (0: size),
 * max_limit and reserve mean nothing. NULL when the buffer is too small.
 */
SMALL_API struct freelist *freelist_create_in(void *buf, size_t size,
                                              const struct freelist_opts *opts)
	SMALL_SYM(freelist_create_in);
/* Gives the piece back to the region, or the buffer to the caller, whatever
 * is still allocated in it. */
SMALL_API void freelist_destroy(struct freelist *f) SMALL_SYM(freelist_destroy);

/* size bytes, or NULL; NULL also for 0, which is no refusal. */
SMALL_API void *freelist_alloc(struct freelist *f, size_t size)
	SMALL_SYM(freelist_alloc);
/* size is what was asked for last. (NULL, 0) does nothing. */
SMALL_API void freelist_free(struct freelist *f, void *ptr, size_t size)
	SMALL_SYM(freelist_free);
/*
 * A block of new_size bytes with the contents of the old one as far as they
 * fit. Growing extends in place when a neighbour is free, else copies; the
 * old block is given up after success only. Shrinking and equal sizes return
 * ptr. ptr == NULL allocates; new_size == 0 frees and returns NULL.
 */
SMALL_API void *freelist_realloc(struct freelist *f, void *ptr, size_t old_size,
                                 size_t new_size) SMALL_SYM(freelist_realloc);
/* Forgets all blocks: used() == 0. The piece keeps its pages, limit, peak
 * and counts of refusals. */
SMALL_API void freelist_reset(struct freelist *f) SMALL_SYM(freelist_reset);

/*
 * The limit may be lowered below what is in use: growth is then refused until
 * use is under it, free pages at the end are given back as they appear. 0
 * means the maximum. -1, and nothing changes, for more than that.
 */
SMALL_API int freelist_set_limit(struct freelist *f, size_t limit)
	SMALL_SYM(freelist_set_limit);
/* Commits and charges the first size bytes of the piece, capped at the limit;
 * -1 and nothing changed when quota or system refuse. */
SMALL_API int freelist_reserve(struct freelist *f, size_t size)
	SMALL_SYM(freelist_reserve);

/* Bytes asked for and not freed. */
SMALL_API size_t freelist_used(const struct freelist *f)
	SMALL_SYM(freelist_used);
/* Bytes of the piece that are committed (of a buffer: all), headers included:
 * what the quota is charged, before it rounds up to its units. */
SMALL_API size_t freelist_total(const struct freelist *f)
	SMALL_SYM(freelist_total);
SMALL_API size_t freelist_peak(const struct freelist *f)
	SMALL_SYM(freelist_peak);
SMALL_API size_t freelist_limit(const struct freelist *f)
	SMALL_SYM(freelist_limit);
/* The largest size that alloc would return now, quota and system willing.
 * Merges what waits: linear in that. */
SMALL_API size_t freelist_largest_free(struct freelist *f)
	SMALL_SYM(freelist_largest_free);
/* Of the last allocation answered with NULL since create or reset. */
SMALL_API enum freelist_cause freelist_last_refusal(const struct freelist *f)
	SMALL_SYM(freelist_last_refusal);
SMALL_API void freelist_extent(const struct freelist *f,
                               struct freelist_extent *extent)
	SMALL_SYM(freelist_extent);
/* Linear in the blocks that wait. */
SMALL_API void freelist_stats(const struct freelist *f,
                              struct freelist_stats *stats)
	SMALL_SYM(freelist_stats);
/* Hands the piece to the calling thread. */
SMALL_API void freelist_set_thread(struct freelist *f)
	SMALL_SYM(freelist_set_thread);
/* NULL or the name of the first broken invariant. */
SMALL_API const char *freelist_check(const struct freelist *f)
	SMALL_SYM(freelist_check);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_FREELIST_H */
