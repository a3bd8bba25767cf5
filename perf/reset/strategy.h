/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_STRATEGY_H
#define PERF_STRATEGY_H
/*
 * strategy - one way to take memory for a request and to drop it at the end,
 * behind one interface. All but the malloc ones stand on the same slab cache.
 *
 * Requests are run by functions that each strategy's file makes from its own
 * inline calls (loops.h), so that no arm pays for a pointer to a
 * function that a program would not have.
 *
 * Threads: one. Errors: alloc returns NULL, the loops abort.
 */
#include "../perf.h"

#include <small/slab_cache.h>

enum {
	/* Pieces of one request: see R3 in README.md. */
	REQUEST_PIECES = 7,
	/* Requests of a load with random sizes, a power of two. */
	LOG_LOADS = 1024,
};

/* Piece sizes of `count` requests, a power of two; they come round. */
struct load {
	uint32_t (*sizes)[REQUEST_PIECES];
	size_t count;
};

/* Above this many bytes servers free by hand instead of resetting. */
#define STRATEGY_RULE ((size_t)128 * 1024)

struct strategy {
	const char *name;
	/* Its reset keeps every slab, so the next request adds to them. */
	bool keeps_all;
	/* Stands on the slab cache, which has quota and garbage to report. */
	bool has_cache;
	/* NULL when this machine lacks what it needs. */
	void *(*create)(const struct strategy *s, struct slab_cache *cache);
	void *(*alloc)(void *self, size_t size);
	void (*reset)(void *self);
	/* What a server calls when a request is over: reset, with its rule. */
	void (*end)(void *self);
	size_t (*used)(const void *self);
	size_t (*held)(const void *self);
	size_t (*slabs)(const void *self);
	void (*destroy)(void *self);
	/* n requests round-robin over the selves: bare, with the time of each
	 * request in ns[], with the time of each piece in ns[]. */
	void (*run)(void **selves, size_t regions, const struct load *load,
	            size_t n);
	void (*time)(void **selves, size_t regions, const struct load *load,
	             size_t n, uint32_t *ns);
	void (*time_pieces)(void **selves, size_t regions,
	                    const struct load *load, size_t n, uint32_t *ns);
};

/* The request of R3: 200, then three times the payload and a small piece. */
void load_fill(uint32_t sizes[REQUEST_PIECES], uint32_t payload);
/* Pieces of 16 bytes .. 1 MiB, log-uniform. */
void load_fill_log(uint32_t sizes[REQUEST_PIECES], uint64_t *state);

extern const struct strategy strategy_keep_head;
extern const struct strategy strategy_zero_all;
extern const struct strategy strategy_zero_all_release;
extern const struct strategy strategy_free_all;
extern const struct strategy strategy_policy_128k;
extern const struct strategy strategy_garbage;
extern const struct strategy strategy_malloc;
extern const struct strategy strategy_jemalloc;
extern const struct strategy strategy_mimalloc;
/* Takes and drops nothing: what the loops themselves cost. */
extern const struct strategy strategy_floor;

/* Stops the program: a strategy that refuses is no arm. */
void strategy_failed(void) __attribute__((noreturn, cold));

/* The order in which arms stand in tables; ends with NULL. */
extern const struct strategy *const strategies[];

static inline void strategy_touch(void *ptr)
{
	if (ptr == NULL)
		strategy_failed();
	*(volatile char *)ptr = 1;
}

static inline uint32_t strategy_ns(uint64_t start)
{
	return (uint32_t)(perf_now_ns() - start);
}

#endif /* PERF_STRATEGY_H */
