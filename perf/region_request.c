/* SPDX-License-Identifier: BSD-2-Clause */
/* region_request - the request of R3 as a counted loop: what its time is made
 * of, in instructions, when a strategy has settled. */
#include "reset/strategy.h"
#include "stage.h"

enum {
	ARMS_MAX = 12,
	REQUESTS = 10000,
};

struct request_arm {
	const struct strategy *strategy;
	struct load load;
	uint32_t sizes[1][REQUEST_PIECES];
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

	r->strategy->run(&r->self, 1, &r->load, ops);
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
                     uint32_t payload)
{
	perf_key(arm, "strategy=%s payload=%u", r->strategy->name, payload);
	load_fill(r->sizes[0], payload);
	r->load.sizes = r->sizes;
	r->load.count = 1;
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

static void compare(uint32_t payload)
{
	static struct request_arm requests[ARMS_MAX];
	struct perf_arm arms[ARMS_MAX] = {{.ops = 0}};
	size_t count = 0;

	requests[count++].strategy = &strategy_floor;
	for (size_t i = 0; strategies[i] != NULL; i++) {
		/* Settles never: its slabs grow with the requests. */
		if (strategies[i] != &strategy_zero_all)
			requests[count++].strategy = strategies[i];
	}
	for (size_t i = 0; i < count; i++)
		arm_fill(&arms[i], &requests[i], payload);
	perf_compare("region_request", arms, count);
}

void bench_request(void)
{
	compare(1000);
	compare(4096);
	compare(8137);
}
