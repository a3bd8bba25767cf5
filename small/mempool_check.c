/* SPDX-License-Identifier: BSD-2-Clause */
/* mempool_check - statistics, a walk over live objects, the invariants. */
#include <small/mempool_impl.h>
#include <small/slab_cache_impl.h>

size_t mempool_count(const struct mempool *pool)
{
	const struct mslab *slab = pool->current;

	if (slab == NULL)
		return pool->live;
	return pool->live + pool->current_free + mslab_freed(slab) -
	       mslab_count_free(pool, slab);
}

void mempool_stats(const struct mempool *pool, struct mempool_stats *stats)
{
	size_t slabsize = slab_order_size(pool->cache, pool->slab_order);

	stats->objsize = pool->objsize;
	stats->objcount = mempool_count(pool);
	stats->slabsize = slabsize;
	stats->slabcount = pool->slabs.stats.total / slabsize;
	stats->totals.used = stats->objcount * pool->objsize;
	stats->totals.total = pool->slabs.stats.total;
}

static struct mslab *to_mslab(struct slab *slab)
{
	return (struct mslab *)(void *)slab;
}

void mempool_foreach(const struct mempool *pool,
                     void (*f)(void *object, void *arg), void *arg)
{
	struct slab *slab;

	rlist_foreach_entry (slab, &pool->slabs.slabs, next_in_list) {
		const uint64_t *bits = to_mslab(slab)->free;
		char *object = (char *)slab + pool->offset;

		for (size_t i = 0; i < pool->objcount; i++) {
			if ((bits[i / 64] >> i % 64 & 1) == 0)
				f(object + i * pool->objsize, arg);
		}
	}
}

/* What the walk over the slabs finds. */
struct sums {
	size_t slabs, live, cold, warm, current;
};

static const char *check_geometry(const struct mempool *pool)
{
	struct mempool want;

	if (pool->slab_order > pool->cache->order_max)
		return "geometry";
	memset(&want, 0, sizeof(want));
	want.cache = pool->cache;
	want.slab_order = pool->slab_order;
	mempool_set_geometry(&want, pool->objsize);
	if (pool->objsize != want.objsize || pool->stride != want.stride ||
	    pool->objcount != want.objcount || pool->factor != want.factor ||
	    pool->slab_mask != want.slab_mask || pool->offset != want.offset ||
	    pool->fast_count != want.fast_count ||
	    pool->warm_count != want.warm_count ||
	    pool->path_factor != want.path_factor)
		return "geometry";
	return NULL;
}

static const char *check_cursor(const struct mempool *pool)
{
	const struct mslab *slab = pool->current;
	size_t word = pool->current_word;
	const char *first;

	if (pool->none != 0)
		return "cursor";
	if (slab == NULL)
		return pool->word == &pool->none && pool->word_base == NULL
		               ? NULL
		               : "cursor";
	first = (const char *)slab + pool->offset;
	if (word >= pool->words ||
	    pool->word_base != first + word * 64 * pool->objsize)
		return "cursor";
	/* Shut in debug and ASan builds of the library. */
	if (pool->word != &pool->none &&
	    pool->word != pool->current->free + word)
		return "cursor";
	return NULL;
}

/* Free bits, and none behind the last object. */
static const char *check_bits(const struct mempool *pool, struct mslab *slab,
                              size_t *free_count)
{
	size_t rest = pool->objcount % 64;

	if (rest != 0 && slab->free[pool->words - 1] >> rest != 0)
		return "left";
	*free_count = mslab_count_free(pool, slab);
	if (slab->state != MSLAB_CURRENT &&
	    mslab_live(pool, slab) + *free_count != pool->objcount)
		return "left";
	if (slab->state != MSLAB_CURRENT && *free_count == pool->objcount)
		return "empty";
	return NULL;
}

static const char *check_slab(const struct mempool *pool, struct mslab *slab,
                              struct sums *sums)
{
	const char *broken;
	size_t free_count;

	if (!is_slab(&slab->slab) || slab->pool != pool ||
	    slab->slab.order != pool->slab_order ||
	    slab->key != mslab_key(pool, slab) || slab->state < MSLAB_CURRENT ||
	    slab->state > MSLAB_WARM)
		return "header";
	broken = check_bits(pool, slab, &free_count);
	if (broken != NULL)
		return broken;
	sums->slabs += slab->slab.size;
	sums->live += pool->objcount - free_count;
	sums->cold += slab->state == MSLAB_COLD;
	sums->warm += slab->state == MSLAB_WARM;
	sums->current += slab->state == MSLAB_CURRENT;
	return NULL;
}

/* True when `below` may hang there: higher, and by its path, of which the
 * digits above agree with those of the slab that it hangs from. */
static bool is_below(const struct mempool *pool, const struct mslab *slab,
                     const struct mslab *below, size_t depth, size_t side)
{
	uintptr_t path = mslab_path(pool, below);
	size_t bits = sizeof(path) * CHAR_BIT;

	if (below <= slab || depth >= bits || below->state != MSLAB_WARM ||
	    mslab_digit(path << depth) != side)
		return false;
	return depth == 0 ||
	       (path ^ mslab_path(pool, slab)) >> (bits - depth) == 0;
}

/* The paths differ, so there are no more levels than an address has bits. */
static const char *check_warm(const struct mempool *pool,
                              const struct mslab *slab, size_t depth,
                              struct sums *sums)
{
	for (size_t side = 0; side < 2; side++) {
		const struct mslab *below = slab->link.warm[side];
		const char *broken;

		if (below == NULL)
			continue;
		if (!is_below(pool, slab, below, depth, side))
			return "warm";
		broken = check_warm(pool, below, depth + 1, sums);
		if (broken != NULL)
			return broken;
	}
	sums->warm--;
	return NULL;
}

static const char *check_lists(const struct mempool *pool, struct sums *sums)
{
	const char *broken = NULL;
	struct rlist *item;

	if (sums->current != (pool->current != NULL) ||
	    (pool->current != NULL && pool->current->state != MSLAB_CURRENT))
		return "header";
	if (pool->warm != NULL)
		broken = pool->warm->state == MSLAB_WARM
		                 ? check_warm(pool, pool->warm, 0, sums)
		                 : "warm";
	if (broken != NULL)
		return broken;
	if (sums->warm != 0)
		return "warm";
	rlist_foreach (item, &pool->cold) {
		struct mslab *slab = rlist_entry(item, struct mslab, link.cold);

		if (slab->state != MSLAB_COLD || sums->cold-- == 0)
			return "cold";
	}
	return sums->cold == 0 ? NULL : "cold";
}

const char *mempool_check(const struct mempool *pool)
{
	struct sums sums = {0, 0, 0, 0, 0};
	const char *broken = check_geometry(pool);
	struct slab *slab;

	if (broken == NULL)
		broken = check_cursor(pool);
	if (broken != NULL)
		return broken;
	rlist_foreach_entry (slab, &pool->slabs.slabs, next_in_list) {
		broken = check_slab(pool, to_mslab(slab), &sums);
		if (broken != NULL)
			return broken;
	}
	broken = check_lists(pool, &sums);
	if (broken != NULL)
		return broken;
	if (sums.slabs != pool->slabs.stats.total)
		return "slabs";
	return sums.live == mempool_count(pool) ? NULL : "live";
}
