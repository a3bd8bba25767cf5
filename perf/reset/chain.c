/* SPDX-License-Identifier: BSD-2-Clause */
/* chain - the list of slabs under the reference strategies. */
#include "chain.h"

void *chain_create(const struct strategy *s, struct slab_cache *cache)
{
	struct chain *chain = perf_malloc(sizeof(*chain));

	(void)s;
	rlist_create(&chain->slabs);
	chain->cache = cache;
	chain->used = chain->held = chain->count = 0;
	return chain;
}

void chain_destroy(void *self)
{
	chain_free(self);
	free(self);
}

size_t chain_used(const void *self)
{
	return ((const struct chain *)self)->used;
}

size_t chain_held(const void *self)
{
	return ((const struct chain *)self)->held;
}

size_t chain_count(const void *self)
{
	return ((const struct chain *)self)->count;
}

void *chain_add(struct chain *chain, size_t size)
{
	size_t more = sizeof(struct chain_slab) - sizeof(struct slab);
	struct slab *slab;
	struct chain_slab *added;

	if (small_add(size, more, &more))
		return NULL;
	slab = slab_get(chain->cache, more);
	if (slab == NULL)
		return NULL;
	added = (struct chain_slab *)slab;
	added->used = 0;
	rlist_add_entry(&chain->slabs, added, slab.next_in_list);
	chain->held += slab->size;
	chain->count++;
	return chain_take(chain, added, size);
}

void chain_release(struct chain *chain, struct chain_slab *slab)
{
	rlist_del_entry(slab, slab.next_in_list);
	chain->used -= slab->used;
	chain->held -= slab->slab.size;
	chain->count--;
	slab_put(chain->cache, &slab->slab);
}

void chain_free(struct chain *chain)
{
	struct chain_slab *slab, *next;

	rlist_foreach_entry_safe (slab, &chain->slabs, slab.next_in_list, next)
		slab_put(chain->cache, &slab->slab);
	rlist_create(&chain->slabs);
	chain->used = chain->held = chain->count = 0;
}

void chain_rewind_head(struct chain *chain)
{
	struct chain_slab *slab;

	if (rlist_empty(&chain->slabs))
		return;
	slab = rlist_first_entry(&chain->slabs, struct chain_slab,
	                         slab.next_in_list);
	chain->used -= slab->used;
	slab->used = 0;
}

void chain_rewind_all(struct chain *chain)
{
	struct chain_slab *slab;

	rlist_foreach_entry (slab, &chain->slabs, slab.next_in_list)
		slab->used = 0;
	chain->used = 0;
}
