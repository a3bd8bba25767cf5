/* SPDX-License-Identifier: BSD-2-Clause */
/* freelist_load - sizes, operations, and a piece to run them in. */
#include "freelist_load.h"

#include <stdlib.h>
#include <string.h>

static size_t lua_size(uint64_t *random)
{
	size_t percent = perf_uniform(random, 0, 99);

	if (percent < 40)
		return perf_uniform(random, 24, 40);
	if (percent < 75)
		return perf_uniform(random, 41, 64);
	if (percent < 90)
		return perf_uniform(random, 65, 128);
	if (percent < 99)
		return perf_uniform(random, 129, 1024);
	return (size_t)64 << perf_uniform(random, 0, 7);
}

size_t load_size(enum load_mix mix, uint64_t *random)
{
	return mix == LOAD_UNIFORM ? perf_uniform(random, 16, 1024)
	                           : lua_size(random);
}

struct load *load_create(enum load_mix mix, uint64_t seed)
{
	struct load *l = perf_malloc(sizeof(*l));
	size_t chain[LOAD_SLOTS] = {0};

	memset(l, 0, sizeof(*l));
	l->mix = mix;
	l->random = seed;
	for (size_t i = 0; i < LOAD_OPS; i++) {
		struct load_op *op = &l->op[i];
		size_t slot = perf_uniform(&l->random, 0, LOAD_SLOTS - 1);

		op->slot = (uint16_t)slot;
		if (chain[slot] != 0 && chain[slot] < 8192) {
			chain[slot] *= 2;
			op->is_resize = 1;
			op->size = (uint32_t)chain[slot];
			continue;
		}
		chain[slot] = 0;
		op->size = (uint32_t)load_size(mix, &l->random);
		if (mix == LOAD_LUA && perf_uniform(&l->random, 0, 99) == 0) {
			chain[slot] = 64;
			op->size = 64;
		}
	}
	return l;
}

void load_open(struct load_piece *p, const struct freelist_opts *opts)
{
	quota_init(&p->quota, QUOTA_MAX);
	if (slab_arena_create(&p->arena, &p->quota, 0, (size_t)1 << 20,
	                      SLAB_ARENA_PRIVATE) != 0)
		exit(1);
	slab_cache_create(&p->cache, &p->arena);
	region_create(&p->region, &p->cache);
	p->f = freelist_create(&p->region, opts);
	if (p->f == NULL)
		exit(1);
}

void load_close(struct load_piece *p)
{
	region_destroy(&p->region);
	slab_cache_destroy(&p->cache);
	slab_arena_destroy(&p->arena);
}

int load_fill(struct load *l, struct freelist *f)
{
	for (size_t i = 0; i < LOAD_SLOTS; i++) {
		struct load_block *b = &l->block[i];

		b->size = load_size(l->mix, &l->random);
		b->ptr = freelist_alloc(f, b->size);
		if (b->ptr == NULL)
			return -1;
	}
	return 0;
}
