/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_CHAIN_H
#define PERF_CHAIN_H
/*
 * chain - what the reference strategies share: a list of slabs, newest first,
 * each with a count of its used bytes. An allocation comes from the newest
 * slab or goes to the strategy's slow path.
 *
 * Threads: one. Errors: NULL from the slab cache is passed on.
 */
#include "strategy.h"

/* 56 bytes, so that the borders of R3 lie where the report had them. */
struct chain_slab {
	struct slab slab;
	size_t used; /* bytes after this header */
};

struct chain {
	struct rlist slabs; /* by slab.next_in_list, newest first */
	struct slab_cache *cache;
	size_t used;  /* sum over the slabs */
	size_t held;  /* bytes of the slabs */
	size_t count; /* slabs */
};

typedef void *(*chain_slow_f)(struct chain *chain, size_t size);

void *chain_create(const struct strategy *s, struct slab_cache *cache);
void chain_destroy(void *self);
size_t chain_used(const void *self);
size_t chain_held(const void *self);
size_t chain_count(const void *self);

/* A new slab at the head that the whole request goes to. */
void *chain_add(struct chain *chain, size_t size);
/* Gives one slab back to the cache. */
void chain_release(struct chain *chain, struct chain_slab *slab);
/* Gives all slabs back. */
void chain_free(struct chain *chain);
/* Forgets what is in the newest slab. */
void chain_rewind_head(struct chain *chain);
/* Forgets what is in every slab, walking all. */
void chain_rewind_all(struct chain *chain);

/* Bytes after the header that are not used. */
static inline size_t chain_room(const struct chain_slab *slab)
{
	return slab->slab.size - sizeof(*slab) - slab->used;
}

static inline void *chain_take(struct chain *chain, struct chain_slab *slab,
                               size_t size)
{
	void *ptr = (char *)(slab + 1) + slab->used;

	slab->used += size;
	chain->used += size;
	return ptr;
}

/* A server that resets by hand frees what has grown past the rule. */
static inline void chain_end(struct chain *chain, void (*reset)(struct chain *))
{
	if (chain->used > STRATEGY_RULE)
		chain_free(chain);
	else
		reset(chain);
}

/* What all of them fill in of a struct strategy. */
/* clang-format off */
#define STRATEGY_CHAIN               \
	.has_cache = true,           \
	.create = chain_create,      \
	.used = chain_used,          \
	.held = chain_held,          \
	.slabs = chain_count,        \
	.destroy = chain_destroy
/* clang-format on */

static inline void *chain_alloc(struct chain *chain, size_t size,
                                chain_slow_f slow)
{
	if (!rlist_empty(&chain->slabs)) {
		struct chain_slab *slab = rlist_first_entry(
			&chain->slabs, struct chain_slab, slab.next_in_list);

		if (size <= chain_room(slab))
			return chain_take(chain, slab, size);
	}
	return slow(chain, size);
}

#endif /* PERF_CHAIN_H */
