/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota - pairs of taking and giving back, far from the limit and near it, by
 * one thread and by several; what a recall takes. The references are what
 * others do: one word by compare-and-swap (exact), one word by fetch-and-add
 * (undone when over, so it refuses falsely), 16 padded words (no limit).
 */
#include "perf.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <small/quota_lessor.h>

enum {
	SIZES = 4096, /* precomputed requests, a power of two */
	SHARDS = 16,
	THREADS_MAX = 16,
	NEAR_PAYERS = 4,     /* a power of two */
	NEAR_TOP = 24 << 10, /* bytes of a piece, at most */
	ARMS_MAX = 8,
};

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static uint32_t sizes[SIZES];

static void fill_sizes(size_t from, size_t to)
{
	uint64_t state = perf.seed;

	for (size_t i = 0; i < SIZES; i++)
		sizes[i] = (uint32_t)perf_uniform(&state, from, to);
}

struct shard {
	size_t used;
	char apart[SMALL_CACHE_LINE * 2 - sizeof(size_t)];
};

/* What all arms charge, each its own. */
static struct {
	struct quota quota;
	char apart0[SMALL_CACHE_LINE];
	size_t word; /* free units of cas_ref, used bytes of fetch_add_ref */
	char apart1[SMALL_CACHE_LINE];
	size_t limit;
	struct shard shards[SHARDS];
} shared;

/* One thread of an arm. */
struct payer {
	struct quota_lessor lessor;
	struct shard *shard;
	pthread_t thread;
	struct perf_arm *arm;
	uint64_t ops;
	size_t refused;
};

static inline ssize_t floor_take(struct payer *p, size_t size)
{
	(void)p;
	return (ssize_t)size;
}

static inline void floor_give(struct payer *p, size_t size)
{
	(void)p;
	perf_keep((void *)size);
}

static inline ssize_t lessor_take(struct payer *p, size_t size)
{
	return quota_lease(&p->lessor, size);
}

static inline void lessor_give(struct payer *p, size_t size)
{
	quota_end_lease(&p->lessor, size);
}

static inline ssize_t quota_take(struct payer *p, size_t size)
{
	(void)p;
	return quota_use(&shared.quota, size);
}

static inline void quota_give(struct payer *p, size_t size)
{
	(void)p;
	(void)quota_release(&shared.quota, size);
}

static inline ssize_t cas_take(struct payer *p, size_t size)
{
	size_t units = (size + QUOTA_UNIT_SIZE - 1) / QUOTA_UNIT_SIZE;
	size_t free = __atomic_load_n(&shared.word, __ATOMIC_RELAXED);

	(void)p;
	do {
		if (free < units)
			return -1;
	} while (!__atomic_compare_exchange_n(&shared.word, &free, free - units,
	                                      true, __ATOMIC_ACQ_REL,
	                                      __ATOMIC_RELAXED));
	return (ssize_t)(units * QUOTA_UNIT_SIZE);
}

static inline void cas_give(struct payer *p, size_t size)
{
	size_t units = (size + QUOTA_UNIT_SIZE - 1) / QUOTA_UNIT_SIZE;
	size_t free = __atomic_load_n(&shared.word, __ATOMIC_RELAXED);

	(void)p;
	while (!__atomic_compare_exchange_n(&shared.word, &free, free + units,
	                                    true, __ATOMIC_ACQ_REL,
	                                    __ATOMIC_RELAXED))
		continue;
}

static inline ssize_t add_take(struct payer *p, size_t size)
{
	(void)p;
	if (__atomic_add_fetch(&shared.word, size, __ATOMIC_ACQ_REL) >
	    shared.limit) {
		__atomic_sub_fetch(&shared.word, size, __ATOMIC_ACQ_REL);
		return -1;
	}
	return (ssize_t)size;
}

static inline void add_give(struct payer *p, size_t size)
{
	(void)p;
	__atomic_sub_fetch(&shared.word, size, __ATOMIC_ACQ_REL);
}

static inline ssize_t shard_take(struct payer *p, size_t size)
{
	__atomic_add_fetch(&p->shard->used, size, __ATOMIC_RELAXED);
	return (ssize_t)size;
}

static inline void shard_give(struct payer *p, size_t size)
{
	__atomic_sub_fetch(&p->shard->used, size, __ATOMIC_RELAXED);
}

/* The loop of all arms, compiled once for each; nothing is ever refused. */
static inline __attribute__((always_inline)) void
pair_loop(struct payer *p, uint64_t ops,
          ssize_t (*take)(struct payer *, size_t),
          void (*give)(struct payer *, size_t))
{
	for (uint64_t i = 0; i < ops; i++) {
		size_t size = sizes[i & (SIZES - 1)];

		if (take(p, size) < 0)
			p->refused++;
		else
			give(p, size);
	}
}

/* Near the limit: each of four payers takes the next piece before it gives the
 * last one back. All fits, but only with the idle credit of the others. */
static inline __attribute__((always_inline)) void
near_loop(struct payer *p, uint64_t ops,
          ssize_t (*take)(struct payer *, size_t),
          void (*give)(struct payer *, size_t))
{
	size_t held[NEAR_PAYERS] = {0};

	for (uint64_t i = 0; i < ops; i++) {
		size_t size = sizes[i & (SIZES - 1)];
		size_t k = i & (NEAR_PAYERS - 1);

		if (take(&p[k], size) < 0)
			p->refused++;
		else
			give(&p[k], held[k]);
		held[k] = size;
	}
	for (size_t k = 0; k < NEAR_PAYERS; k++)
		give(&p[k], held[k]);
}

#define LOOPS(name)                                                     \
 static __attribute__((noinline)) void name##_run(struct payer *p,      \
	                                          uint64_t ops)         \
 {                                                                      \
  pair_loop(p, ops, name##_take, name##_give);                          \
 }                                                                      \
 static __attribute__((noinline)) void name##_run_near(struct payer *p, \
	                                               uint64_t ops)    \
 {                                                                      \
  near_loop(p, ops, name##_take, name##_give);                          \
 }

LOOPS(floor)
LOOPS(lessor)
LOOPS(quota)
LOOPS(cas)
LOOPS(add)
LOOPS(shard)

/* An implementation, and what an arm of it has. */
struct impl {
	const char *name;
	void (*run)(struct payer *p, uint64_t ops);
	void (*run_near)(struct payer *p, uint64_t ops);
	bool is_gate;
	unsigned times; /* more pairs than the others, as it is faster */
};

static const struct impl impls[] = {
	{"lessor", lessor_run, lessor_run_near, true, 20},
	{"quota", quota_run, quota_run_near, true, 1},
	{"cas_ref", cas_run, cas_run_near, false, 1},
	{"fetch_add_ref", add_run, add_run_near, false, 1},
	{"sharded_ref", shard_run, shard_run_near, false, 1},
	{"floor", floor_run, floor_run_near, true, 20},
};

struct arm_state {
	const struct impl *impl;
	size_t threads;
	size_t payers_open; /* by the main thread */
	bool is_near;
	size_t limit;
	uint64_t done;
	uint64_t refused;
	uint64_t recalls;
	struct payer payers[THREADS_MAX];
};

static void must(bool right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "quota: %s\n", what);
	exit(1);
}

static void payer_open(struct arm_state *s, size_t i)
{
	struct payer *p = &s->payers[i];

	p->shard = &shared.shards[i % SHARDS];
	p->refused = 0;
	must(quota_lessor_create(&p->lessor, &shared.quota) == 0, "no lessor");
}

static void payer_close(struct payer *p)
{
	must(quota_lessor_check(&p->lessor) == NULL, "broken lessor");
	quota_lessor_destroy(&p->lessor);
}

static int arm_open(struct perf_arm *arm)
{
	struct arm_state *s = arm->self;
	bool counts_used = s->impl->run == add_run;

	quota_init(&shared.quota, s->limit);
	shared.limit = s->limit;
	shared.word = counts_used ? 0 : s->limit / QUOTA_UNIT_SIZE;
	for (size_t i = 0; i < s->payers_open; i++)
		payer_open(s, i);
	return 0;
}

static void arm_close(struct perf_arm *arm)
{
	struct arm_state *s = arm->self;

	for (size_t i = 0; i < s->payers_open; i++)
		payer_close(&s->payers[i]);
	must(quota_used(&shared.quota) == 0, "quota not back");
	must(quota_check(&shared.quota) == NULL, "broken quota");
}

static void *pay(void *arg)
{
	struct payer *p = arg;
	struct arm_state *s = p->arm->self;

	payer_open(s, (size_t)(p - s->payers));
	s->impl->run(p, p->ops);
	must(p->refused == 0, "refused");
	payer_close(p);
	return NULL;
}

/* ops pairs in all, shared by the threads: ns_op is the inverse of what they
 * get through together. */
static void arm_loop(struct perf_arm *arm, uint64_t ops)
{
	struct arm_state *s = arm->self;

	if (s->threads == 1) {
		(s->is_near ? s->impl->run_near : s->impl->run)(s->payers, ops);
		s->done += ops;
		s->refused += s->payers[0].refused;
		s->recalls = shared.quota.recalls;
		return;
	}
	for (size_t i = 0; i < s->threads; i++) {
		s->payers[i].arm = arm;
		s->payers[i].ops = ops / s->threads;
		must(pthread_create(&s->payers[i].thread, NULL, pay,
		                    &s->payers[i]) == 0,
		     "no thread");
	}
	for (size_t i = 0; i < s->threads; i++) {
		pthread_join(s->payers[i].thread, NULL);
	}
}

/* Of the last round, which is as every other. */
static void near_report(struct perf_arm *arm)
{
	struct arm_state *s = arm->self;

	perf_put(" refused_op=%.3g recalls_op=%.3g",
	         (double)s->refused / (double)s->done,
	         (double)s->recalls / (double)arm->ops);
}

static void arm_fill(struct perf_arm *arm, struct arm_state *s,
                     const struct impl *impl, uint64_t ops)
{
	memset(s, 0, sizeof(*s));
	s->impl = impl;
	arm->self = s;
	arm->ops = ops;
	arm->is_gate = impl->is_gate;
	arm->is_floor = impl->run == floor_run;
	arm->is_fresh = true;
	arm->open = arm_open;
	arm->loop = arm_loop;
	arm->close = arm_close;
}

static void compare_pairs(size_t threads)
{
	static struct arm_state states[ARMS_MAX];
	struct perf_arm arms[ARMS_MAX] = {{.ops = 0}};
	uint64_t ops = perf_pick(200000, 1000000, 5000000);
	size_t count = 0;

	for (size_t i = 0; i < lengthof(impls); i++) {
		struct perf_arm *arm = &arms[count];
		struct arm_state *s = &states[count];

		if (threads > 1 && impls[i].run == floor_run)
			continue;
		arm_fill(arm, s, &impls[i], ops * impls[i].times);
		perf_key(arm, "impl=%s threads=%zu", impls[i].name, threads);
		arm->count = threads == 1 ? 10000 : 0;
		s->threads = threads;
		s->payers_open = threads == 1 ? 1 : 0;
		s->limit = 1024 * MIB;
		count++;
	}
	perf_compare("quota_pair", arms, count);
}

static void bench_pair(void)
{
	static const size_t threads[] = {1, 2, 4, 16};

	fill_sizes(1, 4096);
	for (size_t i = 0; i < lengthof(threads); i++)
		if (!perf.counting || threads[i] == 1)
			compare_pairs(threads[i]);
}

static void bench_near(void)
{
	static struct arm_state states[ARMS_MAX];
	struct perf_arm arms[ARMS_MAX] = {{.ops = 0}};

	fill_sizes(1, NEAR_TOP);
	for (size_t i = 0; i < lengthof(impls); i++) {
		arm_fill(&arms[i], &states[i], &impls[i],
		         perf_pick(20000, 100000, 500000));
		perf_key(&arms[i], "impl=%s", impls[i].name);
		arms[i].count = 10000;
		arms[i].report = near_report;
		states[i].threads = 1;
		states[i].is_near = true;
		states[i].payers_open = NEAR_PAYERS;
		states[i].limit = (NEAR_PAYERS + 1) * NEAR_TOP;
	}
	perf_compare("quota_near", arms, lengthof(impls));
}

/* What a recall has to find: all of the quota but this. */
#define RECALL_SPARED (2 * QUOTA_UNIT_SIZE)

/* The thread whose credit is recalled. */
static struct {
	struct quota_lessor lessor;
	pthread_t thread;
	sem_t wake;
	bool is_busy, stops;
	bool is_recalled;     /* and the main thread has it */
	unsigned asked, done; /* to take all credit again */
} owner;

/* Small leases, or sleep, in between. */
static void *own(void *arg)
{
	unsigned asked = 0;

	(void)arg;
	must(quota_lessor_create(&owner.lessor, &shared.quota) == 0,
	     "no lessor");
	while (!__atomic_load_n(&owner.stops, __ATOMIC_RELAXED)) {
		size_t size = 100;

		if (!owner.is_busy)
			sem_wait(&owner.wake);
		if (asked != __atomic_load_n(&owner.asked, __ATOMIC_ACQUIRE))
			size = MIB;
		if (quota_lease(&owner.lessor, size) > 0)
			quota_end_lease(&owner.lessor, size);
		asked += size == MIB;
		__atomic_store_n(&owner.done, asked, __ATOMIC_RELEASE);
	}
	quota_lessor_destroy(&owner.lessor);
	return NULL;
}

static int recall_open(struct perf_arm *arm)
{
	memset(&owner, 0, sizeof(owner));
	owner.is_busy = arm->self != NULL;
	quota_init(&shared.quota, MIB);
	sem_init(&owner.wake, 0, 0);
	must(pthread_create(&owner.thread, NULL, own, NULL) == 0, "no thread");
	return 0;
}

static void recall_undo(void)
{
	if (owner.is_recalled)
		quota_release(&shared.quota, MIB - RECALL_SPARED);
	owner.is_recalled = false;
}

/* The owner takes everything as idle credit, then goes on or to sleep. */
static void recall_before(struct perf_arm *arm)
{
	const struct timespec nap = {0, 50000};

	(void)arm;
	recall_undo();
	__atomic_store_n(&owner.asked, owner.asked + 1, __ATOMIC_RELEASE);
	sem_post(&owner.wake);
	while (__atomic_load_n(&owner.done, __ATOMIC_ACQUIRE) != owner.asked)
		sched_yield();
	if (!owner.is_busy)
		nanosleep(&nap, NULL);
}

static void recall_loop(struct perf_arm *arm, uint64_t ops)
{
	(void)arm;
	for (uint64_t i = 0; i < ops; i++)
		must(quota_use(&shared.quota, MIB - RECALL_SPARED) > 0,
		     "refused");
	owner.is_recalled = true;
}

static void recall_report(struct perf_arm *arm)
{
	(void)arm;
	perf_put(" recalls=%zu", shared.quota.recalls);
}

static void recall_close(struct perf_arm *arm)
{
	(void)arm;
	__atomic_store_n(&owner.stops, true, __ATOMIC_RELAXED);
	sem_post(&owner.wake);
	pthread_join(owner.thread, NULL);
	recall_undo();
	must(quota_used(&shared.quota) == 0, "quota not back");
}

static void bench_recall(void)
{
	static const char *const names[] = {"owner=sleeping", "owner=busy"};
	struct perf_arm arms[2] = {{.ops = 0}};

	for (size_t i = 0; i < lengthof(arms); i++) {
		perf_key(&arms[i], "%s", names[i]);
		arms[i].ops = perf_pick(100, 500, 5000);
		arms[i].is_fresh = true;
		arms[i].self = i == 0 ? NULL : &owner;
		arms[i].open = recall_open;
		arms[i].before = recall_before;
		arms[i].loop = recall_loop;
		arms[i].report = recall_report;
		arms[i].close = recall_close;
	}
	perf_compare("quota_recall", arms, lengthof(arms));
}

static const struct perf_bench benches[] = {
	{"quota_pair", bench_pair, false},
	{"quota_near", bench_near, false},
	{"quota_recall", bench_recall, true},
};

int main(int argc, char **argv)
{
	return perf_main(argc, argv, benches, lengthof(benches));
}
