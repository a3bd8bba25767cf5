/* SPDX-License-Identifier: BSD-2-Clause */
/* policy_128k - keep_head up to 128 KiB used, free_all above. */
#include "chain.h"

#define SELF struct chain

/* A server that resets by hand frees what has grown past the rule. */
static inline void end(struct chain *chain)
{
	if (chain->used > STRATEGY_RULE)
		chain_free(chain);
	else
		chain_rewind_head(chain);
}

static inline void *take(struct chain *chain, size_t size)
{
	return chain_alloc(chain, size, chain_add);
}

static void *policy_128k_alloc(void *self, size_t size)
{
	return take(self, size);
}

static void policy_128k_reset(void *self)
{
	end(self);
}

static void policy_128k_end(void *self)
{
	end(self);
}

#include "loops.h"

const struct strategy strategy_policy_128k = {
	.name = "policy_128k",
	.keeps_all = true,
	.has_cache = true,
	.create = chain_create,
	.alloc = policy_128k_alloc,
	.reset = policy_128k_reset,
	.end = policy_128k_end,
	.used = chain_used,
	.held = chain_held,
	.slabs = chain_count,
	.destroy = chain_destroy,
	.run = run,
	.time = run_timed,
	.time_pieces = run_pieces,
};
