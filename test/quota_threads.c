/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota_threads - no refusal without proof, and never over, by N threads.
 *
 * Every call takes a ticket before and after it from one counter, so all
 * calls of a round lie on one line. From the log follow, for each instant,
 * an upper bound of what was taken (from before the call that took it until
 * after the call that gave it back) and a lower bound (from after to before);
 * likewise for the total. A refusal is proven when upper + size > total at
 * some instant of the call; nothing was over when lower <= total always.
 */
#include "test.h"

#include <pthread.h>

#include <small/quota_lessor.h>
#include <small/track.h>

#define UNIT  QUOTA_UNIT_SIZE
#define KIB   ((size_t)1024)
#define MIB   (1024 * KIB)
#define HOLDS 16    /* pieces a thread has at most */
#define CALLS 10000 /* of a thread in a round; bounds the log */

enum { THREADS_MAX = 8 };

/* What changes at a ticket. */
struct event {
	ssize_t upper, lower; /* of what is taken */
	ssize_t total_upper, total_lower;
};

struct refusal {
	size_t from, to; /* tickets */
	size_t size;     /* or the new limit */
	bool lowers;
};

struct hold {
	size_t size;
	bool direct;
};

struct worker {
	pthread_t thread;
	size_t number;
	size_t calls;
	uint64_t seed;
	struct quota_lessor lessor;
	struct hold holds[HOLDS];
	struct refusal *refusals;
	size_t refused;
	size_t wrong; /* reads with used > total, broken invariants */
};

static struct quota q;
static struct event *events;
static size_t tickets;
static size_t limit; /* totals of a round lie in limit / 2 .. limit */
static struct worker workers[THREADS_MAX];
static size_t multiply = 1; /* of the calls, from the command line */

static size_t ticket(void)
{
	return __atomic_fetch_add(&tickets, 1, __ATOMIC_SEQ_CST);
}

static void refused(struct worker *w, size_t from, size_t size, bool lowers)
{
	struct refusal *r = &w->refusals[w->refused++];

	r->from = from;
	r->to = ticket();
	r->size = size;
	r->lowers = lowers;
}

/* Small and large sizes alike, up to the limit. */
static size_t random_size(struct worker *w)
{
	size_t top = limit >> test_random(&w->seed) % (small_lb(limit) + 1);

	return 1 + (size_t)(test_random(&w->seed) % top);
}

static void take(struct worker *w, struct hold *h)
{
	size_t size = random_size(w), from;
	ssize_t got;

	h->direct = test_random(&w->seed) % 2 == 0;
	if (h->direct)
		size = small_align(size, UNIT);
	from = ticket();
	got = h->direct ? quota_use(&q, size) : quota_lease(&w->lessor, size);
	if (got < 0) {
		refused(w, from, size, false);
		return;
	}
	h->size = size;
	w->wrong += (size_t)got != size;
	events[from].upper = (ssize_t)size;
	events[ticket()].lower = (ssize_t)size;
}

static void give(struct worker *w, struct hold *h)
{
	size_t from = ticket();

	events[from].lower = -(ssize_t)h->size;
	if (h->direct)
		quota_release(&q, h->size);
	else
		quota_end_lease(&w->lessor, h->size);
	events[ticket()].upper = -(ssize_t)h->size;
	h->size = 0;
}

/* By one thread only, so that the total's bounds can be told. */
static void change_total(struct worker *w)
{
	size_t total = limit / 2 + test_random(&w->seed) % (limit / 2);
	size_t old = quota_total(&q), from, to;
	ssize_t change;

	total = small_align(total, UNIT);
	change = (ssize_t)total - (ssize_t)old;
	from = ticket();
	if (quota_set(&q, total) < 0) {
		refused(w, from, total, true);
		return;
	}
	to = ticket();
	events[change < 0 ? from : to].total_lower = change;
	events[change < 0 ? to : from].total_upper = change;
}

static void look(struct worker *w)
{
	struct quota_stats stats;
	size_t total, used;

	quota_get_total_and_used(&q, &total, &used);
	w->wrong += used > total;
	quota_stats(&q, &stats);
	w->wrong += stats.used > stats.total;
	w->wrong += quota_lessor_check(&w->lessor) != NULL;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	w->wrong += quota_lessor_create(&w->lessor, &q) != 0;
	for (size_t i = 0; i < w->calls; i++) {
		uint64_t dice = test_random(&w->seed);
		struct hold *h = &w->holds[dice % HOLDS];

		dice >>= 32;
		if (dice % 32 == 0)
			look(w);
		else if (dice % 32 == 1 && w->number == 0)
			change_total(w);
		else if (h->size == 0)
			take(w, h);
		else
			give(w, h);
	}
	for (size_t i = 0; i < HOLDS; i++)
		if (w->holds[i].size != 0)
			give(w, &w->holds[i]);
	quota_lessor_destroy(&w->lessor);
	return NULL;
}

/* Turns the changes into values, in place; false if anything was over. */
static bool add_up(size_t total)
{
	struct event now = {0, 0, (ssize_t)total, (ssize_t)total};
	bool right = true;

	for (size_t i = 0; i < tickets; i++) {
		now.upper += events[i].upper;
		now.lower += events[i].lower;
		now.total_upper += events[i].total_upper;
		now.total_lower += events[i].total_lower;
		events[i] = now;
		right = right && now.lower <= now.total_upper;
	}
	return right && now.upper == 0 && now.lower == 0;
}

static bool is_proven(const struct refusal *r)
{
	for (size_t i = r->from; i < r->to; i++) {
		ssize_t total =
			r->lowers ? (ssize_t)r->size : events[i].total_lower;
		ssize_t need = r->lowers ? 0 : (ssize_t)r->size;

		if (events[i].upper + need > total)
			return true;
	}
	return false;
}

static void verify(size_t threads, size_t total)
{
	assert_true(add_up(total));
	for (size_t t = 0; t < threads; t++) {
		struct worker *w = &workers[t];

		assert_int_equal(w->wrong, 0);
		for (size_t i = 0; i < w->refused; i++)
			assert_true(is_proven(&w->refusals[i]));
	}
	assert_int_equal(quota_used(&q), 0);
	assert_null(quota_check(&q));
}

static size_t play_round(size_t threads, size_t calls, uint64_t *seed)
{
	size_t refusals = 0;

	quota_init(&q, limit);
	tickets = 0;
	memset(events, 0, threads * (calls + HOLDS) * 2 * sizeof(*events));
	for (size_t t = 0; t < threads; t++) {
		struct worker *w = &workers[t];

		w->number = t;
		w->calls = calls;
		w->seed = test_random(seed);
		w->refused = w->wrong = 0;
		assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
	}
	for (size_t t = 0; t < threads; t++) {
		assert_int_equal(pthread_join(workers[t].thread, NULL), 0);
		refusals += workers[t].refused;
	}
	verify(threads, limit);
	return refusals;
}

/* cases.md 22, 24 */
static void no_refusal_without_proof_and_never_over(void **state)
{
	static const size_t limits[] = {3 * UNIT, 64 * KIB, MIB, 3 * MIB,
	                                20 * MIB};
	uint64_t seed = test_seed("quota_threads");
	size_t rounds = 0, refusals = 0, total = 0;

	(void)state;
	events = test_malloc(THREADS_MAX * (CALLS + HOLDS) * 2 *
	                     sizeof(*events));
	for (size_t t = 0; t < THREADS_MAX; t++)
		workers[t].refusals =
			test_malloc(CALLS * sizeof(struct refusal));
	for (size_t threads = 2; threads <= THREADS_MAX; threads++) {
		size_t left = test_scale(multiply * 1000000 / 7) / threads + 1;

		while (left > 0) {
			size_t part = left / lengthof(limits) + 1;
			size_t calls = part < CALLS ? part : CALLS;

			calls = calls < left ? calls : left;
			limit = limits[rounds++ % lengthof(limits)];
			refusals += play_round(threads, calls, &seed);
			left -= calls;
			total += calls * threads;
		}
	}
	printf("%zu calls, %zu refused, each with proof\n", total, refusals);
	assert_true(refusals > 0);
	for (size_t t = 0; t < THREADS_MAX; t++)
		test_free(workers[t].refusals);
	test_free(events);
}

static bool stop_leasing;

/* Charges go on until so many led to a recall. Where threads take turns, under
 * valgrind, that is one a turn, hence the bound on calls. */
static bool wants_recalls(size_t recalls, size_t calls)
{
	return __atomic_load_n(&q.recalls, __ATOMIC_RELAXED) < recalls &&
	       calls < 200 * recalls;
}

/* Nothing but leases of idle credit, as fast as they go, without a fence of
 * this test between them: the owner's side of the handshake. */
static void *lease_on(void *arg)
{
	struct worker *w = arg;
	size_t leased = 0;

	w->wrong += quota_lessor_create(&w->lessor, &q) != 0;
	while (!__atomic_load_n(&stop_leasing, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 64; i++) {
			size_t size = 1 + test_random(&w->seed) % 20000;

			if (quota_lease(&w->lessor, size) > 0)
				leased += size;
			if (i % 4 != 0 && leased > 0) {
				size_t part = leased / 2 + 1;

				quota_end_lease(&w->lessor, part);
				leased -= part;
			}
		}
		w->wrong += quota_leased(&w->lessor) != leased;
		w->wrong += quota_lessor_check(&w->lessor) != NULL;
		quota_end_lease(&w->lessor, leased);
		leased = 0;
	}
	quota_lessor_destroy(&w->lessor);
	return NULL;
}

static void recalls_never_take_what_is_leased(void **state)
{
	size_t recalls = test_scale(20000 * multiply), got = 0, calls = 0;
	uint64_t seed = test_seed("recalls");

	(void)state;
	quota_init(&q, MIB);
	track_atomic(&stop_leasing, sizeof(stop_leasing));
	stop_leasing = false;
	for (size_t t = 0; t < 3; t++) {
		workers[t].wrong = 0;
		workers[t].seed = test_random(&seed);
		assert_int_equal(pthread_create(&workers[t].thread, NULL,
		                                lease_on, &workers[t]),
		                 0);
	}
	while (wants_recalls(recalls, calls++)) {
		size_t size = UNIT * (924 + test_random(&seed) % 100);

		if (quota_use(&q, size) < 0)
			continue;
		got++;
		quota_release(&q, size);
	}
	__atomic_store_n(&stop_leasing, true, __ATOMIC_RELAXED);
	for (size_t t = 0; t < 3; t++) {
		assert_int_equal(pthread_join(workers[t].thread, NULL), 0);
		assert_int_equal(workers[t].wrong, 0);
	}
	printf("%zu of %zu charges got through, %zu recalls\n", got, calls,
	       q.recalls);
	assert_true(got > 0);
	assert_int_equal(quota_used(&q), 0);
	assert_null(quota_check(&q));
}

/* Flips between two sums and looks, while the larger one is leased, whether
 * somebody took what it stands on. */
static void *flip(void *arg)
{
	struct worker *w = arg;
	struct quota_lessor *l = &w->lessor;

	w->wrong += quota_lessor_create(l, &q) != 0;
	while (quota_lease(l, 1000) < 0)
		continue;
	while (!__atomic_load_n(&stop_leasing, __ATOMIC_RELAXED)) {
		if (quota_lease(l, 5000) < 0)
			continue;
		for (int i = 0; i < 30; i++)
			w->wrong += __atomic_load_n(&l->held,
			                            __ATOMIC_RELAXED) < 6000;
		quota_end_lease(l, 5000);
	}
	quota_lessor_destroy(l);
	return NULL;
}

/* A charge that fits beside the smaller sum and not beside the larger one:
 * each closes the lessor in the middle of what its owner does. */
static void a_closed_lessor_grants_nothing(void **state)
{
	size_t recalls = test_scale(100000 * multiply), got = 0, calls = 0;
	struct worker *w = &workers[0];

	(void)state;
	quota_init(&q, MIB);
	track_atomic(&stop_leasing, sizeof(stop_leasing));
	stop_leasing = false;
	w->wrong = 0;
	assert_int_equal(pthread_create(&w->thread, NULL, flip, w), 0);
	while (wants_recalls(recalls, calls++)) {
		if (quota_use(&q, MIB - 2 * UNIT) < 0)
			continue;
		quota_release(&q, MIB - 2 * UNIT);
		got++;
	}
	__atomic_store_n(&stop_leasing, true, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(w->thread, NULL), 0);
	printf("%zu of %zu charges got through, %zu recalls\n", got, calls,
	       q.recalls);
	assert_int_equal(w->wrong, 0);
	assert_int_equal(quota_used(&q), 0);
	assert_null(quota_check(&q));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_refusal_without_proof_and_never_over),
		cmocka_unit_test(recalls_never_take_what_is_leased),
		cmocka_unit_test(a_closed_lessor_grants_nothing),
	};

	if (argc > 1)
		multiply = strtoul(argv[1], NULL, 0);
	return cmocka_run_group_tests_name("quota_threads", tests, NULL, NULL);
}
