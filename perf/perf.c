/* SPDX-License-Identifier: BSD-2-Clause */
/* perf - clock, interleaved rounds, counted loops, records. */
#include "perf.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

uint64_t perf_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

long perf_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

size_t perf_rss_kib(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f == NULL)
		return 0;
	if (fscanf(f, "%*u %lu", &pages) != 1)
		pages = 0;
	fclose(f);
	return pages * ((size_t)sysconf(_SC_PAGESIZE) / 1024);
}

void *perf_malloc(size_t size)
{
	void *ptr = malloc(size != 0 ? size : 1);

	if (ptr == NULL) {
		fprintf(stderr, "perf: no memory for %zu bytes\n", size);
		exit(1);
	}
	return ptr;
}

static int cmp_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct perf_spread perf_spread(double *values, size_t count)
{
	struct perf_spread s = {0, 0, 0};

	if (count == 0)
		return s;
	qsort(values, count, sizeof(*values), cmp_double);
	s.median = count % 2 != 0
	                   ? values[count / 2]
	                   : (values[count / 2 - 1] + values[count / 2]) / 2;
	s.min = values[0];
	s.max = values[count - 1];
	return s;
}

double perf_arm_median(const struct perf_arm *arm)
{
	double ns[PERF_ROUNDS_MAX];

	memcpy(ns, arm->ns, sizeof(ns));
	return perf_spread(ns, arm->rounds).median;
}

/* Moves the values to `to`, in order of 16 of their bits, stable. */
static void sort_digit(const uint32_t *from, uint32_t *to, size_t count,
                       int shift)
{
	static size_t starts[65536];
	size_t at = 0;

	memset(starts, 0, sizeof(starts));
	for (size_t i = 0; i < count; i++)
		starts[(from[i] >> shift) & 65535]++;
	for (size_t i = 0; i < 65536; i++) {
		size_t next = at + starts[i];

		starts[i] = at;
		at = next;
	}
	for (size_t i = 0; i < count; i++)
		to[starts[(from[i] >> shift) & 65535]++] = from[i];
}

/* By digits: a run sorts millions of samples. */
void perf_sort_u32(uint32_t *values, size_t count)
{
	uint32_t *other = perf_malloc(count * sizeof(*other));

	sort_digit(values, other, count, 0);
	sort_digit(other, values, count, 16);
	free(other);
}

uint32_t perf_percentile(const uint32_t *sorted, size_t count, double p)
{
	size_t i = (size_t)((double)count * p);

	if (count == 0)
		return 0;
	return sorted[i < count ? i : count - 1];
}

void perf_key(struct perf_arm *arm, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(arm->key, sizeof(arm->key), fmt, ap);
	va_end(ap);
}

void perf_begin(const char *bench, const char *key_fmt, ...)
{
	va_list ap;

	printf("bench=%s ", bench);
	va_start(ap, key_fmt);
	vprintf(key_fmt, ap);
	va_end(ap);
	putchar('\t');
}

void perf_put(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
}

void perf_end(void)
{
	putchar('\n');
	fflush(stdout);
}

/*
 * What callgrind is told by name: it collects while perf_collect() runs and
 * dumps when perf_mark() is entered. Neither may be inlined, cloned or left
 * by a tail call.
 */
#ifdef __clang__
# define PERF_WHOLE __attribute__((noinline))
#else
# define PERF_WHOLE __attribute__((noinline, noclone))
#endif
void perf_collect(struct perf_arm *arm, uint64_t ops);
void perf_mark(void);

PERF_WHOLE void perf_collect(struct perf_arm *arm, uint64_t ops)
{
	arm->loop(arm, ops);
	__asm__ volatile("" : : : "memory");
}

PERF_WHOLE void perf_mark(void)
{
	__asm__ volatile("" : : : "memory");
}

/* A system call that does nothing and that a trace shows: write(-1, none, n).
 * Between 1 and 2 a loop runs; 3 ends a count. */
static void trace_mark(size_t n)
{
	static const char none[4];

	if (write(-1, none, n) >= 0)
		abort();
}

static void count_loop(struct perf_arm *arm, uint64_t ops)
{
	uint64_t once = arm->before != NULL ? ops : 1;
	uint64_t step = arm->before != NULL ? 1 : ops;

	for (uint64_t i = 0; i < once; i++) {
		if (arm->before != NULL)
			arm->before(arm);
		trace_mark(1);
		perf_collect(arm, step);
		trace_mark(2);
	}
	trace_mark(3);
	perf_mark();
}

static int arm_open(struct perf_arm *arm)
{
	if (arm->open == NULL || arm->open(arm) == 0)
		return 0;
	arm->is_absent = true;
	return -1;
}

static void arm_close(struct perf_arm *arm)
{
	if (arm->close != NULL)
		arm->close(arm);
}

/* Prints for each dump pair: the record it belongs to, N, its floor and its
 * base. */
static void compare_counts(const char *bench, struct perf_arm *arms,
                           size_t count)
{
	const char *floor = "-";

	for (size_t i = 0; i < count; i++) {
		if (arms[i].is_floor)
			floor = arms[i].key;
	}
	for (size_t i = 0; i < count; i++) {
		struct perf_arm *arm = &arms[i];

		if (arm->count == 0 || (!arm->is_gate && !perf.count_all) ||
		    arm_open(arm) != 0)
			continue;
		if (arm->before == NULL)
			arm->loop(arm, arm->count); /* warm */
		count_loop(arm, arm->count);
		count_loop(arm, arm->count * 2);
		arm_close(arm);
		printf("count\tbench=%s %s\t%llu\tbench=%s %s\tbench=%s %s\n",
		       bench, arm->key, (unsigned long long)arm->count, bench,
		       floor, bench, arm->base != NULL ? arm->base->key : "-");
		fflush(stdout);
	}
}

/* The median of single operations, each prepared untimed. */
static double time_each(struct perf_arm *arm)
{
	double *ns = perf_malloc(arm->ops * sizeof(*ns));
	struct perf_spread spread;

	for (uint64_t i = 0; i < arm->ops; i++) {
		uint64_t start;

		arm->before(arm);
		start = perf_now_ns();
		perf_collect(arm, 1);
		ns[i] = (double)(perf_now_ns() - start);
	}
	spread = perf_spread(ns, arm->ops);
	free(ns);
	return spread.median;
}

static double time_all(struct perf_arm *arm)
{
	uint64_t start = perf_now_ns();

	perf_collect(arm, arm->ops);
	return (double)(perf_now_ns() - start) / (double)arm->ops;
}

static void arm_round(struct perf_arm *arm, bool is_warm_up)
{
	long faults = perf_faults();
	double ns = arm->before != NULL ? time_each(arm) : time_all(arm);

	if (is_warm_up)
		return;
	arm->ns[arm->rounds] = ns;
	arm->faults[arm->rounds] = (double)(perf_faults() - faults);
	arm->rounds++;
}

static void arm_print(const char *bench, struct perf_arm *arm, double first)
{
	struct perf_spread ns = perf_spread(arm->ns, arm->rounds);
	struct perf_spread faults = perf_spread(arm->faults, arm->rounds);

	perf_begin(bench, "%s", arm->key);
	perf_put("ns_op=%.4g ns_min=%.4g ns_max=%.4g", ns.median, ns.min,
	         ns.max);
	if (first > 0)
		perf_put(" ratio=%.3g", ns.median / first);
	perf_put(" faults=%.0f rss_kib=%zu", faults.median, perf_rss_kib());
	if (arm->report != NULL)
		arm->report(arm);
	perf_end();
}

static double first_ns(struct perf_arm *arms, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!arms[i].is_absent)
			return perf_spread(arms[i].ns, arms[i].rounds).median;
	}
	return 0;
}

/* Arms that stay open from first round to last. */
static void compare_open(const char *bench, struct perf_arm *arms, size_t count)
{
	for (size_t i = 0; i < count; i++)
		arm_open(&arms[i]);
	for (size_t round = 0; round <= perf.rounds; round++) {
		for (size_t i = 0; i < count; i++) {
			if (!arms[i].is_absent)
				arm_round(&arms[i], round == 0);
		}
	}
	for (size_t i = 0; i < count; i++) {
		if (arms[i].is_absent)
			continue;
		arm_print(bench, &arms[i], first_ns(arms, count));
		arm_close(&arms[i]);
	}
}

/* Arms that would not fit beside each other: each round is on its own. */
static void compare_fresh(const char *bench, struct perf_arm *arms,
                          size_t count)
{
	for (size_t round = 0; round < perf.rounds; round++) {
		for (size_t i = 0; i < count; i++) {
			bool is_last = round + 1 == perf.rounds;

			if (arms[i].is_absent || arm_open(&arms[i]) != 0)
				continue;
			arm_round(&arms[i], false);
			if (is_last)
				arm_print(bench, &arms[i],
				          first_ns(arms, i + 1));
			arm_close(&arms[i]);
		}
	}
}

void perf_compare(const char *bench, struct perf_arm *arms, size_t count)
{
	if (perf.counting)
		compare_counts(bench, arms, count);
	else if (count > 0 && arms[0].is_fresh)
		compare_fresh(bench, arms, count);
	else
		compare_open(bench, arms, count);
	for (size_t i = 0; i < count && !perf.counting; i++) {
		if (arms[i].is_absent)
			printf("# %s: %s is not on this machine\n", bench,
			       arms[i].key);
	}
}
