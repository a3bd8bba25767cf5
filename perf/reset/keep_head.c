/* SPDX-License-Identifier: BSD-2-Clause */
/* keep_head - rewinds the newest slab only; what is in older ones stays used.
 */
#include "chain.h"

#define SELF struct chain

static inline void *take(struct chain *chain, size_t size)
{
	return chain_alloc(chain, size, chain_add);
}

static void *keep_head_alloc(void *self, size_t size)
{
	return take(self, size);
}

static void keep_head_reset(void *self)
{
	chain_rewind_head(self);
}

/* A server that resets by hand frees what has grown past the rule. */
static inline void end(struct chain *chain)
{
	if (chain->used > STRATEGY_RULE)
		chain_free(chain);
	else
		chain_rewind_head(chain);
}

static void keep_head_end(void *self)
{
	end(self);
}

#include "loops.h"

const struct strategy strategy_keep_head = {
	.name = "keep_head",
	.keeps_all = true,
	.has_cache = true,
	.create = chain_create,
	.alloc = keep_head_alloc,
	.reset = keep_head_reset,
	.end = keep_head_end,
	.used = chain_used,
	.held = chain_held,
	.slabs = chain_count,
	.destroy = chain_destroy,
	.run = run,
	.time = run_timed,
	.time_pieces = run_pieces,
};
