/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_REGION_IMPL_H
#define SMALL_REGION_IMPL_H
/* region_impl - what the files of region share. Internal. */
#include <small/region.h>
#include <small/slab_cache_impl.h>

/* What a slab is to its region; the flag says that a reserve added it. */
enum { TAG_KEPT = 1, TAG_REST, TAG_GROWABLE, TAG_RESERVED = 0x80 };

static inline struct rslab *rslab_of(const struct rlist *item)
{
	return rlist_entry(item, struct rslab, slab.next_in_list);
}

static inline bool rslab_is_kept(const struct rslab *rslab)
{
	return (rslab->slab.tag & ~TAG_RESERVED) == TAG_KEPT;
}

/* Bytes that it has room for in all. */
static inline size_t rslab_room(const struct rslab *rslab)
{
	return rslab->slab.size - sizeof(*rslab);
}

static inline bool region_has_callbacks(const struct region *region)
{
	return region->on_alloc != NULL || region->on_truncate != NULL;
}

static inline bool region_is_shut(const struct region *region)
{
	return TRACK_ENABLED || region_has_callbacks(region);
}

/* used() when the current slab became current. */
static inline size_t region_used_before(const struct region *region)
{
	return (uintptr_t)(region->at.cur + 1) - region->at.base;
}

/* The last kept slab in use; those after it hold nothing. */
static inline struct rlist *region_kept_pos(const struct region *region)
{
	struct rslab *cur = region->at.cur;

	if (cur == NULL)
		return (struct rlist *)&region->kept;
	return rslab_is_kept(cur) ? &cur->slab.next_in_list : region->kept_pos;
}

/* A kept slab ahead of the cursor, or NULL. */
static inline struct rslab *region_kept_next(const struct region *region)
{
	struct rlist *next = region_kept_pos(region)->next;

	return next == &region->kept ? NULL : rslab_of(next);
}

static inline bool region_is_empty(const struct region *region)
{
	return region->at.cur != NULL &&
	       region->at.pos == (char *)(region->at.cur + 1);
}

/* Whether next, which size bytes fit in, could have held them and all that is
 * in the current slab. */
static inline bool region_is_surplus(const struct region *region,
                                     const struct rslab *next, size_t size)
{
	return (size_t)(region->at.pos - (char *)(region->at.cur + 1)) <=
	       rslab_room(next) - size;
}

/* The link before the one whose next is *tail; NULL for the first. */
static inline struct rlist *region_link_of(struct region *region,
                                           struct rlist **tail)
{
	return tail == &region->rest ? NULL
	                             : rlist_entry(tail, struct rlist, next);
}

/* --- region_slabs.c --- */

/* Shuts or opens the fast path at the cursor, as region_is_shut() says. */
void region_set_stop(struct region *region) SMALL_SYM(region_set_stop);
/* Sets the cursor: in cur, which `before` bytes lie before, or nowhere. */
void region_set_cursor(struct region *region, struct rslab *cur, size_t before,
                       size_t used) SMALL_SYM(region_set_cursor);
/* Where a reset goes, after a change of the first kept slab. */
void region_set_home(struct region *region) SMALL_SYM(region_set_home);
void region_rest_add(struct region *region, struct slab *slab)
	SMALL_SYM(region_rest_add);
void region_rest_del(struct region *region, struct slab *slab)
	SMALL_SYM(region_rest_del);
void region_put_kept(struct region *region, struct rslab *rslab)
	SMALL_SYM(region_put_kept);
/* Leaves the current slab, which nothing is wanted of. */
void region_leave(struct region *region) SMALL_SYM(region_leave);
/* Moves a kept slab that is in use to the rest. */
void region_demote(struct region *region, struct rslab *rslab)
	SMALL_SYM(region_demote);
/* Enters a slab with room for size bytes; false, and the region is as before
 * but for idle slabs that it gave up in vain, when there is none. A reserve
 * drops nothing for it, as it may be undone. */
bool region_next_slab(struct region *region, size_t size, bool is_reserve)
	SMALL_SYM(region_next_slab);

#endif /* SMALL_REGION_IMPL_H */
