/* SPDX-License-Identifier: BSD-2-Clause */
/* policy_128k - keep_head up to 128 KiB used, free_all above. */
#include "chain.h"

#define SELF struct chain

static inline void end(struct chain *chain)
{
	chain_end(chain, chain_rewind_head);
}

static inline void *take(struct chain *chain, size_t size)
{
	return chain_alloc(chain, size, chain_add);
}

static void policy_128k_reset(void *self)
{
	end(self);
}

#include "loops.h"

const struct strategy strategy_policy_128k = {
	.name = "policy_128k",
	.keeps_all = true,
	.reset = policy_128k_reset,
	STRATEGY_CHAIN,
	STRATEGY_LOOPS,
};
