/* SPDX-License-Identifier: BSD-2-Clause */
/* mempool_arms - the pools that are compared, each with the same loops. */
#include "mempool_arms.h"
#include "mempool_unchecked.h"

#include <stdlib.h>

static void *slots[POOL_BATCH + 1];
static uint16_t order[POOL_BATCH];

void pool_set_order(void)
{
	uint64_t seed = perf.seed;

	for (size_t i = 0; i < POOL_BATCH; i++)
		order[i] = (uint16_t)i;
	for (size_t i = POOL_BATCH - 1; i > 0; i--) {
		size_t k = perf_uniform(&seed, 0, i);
		uint16_t swap = order[i];

		order[i] = order[k];
		order[k] = swap;
	}
}

/* --- floor: any pointer, which the compiler knows nothing about --- */

#define ARM(loop) floor_##loop
#define ALLOC(b, ptr)               \
 do {                               \
  (void)(b);                        \
  __asm__ volatile("" : "=r"(ptr)); \
 } while (0)
#define RELEASE(b, ptr) perf_keep(ptr)
#include "mempool_loops.h"
#undef ARM
#undef ALLOC
#undef RELEASE

static int floor_create(struct pool_bench *b)
{
	(void)b;
	return 0;
}

static void floor_destroy(struct pool_bench *b)
{
	(void)b;
}

static void *floor_alloc(struct pool_bench *b)
{
	return b;
}

static void floor_release(struct pool_bench *b, void *ptr)
{
	(void)b, (void)ptr;
}

/* --- small, unchecked --- */

#define ARM(loop)       small_##loop
#define ALLOC(b, ptr)   ((ptr) = mempool_alloc(&(b)->pool))
#define RELEASE(b, ptr) mempool_free(&(b)->pool, ptr)
#include "mempool_loops.h"
#undef ARM
#undef RELEASE

#define ARM(loop)       unchecked_##loop
#define RELEASE(b, ptr) unchecked_free(&(b)->pool, ptr)
#include "mempool_loops.h"
#undef ARM
#undef ALLOC
#undef RELEASE

static int small_create(struct pool_bench *b)
{
	stage_open(&b->stage, STAGE_SLAB);
	mempool_create(&b->pool, &b->stage.cache, b->size);
	return 0;
}

static int unchecked_create(struct pool_bench *b)
{
	small_create(b);
	b->pool.salt = 0;
	return 0;
}

static void small_destroy(struct pool_bench *b)
{
	mempool_destroy(&b->pool);
	stage_close(&b->stage);
}

static void *small_alloc(struct pool_bench *b)
{
	return mempool_alloc(&b->pool);
}

static void small_release(struct pool_bench *b, void *ptr)
{
	mempool_free(&b->pool, ptr);
}

static void unchecked_release(struct pool_bench *b, void *ptr)
{
	unchecked_free(&b->pool, ptr);
}

static size_t small_capacity(const struct pool_bench *b)
{
	return b->pool.objcount;
}

/* --- list --- */

#define ARM(loop) list_##loop
#define ALLOC(b, ptr)          \
 do {                          \
  (ptr) = (b)->list;           \
  (b)->list = (b)->list->next; \
 } while (0)
#define RELEASE(b, ptr)            \
 do {                              \
  struct pool_node *node_ = (ptr); \
  node_->next = (b)->list;         \
  (b)->list = node_;               \
 } while (0)
#include "mempool_loops.h"

/* Some more than any loop and what is held around it take. */
static int list_create(struct pool_bench *b)
{
	size_t count = 4 * POOL_BATCH;

	b->block = perf_malloc(count * b->size);
	b->list = NULL;
	while (count-- > 0) {
		void *ptr = b->block + count * b->size;

		RELEASE(b, ptr);
	}
	return 0;
}

static void list_destroy(struct pool_bench *b)
{
	free(b->block);
}

static void *list_alloc(struct pool_bench *b)
{
	void *ptr;

	ALLOC(b, ptr);
	return ptr;
}

static void list_release(struct pool_bench *b, void *ptr)
{
	RELEASE(b, ptr);
}
#undef ARM
#undef ALLOC
#undef RELEASE

/* --- eighth --- */

#define ARM(loop)       eighth_##loop
#define ALLOC(b, ptr)   ((ptr) = eighth_alloc(&(b)->eighth))
#define RELEASE(b, ptr) eighth_free(&(b)->eighth, ptr)
#include "mempool_loops.h"
#undef ARM
#undef ALLOC
#undef RELEASE

static int eighth_open(struct pool_bench *b)
{
	small_create(b);
	eighth_create(&b->eighth, &b->stage.cache, b->size, b->pool.slab_order);
	return 0;
}

static void eighth_close(struct pool_bench *b)
{
	eighth_destroy(&b->eighth);
	small_destroy(b);
}

static void *eighth_take(struct pool_bench *b)
{
	return eighth_alloc(&b->eighth);
}

static void eighth_put(struct pool_bench *b, void *ptr)
{
	eighth_free(&b->eighth, ptr);
}

static size_t eighth_capacity(const struct pool_bench *b)
{
	return b->eighth.objcount;
}

/* --- malloc and others --- */

#define ARM(loop)       foreign_##loop
#define ALLOC(b, ptr)   ((ptr) = (b)->foreign->alloc((b)->size))
#define RELEASE(b, ptr) (b)->foreign->release(ptr)
#include "mempool_loops.h"
#undef ARM
#undef ALLOC
#undef RELEASE

static int foreign_create(struct pool_bench *b)
{
	b->foreign = perf_foreign(b->arm->name);
	return b->foreign != NULL ? 0 : -1;
}

static void foreign_destroy(struct pool_bench *b)
{
	(void)b;
}

static void *foreign_alloc(struct pool_bench *b)
{
	return b->foreign->alloc(b->size);
}

static void foreign_release(struct pool_bench *b, void *ptr)
{
	b->foreign->release(ptr);
}

/* Where a slab of ours would end. */
static size_t no_capacity(const struct pool_bench *b)
{
	struct pool_bench ours = {.size = b->size};
	size_t capacity;

	small_create(&ours);
	capacity = small_capacity(&ours);
	small_destroy(&ours);
	return capacity;
}

#define LOOPS(arm)                                \
 {                                                \
  arm##_pair, arm##_two, arm##_lifo, arm##_random \
 }

const struct pool_arm pool_arms[POOL_ARMS] = {
	{"floor", true, floor_create, floor_destroy, floor_alloc, floor_release,
         no_capacity, LOOPS(floor)},
	{"small", true, small_create, small_destroy, small_alloc, small_release,
         small_capacity, LOOPS(small)},
	{"unchecked", true, unchecked_create, small_destroy, small_alloc,
         unchecked_release, small_capacity, LOOPS(unchecked)},
	{"list", false, list_create, list_destroy, list_alloc, list_release,
         no_capacity, LOOPS(list)},
	{"eighth", false, eighth_open, eighth_close, eighth_take, eighth_put,
         eighth_capacity, LOOPS(eighth)},
	{"malloc", false, foreign_create, foreign_destroy, foreign_alloc,
         foreign_release, no_capacity, LOOPS(foreign)},
	{"jemalloc", false, foreign_create, foreign_destroy, foreign_alloc,
         foreign_release, no_capacity, LOOPS(foreign)},
	{"mimalloc", false, foreign_create, foreign_destroy, foreign_alloc,
         foreign_release, no_capacity, LOOPS(foreign)},
};
