/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_H
#define PERF_H
/*
 * perf - what every bench program is made of: options, a clock, interleaved
 * rounds, counted loops, records.
 *
 * A program measures one group (region, quota, ...). It has a table of
 * benches; a bench compares arms with perf_compare(), or measures in its own
 * way and prints with perf_begin(), perf_put(), perf_end(). One record is one
 * line: `bench=NAME KEY<tab>MEASURES`, all of it key=value; KEY tells the
 * record from every other one, perf/run replaces the tab by a blank.
 *
 * With --count nothing is timed: each counted arm runs N and 2N operations
 * inside perf_collect() and then calls perf_mark(), so that callgrind, told
 * to collect in the one and to dump at the other, gives instructions for
 * each; see perf/run.
 *
 * Threads: the main thread; an arm's loop may start threads of its own.
 * Errors:  a bench that can not run is skipped with a `# ` line; what can
 *          not go on (no memory for the harness itself) exits 1.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum perf_level {
	PERF_QUICK,
	PERF_DEFAULT,
	PERF_FULL,
};

enum {
	PERF_ROUNDS_MAX = 64,
	PERF_KEY_MAX = 160,
};

/* The command line. */
struct perf_options {
	enum perf_level level;
	size_t rounds; /* of each comparison, 1..PERF_ROUNDS_MAX */
	uint64_t seed;
	const char *only; /* run benches whose name holds this, NULL: all */
	bool counting;    /* --count: instructions, not time */
	bool count_all;   /* --count-all: arms that are not gates too */
};

extern struct perf_options perf;

struct perf_bench {
	const char *name;
	void (*run)(void);
	bool is_timed_only; /* has no counted arm */
};

/* Median, least and most of a series. */
struct perf_spread {
	double median, min, max;
};

/*
 * One candidate of a comparison. The loop runs `ops` operations; with a
 * `before`, which is neither timed nor counted, it is called for one
 * operation at a time. Callbacks may be NULL, except for the loop.
 */
struct perf_arm {
	char key[PERF_KEY_MAX]; /* "strategy=garbage slabs=10", see perf_key */
	uint64_t ops;           /* of one timed round, > 0 */
	uint64_t count;         /* N of the counted loop, 0: not counted */
	bool is_gate;           /* counted in a default run too */
	bool is_floor;          /* the bare loop that others are compared to */
	bool is_fresh;          /* open and close around each round */
	struct perf_arm *base;  /* ir_ratio is over this one, NULL: none */
	void *self;             /* the bench's own */
	int (*open)(struct perf_arm *arm); /* -1: not here, arm is skipped */
	void (*before)(struct perf_arm *arm);
	void (*loop)(struct perf_arm *arm, uint64_t ops);
	void (*report)(struct perf_arm *arm); /* more perf_put(), arm is open */
	void (*close)(struct perf_arm *arm);
	/* Results. */
	double ns[PERF_ROUNDS_MAX];     /* an operation, by round */
	double faults[PERF_ROUNDS_MAX]; /* page faults, by round */
	size_t rounds;
	bool is_absent;
};

/* The program: parses options, prints the `# ` lines, runs the benches. */
int perf_main(int argc, char **argv, const struct perf_bench *benches,
              size_t count);

/* Sets arm->key. */
void perf_key(struct perf_arm *arm, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Runs the arms interleaved, A B C A B C, perf.rounds times, after one round
 * that warms up, and prints a record each: ns_op ns_min ns_max ratio (to the
 * first arm) faults rss_kib and what report() puts. With perf.counting it
 * runs the counted loops instead.
 */
void perf_compare(const char *bench, struct perf_arm *arms, size_t count);

/* One record. Measures are put as " name=%..." with the blank in front. */
void perf_begin(const char *bench, const char *key_fmt, ...)
	__attribute__((format(printf, 2, 3)));
void perf_put(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void perf_end(void);

/* By level. */
static inline uint64_t perf_pick(uint64_t quick, uint64_t normal, uint64_t full)
{
	return perf.level == PERF_QUICK  ? quick
	       : perf.level == PERF_FULL ? full
	                                 : normal;
}

uint64_t perf_now_ns(void);
/* A running count of this process's minor page faults. */
long perf_faults(void);
size_t perf_rss_kib(void);

/* Sorts the values. */
struct perf_spread perf_spread(double *values, size_t count);
/* Of the rounds so far; leaves them in their order. */
double perf_arm_median(const struct perf_arm *arm);
void perf_sort_u32(uint32_t *values, size_t count);
/* The value that a part `p` (0..1) of the sorted ones does not exceed. */
uint32_t perf_percentile(const uint32_t *sorted, size_t count, double p);

/* malloc that exits 1 with a line when it fails. */
void *perf_malloc(size_t size);

/* xorshift64*, the same numbers everywhere for one seed. */
static inline uint64_t perf_random(uint64_t *state)
{
	uint64_t x = *state != 0 ? *state : 88172645463325252u;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 2685821657736338717u;
}

/* A number from..to, both included. */
static inline size_t perf_uniform(uint64_t *state, size_t from, size_t to)
{
	return from + (size_t)(perf_random(state) % (to - from + 1));
}

/* Keeps a value alive without an instruction. */
static inline void perf_keep(const void *value)
{
	__asm__ volatile("" : : "r"(value) : "memory");
}

#endif /* PERF_H */
