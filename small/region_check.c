/* SPDX-License-Identifier: BSD-2-Clause */
/* region_check - the statistics and the invariants of a region. */
#include <small/region.h>

void region_stats(const struct region *region, struct region_stats *stats)
{
	struct rlist *item = region->kept_pos->next;

	stats->used = region_used(region);
	stats->total = region_total(region);
	stats->free = region_room(region);
	stats->growable = 0;
	for (; item != &region->kept; item = item->next) {
		struct slab *slab =
			rlist_entry(item, struct slab, next_in_list);

		stats->free += slab->size - sizeof(struct rslab);
	}
	rlist_foreach (item, &region->rest) {
		struct slab *slab =
			rlist_entry(item, struct slab, next_in_list);

		if (slab->reserve != 0)
			stats->growable += slab->size;
	}
	stats->overhead =
		stats->total - stats->growable - stats->used - stats->free;
}

static const char *check_chain(const struct region *region)
{
	const struct rslab *rslab = region->cur;
	size_t after = region_used(region);

	for (; rslab != NULL; rslab = rslab->prev) {
		if (rslab->slab.magic != slab_magic ||
		    rslab->used_before > after ||
		    (rslab->prev == NULL && rslab->used_before != 0) ||
		    after - rslab->used_before >
		            rslab->slab.size - sizeof(struct rslab))
			return "chain";
		after = rslab->used_before;
	}
	return NULL;
}

/* Sums a list up; false when a slab does not belong there. */
static bool sum_list(const struct region *region, const struct rlist *list,
                     size_t *sum)
{
	struct slab *slab;

	*sum = 0;
	rlist_foreach_entry (slab, list, next_in_list) {
		if (slab->magic != slab_magic ||
		    (list == &region->kept &&
		     slab->order > region->cache->order_max))
			return false;
		*sum += slab->size;
	}
	return true;
}

const char *region_check(const struct region *region)
{
	const struct rslab *cur = region->cur;
	const char *end = region->pos;
	size_t sum;

	if (cur == NULL
	            ? region->pos != NULL
	            : region->pos < (const char *)(cur + 1) ||
	                      region->pos > (const char *)cur + cur->slab.size)
		return "cursor";
	if (cur != NULL) {
		end = (const char *)cur + cur->slab.size;
		if (region_used(region) !=
		    cur->used_before +
		            (size_t)(region->pos - (const char *)(cur + 1)))
			return "used";
	} else if (region->base != 0) {
		return "used";
	}
	if (region->stop != region->pos && region->stop != end)
		return "shut";
	if (region->stop != region->pos &&
	    (region->on_alloc != NULL || region->on_truncate != NULL))
		return "shut";
	if (!sum_list(region, &region->kept, &sum) ||
	    sum != region->kept_total || sum > region->retain)
		return "kept";
	if (!sum_list(region, &region->rest, &sum) || sum != region->rest_total)
		return "rest";
	return check_chain(region);
}
