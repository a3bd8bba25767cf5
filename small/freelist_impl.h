/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_FREELIST_IMPL_H
#define SMALL_FREELIST_IMPL_H
/*
 * freelist_impl - what the files of freelist share: the control block, the
 * words in a free block, the bitmap. Internal.
 *
 * Everything is counted in granules from the base of the piece, in 32 bits.
 * A free block carries its own description:
 *
 *   first granule(s)                             last four bytes
 *   [next u32|stamp u32|prev u32|size u32] ...   [size u32]
 *
 * A waiting block only has next and stamp. The stamp is what a second free
 * of it runs into. With granule 8 a free block of one granule has no room to
 * be linked: next is SLIVER, and it is found by its neighbours alone.
 *
 * Blocks are handed out from, in this order: the waiting blocks of the size
 * (quick), the bump run [bump, bump_end) that belongs to nobody, the index of
 * merged blocks, and the fresh granules from low on.
 */
#include <small/freelist.h>
#include <small/track.h>

/* Blocks up to this many granules wait when freed, and come from the bump
 * run: 1 KiB at granule 16, what nearly all small objects are below. */
#define QUICK_MAX 64
/* In larger pieces: the same bytes at granule 8, where the heads are below
 * 1/500; twice that at granule 16, which is the middle of a doubling array. */
#define QUICK_WIDE         128
#define QUICK_WIDE_8_SIZE  ((size_t)256 * 1024)
#define QUICK_WIDE_16_SIZE ((size_t)1024 * 1024)
/* Pieces up to this limit have half of it: the heads are 1 % of 16 KiB. */
#define QUICK_TINY      32
#define QUICK_TINY_SIZE ((size_t)32 * 1024)
/* No block; not below any `low`, so that one compare rejects it. */
#define NIL    UINT32_MAX
#define SLIVER (UINT32_MAX - 1)
/* Blocks merged when more wait than may: each pays for three pushes. */
#define FLUSH_OVER 4
/* Classes of the index: one a size up to here, then 2^CLASS_SUB_LB an octave.
 */
#define CLASS_EXACT  16
#define CLASS_SUB_LB 3

struct freelist {
	/* The paths for waiting blocks; 64 bits where a rotated offset or a
	 * size is compared. */
	size_t low;         /* granules of the piece touched so far */
	size_t safe;        /* low less QUICK_WIDE: no block that waits and
	                       starts below it reaches past low */
	size_t quick16;     /* largest size that waits, granule 16; 0 = shut */
	size_t quick8;      /* the same, granule 8, less the smallest one */
	int64_t defer_room; /* granules that may still wait; < 0: flush */
	int64_t defer_max;  /* defer_room with nothing waiting */
	int64_t peak_room;  /* peak - used, never below 0 between calls */
	size_t peak;
	struct freelist_shadow *shadow; /* debug: blocks in use; else NULL */
	/* The index. */
	uint64_t *classes; /* bit set: the class has blocks */
	uint64_t *bitmap;  /* bit set: an end of a free block */
	uint32_t *heads;   /* of each class */
	/* The piece. */
	struct region *region;              /* NULL: a buffer */
	struct freelist_snapshot *snapshot; /* NULL: none */
	size_t limit;                       /* bytes, slab header included */
	size_t max_limit;
	uintptr_t owner; /* small_thread_id() */
	size_t refused;
	size_t steps;
	uint32_t indexed; /* free granules in the index */
	uint32_t bump;    /* the bump run; both 0 when there is none */
	uint32_t bump_end;
	uint32_t end;     /* granules committed, at most max(lim, low) */
	uint32_t lim;     /* granules within the limit */
	uint32_t cap;     /* as in the options; NIL: none wait */
	uint32_t cover;   /* granules the table can describe */
	uint32_t cleared; /* words of the bitmap that are valid */
	uint32_t table;   /* where classes, bitmap and heads are */
	uint32_t table_size;
	uint32_t first;     /* the first granule that a block can have */
	uint32_t held;      /* granules of a snapshot: they stay committed */
	uint32_t none;      /* no run of so many exists while nothing waits */
	uint16_t class_max; /* classes in the table */
	uint16_t serial;    /* debug: changes of the shadow, see there */
	uint8_t shift;      /* log2 of the granule */
	uint8_t cursor;     /* flush goes on here */
	uint8_t cause;      /* enum freelist_cause of the last refusal */
	uint8_t why;        /* why fresh granules were refused last */
	uint8_t quick_max;  /* heads that follow */
	uint8_t is_tight; /* little is free: the best fit, whatever it costs */
	uint8_t is_squeezed; /* low is over the limit: nothing waits */
	uint8_t head;        /* bytes of the piece before the control block */
	uint32_t magic;
	uint32_t quick[]; /* of size n at [n]; [0] stays NIL */
};

enum { FREELIST_MAGIC = 0x5aab17ee };

/* --- words in free blocks --- */

/* They lie in memory that is shut for everybody else. */
static inline uint32_t meta_get(const uint32_t *word)
{
	uint32_t value;

	track_defined((const void *)((uintptr_t)word & ~(uintptr_t)7), 8);
	value = *word;
	track_noaccess((const void *)((uintptr_t)word & ~(uintptr_t)7), 8);
	return value;
}

static inline void meta_put(uint32_t *word, uint32_t value)
{
	track_defined((const void *)((uintptr_t)word & ~(uintptr_t)7), 8);
	*word = value;
	track_noaccess((const void *)((uintptr_t)word & ~(uintptr_t)7), 8);
}

#if TRACK_ASAN
# define NO_ASAN __attribute__((no_sanitize("address")))
#else
# define NO_ASAN
#endif

/* A word of a block that may be in use, as it is. */
static inline NO_ASAN uint32_t meta_peek(const uint32_t *word)
{
#if TRACK_VALGRIND
	track_defined(word, sizeof(*word));
#endif
	return *word;
}

struct node {
	uint32_t next;
	uint32_t stamp;
	uint32_t prev;
	uint32_t size;
};

static inline void *at(const struct freelist *f, size_t granule)
{
	return (char *)f + (granule << f->shift);
}

static inline struct node *node_at(const struct freelist *f, size_t granule)
{
	return at(f, granule);
}

/* The last word of the granule before this one. */
static inline uint32_t *foot_before(const struct freelist *f, size_t granule)
{
	return (uint32_t *)at(f, granule) - 1;
}

/* What marks a free block of this piece: its address makes the value hard to
 * meet by chance, and costs no load. */
static inline uint32_t stamp_of(const struct freelist *f)
{
	return (uint32_t)(uintptr_t)f;
}

/* Blocks in use have at least so many granules: links need 16 bytes. */
static inline size_t granules_min(const struct freelist *f)
{
	return (size_t)16 >> f->shift;
}

/* SIZE_MAX when there is no such block. */
static inline size_t granules_in(size_t size, unsigned shift)
{
	size_t n = (size >> shift) + ((size & (((size_t)1 << shift) - 1)) != 0);

	if (small_unlikely(n > FREELIST_GRANULES_MAX))
		return SIZE_MAX;
	return shift == 3 && n < 2 ? 2 : n;
}

static inline size_t granules_of(const struct freelist *f, size_t size)
{
	return granules_in(size, f->shift);
}

/* --- the bitmap --- */

static inline bool bit_test(const struct freelist *f, size_t granule)
{
	return f->bitmap[granule / 64] >> (granule % 64) & 1;
}

/* From here on n is a number like any other, in a register: without this,
 * what it was made of may live on beside it, or memory be changed in place by
 * a longer way. */
#define AS_IT_IS(n) __asm__("" : "+r"(n))

static inline void bit_set(struct freelist *f, size_t granule)
{
	uint64_t word = f->bitmap[granule / 64];

	AS_IT_IS(word);
	word |= (uint64_t)1 << (granule % 64);
	f->bitmap[granule / 64] = word;
}

static inline void bit_clear(struct freelist *f, size_t granule)
{
	uint64_t word = f->bitmap[granule / 64];

	AS_IT_IS(word);
	word &= ~((uint64_t)1 << (granule % 64));
	f->bitmap[granule / 64] = word;
}

/* Bits from this granule on; the first BITS_AT_MAX of them are meant. */
#define BITS_AT_MAX 57

static inline uint64_t bits_at(const struct freelist *f, size_t granule)
{
	uint64_t bits;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	memcpy(&bits, (const char *)f->bitmap + granule / 8, sizeof(bits));
	return bits >> (granule % 8);
#else
	bits = f->bitmap[granule / 64] >> (granule % 64);
	if (granule % 64 != 0)
		bits |= f->bitmap[granule / 64 + 1] << (64 - granule % 64);
	return bits;
#endif
}

/* --- counters --- */

/* Do freed blocks wait? */
static inline bool can_wait(const struct freelist *f)
{
	return (f->quick16 | f->quick8) != 0;
}

static inline uint32_t deferred_granules(const struct freelist *f)
{
	return (uint32_t)(f->defer_max - f->defer_room);
}

static inline uint32_t bump_granules(const struct freelist *f)
{
	return f->bump_end - f->bump;
}

/* Granules below low that are neither free nor waiting, metadata included. */
static inline size_t granules_in_use(const struct freelist *f)
{
	return f->low - f->indexed - bump_granules(f) - deferred_granules(f);
}

/* The first granule that is no control block or quick head. */
static inline uint32_t granule_first(const struct freelist *f)
{
	size_t bytes = offsetof(struct freelist, quick) +
	               (f->quick_max + (size_t)1) * sizeof(f->quick[0]);

	return (uint32_t)(small_align(bytes, 16) >> f->shift);
}

static inline void set_low(struct freelist *f, size_t low)
{
	f->low = low;
	f->safe = low > QUICK_WIDE ? low - QUICK_WIDE : 0;
}

/* --- freelist_index.c --- */

/* Classes that describe blocks of up to `cover` granules. */
uint32_t freelist_class_count(uint32_t cover) SMALL_SYM(freelist_class_count);
/* Takes a block of at least n granules out and clears its bits; *size is
 * its size. NIL when none is found, which is final with is_exact. */
uint32_t freelist_take(struct freelist *f, uint32_t n, bool is_exact,
                       uint32_t *size) SMALL_SYM(freelist_take);
/* A block of the highest class that has one, if above that of n; or NIL. */
uint32_t freelist_take_large(struct freelist *f, uint32_t n, uint32_t *size)
	SMALL_SYM(freelist_take_large);
/* A block that touches no other free one goes into the index, or out of it.
 */
void freelist_insert(struct freelist *f, uint32_t g, uint32_t n)
	SMALL_SYM(freelist_insert);
void freelist_remove(struct freelist *f, uint32_t g, uint32_t n)
	SMALL_SYM(freelist_remove);
/* Merges [g, g + n) with its free neighbours into the index. */
void freelist_merge(struct freelist *f, uint32_t g, uint32_t n)
	SMALL_SYM(freelist_merge);
/* Merges at least count waiting blocks, if there are so many. */
void freelist_flush(struct freelist *f, size_t count) SMALL_SYM(freelist_flush);
/* More wait than may, after a block of size bytes was pushed: merges a few,
 * and that one if it would be over the cap. */
void freelist_flush_over(struct freelist *f, const void *ptr, size_t size)
	SMALL_SYM(freelist_flush_over);
/* The bump run goes into the index. */
void freelist_return_bump(struct freelist *f) SMALL_SYM(freelist_return_bump);
/* The largest run of the index. */
uint32_t freelist_largest(const struct freelist *f) SMALL_SYM(freelist_largest);

/* --- freelist_table.c --- */

/* What the first table of a growing piece describes, in bytes: 1.2 % of a
 * small heap under a large limit. */
#define FREELIST_COVER_MIN ((size_t)64 * 1024)

/* Granules of a table that describes so many. */
uint32_t freelist_table_granules(const struct freelist *f, uint32_t cover)
	SMALL_SYM(freelist_table_granules);
/* Lays an empty table out at this granule. */
void freelist_table_init(struct freelist *f, uint32_t table, uint32_t cover)
	SMALL_SYM(freelist_table_init);
/* A larger table, at low, with room for n granules behind; -1 when refused. */
int freelist_table_grow(struct freelist *f, size_t n)
	SMALL_SYM(freelist_table_grow);
/* Moves the table from the end of the piece into a free block, if it can. */
bool freelist_table_lower(struct freelist *f) SMALL_SYM(freelist_table_lower);
/* Touches granules up to low. */
void freelist_raise_low(struct freelist *f, size_t low)
	SMALL_SYM(freelist_raise_low);

/* --- freelist_piece.c --- */

/* Granules from low on that the limit has room for. */
size_t freelist_fresh_room(const struct freelist *f)
	SMALL_SYM(freelist_fresh_room);
/* Moves low by n granules, committing pages and growing the table as needed,
 * and returns where it was (behind a table that moved); NIL when refused. */
uint32_t freelist_fresh(struct freelist *f, size_t n) SMALL_SYM(freelist_fresh);
/* Commits at least need <= lim granules; -1 when refused. */
int freelist_commit(struct freelist *f, size_t need) SMALL_SYM(freelist_commit);
/* Over the limit: gives back a free end of the piece. */
void freelist_retreat(struct freelist *f) SMALL_SYM(freelist_retreat);
/* Opens or shuts the lists of waiting blocks. */
void freelist_set_quick(struct freelist *f, bool is_open)
	SMALL_SYM(freelist_set_quick);
/* The bound on what waits, from what is free; never above the cap. */
void freelist_adapt(struct freelist *f) SMALL_SYM(freelist_adapt);

/* Pages behind the end of what may be used go back. */
void freelist_give_back(struct freelist *f) SMALL_SYM(freelist_give_back);

/* --- freelist_snapshot.c --- */

/* The snapshot goes, and with it what it holds. */
void freelist_snapshot_drop(struct freelist *f)
	SMALL_SYM(freelist_snapshot_drop);

/* --- freelist_block.c --- */

/* n granules; NIL when refused, with the cause set. */
uint32_t freelist_get(struct freelist *f, size_t n) SMALL_SYM(freelist_get);
/* Frees [g, g + n), by way of the waiting blocks if small. */
void freelist_put(struct freelist *f, uint32_t g, uint32_t n)
	SMALL_SYM(freelist_put);
/* Grows [g, g + n) to want granules in place; false when what follows it does
 * not allow that. */
bool freelist_extend(struct freelist *f, uint32_t g, uint32_t n, uint32_t want)
	SMALL_SYM(freelist_extend);
/* The same by moving its contents, `bytes`, into the free block before it;
 * returns where it is then, or NIL. */
uint32_t freelist_slide(struct freelist *f, uint32_t g, uint32_t n,
                        uint32_t want, size_t bytes) SMALL_SYM(freelist_slide);

/* --- freelist_guard.c --- */

/* The granule of a block that is being freed or resized; aborts with the
 * name of the call when it can not be one of so many bytes. */
uint32_t freelist_guard(const struct freelist *f, const void *ptr, size_t size,
                        const char *call) SMALL_SYM(freelist_guard);
/* A block with a stamp: aborts when it is free, else it was chance. */
void freelist_guard_stamp(const struct freelist *f, const void *ptr,
                          const char *call) SMALL_SYM(freelist_guard_stamp);
/* Aborts: the head of a list is not in the piece. */
void freelist_bad_link(void) SMALL_SYM(freelist_bad_link)
	__attribute__((noreturn, cold));
/* Aborts in a wrong thread, or on what is no freelist. */
void freelist_owner_slow(const struct freelist *f, const char *call)
	SMALL_SYM(freelist_owner_slow);

/* The same in debug builds, nothing in others. */
static inline void freelist_owner(const struct freelist *f, const char *call)
{
#ifndef NDEBUG
	freelist_owner_slow(f, call);
#else
	(void)f, (void)call;
#endif
}

#endif /* SMALL_FREELIST_IMPL_H */
