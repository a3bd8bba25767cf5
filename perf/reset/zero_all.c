/* SPDX-License-Identifier: BSD-2-Clause */
/* zero_all - walks and rewinds every slab; looks at the oldest only for reuse.
 */
#include "chain.h"

#define SELF struct chain

/* The oldest slab moves to the head if it is unused and large enough. */
static void *slow(struct chain *chain, size_t size)
{
	if (!rlist_empty(&chain->slabs)) {
		struct chain_slab *tail = rlist_last_entry(
			&chain->slabs, struct chain_slab, slab.next_in_list);

		if (tail->used == 0 && chain_room(tail) >= size) {
			rlist_move_entry(&chain->slabs, tail,
			                 slab.next_in_list);
			return chain_take(chain, tail, size);
		}
	}
	return chain_add(chain, size);
}

static inline void *take(struct chain *chain, size_t size)
{
	return chain_alloc(chain, size, slow);
}

static void zero_all_reset(void *self)
{
	chain_rewind_all(self);
}

static inline void end(struct chain *chain)
{
	chain_end(chain, chain_rewind_all);
}

#include "loops.h"

const struct strategy strategy_zero_all = {
	.name = "zero_all",
	.keeps_all = true,
	.reset = zero_all_reset,
	STRATEGY_CHAIN,
	STRATEGY_LOOPS,
};
