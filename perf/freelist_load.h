/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_FREELIST_LOAD_H
#define PERF_FREELIST_LOAD_H
/*
 * freelist_load - the workloads of the freelist's benches, as arrays that are
 * made before anything is measured.
 *
 * uniform: a step replaces a random one of LOAD_SLOTS blocks by one of 16 to
 *          1024 bytes.
 * lua:     sizes as an interpreter asks for them; and one step in a hundred
 *          starts a chain: that block is doubled each time it is drawn, from
 *          64 bytes to 8 KiB, and then replaced.
 */
#include "perf.h"

#include <small/freelist.h>

enum load_mix {
	LOAD_UNIFORM,
	LOAD_LUA,
};

enum {
	LOAD_SLOTS = 1024,
	LOAD_OPS = 1 << 18, /* then they repeat */
};

struct load_op {
	uint16_t slot;
	uint16_t is_resize;
	uint32_t size;
};

struct load_block {
	void *ptr;
	size_t size;
};

struct load {
	enum load_mix mix;
	uint64_t random;
	size_t next; /* operation */
	struct load_block block[LOAD_SLOTS];
	struct load_op op[LOAD_OPS];
};

/* A size of the mix. */
size_t load_size(enum load_mix mix, uint64_t *random);
/* Makes the operations; all blocks are empty. */
struct load *load_create(enum load_mix mix, uint64_t seed);

/* A piece with a region and all below it. */
struct load_piece {
	struct quota quota;
	struct slab_arena arena;
	struct slab_cache cache;
	struct region region;
	struct freelist *f;
};

void load_open(struct load_piece *p, const struct freelist_opts *opts);
void load_close(struct load_piece *p);
/* Fills all blocks; -1 when one is refused. */
int load_fill(struct load *l, struct freelist *f);

/* The groups of benches, by file. */
void bench_density(void);
void bench_zero_failure(void);
void bench_steps(void);
void bench_latency(void);

#endif /* PERF_FREELIST_LOAD_H */
