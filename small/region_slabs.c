/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region_slabs - where a region's slabs hang: the kept list, the rest, the
 * chain of those in use, and the cursor that moves along them.
 */
#include <small/region_impl.h>

/* Kept slabs too small for a request that one call gives back: enough to
 * follow a change of sizes, and still a constant. */
#define REGION_SKIP 2

void region_set_stop(struct region *region)
{
	region->at.stop = region->at.cur == NULL || region_is_shut(region)
	                          ? region->at.pos
	                          : rslab_data_end(region->at.cur);
}

/* Sets the cursor: in cur, or nowhere. */
void region_set_cursor(struct region *region, struct rslab *cur, size_t before,
                       size_t used)
{
	region->at.cur = cur;
	region->at.base = cur == NULL ? 0 : (uintptr_t)(cur + 1) - before;
	region->at.pos = cur == NULL ? NULL : (char *)region->at.base + used;
	region->reserved = region->at.pos;
	region_set_stop(region);
}

/* Makes a slab that holds nothing the current one. */
static void enter(struct region *region, struct rslab *rslab)
{
	size_t used = region_used(region);

	if (region->at.cur != NULL)
		region->at.cur->used_before = region_used_before(region);
	if (!rslab_is_kept(rslab))
		region->kept_pos = region_kept_pos(region);
	rslab->prev = region->at.cur;
	region_set_cursor(region, rslab, used, used);
}

/* Where a reset goes, after a change of the first kept slab. */
void region_set_home(struct region *region)
{
	struct region_cursor *home = &region->home;
	struct rslab *first = rslab_of(region->kept.next);

	memset(home, 0, sizeof(*home));
	home->rest_tail = &region->rest;
	if (rlist_empty(&region->kept))
		return;
	home->cur = first;
	home->pos = rslab_data(first);
	home->base = (uintptr_t)home->pos;
	home->stop = region_is_shut(region) ? home->pos : rslab_data_end(first);
}

void region_rest_add(struct region *region, struct slab *slab)
{
	struct rlist *link = &slab->next_in_list;

	link->prev = region_link_of(region, region->at.rest_tail);
	*region->at.rest_tail = link;
	region->at.rest_tail = &link->next;
	region->at.rest_total += slab->size;
}

void region_rest_del(struct region *region, struct slab *slab)
{
	struct rlist *link = &slab->next_in_list;
	struct rlist **before =
		link->prev == NULL ? &region->rest : &link->prev->next;

	region->at.rest_total -= slab->size;
	if (&link->next == region->at.rest_tail) {
		region->at.rest_tail = before;
	} else {
		link->next->prev = link->prev;
		*before = link->next;
	}
}

void region_put_kept(struct region *region, struct rslab *rslab)
{
	rlist_del(&rslab->slab.next_in_list);
	region->kept_total -= rslab->slab.size;
	slab_put(region->cache, &rslab->slab);
	region_set_home(region);
}

/* Moves a kept slab that is in use to the rest. */
void region_demote(struct region *region, struct rslab *rslab)
{
	struct rlist *link = &rslab->slab.next_in_list;

	if (region_kept_pos(region) == link)
		region->kept_pos = link->prev;
	rlist_del(link);
	region->kept_total -= rslab->slab.size;
	rslab->slab.tag = TAG_REST;
	region_rest_add(region, &rslab->slab);
	region_set_home(region);
}

/* Gives the kept slabs ahead of the cursor back; false if there are none. */
static bool give_up_kept(struct region *region)
{
	struct rslab *rslab = region_kept_next(region);

	if (rslab == NULL)
		return false;
	do
		region_put_kept(region, rslab);
	while ((rslab = region_kept_next(region)) != NULL);
	return true;
}

/* Leaves the current slab, which nothing is wanted of. */
void region_leave(struct region *region)
{
	struct rslab *rslab = region->at.cur;
	size_t used = region_used_before(region);
	/* What was in use before the first byte is forgotten. */
	struct rslab *prev = used == 0 ? NULL : rslab->prev;
	struct rlist *kept_before = rslab->slab.next_in_list.prev;

	if (rslab_is_kept(rslab)) {
		track_noaccess(rslab + 1, rslab->slab.size - sizeof(*rslab));
	} else {
		region_rest_del(region, &rslab->slab);
		slab_put(region->cache, &rslab->slab);
		kept_before = region->kept_pos;
	}
	region->kept_pos = kept_before;
	region_set_cursor(region, prev, prev == NULL ? 0 : prev->used_before,
	                  used);
}

/* Bytes of kept slabs that go with this request when `next` is entered for
 * size bytes: the current slab's, if next has room for its contents, too. The
 * next request then begins in the larger one and moves on less often; so kept
 * slabs grow to what requests need, and stay few. */
static size_t surplus(const struct region *region, const struct rslab *next,
                      size_t size)
{
	const struct rslab *cur = region->at.cur;

	if (cur == NULL || !rslab_is_kept(cur) ||
	    !region_is_surplus(region, next, size))
		return 0;
	return cur->slab.size;
}

/* Lists a new slab where it belongs; `less` kept bytes are surplus to it. */
static void add_slab(struct region *region, struct rslab *rslab, size_t less)
{
	size_t size = rslab->slab.size;

	if (size <= region->retain - (region->kept_total - less) &&
	    rslab->slab.order <= region->cache->order_max) {
		if (less != 0)
			region_demote(region, region->at.cur);
		rslab->slab.tag = TAG_KEPT;
		region->kept_total += size;
		rlist_add(region_kept_pos(region), &rslab->slab.next_in_list);
		region_set_home(region);
	} else {
		rslab->slab.tag = TAG_REST;
		region_rest_add(region, &rslab->slab);
	}
}

/* Makes room in the lists for a new slab of size bytes: an empty current slab
 * was too small and is left, for later or for good; small kept slabs give
 * way to one that could be kept. */
static void skip_small(struct region *region, size_t size)
{
	if (region_is_empty(region))
		region_leave(region);
	for (int i = 0; i < REGION_SKIP && size <= region->retain; i++) {
		struct rslab *rslab = region_kept_next(region);

		if (rslab == NULL)
			break;
		region_put_kept(region, rslab);
	}
}

/* Enters a slab with room for size bytes; false, and the region is as before
 * but for idle slabs that it gave up in vain, when there is none. A reserve
 * drops nothing for it, as it may be undone. */
bool region_next_slab(struct region *region, size_t size, bool is_reserve)
{
	struct rslab *rslab = region_kept_next(region);
	struct slab *slab;
	size_t need;

	if (rslab != NULL && rslab_room(rslab) >= size) {
		if (!is_reserve && surplus(region, rslab, size) != 0)
			region_demote(region, region->at.cur);
		enter(region, rslab);
		return true;
	}
	if (small_add(size, sizeof(struct rslab) - sizeof(struct slab), &need))
		return false;
	slab = slab_get(region->cache, need);
	if (slab == NULL && give_up_kept(region))
		slab = slab_get(region->cache, need);
	if (slab == NULL)
		return false;
	skip_small(region, slab->size);
	rslab = (struct rslab *)slab;
	track_undefined(slab + 1, sizeof(*rslab) - sizeof(*slab));
	add_slab(region, rslab, is_reserve ? 0 : surplus(region, rslab, size));
	track_noaccess(rslab + 1, slab->size - sizeof(*rslab));
	enter(region, rslab);
	return true;
}
