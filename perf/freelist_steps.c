/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_steps - single operations: the most steps that one takes, and how
 * long they take, beside other allocators.
 */
#include "freelist_load.h"
#include "foreign.h"

#include <small/freelist_impl.h>

#include <stdlib.h>
#include <string.h>

/* --- steps --- */

struct most {
	size_t served, refused, freed; /* steps of one call */
	double share;                  /* refused, of all allocations */
};

/* No call may pass its bound in freelist.h. */
static void see(size_t *most, size_t steps, size_t bound)
{
	*most = steps > *most ? steps : *most;
	if (steps <= bound)
		return;
	fprintf(stderr, "freelist_steps: %zu steps, at most %zu are promised\n",
	        steps, bound);
	exit(1);
}

/* Blocks of the index are visited at most once more for a NULL. */
static size_t bound_of(const struct freelist *f, bool is_refused)
{
	size_t waits = deferred_granules(f);

	return FREELIST_STEPS_ALLOC + 5 * waits +
	       (is_refused ? f->indexed + waits : 0);
}

/* Random replacements in a piece that is a little too small for them. */
static void most_steps(size_t cap, size_t limit, uint64_t ops,
                       struct most *most)
{
	struct freelist_opts opts = {.limit = limit, .cap = cap};
	struct load *l = load_create(LOAD_LUA, perf.seed);
	struct load_piece p;
	size_t refused = 0;

	load_open(&p, &opts);
	memset(most, 0, sizeof(*most));
	for (uint64_t i = 0; i < ops; i++) {
		const struct load_op *op = &l->op[i % LOAD_OPS];
		struct load_block *b = &l->block[op->slot];
		size_t steps = p.f->steps, bound, bound_null;

		if (b->ptr != NULL) {
			freelist_free(p.f, b->ptr, b->size);
			see(&most->freed, p.f->steps - steps,
			    FREELIST_STEPS_FREE);
			steps = p.f->steps;
		}
		b->size = op->size;
		bound = bound_of(p.f, false);
		bound_null = bound_of(p.f, true);
		b->ptr = freelist_alloc(p.f, b->size);
		if (b->ptr != NULL)
			see(&most->served, p.f->steps - steps, bound);
		else
			see(&most->refused, p.f->steps - steps, bound_null);
		refused += b->ptr == NULL;
	}
	most->share = 100.0 * (double)refused / (double)ops;
	load_close(&p);
	free(l);
}

void bench_steps(void)
{
	static const struct {
		const char *name;
		size_t cap;
	} caps[] = {{"default", 0}, {"0", FREELIST_CAP_NONE}, {"256", 256}};
	uint64_t ops = perf_pick(100000, 1000000, 100000000);

	for (size_t i = 0; i < lengthof(caps); i++) {
		struct most most;

		most_steps(caps[i].cap, (size_t)200 << 10, ops, &most);
		perf_begin("freelist_steps", "mix=lua cap=%s", caps[i].name);
		perf_put(" max_steps=%zu max_steps_null=%zu max_steps_free=%zu"
		         " refused_pct=%.2f",
		         most.served, most.refused, most.freed, most.share);
		perf_end();
	}
}

/* --- latency --- */

enum { TIMES = 1 << 17 };

static uint32_t times[2 * TIMES];

static void latency_record(const char *mix, const char *arm)
{
	perf_sort_u32(times, lengthof(times));
	perf_begin("freelist_latency", "mix=%s arm=%s", mix, arm);
	perf_put(" ns_p50=%u ns_p99=%u ns_p999=%u",
	         perf_percentile(times, lengthof(times), 0.5),
	         perf_percentile(times, lengthof(times), 0.99),
	         perf_percentile(times, lengthof(times), 0.999));
	perf_end();
}

/* One of ours when peer is NULL. */
static void latency(enum load_mix mix, const char *name,
                    const struct perf_allocator *peer, size_t cap)
{
	struct freelist_opts opts = {.limit = (size_t)2 << 20, .cap = cap};
	struct load *l = load_create(mix, perf.seed);
	struct load_piece p;

	load_open(&p, &opts);
	for (size_t i = 0; i < 2 * TIMES; i++) {
		const struct load_op *op = &l->op[i];
		struct load_block *b = &l->block[op->slot];
		uint64_t begin = perf_now_ns(), middle, end;

		if (peer != NULL)
			peer->release(b->ptr);
		else
			freelist_free(p.f, b->ptr, b->size);
		middle = perf_now_ns();
		b->size = op->size;
		b->ptr = peer != NULL ? peer->alloc(b->size)
		                      : freelist_alloc(p.f, b->size);
		end = perf_now_ns();
		if (i < TIMES) /* warm, and so is the array */
			begin = middle = end;
		times[2 * (i % TIMES)] = (uint32_t)(middle - begin);
		times[2 * (i % TIMES) + 1] = (uint32_t)(end - middle);
	}
	latency_record(mix == LOAD_LUA ? "lua" : "uniform", name);
	for (size_t i = 0; peer != NULL && i < LOAD_SLOTS; i++)
		peer->release(l->block[i].ptr);
	load_close(&p);
	free(l);
}

void bench_latency(void)
{
	static const char *const peers[] = {"malloc", "jemalloc", "mimalloc"};

	for (int mix = LOAD_UNIFORM; mix <= LOAD_LUA; mix++) {
		latency((enum load_mix)mix, "freelist", NULL, 0);
		latency((enum load_mix)mix, "freelist_cap_0", NULL,
		        FREELIST_CAP_NONE);
		latency((enum load_mix)mix, "freelist_cap_256", NULL, 256);
		for (size_t i = 0; i < lengthof(peers); i++)
			if (perf_foreign(peers[i]) != NULL)
				latency((enum load_mix)mix, peers[i],
				        perf_foreign(peers[i]), 0);
	}
}
