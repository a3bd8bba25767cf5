/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_MEMPOOL_EIGHTH_H
#define PERF_MEMPOOL_EIGHTH_H
/*
 * mempool_eighth - a pool that follows the rule of tarantool's mempool, for
 * comparison: each slab has a linked list of its free objects; an alloc takes
 * from the lowest-address slab with at least an eighth free ("hot", an
 * ordered tree) until that is full, then from the spare, then from a new
 * slab, then from any slab with a free object. A slab whose last object is
 * freed becomes the spare, or goes back if there is one; of the two the lower
 * one stays. No checks.
 *
 * Threads: one. Errors: NULL.
 */
#include <small/slab_cache.h>

struct eighth_slab {
	struct slab slab;
	struct rlist in_cold;
	struct eighth_slab *left, *right; /* in the tree of hot slabs */
	uint64_t priority;
	void *list;  /* free objects, linked by their first word */
	char *fresh; /* behind the objects that were handed out once */
	size_t used;
	bool is_hot;
};

struct eighth {
	struct slab_cache *cache;
	size_t objsize, objcount, slabs;
	size_t offset;
	uintptr_t mask;
	uint8_t order;
	struct eighth_slab *root, *first; /* hot slabs, and the lowest */
	struct eighth_slab *spare;
	struct rlist cold;
	struct rlist all;
	uint64_t seed;
};

void eighth_create(struct eighth *pool, struct slab_cache *cache,
                   size_t objsize, uint8_t order);
void eighth_destroy(struct eighth *pool);
void *eighth_alloc(struct eighth *pool);
void eighth_free(struct eighth *pool, void *ptr);

#endif /* PERF_MEMPOOL_EIGHTH_H */
