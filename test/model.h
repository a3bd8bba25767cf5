/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_MODEL_H
#define TEST_MODEL_H
/*
 * model - regions and slabs over one cache, and beside each region a plain
 * array of what it must hold: pointer, size, fill. The random test, the
 * exhaustive one and the fuzzer drive the same steps.
 *
 * Threads: one.
 * Errors:  a broken promise prints its line and aborts.
 */
#include "need.h"

#include <small/region.h>

#define MODEL_BLOCKS    512
#define MODEL_SVPS      4
#define MODEL_GROWABLES 3
#define MODEL_REGIONS   2
#define MODEL_SLABS     12

struct model_block {
	unsigned char *ptr;
	size_t size;
	size_t end; /* used() right after it was allocated */
	unsigned char fill;
};

struct model_growable {
	unsigned char *ptr; /* NULL when there is none */
	size_t size;
	size_t max;
	unsigned char fill;
};

struct model {
	struct region region;
	struct model_block blocks[MODEL_BLOCKS]; /* oldest first */
	size_t count;
	size_t used; /* what used() has to be */
	struct model_growable growables[MODEL_GROWABLES];
	struct region_svp svps[MODEL_SVPS];
	bool svp_live[MODEL_SVPS];
	bool callbacks;
	size_t seen_alloc;    /* bytes told to on_alloc since the last step */
	size_t seen_truncate; /* the last value told to on_truncate */
	size_t truncates;     /* calls of it since the last step */
	unsigned char fill;   /* the last one given out */
};

struct world {
	struct quota quota;
	struct slab_arena arena;
	struct slab_cache cache;
	struct model models[MODEL_REGIONS];
	struct slab *slabs[MODEL_SLABS]; /* taken beside the regions */
};

enum model_op {
	OP_ALLOC,           /* size */
	OP_ALIGNED,         /* size, log2 of the alignment */
	OP_RESERVE,         /* size, bytes of it to allocate */
	OP_ALIGNED_RESERVE, /* size, log2 of the alignment; allocates half */
	OP_JOIN,            /* bytes, cut to used() */
	OP_TRUNCATE,        /* blocks to keep, modulo their number + 1 */
	OP_SVP,             /* which */
	OP_ROLLBACK,        /* which */
	OP_RESET,
	OP_FREE,
	OP_FREE_AFTER, /* limit */
	OP_RETAIN,     /* bytes */
	OP_CALLBACKS,  /* on when odd */
	OP_GROWABLE,   /* size, which: creates, resizes; 0 drops */
	OP_SLAB_GET,   /* size, which */
	OP_SLAB_PUT,   /* -, which */
	OP_CACHE_TRIM,
	OP_ARENA_TRIM,
	OP_ARENA_RETAIN, /* bytes */
	OP_GARBAGE_CAP,  /* bytes */
	OP_COUNT
};

void world_create(struct world *world, size_t total, size_t slab_size);
/* One step on models[who] or on what is below it; n and m as listed above.
 * False when memory was refused: then nothing has changed. */
bool world_step(struct world *world, enum model_op op, size_t who, size_t n,
                size_t m);
/* Every invariant and every sum. */
void world_check(struct world *world);
/* Every byte that must have been kept. */
void world_verify(struct world *world);
/* Puts all back and starts again on the same arena, with an empty one. */
void world_restart(struct world *world);
/* Puts all back; the quota must be at zero. */
void world_destroy(struct world *world);

#endif /* TEST_MODEL_H */
