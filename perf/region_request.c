/* SPDX-License-Identifier: BSD-2-Clause */
/* region_request - the request of R3 as a counted loop: what its time is made
 * of, in instructions, when a strategy has settled. */
#include "reset/strategy.h"
#include "stage.h"

enum {
	ARMS_MAX = 12,
	/* A multiple of the log-uniform load, which then comes round. */
	REQUESTS = 10 * LOG_LOADS,
};

struct request_arm {
	const struct strategy *strategy;
	const struct load *load;
	void *self;
	struct stage stage;
};

static int request_open(struct perf_arm *arm)
{
	struct request_arm *r = arm->self;

	stage_open(&r->stage, STAGE_SLAB);
	r->self = r->strategy->create(r->strategy, &r->stage.cache);
	if (r->self != NULL)
		return 0;
	stage_close(&r->stage);
	return -1;
}

static void request_loop(struct perf_arm *arm, uint64_t ops)
{
	struct request_arm *r = arm->self;

	r->strategy->run(&r->self, 1, r->load, ops);
}

static void request_report(struct perf_arm *arm)
{
	struct request_arm *r = arm->self;

	perf_put(" held_kib=%zu used_after=%zu",
	         r->strategy->held(r->self) / 1024, r->strategy->used(r->self));
	if (r->strategy->has_cache)
		stage_put(&r->stage);
}

static void request_close(struct perf_arm *arm)
{
	struct request_arm *r = arm->self;

	r->strategy->destroy(r->self);
	stage_close(&r->stage);
}

static void arm_fill(struct perf_arm *arm, struct request_arm *r,
                     const char *payload)
{
	perf_key(arm, "strategy=%s payload=%s", r->strategy->name, payload);
	arm->ops = REQUESTS;
	arm->count = REQUESTS;
	/* Cheap to count, and the gate of R3 that repeats. */
	arm->is_gate = true;
	arm->is_floor = r->strategy == &strategy_floor;
	arm->self = r;
	arm->open = request_open;
	arm->loop = request_loop;
	arm->report = request_report;
	arm->close = request_close;
}

static bool is_left_out(const struct strategy *s, const struct load *load)
{
	/* Settles never: its slabs grow with the requests. */
	if (s == &strategy_zero_all)
		return true;
	/* Megabytes by malloc: some 20 us each, and 100 under callgrind. */
	return load->count > 1 && !s->has_cache && s != &strategy_floor &&
	       perf.level != PERF_FULL;
}

static void compare(const struct load *load, const char *payload)
{
	static struct request_arm requests[ARMS_MAX];
	struct perf_arm arms[ARMS_MAX] = {{.ops = 0}};
	size_t count = 0;

	requests[count++].strategy = &strategy_floor;
	for (size_t i = 0; strategies[i] != NULL; i++) {
		if (!is_left_out(strategies[i], load))
			requests[count++].strategy = strategies[i];
	}
	for (size_t i = 0; i < count; i++) {
		requests[i].load = load;
		arm_fill(&arms[i], &requests[i], payload);
	}
	perf_compare("region_request", arms, count);
}

void bench_request(void)
{
	static const uint32_t payloads[] = {1000, 4096, 8137};
	static uint32_t sizes[LOG_LOADS][REQUEST_PIECES];
	struct load load = {sizes, 1};
	uint64_t state = perf.seed;
	char name[16];

	for (size_t i = 0; i < lengthof(payloads); i++) {
		load_fill(sizes[0], payloads[i]);
		snprintf(name, sizeof(name), "%u", payloads[i]);
		compare(&load, name);
	}
	for (size_t i = 0; i < LOG_LOADS; i++)
		load_fill_log(sizes[i], &state);
	load.count = LOG_LOADS;
	compare(&load, "log");
}
