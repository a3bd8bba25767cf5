/* SPDX-License-Identifier: BSD-2-Clause */
/* free_all - gives every slab back to the cache at each reset. */
#include "chain.h"

#define SELF struct chain

static inline void *take(struct chain *chain, size_t size)
{
	return chain_alloc(chain, size, chain_add);
}

static void free_all_reset(void *self)
{
	chain_free(self);
}

static inline void end(struct chain *chain)
{
	chain_free(chain);
}

#include "loops.h"

const struct strategy strategy_free_all = {
	.name = "free_all",
	.reset = free_all_reset,
	STRATEGY_CHAIN,
	STRATEGY_LOOPS,
};
