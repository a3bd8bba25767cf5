/* SPDX-License-Identifier: BSD-2-Clause */
/* region_check - the statistics and the invariants of a region. */
#include <small/region_impl.h>

static void add_kept(const struct region *region, struct region_stats *stats)
{
	const struct rlist *item, *pos = region_kept_pos(region);
	bool is_ahead = pos == &region->kept;

	rlist_foreach (item, &region->kept) {
		stats->slabs++;
		if (is_ahead)
			stats->free += rslab_of(item)->slab.size -
			               sizeof(struct rslab);
		is_ahead = is_ahead || item == pos;
	}
}

void region_stats(const struct region *region, struct region_stats *stats)
{
	struct rlist *const *next = &region->rest;

	stats->used = region_used(region);
	stats->total = region_total(region);
	stats->free = region_room(region);
	stats->growable = stats->slabs = 0;
	add_kept(region, stats);
	for (; next != region->at.rest_tail; next = &(*next)->next) {
		const struct slab *slab = &rslab_of(*next)->slab;

		stats->slabs++;
		if (slab->reserve != 0)
			stats->growable += slab->size;
	}
	stats->overhead =
		stats->total - stats->growable - stats->used - stats->free;
}

/* A slab in use with `before` bytes before it and `after` up to its end. */
static bool chained(const struct rslab *rslab, size_t before, size_t after)
{
	return rslab != NULL && is_slab(&rslab->slab) && before <= after &&
	       after - before <= rslab->slab.size - sizeof(struct rslab);
}

static const char *check_chain(const struct region *region)
{
	const struct rslab *rslab = region->at.cur;
	size_t after = region_used(region), before;

	if (rslab == NULL)
		return after == 0 ? NULL : "used";
	before = region_used_before(region);
	while (chained(rslab, before, after)) {
		if (before == 0)
			return NULL;
		after = before;
		rslab = rslab->prev;
		before = rslab != NULL ? rslab->used_before : 0;
	}
	return "chain";
}

static const char *check_cursor(const struct region *region)
{
	const struct region_cursor *at = &region->at;
	const char *end = at->pos;

	if (at->cur != NULL) {
		end = (const char *)at->cur + at->cur->slab.size;
		if (at->pos < (const char *)(at->cur + 1) || at->pos > end)
			return "cursor";
		if ((size_t)(at->pos - (const char *)(at->cur + 1)) >
		    region_used(region))
			return "used";
	} else if (at->pos != NULL) {
		return "cursor";
	}
	if (at->stop != (region_is_shut(region) ? at->pos : end))
		return "shut";
	return NULL;
}

static bool kept_sums_up(const struct region *region)
{
	const struct rlist *item;
	size_t sum = 0;

	rlist_foreach (item, &region->kept) {
		const struct rslab *rslab = rslab_of(item);

		if (!is_slab(&rslab->slab) || !rslab_is_kept(rslab) ||
		    rslab->slab.order > region->cache->order_max)
			return false;
		sum += rslab->slab.size;
	}
	return sum == region->kept_total && sum <= region->retain;
}

static bool rest_sums_up(const struct region *region)
{
	struct rlist *const *next = &region->rest;
	const struct rlist *prev = NULL;
	size_t sum = 0;

	for (; next != region->at.rest_tail; next = &(*next)->next) {
		const struct rslab *rslab = rslab_of(*next);

		if (!is_slab(&rslab->slab) || rslab_is_kept(rslab) ||
		    (*next)->prev != prev)
			return false;
		prev = *next;
		sum += rslab->slab.size;
	}
	return sum == region->at.rest_total;
}

static bool home_is_first(const struct region *region)
{
	const struct region_cursor *home = &region->home;
	const struct rslab *first = NULL;
	const char *pos = NULL, *end = NULL;

	if (!rlist_empty(&region->kept)) {
		first = rslab_of(region->kept.next);
		pos = (const char *)(first + 1);
		end = (const char *)first + first->slab.size;
	}
	return home->cur == first && home->pos == pos &&
	       home->base == (uintptr_t)pos &&
	       home->stop == (region_is_shut(region) ? pos : end) &&
	       home->rest_tail == &region->rest && home->rest_total == 0;
}

const char *region_check(const struct region *region)
{
	const char *broken = check_cursor(region);

	if (broken != NULL)
		return broken;
	if (!kept_sums_up(region))
		return "kept";
	if (!rest_sums_up(region))
		return "rest";
	if (!home_is_first(region))
		return "home";
	return check_chain(region);
}
