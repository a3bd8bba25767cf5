/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_MEMPOOL_ARMS_H
#define PERF_MEMPOOL_ARMS_H
/*
 * mempool_arms - the pools that the mempool group compares, and their loops.
 *
 *   floor      the loop with nothing in place of the calls
 *   small      mempool.h as it is
 *   unchecked  the same slabs, the fast paths without their checks
 *   list       a linked list through free objects: no slabs, no checks
 *   eighth     a list in each slab, the lowest slab with an eighth free first
 *   malloc, jemalloc, mimalloc
 *
 * Threads: the main thread. Errors: exits 1 without memory; arms that the
 * machine does not have are left out.
 */
#include "foreign.h"
#include "mempool_eighth.h"
#include "stage.h"

#include <small/mempool.h>

enum {
	POOL_BATCH = 1024, /* objects of a batch */
	POOL_ARMS = 8,
};

/* The loops; an operation is one alloc and one free. */
enum pool_loop {
	POOL_PAIR,   /* alloc, free */
	POOL_TWO,    /* alloc, alloc, free, free */
	POOL_LIFO,   /* a batch, freed from its end */
	POOL_RANDOM, /* a batch, freed in a random order */
	POOL_LOOPS,
};

struct pool_node {
	struct pool_node *next;
};

/* What an arm stands on; each uses its part. */
struct pool_bench {
	const struct pool_arm *arm;
	size_t size;
	size_t held_count;
	void **held; /* objects that are live around the loop */
	struct stage stage;
	struct mempool pool;
	struct eighth eighth;
	struct pool_node *list;
	char *block; /* the list's objects */
	const struct perf_allocator *foreign;
};

struct pool_arm {
	const char *name;
	bool is_gate;
	int (*create)(struct pool_bench *b); /* -1: not on this machine */
	void (*destroy)(struct pool_bench *b);
	void *(*alloc)(struct pool_bench *b);
	void (*release)(struct pool_bench *b, void *ptr);
	/* Objects in a slab. */
	size_t (*capacity)(const struct pool_bench *b);
	void (*loops[POOL_LOOPS])(struct perf_arm *arm, uint64_t ops);
};

extern const struct pool_arm pool_arms[POOL_ARMS];

/* Sets the order of POOL_RANDOM from perf.seed. */
void pool_set_order(void);

void bench_fragmentation(void);

#endif /* PERF_MEMPOOL_ARMS_H */
