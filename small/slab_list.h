/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_SLAB_LIST_H
#define SMALL_SLAB_LIST_H
/*
 * slab_list - the header that every slab starts with, and a list of slabs
 * that knows how many bytes it holds.
 *
 * Threads: the list's owner. Cost: O(1). Errors: none.
 */
#include <small/rlist.h>
#include <small/util.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts each slab; the payload follows. 48 bytes on 64-bit machines. */
struct slab {
	struct rlist next_in_list;  /* whatever list the slab's user keeps */
	struct rlist next_in_cache; /* arena and large slabs of a cache */
	size_t size;                /* bytes, header included */
	uint32_t magic;             /* slab_magic_of(its cache) while in use */
	uint8_t order;              /* of the buddy system; above order_max for
	                               slabs larger than the arena's */
	uint8_t size_lb;            /* log2(size) - 1 of a buddy slab, 0 else */
	uint8_t reserve;            /* growable: code of its address range */
	uint8_t tag;                /* free for the slab's user, 0 at first */
};

/* Of a slab in use; the highest byte tells its cache from a neighbour's. */
enum { slab_magic = 0x5ab10c, slab_magic_mask = 0xffffff };

struct small_stats {
	size_t used;
	size_t total;
};

struct slab_list {
	struct rlist slabs;
	struct small_stats stats;
};

static inline void small_stats_reset(struct small_stats *stats)
{
	stats->used = 0;
	stats->total = 0;
}

static inline void slab_list_create(struct slab_list *list)
{
	rlist_create(&list->slabs);
	small_stats_reset(&list->stats);
}

/* member is next_in_cache or next_in_list; only stats.total follows. */
#define slab_list_add(list, slab, member)          \
 do {                                              \
  rlist_add_entry(&(list)->slabs, (slab), member); \
  (list)->stats.total += (slab)->size;             \
 } while (0)
#define slab_list_del(list, slab, member) \
 do {                                     \
  rlist_del_entry((slab), member);        \
  (list)->stats.total -= (slab)->size;    \
 } while (0)

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_SLAB_LIST_H */
