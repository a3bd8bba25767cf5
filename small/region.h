/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_REGION_H
#define SMALL_REGION_H
/*
 * region - hands out bytes one after another and takes them all back at once,
 * in constant time.
 *
 *   kept   [#####][#####][##...][.....]      at most `retain` bytes of slabs,
 *                          ^cursor           refilled first to last
 *   rest   [##########][####...............] what did not fit in the retain
 *                                            bound, and every large slab
 *
 * Slabs in use form one chain, newest first (rslab.prev), whichever list they
 * hang on, and each knows how many bytes lay before it: so a byte count says
 * where it belongs. region_reset() moves the cursor to the first kept slab
 * and drops the rest as a chain on the cache's garbage list: nothing is
 * walked, whatever the number and size of the slabs.
 *
 * Threads: the owner of the slab cache.
 * Cost:    alloc is a compare and an add; a new slab costs a slab_get();
 *          reset is constant-time in release builds (debug and ASan builds
 *          walk the slabs to poison them); free and truncate are linear in
 *          the slabs they give back.
 * Errors:  NULL when the quota or the OS refuses and no retained slab ahead
 *          of the cursor is left to give up (those are given back first);
 *          used() and all contents are then as before. Size and alignment
 *          sums that overflow are refused the same way. Misuse (truncating to
 *          more than used(), joining more) aborts with one line.
 * Memory:  after any number of requests a region holds at most the slabs of
 *          the running request plus the retain bound.
 *
 * INV(cursor)      cur == NULL or data(cur) <= pos <= end(cur)
 * INV(used)        pos - data(cur) <= used(), and is used() with no slab
 * INV(chain)       used_before shrinks along prev and ends at 0
 * INV(kept)        kept slabs sum up to kept_total <= retain, no large ones
 * INV(rest)        rest slabs sum up to rest_total
 * INV(home)        home is the start of the first kept slab
 * INV(shut)        with callbacks, and in debug and ASan builds of the
 *                  library, stop == pos: each call reaches the library
 */
#include <small/slab_cache.h>

/* Bytes of slabs kept over a reset by default: what servers that reset by
 * hand commonly allow. */
#define REGION_RETAIN ((size_t)128 * 1024)

#ifdef __cplusplus
extern "C" {
#endif

/* Starts each slab of a region; 64 bytes on 64-bit machines; payloads are
 * aligned to 16 everywhere. */
struct rslab {
	struct slab slab;
	struct rslab *prev; /* the slab in use before this one */
	size_t used_before; /* used() when this one became current */
#if UINTPTR_MAX == 0xffffffff
	char pad[12];
#endif
};

struct region;

/* Called with the bytes about to be used, padding included. */
typedef void (*region_on_alloc_f)(struct region *region, size_t size,
                                  void *arg);
/* Called after a truncate, reset, free or destroy with used(). */
typedef void (*region_on_truncate_f)(struct region *region, size_t used,
                                     void *arg);

/* Where a region is. A reset copies `home` over `at` as a whole. */
struct region_cursor {
	char *pos;         /* the next free byte; NULL with no slab */
	char *stop;        /* end of the current slab, or pos when shut */
	uintptr_t base;    /* pos - used(): one subtraction gives used() */
	struct rslab *cur; /* the slab that pos is in, or NULL */
	struct rlist **rest_tail; /* the last link's next, &rest when empty */
	size_t rest_total;        /* bytes of the slabs in rest */
};

struct region {
	struct region_cursor at;
	struct rlist *rest; /* oldest first, up to rest_tail */
	struct slab_cache *cache;
	size_t generation;         /* raised by each reset and free */
	struct region_cursor home; /* at the first kept slab, rest empty */
	struct rlist kept;         /* by slab.next_in_list */
	struct rlist *kept_pos;    /* with cur in rest: last kept one in use */
	size_t kept_total;
	size_t retain;
	char *reserved; /* tracked builds: end of what reserve opened */
	region_on_alloc_f on_alloc;
	region_on_truncate_f on_truncate;
	void *on_alloc_arg;
	void *on_truncate_arg;
};

/* A point to roll back to; see region_create_svp(). */
struct region_svp {
	size_t used;
	size_t generation;
};

/* Bytes. used + free + overhead == total. */
struct region_stats {
	size_t used;     /* handed out, padding included */
	size_t free;     /* room behind the cursor and in retained slabs */
	size_t overhead; /* headers, and rests too small for what came next */
	size_t growable; /* of total, growable slabs, which used() leaves out */
	size_t total;    /* region_total() */
	size_t slabs;    /* their number, not bytes */
};

/* No allocation. */
SMALL_API void region_create(struct region *region, struct slab_cache *cache)
	SMALL_SYM(region_create);
/* Gives all slabs back at once and stays usable; callbacks stay. */
SMALL_API void region_free(struct region *region) SMALL_SYM(region_free);
/* region_free() for one that is not used any more. */
SMALL_API void region_destroy(struct region *region) SMALL_SYM(region_destroy);
/* Out-of-line half of region_reset(). */
SMALL_API void region_reset_slow(struct region *region)
	SMALL_SYM(region_reset_slow);

/* Either may be NULL; both NULL opens the fast path again. */
SMALL_API void
region_set_callbacks(struct region *region, region_on_alloc_f on_alloc,
                     void *on_alloc_arg, region_on_truncate_f on_truncate,
                     void *on_truncate_arg) SMALL_SYM(region_set_callbacks);

/* Bounds the slabs that stay over a reset; a bound, not a reservation: any
 * value is fine. Linear in the kept slabs. */
SMALL_API void region_set_retain(struct region *region, size_t bytes)
	SMALL_SYM(region_set_retain);

/* Out-of-line halves of the calls below. */
SMALL_API void *region_alloc_slow(struct region *region, size_t size)
	SMALL_SYM(region_alloc_slow);
SMALL_API void *region_aligned_alloc_slow(struct region *region, size_t size,
                                          size_t align)
	SMALL_SYM(region_aligned_alloc_slow);
SMALL_API void *region_reserve_slow(struct region *region, size_t size,
                                    size_t align)
	SMALL_SYM(region_reserve_slow);
SMALL_API void region_truncate_slow(struct region *region, size_t used)
	SMALL_SYM(region_truncate_slow);

/* Bytes handed out since the last reset or free, padding included. */
static inline size_t region_used(const struct region *region)
{
	return (uintptr_t)region->at.pos - region->at.base;
}

/* Bytes of all slabs held, headers, rests and growable slabs included. */
static inline size_t region_total(const struct region *region)
{
	return region->kept_total + region->at.rest_total;
}

/* size > 0 bytes right behind the previous ones where the slab has room,
 * without alignment; NULL on failure. */
static inline void *region_alloc(struct region *region, size_t size)
{
	char *ptr = region->at.pos;
	uintptr_t end;

	if (small_unlikely(__builtin_add_overflow((uintptr_t)ptr, size, &end) ||
	                   end > (uintptr_t)region->at.stop))
		return region_alloc_slow(region, size);
	region->at.pos = ptr + size;
	return ptr;
}

/* As region_alloc(), at a multiple of align, a power of two; the padding
 * counts as used. */
static inline void *region_aligned_alloc(struct region *region, size_t size,
                                         size_t align)
{
	uintptr_t ptr = ((uintptr_t)region->at.pos + align - 1) & ~(align - 1);
	uintptr_t end;

	if (small_unlikely(__builtin_add_overflow(ptr, size, &end) ||
	                   end > (uintptr_t)region->at.stop))
		return region_aligned_alloc_slow(region, size, align);
	region->at.pos = (char *)end;
	return (void *)ptr;
}

/* Room for size > 0 bytes at the cursor without using them: write there, then
 * region_alloc() what was needed. Reserving again replaces it. */
static inline void *region_reserve(struct region *region, size_t size)
{
	if (small_unlikely(size > (size_t)(region->at.stop - region->at.pos)))
		return region_reserve_slow(region, size, 1);
	return region->at.pos;
}

/* As region_reserve(), such that region_aligned_alloc(size, align) is then
 * served in place. Returns the aligned address. */
static inline void *region_aligned_reserve(struct region *region, size_t size,
                                           size_t align)
{
	size_t pad = (0 - (uintptr_t)region->at.pos) & (align - 1);
	size_t room = (size_t)(region->at.stop - region->at.pos);

	if (small_unlikely(size > room || pad > room - size))
		return region_reserve_slow(region, size, align);
	return region->at.pos + pad;
}

/* Drops what was allocated since used() returned `used` (after the last reset
 * or free). The slab that this empties exactly stays current. */
static inline void region_truncate(struct region *region, size_t used)
{
	struct region_cursor *at = &region->at;
	uintptr_t pos = at->base + used;

	if (small_likely(at->stop != at->pos &&
	                 pos > (uintptr_t)(at->cur + 1) &&
	                 pos <= (uintptr_t)at->pos))
		at->pos = (char *)pos;
	else
		region_truncate_slow(region, used);
}

/* Forgets all contents: used() == 0. Constant time. */
static inline void region_reset(struct region *region)
{
	struct slab_chain chain;

	chain.first = &region->rest;
	chain.tail = region->at.rest_tail;
	chain.bytes = &region->at.rest_total;
	if (small_unlikely(!slab_cache_drop(region->cache, &chain))) {
		region_reset_slow(region);
		return;
	}
	region->generation++;
	region->at = region->home;
}

/* A savepoint; it lives until the next reset or free. */
static inline struct region_svp region_create_svp(const struct region *region)
{
	struct region_svp svp;

	svp.used = region_used(region);
	svp.generation = region->generation;
	return svp;
}

/* region_truncate() to a savepoint. -1, and nothing changes, when the region
 * was reset or freed since, or already holds less. */
static inline int region_rollback_to_svp(struct region *region,
                                         const struct region_svp *svp)
{
	if (svp->generation != region->generation ||
	    svp->used > region_used(region))
		return -1;
	region_truncate(region, svp->used);
	return 0;
}

/* region_free() when more than limit bytes are used. */
static inline void region_free_after(struct region *region, size_t limit)
{
	if (region_used(region) > limit)
		region_free(region);
}

/* The last size bytes in one piece, 0 < size <= used(): in place, or copied
 * into a new allocation, so that used() grows by size. */
SMALL_API void *region_join(struct region *region, size_t size)
	SMALL_SYM(region_join);

/*
 * A growable block (see slab_get_growable) that is dropped by reset and free
 * and is no part of used(), truncate or join; its start is 64-byte aligned
 * and it counts in region_total(). Resizing up returns -1 and changes nothing
 * on failure; the block never moves.
 */
SMALL_API void *region_growable(struct region *region, size_t size,
                                size_t max_size) SMALL_SYM(region_growable);
SMALL_API int region_resize_growable(struct region *region, void *ptr,
                                     size_t size)
	SMALL_SYM(region_resize_growable);
SMALL_API void region_drop_growable(struct region *region, void *ptr)
	SMALL_SYM(region_drop_growable);

/* Linear in the slabs. */
SMALL_API void region_stats(const struct region *region,
                            struct region_stats *stats) SMALL_SYM(region_stats);
/* NULL or the name of the first broken invariant. */
SMALL_API const char *region_check(const struct region *region)
	SMALL_SYM(region_check);

/* Forms for code that takes an allocation function and its context. The
 * second sets *size to the room it found, 0 on failure. */
static inline void *region_alloc_cb(void *ctx, size_t size)
{
	return region_alloc((struct region *)ctx, size);
}

SMALL_API void *region_reserve_cb(void *ctx, size_t *size)
	SMALL_SYM(region_reserve_cb);

static inline size_t rslab_sizeof(void)
{
	return sizeof(struct rslab);
}

static inline void *rslab_data(struct rslab *rslab)
{
	return (char *)rslab + sizeof(struct rslab);
}

static inline void *rslab_data_end(struct rslab *rslab)
{
	return (char *)rslab + rslab->slab.size;
}

/* Bytes of the current slab that are free; 0 with no slab. */
static inline size_t region_room(const struct region *region)
{
	if (region->at.cur == NULL)
		return 0;
	return (size_t)((char *)rslab_data_end(region->at.cur) -
	                region->at.pos);
}

/* count objects of size bytes aligned to align; *total is their size in any
 * case, SIZE_MAX when that overflows. */
static inline void *region_alloc_array_impl(struct region *region, size_t size,
                                            size_t align, size_t count,
                                            size_t *total)
{
	*total = SIZE_MAX;
	if (small_mul(size, count, total))
		return NULL;
	return region_aligned_alloc(region, *total, align);
}

/* *(size) is set to the bytes asked for, in any case. */
#define region_alloc_array(region, T, count, size) \
 ((T *)region_alloc_array_impl(region, sizeof(T), __alignof__(T), count, size))
#define region_alloc_object(region, T, size) \
 region_alloc_array(region, T, 1, size)

#ifdef __cplusplus
} /* extern "C" */

# include <cstdlib>

inline namespace small_v2
{
/* Rolls the region back at the end of a scope; aborts when it was reset or
 * freed in between, as the bytes it guarded are gone then. */
class RegionGuard
{
      public:
	explicit RegionGuard(struct region *r)
	    : region_(r), svp_(region_create_svp(r))
	{
	}
	~RegionGuard()
	{
		if (region_rollback_to_svp(region_, &svp_) != 0)
			small_panic("RegionGuard", "stale savepoint");
	}
	/* used() when the guard was made. */
	size_t used() const
	{
		return svp_.used;
	}

      private:
	RegionGuard(const RegionGuard &);
	RegionGuard &operator=(const RegionGuard &);
	struct region *region_;
	struct region_svp svp_;
};
} /* namespace small_v2 */
#endif
#endif /* SMALL_REGION_H */
