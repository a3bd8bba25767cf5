/* SPDX-License-Identifier: BSD-2-Clause */
/* quota - one thread: numbers, limits, refusals, reclaimers, misuse. */
#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <small/quota.h>

#define UNIT QUOTA_UNIT_SIZE
#define KIB  ((size_t)1024)
#define MIB  (1024 * KIB)

/* True when call(q), run in a child with stderr closed, aborts. */
static bool aborts(void (*call)(struct quota *), struct quota *q)
{
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		if (freopen("/dev/null", "w", stderr) == NULL)
			_exit(2);
		call(q);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void charges_are_rounded_up_to_units(void **state)
{
	struct quota q;
	size_t total, used;

	(void)state;
	quota_init(&q, 10 * UNIT - 1);
	assert_int_equal(quota_total(&q), 10 * UNIT);
	assert_int_equal(quota_use(&q, 0), 0);
	assert_int_equal(quota_use(&q, 1), UNIT);
	assert_int_equal(quota_use(&q, UNIT + 1), 2 * UNIT);
	assert_int_equal(quota_used(&q), 3 * UNIT);
	assert_int_equal(quota_use(&q, 7 * UNIT), 7 * UNIT);
	assert_int_equal(quota_use(&q, 1), -1);
	quota_get_total_and_used(&q, &total, &used);
	assert_int_equal(total, 10 * UNIT);
	assert_int_equal(used, 10 * UNIT);
	assert_int_equal(quota_release(&q, 0), 0);
	assert_int_equal(quota_release(&q, 1), UNIT);
	assert_int_equal(quota_release(&q, 9 * UNIT), 9 * UNIT);
	assert_int_equal(quota_used(&q), 0);
	assert_null(quota_check(&q));
}

/* cases.md 19 */
static void limits_and_charges_near_the_maximum_never_wrap(void **state)
{
	static const size_t huge[] = {QUOTA_MAX + 1, SIZE_MAX / 2,
	                              SIZE_MAX / 2 + 1, SIZE_MAX};
	struct quota q;

	(void)state;
	quota_init(&q, QUOTA_MAX);
	assert_int_equal(quota_use(&q, 10 * KIB), 10 * KIB);
	assert_int_equal(quota_use(&q, QUOTA_MAX), -1);
	for (size_t i = 0; i < lengthof(huge); i++) {
		assert_int_equal(quota_use(&q, huge[i]), -1);
		assert_int_equal(quota_set(&q, huge[i]), -1);
	}
	for (size_t n = SIZE_MAX; n >= SIZE_MAX - 64; n--)
		assert_int_equal(quota_use(&q, n), -1);
	assert_int_equal(quota_used(&q), 10 * KIB);
	assert_true(quota_total(&q) == QUOTA_MAX);
	assert_int_equal(quota_use(&q, QUOTA_MAX - 10 * KIB),
	                 QUOTA_MAX - 10 * KIB);
	assert_null(quota_check(&q));

	quota_init(&q, SIZE_MAX);
	assert_true(quota_total(&q) == QUOTA_MAX);
#if SIZE_MAX > UINT32_MAX
	assert_int_equal(quota_set(&q, 5000000000000), 5000000000000);
	assert_int_equal(quota_total(&q), 5000000000000);
	assert_int_equal(quota_set(&q, (size_t)1 << 48), (size_t)1 << 48);
#endif
	assert_int_equal(quota_set(&q, QUOTA_MAX), QUOTA_MAX);
	assert_null(quota_check(&q));
}

static void the_limit_falls_to_what_is_used_and_not_below(void **state)
{
	struct quota q;

	(void)state;
	quota_init(&q, MIB);
	assert_int_equal(quota_use(&q, 100 * UNIT), 100 * UNIT);
	assert_int_equal(quota_set(&q, 100 * UNIT - UNIT), -1);
	assert_int_equal(quota_total(&q), MIB);
	assert_int_equal(quota_set(&q, 100 * UNIT - 1), 100 * UNIT);
	assert_int_equal(quota_use(&q, 1), -1);
	assert_int_equal(quota_set(&q, 101 * UNIT), 101 * UNIT);
	assert_int_equal(quota_use(&q, 1), UNIT);
	quota_release(&q, 101 * UNIT);
	assert_int_equal(quota_set(&q, 0), 0);
	assert_int_equal(quota_use(&q, 1), -1);
	assert_null(quota_check(&q));
}

/* cases.md 23 */
static void a_refusal_changes_nothing_but_its_count(void **state)
{
	struct quota q, before;

	(void)state;
	quota_init(&q, MIB);
	quota_use(&q, MIB - 2 * UNIT);
	before = q;
	assert_int_equal(quota_use(&q, 2 * UNIT + 1), -1);
	assert_int_equal(quota_use(&q, SIZE_MAX), -1);
	assert_int_equal(quota_set(&q, UNIT), -1);
	assert_int_equal(q.refusals, 3);
	assert_int_equal(q.free, before.free);
	assert_int_equal(q.total, before.total);
	assert_int_equal(quota_use(&q, 2 * UNIT), 2 * UNIT);
	assert_null(quota_check(&q));
}

static void the_nth_charge_fails_and_the_next_succeeds(void **state)
{
	struct quota q;

	(void)state;
	quota_init(&q, MIB);
	for (size_t n = 1; n <= 3; n++) {
		size_t used = 0;

		fault_set(FAULT_QUOTA, n, false);
		for (size_t i = 1; i <= 4; i++) {
			ssize_t got = quota_use(&q, UNIT);

			assert_int_equal(got, i == n ? -1 : (ssize_t)UNIT);
			used += i == n ? 0 : UNIT;
			assert_int_equal(quota_used(&q), used);
			assert_null(quota_check(&q));
		}
		fault_clear();
		quota_release(&q, used);
	}
	fault_set(FAULT_QUOTA, 1, true);
	assert_int_equal(quota_use(&q, 1), -1);
	assert_int_equal(quota_use(&q, 1), -1);
	fault_clear();
	assert_int_equal(quota_used(&q), 0);
	assert_int_equal(quota_use(&q, 1), UNIT);
}

/* Holds `held` charged bytes that nobody uses. */
struct hoard {
	struct quota_reclaimer rc;
	struct quota *quota;
	size_t held;
	size_t calls;
	size_t want; /* of the last call */
};

static size_t hoard_reclaim(struct quota_reclaimer *rc, size_t want)
{
	struct hoard *h = (struct hoard *)rc;
	size_t back = h->held < want ? h->held : want;

	back = (back + UNIT - 1) / UNIT * UNIT;
	h->calls++;
	h->want = want;
	h->held -= back;
	quota_release(h->quota, back);
	return back;
}

static void hoard_create(struct hoard *h, struct quota *q, size_t held)
{
	memset(h, 0, sizeof(*h));
	h->rc.reclaim = hoard_reclaim;
	h->quota = q;
	h->held = held;
	assert_int_equal(quota_use(q, held), held);
	quota_add_reclaimer(q, &h->rc);
}

static void reclaimers_give_back_what_is_missing_in_order(void **state)
{
	struct hoard first, second;
	struct quota q;

	(void)state;
	quota_init(&q, 10 * UNIT);
	hoard_create(&first, &q, 3 * UNIT);
	hoard_create(&second, &q, 5 * UNIT);
	assert_int_equal(quota_use(&q, 2 * UNIT), 2 * UNIT);
	assert_int_equal(first.calls, 0);
	assert_int_equal(quota_use(&q, UNIT), UNIT);
	assert_int_equal(first.calls, 1);
	assert_int_equal(second.calls, 0);
	assert_int_equal(quota_use(&q, 4 * UNIT), 4 * UNIT);
	assert_int_equal(second.calls, 1);
	assert_int_equal(second.want, 2 * UNIT);
	assert_int_equal(second.held, 3 * UNIT);
	/* The limit falls by what is free, then by what is idle. */
	assert_int_equal(quota_set(&q, 8 * UNIT), 8 * UNIT);
	assert_int_equal(second.held, UNIT);
	assert_int_equal(quota_set(&q, 6 * UNIT), -1);
	assert_int_equal(second.held, 0);
	assert_int_equal(quota_used(&q), 7 * UNIT);
	quota_del_reclaimer(&q, &first.rc);
	quota_del_reclaimer(&q, &second.rc);
	assert_int_equal(quota_use(&q, 2 * UNIT), -1);
	assert_int_equal(second.calls, 3);
	quota_release(&q, 7 * UNIT);
	assert_int_equal(quota_used(&q), 0);
	assert_null(quota_check(&q));
}

static void release_above_use(struct quota *q)
{
	quota_release(q, 3 * UNIT);
}

static void release_of_everything(struct quota *q)
{
	quota_release(q, SIZE_MAX);
}

static void releasing_more_than_is_used_is_caught(void **state)
{
	struct quota q;

	(void)state;
	quota_init(&q, MIB);
	quota_use(&q, 2 * UNIT);
	assert_true(aborts(release_above_use, &q));
	assert_true(aborts(release_of_everything, &q));
	quota_use(&q, 1);
	assert_false(aborts(release_above_use, &q));
}

static void check_names_what_was_broken(void **state)
{
	struct quota q;

	(void)state;
	quota_init(&q, MIB);
	quota_use(&q, UNIT);
	q.free += 2;
	assert_string_equal(quota_check(&q), "free_fits");
	q.free -= 2;
	q.total += QUOTA_MAX / UNIT;
	assert_string_equal(quota_check(&q), "free_fits");
	q.total -= QUOTA_MAX / UNIT;
	q.seq++;
	assert_string_equal(quota_check(&q), "seq_even");
	q.seq--;
	q.spare = UNIT;
	assert_string_equal(quota_check(&q), "spare_small");
	q.spare = 0;
	q.lessors.next = NULL;
	assert_string_equal(quota_check(&q), "lists");
	rlist_create(&q.lessors);
	q.reclaimers.prev = NULL;
	assert_string_equal(quota_check(&q), "lists");
	rlist_create(&q.reclaimers);
	assert_null(quota_check(&q));
}

static void stats_add_up(void **state)
{
	struct quota_stats stats;
	struct quota q;

	(void)state;
	quota_init(&q, MIB);
	quota_use(&q, 5 * UNIT);
	quota_use(&q, MIB);
	quota_stats(&q, &stats);
	assert_int_equal(stats.total, MIB);
	assert_int_equal(stats.used, 5 * UNIT);
	assert_int_equal(stats.direct, 5 * UNIT);
	assert_int_equal(stats.leased + stats.idle, 0);
	assert_int_equal(stats.refusals, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(charges_are_rounded_up_to_units),
		cmocka_unit_test(
			limits_and_charges_near_the_maximum_never_wrap),
		cmocka_unit_test(the_limit_falls_to_what_is_used_and_not_below),
		cmocka_unit_test(a_refusal_changes_nothing_but_its_count),
		cmocka_unit_test(the_nth_charge_fails_and_the_next_succeeds),
		cmocka_unit_test(reclaimers_give_back_what_is_missing_in_order),
		cmocka_unit_test(releasing_more_than_is_used_is_caught),
		cmocka_unit_test(check_names_what_was_broken),
		cmocka_unit_test(stats_add_up),
	};

	return cmocka_run_group_tests_name("quota", tests, NULL, NULL);
}
