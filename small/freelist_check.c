/* SPDX-License-Identifier: BSD-2-Clause */
/* freelist_check - the statistics of a freelist and its invariants. */
#include <small/freelist_index.h>

/* Granules that one allocation may still have. */
size_t freelist_largest_free(struct freelist *f)
{
	size_t n, tail = 0, room;

	freelist_owner(f, "freelist_largest_free");
	freelist_return_bump(f);
	freelist_flush(f, SIZE_MAX);
	if (can_wait(f))
		freelist_adapt(f);
	room = freelist_fresh_room(f);
	if (bit_test(f, f->low - 1) && f->cover > f->low && room > 0) {
		tail = f->cover < f->lim ? f->cover - f->low : f->lim - f->low;
		tail += size_before(f, (uint32_t)f->low);
	}
	n = freelist_largest(f);
	n = n > room ? n : room;
	n = n > tail ? n : tail;
	room = granules_in_use(f);
	room = room < f->lim ? f->lim - room : 0;
	n = n < room || !f->is_squeezed ? n : room;
	return n < granules_min(f) ? 0 : n << f->shift;
}

void freelist_stats(const struct freelist *f, struct freelist_stats *stats)
{
	size_t blocks = f->low < f->lim ? f->lim : f->low, largest, in_use;
	size_t first = granule_first(f);

	memset(stats, 0, sizeof(*stats));
	freelist_owner(f, "freelist_stats");
	in_use = granules_in_use(f) - first - f->table_size;
	largest = freelist_largest(f);
	if (largest < bump_granules(f))
		largest = bump_granules(f);
	if (largest < freelist_fresh_room(f))
		largest = freelist_fresh_room(f);
	stats->used = freelist_used(f);
	stats->limit = f->limit;
	stats->total = (blocks << f->shift) + f->head;
	if (stats->total < f->limit && f->low <= f->lim)
		stats->total = f->limit;
	stats->rounding = (in_use << f->shift) - stats->used;
	stats->free = (blocks - f->low + f->indexed + bump_granules(f) +
	               deferred_granules(f))
	              << f->shift;
	stats->metadata =
		stats->total - stats->used - stats->rounding - stats->free;
	stats->overhead = stats->metadata + stats->rounding;
	stats->peak = f->peak;
	stats->charged = freelist_total(f);
	stats->deferred = (size_t)deferred_granules(f) << f->shift;
	stats->touched = (f->low << f->shift) + f->head;
	stats->refused = f->refused;
	stats->largest_free = largest << f->shift;
	stats->steps = f->steps;
}

/* --- invariants --- */

static bool control_fits(const struct freelist *f)
{
	uint32_t first = granule_first(f);

	return f->magic == FREELIST_MAGIC && (f->shift == 3 || f->shift == 4) &&
	       f->low <= f->end && f->bump <= f->bump_end &&
	       f->bump_end <= f->low && f->low <= f->cover &&
	       f->class_max == freelist_class_count(f->cover) &&
	       f->table >= first && f->table + f->table_size <= f->low &&
	       f->classes == at(f, f->table) && f->cursor >= 1 &&
	       f->cursor <= f->quick_max && f->cleared > f->low / 64 &&
	       f->quick[0] == NIL && f->peak_room >= 0;
}

static bool limit_holds(const struct freelist *f)
{
	if (f->limit > f->max_limit || f->is_squeezed != (f->low > f->lim))
		return false;
	return f->end <= f->lim || f->end == f->held ||
	       (f->is_squeezed && f->end == f->low);
}

/* Is the block at g, which a list of this class holds, as it should be? */
static bool node_fits(const struct freelist *f, uint32_t g, uint32_t class,
                      uint32_t prev)
{
	struct node *node = node_at(f, g);
	uint32_t n = meta_get(&node->size);

	return n >= granules_min(f) && n <= f->low - g &&
	       class_of(n) == class && meta_get(&node->prev) == prev &&
	       meta_get(&node->stamp) == stamp_of(f) &&
	       meta_get(foot_before(f, g + n)) == n && bit_test(f, g) &&
	       bit_test(f, g + n - 1);
}

/* Granules in the lists, SIZE_MAX when they are broken. */
static size_t sum_lists(const struct freelist *f)
{
	size_t sum = 0;

	for (uint32_t class = 0; class < f->class_max; class ++) {
		uint32_t g = f->heads[class], prev = NIL;

		if ((g != NIL) != (f->classes[class / 64] >> class % 64 & 1))
			return SIZE_MAX;
		while (g != NIL) {
			if (g < granule_first(f) || g >= f->low ||
			    !node_fits(f, g, class, prev))
				return SIZE_MAX;
			sum += meta_get(&node_at(f, g)->size);
			prev = g;
			g = meta_get(&node_at(f, g)->next);
		}
	}
	return sum;
}

/* The size of a free block at g by what stands there; 0 when it is none. */
static uint32_t size_shown(const struct freelist *f, uint32_t g)
{
	struct node *node = node_at(f, g);
	uint32_t n = 1;

	if (f->shift == 4 || meta_get(&node->next) != SLIVER) {
		n = meta_get(&node->size);
		if (n - 1 >= f->low - g || !bit_test(f, g + n - 1) ||
		    meta_get(foot_before(f, g + n)) != n)
			return 0;
	}
	return meta_get(&node->stamp) == stamp_of(f) ? n : 0;
}

/* Granules in blocks that the bitmap shows, SIZE_MAX when it is broken;
 * *adjacent when two of them are. */
static size_t sum_bitmap(const struct freelist *f, size_t *slivers,
                         bool *adjacent)
{
	size_t sum = 0, last = 0;

	*slivers = 0;
	for (uint32_t g = f->first; g < f->low; g++) {
		uint32_t n;

		if (!bit_test(f, g))
			continue;
		n = size_shown(f, g);
		if (n == 0)
			return SIZE_MAX;
		*slivers += n < granules_min(f);
		*adjacent = *adjacent || last == g;
		sum += n;
		g += n - 1;
		last = g + 1;
	}
	return bit_test(f, f->low) ? SIZE_MAX : sum;
}

static bool waiting_fits(const struct freelist *f)
{
	size_t sum = 0;

	for (uint32_t n = 1; n <= f->quick_max; n++) {
		uint32_t g = f->quick[n];

		for (; g != NIL; g = meta_get(&node_at(f, g)->next)) {
			if (g < granule_first(f) || g + n > f->low ||
			    n < granules_min(f) || bit_test(f, g) ||
			    bit_test(f, g + n - 1) ||
			    meta_get(&node_at(f, g)->stamp) != stamp_of(f))
				return false;
			sum += n;
			if (sum > f->low)
				return false;
		}
	}
	return sum == deferred_granules(f) && (f->cap == 0 || sum <= f->cap);
}

const char *freelist_check(const struct freelist *f)
{
	size_t lists, shown, slivers;
	bool adjacent = false;

	if (!control_fits(f))
		return "control";
	if (!limit_holds(f))
		return "limit";
	lists = sum_lists(f);
	if (lists == SIZE_MAX)
		return "index";
	shown = sum_bitmap(f, &slivers, &adjacent);
	if (shown == SIZE_MAX || shown != lists + slivers)
		return "bitmap";
	if (adjacent)
		return "merged";
	if (!waiting_fits(f))
		return "deferred";
	if (shown != f->indexed ||
	    freelist_used(f) > (granules_in_use(f) - f->table_size) << f->shift)
		return "sum";
	return NULL;
}
