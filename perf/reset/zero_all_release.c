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

static void zero_all_release_reset(void *self)
{
	chain_rewind_all(self);
}

static inline void end(struct chain *chain)
{
	chain_end(chain, chain_rewind_all);
}

#include "loops.h"

const struct strategy strategy_zero_all_release = {
	.name = "zero_all_release",
	.keeps_all = true,
	.reset = zero_all_release_reset,
	STRATEGY_CHAIN,
	STRATEGY_LOOPS,
};
