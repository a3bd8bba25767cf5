/* SPDX-License-Identifier: BSD-2-Clause */
/* mempool_eighth - hot slabs are a treap by address. */
#include "mempool_eighth.h"
#include "perf.h"

/* Parts the tree at `slab`: lower ones, higher ones. */
static void split(struct eighth_slab *root, struct eighth_slab *slab,
                  struct eighth_slab **lower, struct eighth_slab **higher)
{
	while (root != NULL) {
		if (root < slab) {
			*lower = root;
			lower = &root->right;
			root = root->right;
		} else {
			*higher = root;
			higher = &root->left;
			root = root->left;
		}
	}
	*lower = *higher = NULL;
}

static void hot_add(struct eighth *pool, struct eighth_slab *slab)
{
	struct eighth_slab **link = &pool->root;

	slab->priority = perf_random(&pool->seed);
	while (*link != NULL && (*link)->priority > slab->priority)
		link = slab < *link ? &(*link)->left : &(*link)->right;
	split(*link, slab, &slab->left, &slab->right);
	*link = slab;
	slab->is_hot = true;
	if (pool->first == NULL || slab < pool->first)
		pool->first = slab;
}

static void hot_del(struct eighth *pool, struct eighth_slab *slab)
{
	struct eighth_slab **link = &pool->root, *a, *b;

	while (*link != slab)
		link = slab < *link ? &(*link)->left : &(*link)->right;
	a = slab->left;
	b = slab->right;
	while (a != NULL && b != NULL) {
		if (a->priority > b->priority) {
			*link = a;
			link = &a->right;
			a = a->right;
		} else {
			*link = b;
			link = &b->left;
			b = b->left;
		}
	}
	*link = a != NULL ? a : b;
	slab->is_hot = false;
	if (pool->first != slab)
		return;
	pool->first = pool->root;
	while (pool->first != NULL && pool->first->left != NULL)
		pool->first = pool->first->left;
}

void eighth_create(struct eighth *pool, struct slab_cache *cache,
                   size_t objsize, uint8_t order)
{
	size_t size = slab_order_size(cache, order);

	memset(pool, 0, sizeof(*pool));
	pool->cache = cache;
	pool->objsize = objsize;
	pool->order = order;
	pool->objcount = (size - sizeof(struct eighth_slab)) / objsize;
	pool->offset = size - pool->objcount * objsize;
	pool->mask = ~(uintptr_t)(size - 1);
	pool->seed = 1;
	rlist_create(&pool->cold);
	rlist_create(&pool->all);
}

static void slab_del(struct eighth *pool, struct eighth_slab *slab)
{
	rlist_del(&slab->slab.next_in_list);
	pool->slabs--;
	slab_put_with_order(pool->cache, &slab->slab);
}

void eighth_destroy(struct eighth *pool)
{
	while (!rlist_empty(&pool->all))
		slab_del(pool, rlist_first_entry(&pool->all, struct eighth_slab,
		                                 slab.next_in_list));
}

static struct eighth_slab *slab_add(struct eighth *pool)
{
	struct eighth_slab *slab =
		(struct eighth_slab *)(void *)slab_get_with_order(pool->cache,
	                                                          pool->order);

	if (slab == NULL)
		return NULL;
	rlist_add(&pool->all, &slab->slab.next_in_list);
	rlist_create(&slab->in_cold);
	slab->list = NULL;
	slab->fresh = (char *)slab + pool->offset;
	slab->used = 0;
	slab->is_hot = false;
	pool->slabs++;
	return slab;
}

/* The slab to take from when no hot one is left; it is hot from then on. */
static struct eighth_slab *next_slab(struct eighth *pool)
{
	struct eighth_slab *slab = pool->spare;

	if (slab != NULL)
		pool->spare = NULL;
	else
		slab = slab_add(pool);
	if (slab == NULL && !rlist_empty(&pool->cold))
		slab = rlist_shift_entry(&pool->cold, struct eighth_slab,
		                         in_cold);
	if (slab != NULL)
		hot_add(pool, slab);
	return slab;
}

void *eighth_alloc(struct eighth *pool)
{
	struct eighth_slab *slab = pool->first;
	void *ptr;

	if (slab == NULL && (slab = next_slab(pool)) == NULL)
		return NULL;
	ptr = slab->list;
	if (ptr != NULL) {
		memcpy(&slab->list, ptr, sizeof(slab->list));
	} else {
		ptr = slab->fresh;
		slab->fresh += pool->objsize;
	}
	if (++slab->used == pool->objcount)
		hot_del(pool, slab);
	return ptr;
}

static void emptied(struct eighth *pool, struct eighth_slab *slab)
{
	if (slab->is_hot)
		hot_del(pool, slab);
	else
		rlist_del(&slab->in_cold);
	if (pool->spare == NULL) {
		pool->spare = slab;
	} else if (slab < pool->spare) {
		slab_del(pool, pool->spare);
		pool->spare = slab;
	} else {
		slab_del(pool, slab);
	}
}

void eighth_free(struct eighth *pool, void *ptr)
{
	struct eighth_slab *slab =
		(struct eighth_slab *)((uintptr_t)ptr & pool->mask);
	size_t unused;

	memcpy(ptr, &slab->list, sizeof(slab->list));
	slab->list = ptr;
	slab->used--;
	unused = pool->objcount - slab->used;
	if (slab->used == 0) {
		emptied(pool, slab);
	} else if (unused >= pool->objcount >> 3) {
		if (slab->is_hot)
			return;
		rlist_del(&slab->in_cold);
		hot_add(pool, slab);
	} else if (unused == 1) {
		rlist_add(&pool->cold, &slab->in_cold);
	}
}
