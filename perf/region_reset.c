/* SPDX-License-Identifier: BSD-2-Clause */
/* region_reset - R2: what a reset costs over N slabs, by strategy. */
#include "reset/strategy.h"
#include "stage.h"

#include <small/region.h>

enum {
	ARMS_MAX = 16,
	/* Slabs that another region drops first, 64 KiB each: four times the
	 * garbage cap, so that our reset finds more than that. */
	DRAIN_SLABS = 64,
	/* From here on arms do not fit beside each other. */
	FRESH_SLABS = 10000,
};

/* A piece that fills a slab of this size: what is left after any strategy's
 * header is too small for another one. */
#define PIECE_4K   ((size_t)4096 - 128)
#define PIECE_64K  ((size_t)65536 - 128)
#define PIECE_OVER (STAGE_SLAB + 4096)

struct reset_arm {
	const struct strategy *strategy;
	size_t slabs;
	size_t piece;
	bool is_draining;
	void *self;
	struct region other; /* on the same cache, for is_draining */
	struct slab_cache cache;
};

/* All arms share an arena that keeps what it is given back: a reset is
 * measured, not the unmapping after it (for that see R4). */
static struct stage stage;

static int reset_open(struct perf_arm *arm)
{
	struct reset_arm *r = arm->self;

	slab_cache_create(&r->cache, &stage.arena);
	region_create(&r->other, &r->cache);
	r->self = r->strategy->create(r->strategy, &r->cache);
	if (r->self != NULL)
		return 0;
	slab_cache_destroy(&r->cache);
	return -1;
}

static void reset_close(struct perf_arm *arm)
{
	struct reset_arm *r = arm->self;

	r->strategy->destroy(r->self);
	region_destroy(&r->other);
	slab_cache_destroy(&r->cache);
}

static void take(void *self, void *(*alloc)(void *, size_t), size_t piece,
                 size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (alloc(self, piece) == NULL)
			strategy_failed();
	}
}

static size_t garbage(const struct reset_arm *r)
{
	struct slab_cache_stats stats;

	slab_cache_stats(&r->cache, &stats);
	return stats.garbage;
}

/* N slabs in use, no more, whatever the strategy kept. */
static void reset_before(struct perf_arm *arm)
{
	struct reset_arm *r = arm->self;

	if (r->strategy->keeps_all) {
		r->strategy->destroy(r->self);
		r->self = r->strategy->create(r->strategy, &r->cache);
	}
	take(r->self, r->strategy->alloc, r->piece, r->slabs);
	if (!r->is_draining)
		return;
	take(&r->other, region_alloc_cb, PIECE_64K, DRAIN_SLABS);
	region_reset(&r->other);
	if (garbage(r) <= SLAB_CACHE_GARBAGE_CAP)
		strategy_failed();
}

static void reset_loop(struct perf_arm *arm, uint64_t ops)
{
	struct reset_arm *r = arm->self;

	for (uint64_t i = 0; i < ops; i++)
		r->strategy->reset(r->self);
}

static void reset_report(struct perf_arm *arm)
{
	struct reset_arm *r = arm->self;

	perf_put(" held_kib=%zu used_after=%zu garbage_kib=%zu",
	         r->strategy->held(r->self) / 1024, r->strategy->used(r->self),
	         garbage(r) / 1024);
}

static void arm_fill(struct perf_arm *arm, struct reset_arm *r,
                     const char *size)
{
	perf_key(arm, "strategy=%s slabs=%zu size=%s state=%s",
	         r->strategy->name, r->slabs, size,
	         r->is_draining ? "draining" : "steady");
	/* About 3,000 slabs a round, so that small N repeats often; mapping
	 * one of the oversize ones takes some 10 us. */
	arm->ops = r->slabs >= 1000 ? 3 : r->slabs >= 100 ? 30 : 200;
	if (r->piece == PIECE_OVER)
		arm->ops = r->slabs >= 100 ? 1 : 10;
	arm->count = r->slabs >= FRESH_SLABS ? 1 : r->slabs >= 100 ? 5 : 50;
	arm->is_fresh = r->slabs >= FRESH_SLABS;
	if (arm->is_fresh)
		arm->ops = 1;
	arm->is_gate = r->strategy == &strategy_garbage ||
	               r->strategy == &strategy_floor;
	arm->is_floor = r->strategy == &strategy_floor;
	arm->self = r;
	arm->open = reset_open;
	arm->before = reset_before;
	arm->loop = reset_loop;
	arm->report = reset_report;
	arm->close = reset_close;
}

/* The largest N of a size by default: only those that show the range. */
static bool is_left_out(const struct strategy *s, size_t slabs, size_t piece)
{
	if (perf.level == PERF_FULL ||
	    slabs < (piece == PIECE_OVER ? 1000 : 100000))
		return false;
	return s != &strategy_free_all && s != &strategy_garbage;
}

static void compare(size_t slabs, size_t piece, const char *size)
{
	static struct reset_arm resets[ARMS_MAX];
	struct perf_arm arms[ARMS_MAX] = {{.ops = 0}};
	size_t count = 0;

	memset(resets, 0, sizeof(resets));
	for (size_t i = 0; strategies[i] != NULL; i++) {
		if (!is_left_out(strategies[i], slabs, piece))
			resets[count++].strategy = strategies[i];
	}
	resets[count++].strategy = &strategy_garbage;
	resets[count - 1].is_draining = true;
	resets[count++].strategy = &strategy_floor;
	for (size_t i = 0; i < count; i++) {
		resets[i].slabs = slabs;
		resets[i].piece = piece;
		arm_fill(&arms[i], &resets[i], size);
	}
	perf_compare("region_reset", arms, count);
}

void bench_reset(void)
{
	size_t most = perf_pick(1000, 100000, 100000);
	/* 4 KiB slabs behave like the others: fewer of them by default. */
	size_t most_4k = perf_pick(1000, 1000, 100000);

	stage_open(&stage, STAGE_SLAB);
	/* 100,000 slabs of 64 KiB, of which one page each is touched. */
	slab_arena_set_retain(&stage.arena, (size_t)8 << 30);
	for (size_t n = 1; n <= most_4k; n *= 10)
		compare(n, PIECE_4K, "4KiB");
	for (size_t n = 1; n <= most; n *= 10)
		compare(n, PIECE_64K, "64KiB");
	for (size_t n = 1; n <= perf_pick(100, 1000, 1000); n *= 10)
		compare(n, PIECE_OVER, "oversize");
	stage_close(&stage);
}
