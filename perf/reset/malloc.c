/* SPDX-License-Identifier: BSD-2-Clause */
/* malloc - one malloc a piece, all freed at the end: the C library's, and
 * jemalloc and mimalloc where the machine has them. */
#include "../foreign.h"
#include "strategy.h"

struct pieces {
	const struct perf_allocator *allocator;
	void **ptr; /* what was allocated since the last reset */
	size_t count;
	size_t max;  /* places of ptr */
	size_t used; /* bytes asked for */
};

static void *pieces_create(const struct strategy *s, struct slab_cache *cache)
{
	const struct perf_allocator *allocator = perf_foreign(s->name);
	struct pieces *p;

	(void)cache;
	if (allocator == NULL)
		return NULL;
	p = perf_malloc(sizeof(*p));
	p->allocator = allocator;
	p->max = 16;
	p->ptr = perf_malloc(p->max * sizeof(*p->ptr));
	p->count = p->used = 0;
	return p;
}

static void pieces_grow(struct pieces *p)
{
	p->max *= 2;
	p->ptr = realloc(p->ptr, p->max * sizeof(*p->ptr));
	if (p->ptr == NULL)
		strategy_failed();
}

static inline void *take(struct pieces *p, size_t size)
{
	if (p->count == p->max)
		pieces_grow(p);
	p->used += size;
	return p->ptr[p->count++] = p->allocator->alloc(size);
}

static inline void end(struct pieces *p)
{
	for (size_t i = 0; i < p->count; i++)
		p->allocator->release(p->ptr[i]);
	p->count = p->used = 0;
}

static size_t pieces_used(const void *self)
{
	return ((const struct pieces *)self)->used;
}

static size_t pieces_count(const void *self)
{
	return ((const struct pieces *)self)->count;
}

static void pieces_destroy(void *self)
{
	struct pieces *p = self;

	end(p);
	free(p->ptr);
	free(p);
}

#define SELF struct pieces
#include "loops.h"

/* held: what the program still refers to; the allocator's own reserve shows
 * in rss_kib. */
/* clang-format off */
#define STRATEGY_PIECES(id)                       \
	const struct strategy strategy_##id = {   \
		.name = #id,                      \
		.create = pieces_create,          \
		.reset = one_end,                 \
		.used = pieces_used,              \
		.held = pieces_used,              \
		.slabs = pieces_count,            \
		.destroy = pieces_destroy,        \
		STRATEGY_LOOPS,                   \
	}
/* clang-format on */

STRATEGY_PIECES(malloc);
STRATEGY_PIECES(jemalloc);
STRATEGY_PIECES(mimalloc);
