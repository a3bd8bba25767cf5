/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region_drain - R4: one request of 1 GiB, then small ones. How long the
 * memory stays, what the small requests pay for it, whether another region
 * can have it at once.
 */
#include "reset/strategy.h"
#include "stage.h"

enum {
	SLAB_64K = 65536,
	/* Requests of one look at the memory: windows are multiples. */
	LOOK = 100,
	/* Slabs that the other region asks for after the large request. */
	REUSE_SLABS = 16,
	/* Bytes of that request, when the drain itself is not measured. */
	REUSE_LARGE = 64 * 1024 * 1024,
};

struct drain {
	const struct strategy *strategy;
	struct stage stage;
	void *self;
	size_t rss_before; /* KiB of the process with the stage empty */
	size_t done;       /* small requests so far */
	size_t drained;    /* of these, until the quota was back; 0: not yet */
	uint32_t *ns;      /* of each small request */
};

static uint32_t small_sizes[1][REQUEST_PIECES] = {
	{200, 1030, 120, 1035, 64, 1040, 96},
};
static const struct load small_load = {small_sizes, 1};

/* Bytes of the large request. */
static size_t large_size(void)
{
	return (size_t)perf_pick(128, 1024, 1024) * 1024 * 1024;
}

/* Takes slabs of 64 KiB and writes to each page of them. */
static uint64_t take_slabs(const struct strategy *s, void *self, size_t count)
{
	uint64_t start = perf_now_ns();

	for (size_t i = 0; i < count; i++) {
		char *piece = s->alloc(self, SLAB_64K - 128);

		strategy_touch(piece);
		for (size_t at = 4096; at < SLAB_64K - 128; at += 4096)
			strategy_touch(piece + at);
	}
	return perf_now_ns() - start;
}

/*
 * What stays charged at most: the arena's idle slabs, one whole slab of the
 * cache, and those that something small keeps: the retained part of the
 * region, the slab in use, garbage below its cap.
 */
static size_t quota_bound(const struct drain *d)
{
	return d->stage.arena.retain + 4 * STAGE_SLAB;
}

static size_t rss_more(const struct drain *d)
{
	size_t rss = perf_rss_kib();

	return rss > d->rss_before ? rss - d->rss_before : 0;
}

static void put_memory(struct drain *d)
{
	perf_put(" held_kib=%zu rss_kib=%zu", d->strategy->held(d->self) / 1024,
	         rss_more(d));
	if (d->strategy->has_cache)
		stage_put(&d->stage);
}

static void put_latency(uint32_t *ns, size_t count)
{
	perf_sort_u32(ns, count);
	perf_put("p50_ns=%u p99_ns=%u p999_ns=%u max_ns=%u",
	         perf_percentile(ns, count, 0.5),
	         perf_percentile(ns, count, 0.99),
	         perf_percentile(ns, count, 0.999), ns[count - 1]);
}

/* Small requests up to `until` in all, looking at the quota now and then. */
static void run_small(struct drain *d, size_t until)
{
	while (d->done < until) {
		d->strategy->time(&d->self, 1, &small_load, LOOK,
		                  d->ns + d->done);
		d->done += LOOK;
		if (d->drained == 0 && d->strategy->has_cache &&
		    quota_used(&d->stage.quota) <= quota_bound(d))
			d->drained = d->done;
	}
}

/* The windows end at 1, 2, 5, 10, ... thousand requests. */
static void run_windows(struct drain *d, size_t requests)
{
	static const size_t steps[] = {1, 2, 5};

	for (size_t ten = LOOK; ten <= requests; ten *= 10) {
		for (size_t i = 0; i < 3 && ten * steps[i] <= requests; i++) {
			size_t from = d->done;

			run_small(d, ten * steps[i]);
			perf_begin("region_drain_window",
			           "strategy=%s after=%zu", d->strategy->name,
			           d->done);
			put_latency(d->ns + from, d->done - from);
			put_memory(d);
			perf_end();
		}
	}
}

/* How much more the quota is charged when another region wants slabs right
 * after the large request, and how long that takes. */
static void measure_reuse(struct drain *d)
{
	void *other = d->strategy->create(d->strategy, &d->stage.cache);
	size_t before = quota_used(&d->stage.quota);
	uint64_t ns = take_slabs(d->strategy, other, REUSE_SLABS);
	size_t after = quota_used(&d->stage.quota);

	perf_put(" reuse_ns=%llu reuse_charged_kib=%zu", (unsigned long long)ns,
	         after > before ? (after - before) / 1024 : 0);
	d->strategy->destroy(other);
}

static int drain_open(struct drain *d)
{
	d->rss_before = perf_rss_kib();
	stage_open(&d->stage, STAGE_SLAB);
	d->self = d->strategy->create(d->strategy, &d->stage.cache);
	if (d->self != NULL)
		return 0;
	stage_close(&d->stage);
	return -1;
}

static void drain_close(struct drain *d)
{
	d->strategy->destroy(d->self);
	stage_close(&d->stage);
}

/* Nanoseconds that the end of the large request takes. */
static uint64_t drop_large(struct drain *d, size_t size)
{
	uint64_t start;

	take_slabs(d->strategy, d->self, size / SLAB_64K);
	start = perf_now_ns();
	d->strategy->end(d->self);
	return perf_now_ns() - start;
}

static void drain_run(const struct strategy *s, uint32_t *ns, size_t requests)
{
	struct drain d = {.strategy = s, .ns = ns};
	uint64_t drop;

	if (drain_open(&d) != 0)
		return;
	drop = drop_large(&d, large_size());
	run_windows(&d, requests);
	perf_begin("region_drain", "strategy=%s large=%zuMiB", s->name,
	           large_size() >> 20);
	perf_put("requests=%zu drop_ns=%llu ", d.done,
	         (unsigned long long)drop);
	put_latency(ns, d.done);
	put_memory(&d);
	if (s->has_cache)
		perf_put(" bound_kib=%zu drained=%zu", quota_bound(&d) / 1024,
		         d.drained);
	drop_large(&d, REUSE_LARGE);
	measure_reuse(&d);
	perf_end();
	drain_close(&d);
}

/* Those with the rule are free_all above it, and each arm takes a second of
 * touching memory: by default one of each kind. */
static bool is_left_out(const struct strategy *s)
{
	if (perf.level == PERF_FULL)
		return s == &strategy_keep_head || s == &strategy_zero_all ||
		       s == &strategy_zero_all_release;
	return s != &strategy_free_all && s != &strategy_garbage &&
	       s != &strategy_malloc;
}

void bench_drain(void)
{
	size_t requests = (size_t)perf_pick(100000, 1000000, 1000000);
	uint32_t *ns = perf_malloc((requests + LOOK) * sizeof(*ns));

	for (size_t i = 0; strategies[i] != NULL; i++) {
		if (!is_left_out(strategies[i]))
			drain_run(strategies[i], ns, requests);
	}
	free(ns);
}
