/* SPDX-License-Identifier: BSD-2-Clause */
/* zero_all_release - zero_all that gives oldest slabs back until one fits. */
#include "chain.h"

#define SELF struct chain

/* Unused slabs at the tail that are too small go, until one fits. */
static void *slow(struct chain *chain, size_t size)
{
	while (!rlist_empty(&chain->slabs)) {
		struct chain_slab *tail = rlist_last_entry(
			&chain->slabs, struct chain_slab, slab.next_in_list);

		if (tail->used != 0)
			break;
		if (chain_room(tail) >= size) {
			rlist_move_entry(&chain->slabs, tail,
			                 slab.next_in_list);
			return chain_take(chain, tail, size);
		}
		chain_release(chain, tail);
	}
	return chain_add(chain, size);
}

static inline void *take(struct chain *chain, size_t size)
{
	return chain_alloc(chain, size, slow);
}

static void *zero_all_release_alloc(void *self, size_t size)
{
	return take(self, size);
}

static void zero_all_release_reset(void *self)
{
	chain_rewind_all(self);
}

/* A server that resets by hand frees what has grown past the rule. */
static inline void end(struct chain *chain)
{
	if (chain->used > STRATEGY_RULE)
		chain_free(chain);
	else
		chain_rewind_all(chain);
}

static void zero_all_release_end(void *self)
{
	end(self);
}

#include "loops.h"

const struct strategy strategy_zero_all_release = {
	.name = "zero_all_release",
	.keeps_all = true,
	.has_cache = true,
	.create = chain_create,
	.alloc = zero_all_release_alloc,
	.reset = zero_all_release_reset,
	.end = zero_all_release_end,
	.used = chain_used,
	.held = chain_held,
	.slabs = chain_count,
	.destroy = chain_destroy,
	.run = run,
	.time = run_timed,
	.time_pieces = run_pieces,
};
