/* SPDX-License-Identifier: BSD-2-Clause */
/* keep_head - rewinds the newest slab only; what is in older ones stays used.
 */
#include "chain.h"

#define SELF struct chain

static inline void *take(struct chain *chain, size_t size)
{
	return chain_alloc(chain, size, chain_add);
}

static void keep_head_reset(void *self)
{
	chain_rewind_head(self);
}

static inline void end(struct chain *chain)
{
	chain_end(chain, chain_rewind_head);
}

#include "loops.h"

const struct strategy strategy_keep_head = {
	.name = "keep_head",
	.keeps_all = true,
	.reset = keep_head_reset,
	STRATEGY_CHAIN,
	STRATEGY_LOOPS,
};
