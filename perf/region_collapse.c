/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region_collapse - R3: requests whose payload changes over time. A public
 * report of 2020 saw throughput fall after 4096-byte payloads and never come
 * back; each strategy goes through the same phases here.
 */
#include "reset/strategy.h"
#include "stage.h"

enum {
	PHASES_MAX = 8,
	REGIONS_MAX = 100,
	STRATEGIES_MAX = 12,
	CHUNK = 100, /* requests between two looks at the clock */
	PAYLOAD_LOG = -1,
};

/* bench.md's cut: a phase ends after this many requests or nanoseconds. */
static const size_t phase_requests = 20000;
static const uint64_t phase_ns = 1000000000;

struct course {
	const char *name;
	size_t phases;
	int payload[PHASES_MAX];
};

static const struct course courses[] = {
	{"collapse", 7, {1000, 4000, 4096, 4096, 4096, 1000, 1000}},
	/* Payloads whose last piece just fits a slab, or just does not. */
	{"borders", 6, {1000, 4040, 4041, 8136, 8137, 1000}},
	{"log", 3, {1000, PAYLOAD_LOG, 1000}},
};

/* What one arm showed in one phase. */
struct result {
	double req_s[PERF_ROUNDS_MAX];
	size_t rounds;
	size_t requests;
	uint32_t p50, p99, p999, max; /* of a request */
	uint32_t piece_p999;          /* of one allocation in it */
	size_t slabs, held, held_max, used, garbage, quota, rss;
	long faults; /* of the last bare pass */
};

/* A strategy in a course. Its arena lives through all rounds, so that all but
 * the first find warm memory, as requests of a server do. */
struct arm {
	const struct strategy *strategy;
	struct stage stage;
	struct result results[PHASES_MAX];
};

/* One walk of an arm through the phases. */
struct trial {
	const struct strategy *strategy;
	size_t regions;
	void *selves[REGIONS_MAX];
	struct stage *stage;
};

enum pass {
	PASS_BARE,   /* no clock inside */
	PASS_TIMED,  /* each request */
	PASS_PIECES, /* each allocation */
};

static uint32_t phase_sizes[LOG_LOADS][REQUEST_PIECES];
static uint32_t *samples;

/* With a cache of its own, which starts empty. */
static int trial_open(struct trial *t, struct arm *arm, size_t regions)
{
	const struct strategy *s = arm->strategy;

	t->strategy = s;
	t->regions = regions;
	t->stage = &arm->stage;
	slab_cache_destroy(&t->stage->cache);
	slab_cache_create(&t->stage->cache, &t->stage->arena);
	for (size_t i = 0; i < regions; i++) {
		t->selves[i] = s->create(s, &t->stage->cache);
		if (t->selves[i] == NULL)
			return -1;
	}
	return 0;
}

static void trial_close(struct trial *t)
{
	for (size_t i = 0; i < t->regions; i++)
		t->strategy->destroy(t->selves[i]);
}

/* Fills the sizes of a phase; *peak is the largest request in bytes. */
static struct load load_make(int payload, size_t *peak)
{
	struct load load = {phase_sizes,
	                    payload == PAYLOAD_LOG ? LOG_LOADS : 1};
	uint64_t state = perf.seed;

	*peak = 0;
	for (size_t i = 0; i < load.count; i++) {
		uint32_t *s = phase_sizes[i];
		size_t sum = 0;

		if (payload == PAYLOAD_LOG)
			load_fill_log(s, &state);
		else
			load_fill(s, (uint32_t)payload);
		for (size_t j = 0; j < REQUEST_PIECES; j++) {
			sum += s[j];
		}
		if (sum > *peak)
			*peak = sum;
	}
	return load;
}

static size_t max_requests(const struct strategy *s, const struct load *load)
{
	/* Its slabs grow with the requests: more would take hours. */
	if (s == &strategy_zero_all)
		return phase_requests / 10;
	/* A request of this load is megabytes, some 20 us by malloc. */
	if (load->count > 1 && !s->has_cache && perf.level != PERF_FULL)
		return phase_requests / 10;
	return phase_requests;
}

/* Runs a phase to its cut; the requests done, *ns the time they took. */
static size_t phase_run(struct trial *t, const struct load *load,
                        enum pass pass, uint64_t *ns)
{
	const struct strategy *s = t->strategy;
	size_t done = 0, most = max_requests(s, load);
	/* The second pass of zero_all is no longer than it needs to be. */
	uint64_t limit = pass == PASS_BARE ? phase_ns : phase_ns / 5;
	uint64_t start = perf_now_ns();

	do {
		if (pass == PASS_BARE)
			s->run(t->selves, t->regions, load, CHUNK);
		else if (pass == PASS_TIMED)
			s->time(t->selves, t->regions, load, CHUNK,
			        samples + done);
		else
			s->time_pieces(t->selves, t->regions, load, CHUNK,
			               samples + done * REQUEST_PIECES);
		done += CHUNK;
		*ns = perf_now_ns() - start;
	} while (done < most && *ns < limit);
	return done;
}

static void result_memory(struct result *r, const struct trial *t)
{
	const struct strategy *s = t->strategy;

	r->slabs = r->held = r->held_max = r->used = 0;
	for (size_t i = 0; i < t->regions; i++) {
		size_t held = s->held(t->selves[i]);

		r->slabs += s->slabs(t->selves[i]);
		r->used += s->used(t->selves[i]);
		r->held += held;
		if (held > r->held_max)
			r->held_max = held;
	}
	r->garbage = stage_garbage(t->stage);
	r->quota = quota_used(&t->stage->quota);
	r->rss = perf_rss_kib();
}

static void result_take(struct result *r, const struct trial *t, enum pass pass,
                        size_t requests, uint64_t ns)
{
	size_t count = requests;

	if (pass == PASS_BARE) {
		r->requests = requests;
		r->req_s[r->rounds++] = (double)requests * 1e9 / (double)ns;
		result_memory(r, t);
		return;
	}
	if (pass == PASS_PIECES)
		count *= REQUEST_PIECES;
	perf_sort_u32(samples, count);
	if (pass == PASS_PIECES) {
		r->piece_p999 = perf_percentile(samples, count, 0.999);
		return;
	}
	r->p50 = perf_percentile(samples, count, 0.5);
	r->p99 = perf_percentile(samples, count, 0.99);
	r->p999 = perf_percentile(samples, count, 0.999);
	r->max = samples[count - 1];
}

/* All phases once, from an empty start. */
static void course_walk(const struct course *c, struct arm *arm, size_t regions,
                        enum pass pass)
{
	struct trial t;

	if (trial_open(&t, arm, regions) != 0)
		return;
	for (size_t i = 0; i < c->phases; i++) {
		size_t peak, done;
		struct load load = load_make(c->payload[i], &peak);
		long faults = perf_faults();
		uint64_t ns;

		done = phase_run(&t, &load, pass, &ns);
		if (pass == PASS_BARE)
			arm->results[i].faults = perf_faults() - faults;
		result_take(&arm->results[i], &t, pass, done, ns);
	}
	trial_close(&t);
}

static void result_print(const struct course *c, const struct strategy *s,
                         size_t regions, size_t phase, struct result *r)
{
	struct perf_spread req = perf_spread(r->req_s, r->rounds);
	char payload[16] = "log";
	size_t peak;

	load_make(c->payload[phase], &peak);
	if (c->payload[phase] != PAYLOAD_LOG)
		snprintf(payload, sizeof(payload), "%d", c->payload[phase]);
	perf_begin("region_collapse",
	           "strategy=%s phase=%zu payload=%s regions=%zu course=%s",
	           s->name, phase + 1, payload, regions, c->name);
	perf_put("requests=%zu req_s=%.0f req_min=%.0f req_max=%.0f",
	         r->requests, req.median, req.min, req.max);
	perf_put(" p50_ns=%u p99_ns=%u p999_ns=%u max_ns=%u", r->p50, r->p99,
	         r->p999, r->max);
	if (r->piece_p999 != 0)
		perf_put(" alloc_p999_ns=%u", r->piece_p999);
	perf_put(" slabs=%zu held_kib=%zu used_after=%zu", r->slabs,
	         r->held / 1024, r->used);
	perf_put(" faults=%ld rss_kib=%zu", r->faults, r->rss);
	perf_put(" held_max_kib=%zu peak_kib=%zu", r->held_max / 1024,
	         peak / 1024);
	if (s->has_cache)
		perf_put(" garbage_kib=%zu quota_kib=%zu", r->garbage / 1024,
		         r->quota / 1024);
	perf_end();
}

/* zero_all takes seconds a phase: one round, and where it is the point. */
static bool is_too_slow(const struct course *c, size_t regions, enum pass pass,
                        size_t round)
{
	return regions > 1 || pass == PASS_PIECES ||
	       (pass == PASS_BARE && round > 0) ||
	       (c != courses && perf.level != PERF_FULL);
}

static void course_round(const struct course *c, struct arm *arms, size_t count,
                         size_t regions, size_t round)
{
	enum pass pass = round < perf.rounds    ? PASS_BARE
	                 : round == perf.rounds ? PASS_TIMED
	                                        : PASS_PIECES;

	for (size_t i = 0; i < count; i++) {
		bool is_slow = arms[i].strategy == &strategy_zero_all;

		if (!is_slow || !is_too_slow(c, regions, pass, round))
			course_walk(c, &arms[i], regions, pass);
	}
}

static void course_compare(const struct course *c, size_t regions)
{
	static struct arm arms[STRATEGIES_MAX];
	size_t count = 0;

	memset(arms, 0, sizeof(arms));
	for (; strategies[count] != NULL; count++) {
		arms[count].strategy = strategies[count];
		stage_open(&arms[count].stage, STAGE_SLAB);
	}
	for (size_t round = 0; round < perf.rounds + 2; round++)
		course_round(c, arms, count, regions, round);
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < c->phases; k++) {
			if (arms[i].results[k].rounds > 0)
				result_print(c, arms[i].strategy, regions, k,
				             &arms[i].results[k]);
		}
		stage_close(&arms[i].stage);
	}
}

void bench_collapse(void)
{
	samples = perf_malloc((phase_requests + CHUNK) * REQUEST_PIECES *
	                      sizeof(*samples));
	for (size_t i = 0; i < lengthof(courses); i++) {
		if (i > 0 && perf.level == PERF_QUICK)
			break;
		course_compare(&courses[i], 1);
		if (perf.level != PERF_QUICK)
			course_compare(&courses[i], REGIONS_MAX);
	}
	free(samples);
}
