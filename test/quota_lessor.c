/* SPDX-License-Identifier: BSD-2-Clause */
/* quota_lessor - figures, recall, fractions, refusals, misuse, ends. */
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <small/quota_lessor.h>

#define UNIT QUOTA_UNIT_SIZE
#define KIB  ((size_t)1024)
#define MIB  (1024 * KIB)
#define MIN  QUOTA_USE_MIN

/* A quota and two lessors of this thread, as most tests need. */
static struct quota q;
static struct quota_lessor a, b;

static int start(size_t total)
{
	quota_init(&q, total);
	assert_int_equal(quota_lessor_create(&a, &q), 0);
	assert_int_equal(quota_lessor_create(&b, &q), 0);
	return 0;
}

static void assert_sound(void)
{
	assert_null(quota_lessor_check(&a));
	assert_null(quota_lessor_check(&b));
	assert_null(quota_check(&q));
}

static int stop(void **state)
{
	(void)state;
	fault_clear();
	assert_sound();
	quota_lessor_destroy(&a);
	quota_lessor_destroy(&b);
	assert_int_equal(quota_used(&q), 0);
	assert_null(quota_check(&q));
	return 0;
}

/* True when call(), run in a child with stderr closed, aborts. */
static bool aborts(void (*call)(void))
{
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		if (freopen("/dev/null", "w", stderr) == NULL)
			_exit(2);
		call();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static int in_thread(void *(*call)(void *), void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, call, arg), 0);
	return pthread_join(thread, NULL);
}

/* First in the list: no lessor has made the process's thread key yet. */
static void create_fails_without_a_thread_key_and_is_then_refusing(void **state)
{
	pthread_key_t key;
	pid_t pid = fork();
	int status = 0;

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0) {
		bool right = true;

		while (pthread_key_create(&key, NULL) == 0)
			continue;
		quota_init(&q, MIB);
		right = quota_lessor_create(&a, &q) == -1 &&
		        quota_lease(&a, 1) == -1 && quota_leased(&a) == 0 &&
		        quota_lessor_check(&a) == NULL &&
		        quota_check(&q) == NULL && quota_used(&q) == 0;
		quota_lessor_destroy(&a);
		pthread_key_delete(key - 1);
		right = right && quota_lessor_create(&a, &q) == 0 &&
		        quota_lease(&a, 1) == 1;
		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void credit_is_taken_in_batches_and_given_back(void **state)
{
	(void)state;
	start(64 * MIB);
	assert_int_equal(quota_lease(&a, 0), 0);
	assert_int_equal(quota_used(&q), 0);
	assert_int_equal(quota_lease(&a, 300), 300);
	assert_int_equal(quota_used(&q), MIN);
	assert_int_equal(quota_available(&a), MIN - 300);
	/* Exactly what is missing, in units, when that is more. */
	assert_int_equal(quota_lease(&a, 3 * MIN), 3 * MIN);
	assert_int_equal(quota_used(&q), 3 * MIN + UNIT);
	assert_int_equal(quota_leased(&a), 3 * MIN + 300);
	assert_int_equal(quota_available(&a), UNIT - 300);
	quota_end_lease(&a, 2 * MIN - UNIT);
	assert_int_equal(quota_used(&q), 3 * MIN + UNIT);
	assert_int_equal(quota_available(&a), 2 * MIN - 300);
	/* At two idle batches one goes back. */
	quota_end_lease(&a, 300);
	assert_int_equal(quota_available(&a), MIN);
	assert_int_equal(quota_used(&q), 2 * MIN + UNIT);
	quota_end_lease(&a, MIN + UNIT);
	assert_int_equal(quota_leased(&a), 0);
	assert_true(quota_available(&a) < 2 * MIN);
	assert_sound();
}

static void batches_halve_and_the_end_is_taken_whole(void **state)
{
	static const struct {
		size_t total, lease, used;
	} cases[] = {
		{MIB - UNIT, 1, 512 * KIB},        {600 * KIB, 1, 512 * KIB},
		{600 * KIB, 550 * KIB, 550 * KIB}, /* cases.md 20 */
		{600 * KIB, 600 * KIB, 600 * KIB}, {200 * KIB, 1, 128 * KIB},
		{128 * KIB, 1, 128 * KIB},         {127 * KIB, 1, 127 * KIB},
		{127 * KIB, 127 * KIB, 127 * KIB}, {UNIT, 1, UNIT},
	};

	(void)state;
	for (size_t i = 0; i < lengthof(cases); i++) {
		start(cases[i].total);
		assert_int_equal(quota_lease(&a, cases[i].lease),
		                 cases[i].lease);
		assert_int_equal(quota_used(&q), cases[i].used);
		assert_int_equal(quota_lease(&a, cases[i].total), -1);
		if (i + 1 < lengthof(cases))
			stop(state);
	}
}

/* cases.md 20 */
static void idle_credit_of_another_lessor_is_recalled(void **state)
{
	(void)state;
	start(2 * MIB);
	assert_int_equal(quota_lease(&a, 1), 1);
	assert_int_equal(quota_lease(&b, 1), 1);
	assert_int_equal(quota_used(&q), 2 * MIB);
	assert_int_equal(quota_lease(&a, MIB), MIB);
	assert_sound();
	/* By a charge in units: two bytes break two units at most. */
	quota_end_lease(&a, MIB);
	assert_int_equal(quota_use(&q, 2 * MIB - UNIT), 2 * MIB - UNIT);
	assert_int_equal(quota_use(&q, 1), -1);
	assert_sound();
	assert_int_equal(quota_release(&q, 2 * MIB - UNIT), 2 * MIB - UNIT);
	assert_int_equal(quota_lease(&b, MIB), MIB);
	/* By a lower limit. */
	assert_int_equal(quota_set(&q, MIB), -1);
	assert_int_equal(quota_total(&q), 2 * MIB);
	assert_int_equal(quota_set(&q, MIB + UNIT), MIB + UNIT);
	assert_int_equal(quota_used(&q), MIB + UNIT);
	assert_int_equal(quota_lease(&a, UNIT - 2), UNIT - 2);
	assert_int_equal(quota_lease(&a, 1), -1);
}

static void parts_of_a_unit_move_between_lessors(void **state)
{
	(void)state;
	start(UNIT);
	for (size_t i = 0; i < UNIT; i++) {
		struct quota_lessor *l = i % 3 == 0 ? &a : &b;

		assert_int_equal(quota_lease(l, 1), 1);
		assert_sound();
	}
	assert_int_equal(quota_lease(&a, 1), -1);
	assert_int_equal(quota_lease(&b, 1), -1);
	quota_end_lease(&b, 7);
	assert_int_equal(quota_lease(&a, 8), -1);
	assert_int_equal(quota_lease(&a, 7), 7);
	/* A broken unit is whole again when its last byte comes back. */
	quota_end_lease(&b, quota_leased(&b));
	assert_int_equal(quota_use(&q, 1), -1);
	quota_end_lease(&a, quota_leased(&a));
	assert_int_equal(quota_use(&q, 1), UNIT);
	quota_release(&q, 1);
}

/* cases.md 23 */
static void a_refusal_leaves_every_counter(void **state)
{
	static const size_t sizes[] = {
		2 * MIB,       QUOTA_MAX, QUOTA_MAX + 1,   SIZE_MAX / 2 + 1,
		SIZE_MAX - 64, SIZE_MAX,  (size_t)1 << 31, MIB - 100 - 33 + 1};

	(void)state;
	start(MIB);
	assert_int_equal(quota_lease(&a, 100), 100);
	quota_set(&q, MIB + 10 * UNIT);
	assert_int_equal(quota_lease(&b, 33), 33);
	quota_set(&q, MIB);
	for (size_t i = 0; i < lengthof(sizes); i++) {
		size_t idle_a = quota_available(&a);
		size_t idle_b = quota_available(&b);
		size_t used = quota_used(&q);

		assert_int_equal(quota_lease(&b, sizes[i]), -1);
		assert_int_equal(quota_lease(&a, sizes[i]), -1);
		assert_int_equal(quota_use(&q, sizes[i]), -1);
		assert_int_equal(quota_leased(&a), 100);
		assert_int_equal(quota_leased(&b), 33);
		assert_int_equal(quota_available(&a), idle_a);
		assert_int_equal(quota_available(&b), idle_b);
		assert_int_equal(quota_used(&q), used);
		assert_sound();
	}
	assert_int_equal(quota_lease(&b, MIB - 100 - 33), MIB - 100 - 33);
}

/* What reclaim gives back, and how often it was asked. */
static struct {
	struct quota_reclaimer rc;
	size_t held, calls;
} hoard;

static size_t hoard_reclaim(struct quota_reclaimer *rc, size_t want)
{
	size_t back = small_align(want < hoard.held ? want : hoard.held, UNIT);

	assert_ptr_equal(rc, &hoard.rc);
	hoard.calls++;
	hoard.held -= back;
	quota_release(&q, back);
	return back;
}

static void a_lease_recalls_before_it_reclaims(void **state)
{
	(void)state;
	start(3 * MIB);
	hoard.rc.reclaim = hoard_reclaim;
	hoard.calls = 0;
	hoard.held = MIB;
	assert_int_equal(quota_use(&q, hoard.held), hoard.held);
	quota_add_reclaimer(&q, &hoard.rc);
	assert_int_equal(quota_lease(&a, 1), 1);
	assert_int_equal(quota_lease(&b, 1), 1);
	assert_int_equal(quota_lease(&a, MIB), MIB);
	assert_int_equal(hoard.calls, 0);
	assert_int_equal(quota_lease(&a, MIB), MIB);
	assert_int_equal(hoard.calls, 1);
	assert_int_equal(hoard.held, MIB - UNIT);
	assert_int_equal(quota_lease(&a, MIB), -1);
	assert_int_equal(hoard.held, 0);
	assert_int_equal(quota_used(&q), 2 * MIB + UNIT);
	quota_del_reclaimer(&q, &hoard.rc);
	assert_sound();
}

static void the_nth_lease_fails_and_the_next_succeeds(void **state)
{
	(void)state;
	start(64 * MIB);
	for (size_t n = 1; n <= 5; n++) {
		size_t refused = 0;

		fault_set(FAULT_LESSOR, n, false);
		for (size_t i = 0; i < 6; i++) {
			size_t leased = quota_leased(&a);
			size_t idle = quota_available(&a);

			/* More than is idle: each enters the library. */
			if (quota_lease(&a, 2 * MIN) == -1) {
				refused++;
				assert_int_equal(quota_leased(&a), leased);
				assert_int_equal(quota_available(&a), idle);
			}
			assert_sound();
		}
		assert_int_equal(refused, 1);
		assert_int_equal(fault_refused(), 1);
		fault_clear();
		assert_int_equal(quota_leased(&a), 10 * MIN);
		quota_end_lease(&a, 10 * MIN);
	}
	fault_set(FAULT_LESSOR, 1, true);
	assert_int_equal(quota_lease(&a, 3 * MIN), -1);
	assert_int_equal(quota_lease(&a, 3 * MIN), -1);
	fault_clear();
	assert_int_equal(quota_lease(&a, 3 * MIN), 3 * MIN);
}

static void create_can_be_refused_and_tried_again(void **state)
{
	struct quota_lessor l;

	(void)state;
	start(MIB);
	fault_set(FAULT_LESSOR, 1, false);
	assert_int_equal(quota_lessor_create(&l, &q), -1);
	assert_int_equal(quota_lease(&l, 1), -1);
	assert_null(quota_lessor_check(&l));
	quota_lessor_destroy(&l);
	assert_int_equal(quota_lessor_create(&l, &q), 0);
	assert_int_equal(quota_lease(&l, 1), 1);
	quota_lessor_destroy(&l);
}

/* cases.md 21 */
static void destroy_returns_what_is_leased_and_twice_is_once(void **state)
{
	(void)state;
	start(4 * MIB);
	assert_int_equal(quota_lease(&a, MIB + 5), MIB + 5);
	assert_int_equal(quota_lease(&b, 7), 7);
	quota_lessor_destroy(&a);
	assert_int_equal(quota_leased(&a), 0);
	assert_int_equal(quota_lease(&a, 1), -1);
	quota_lessor_destroy(&a);
	assert_int_equal(quota_used(&q), MIN);
	assert_int_equal(quota_lessor_create(&a, &q), 0);
}

static void ends_too_much(void)
{
	quota_end_lease(&a, 11);
}

static void *uses_from_another_thread(void *arg)
{
	(void)arg;
	(void)quota_lease(&a, 2 * MIN);
	return NULL;
}

static void *destroys_from_another_thread(void *arg)
{
	(void)arg;
	quota_lessor_destroy(&a);
	return NULL;
}

static void leases_in_the_wrong_thread(void)
{
	in_thread(uses_from_another_thread, NULL);
}

static void destroys_in_the_wrong_thread(void)
{
	in_thread(destroys_from_another_thread, NULL);
}

static void misuse_is_named(void **state)
{
	(void)state;
	start(8 * MIB);
	assert_int_equal(quota_lease(&a, 10), 10);
	assert_true(aborts(ends_too_much));
	assert_true(aborts(leases_in_the_wrong_thread));
	assert_true(aborts(destroys_in_the_wrong_thread));
	quota_lessor_destroy(&a);
	assert_true(aborts(ends_too_much));
	assert_int_equal(quota_lessor_create(&a, &q), 0);
	assert_int_equal(quota_lease(&a, 11), 11);
	assert_false(aborts(ends_too_much));
}

static void stats_add_up(void **state)
{
	struct quota_stats stats;

	(void)state;
	start(4 * MIB);
	quota_use(&q, 3 * UNIT);
	quota_lease(&a, 1000);
	quota_lease(&b, 24);
	quota_stats(&q, &stats);
	assert_int_equal(stats.used, 2 * MIB + 3 * UNIT);
	assert_int_equal(stats.direct, 3 * UNIT);
	assert_int_equal(stats.leased, 1024);
	assert_int_equal(stats.idle, 2 * MIB - 1024);
	assert_int_equal(stats.refusals + stats.recalls, 0);
	assert_int_equal(quota_lease(&a, 5 * MIB), -1);
	quota_stats(&q, &stats);
	assert_int_equal(stats.refusals, 1);
	assert_true(stats.recalls > 0);
	assert_int_equal(stats.used, stats.direct + stats.leased + stats.idle);
	quota_release(&q, 3 * UNIT);
}

#define assert_breaks(field, value, name)            \
 do {                                                \
  struct quota_lessor right = a;                     \
  field = (value);                                   \
  assert_string_equal(quota_lessor_check(&a), name); \
  a = right;                                         \
  assert_null(quota_lessor_check(&a));               \
 } while (0)

static void check_names_what_was_broken(void **state)
{
	(void)state;
	start(8 * MIB);
	quota_lease(&a, 100);
	assert_breaks(a.leased, a.held + 1, "leased_held");
	assert_breaks(a.gate, a.gate - 1, "gate_open");
	assert_breaks(a.limit, a.limit - 1, "limit_open");
	assert_breaks(a.fenced, !a.fenced, "limit_open");
	assert_breaks(a.floor, a.floor - 1, "floor_bound");
	assert_breaks(a.link.next, &a.link, "linked");
	assert_breaks(a.of_thread.next, &a.of_thread, "linked");
	assert_breaks(a.source, NULL, "linked");
	a.held -= UNIT;
	assert_string_equal(quota_check(&q), "held_units");
	a.held += UNIT;
	q.credit -= UNIT;
	assert_string_equal(quota_check(&q), "held_units");
	q.credit += UNIT;
}

/* Words that different threads store to are a line apart from each other and
 * from whatever stands before or after the struct. */
static void nobody_stores_to_the_owners_line(void **state)
{
	const size_t line = SMALL_CACHE_LINE;
	const size_t first = offsetof(struct quota_lessor, leased);
	const size_t last = offsetof(struct quota_lessor, before);
	const size_t word = sizeof(size_t);

	(void)state;
	start(MIB);
	assert_true(first + word >= line && first < last);
	assert_true(offsetof(struct quota_lessor, limit) >= last + line);
	assert_true(sizeof(struct quota_lessor) - word >= last + line);
#if SIZE_MAX > UINT32_MAX
	assert_true(sizeof(struct quota_lessor) >=
	            offsetof(struct quota_lessor, floor) + line);
#endif
	assert_true(offsetof(struct quota, free) + word >= line);
	assert_true(offsetof(struct quota, refusals) >=
	            offsetof(struct quota, seq) + line);
}

#define lessor_test(name) cmocka_unit_test_teardown(name, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			create_fails_without_a_thread_key_and_is_then_refusing),
		lessor_test(credit_is_taken_in_batches_and_given_back),
		lessor_test(batches_halve_and_the_end_is_taken_whole),
		lessor_test(idle_credit_of_another_lessor_is_recalled),
		lessor_test(parts_of_a_unit_move_between_lessors),
		lessor_test(a_refusal_leaves_every_counter),
		lessor_test(a_lease_recalls_before_it_reclaims),
		lessor_test(the_nth_lease_fails_and_the_next_succeeds),
		lessor_test(create_can_be_refused_and_tried_again),
		lessor_test(destroy_returns_what_is_leased_and_twice_is_once),
		lessor_test(misuse_is_named),
		lessor_test(stats_add_up),
		lessor_test(check_names_what_was_broken),
		lessor_test(nobody_stores_to_the_owners_line),
	};

	return cmocka_run_group_tests_name("quota_lessor", tests, NULL, NULL);
}
