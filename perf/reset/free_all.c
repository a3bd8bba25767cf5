/* SPDX-License-Identifier: BSD-2-Clause */
/* free_all - gives every slab back to the cache at each reset. */
#include "chain.h"

#define SELF struct chain

static inline void *take(struct chain *chain, size_t size)
{
	return chain_alloc(chain, size, chain_add);
}

static void *free_all_alloc(void *self, size_t size)
{
	return take(self, size);
}

static void free_all_reset(void *self)
{
	chain_free(self);
}

static inline void end(struct chain *chain)
{
	chain_free(chain);
}

static void free_all_end(void *self)
{
	end(self);
}

#include "loops.h"

const struct strategy strategy_free_all = {
	.name = "free_all",
	.has_cache = true,
	.create = chain_create,
	.alloc = free_all_alloc,
	.reset = free_all_reset,
	.end = free_all_end,
	.used = chain_used,
	.held = chain_held,
	.slabs = chain_count,
	.destroy = chain_destroy,
	.run = run,
	.time = run_timed,
	.time_pieces = run_pieces,
};
