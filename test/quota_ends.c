/* SPDX-License-Identifier: BSD-2-Clause */
/* quota_ends - lessors whose thread ends, or hands them to another one. */
#include "test.h"

#include <pthread.h>
#include <semaphore.h>

#include <small/quota_lessor.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define MIN QUOTA_USE_MIN

/* A quota and a lessor of this thread. */
static struct quota q;
static struct quota_lessor a;

static void start(size_t total)
{
	quota_init(&q, total);
	assert_int_equal(quota_lessor_create(&a, &q), 0);
}

static int stop(void **state)
{
	(void)state;
	assert_null(quota_lessor_check(&a));
	assert_null(quota_check(&q));
	quota_lessor_destroy(&a);
	assert_int_equal(quota_used(&q), 0);
	assert_null(quota_check(&q));
	return 0;
}

static int in_thread(void *(*call)(void *), void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, call, arg), 0);
	return pthread_join(thread, NULL);
}

static void *lease_and_end(void *arg)
{
	struct quota_lessor *l = arg;

	if (quota_lessor_create(l, &q) != 0 || quota_lease(l, 12345) != 12345)
		abort();
	return NULL;
}

static void a_thread_that_ends_gives_everything_back(void **state)
{
	static struct quota_lessor l;

	(void)state;
	start(4 * MIB);
	assert_int_equal(quota_lease(&a, 5), 5);
	in_thread(lease_and_end, &l);
	assert_int_equal(quota_used(&q), MIN);
	assert_null(quota_lessor_check(&l));
	quota_lessor_destroy(&l);
	assert_int_equal(quota_used(&q), MIN);
}

static void *short_life(void *arg)
{
	static __thread struct quota_lessor mine[2];
	uint64_t seed = (uintptr_t)arg;

	for (size_t i = 0; i < 2; i++)
		if (quota_lessor_create(&mine[i], &q) != 0)
			abort();
	for (size_t i = 0; i < 10; i++)
		(void)quota_lease(&mine[i & 1], test_random(&seed) % MIB);
	quota_end_lease(&mine[0], quota_leased(&mine[0]));
	return NULL;
}

static void ten_thousand_short_threads_leave_nothing(void **state)
{
	size_t left = test_scale(10000);

	(void)state;
	start(8 * MIB);
	while (left > 0) {
		pthread_t threads[4];
		size_t n = left < 4 ? left : 4;

		for (size_t i = 0; i < n; i++)
			assert_int_equal(pthread_create(&threads[i], NULL,
			                                short_life,
			                                (void *)(left - i)),
			                 0);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
		left -= n;
	}
	assert_int_equal(quota_used(&q), 0);
	assert_true(rlist_next(rlist_next(&q.lessors)) == &q.lessors);
}

static pthread_key_t late_key;

static void late_end(void *arg)
{
	struct quota_lessor *l = arg;

	quota_end_lease(l, 100);
	if (quota_lease(l, 50) != 50)
		abort();
}

static void *lease_with_late_end(void *arg)
{
	lease_and_end(arg);
	pthread_setspecific(late_key, arg);
	return NULL;
}

static void key_destructors_of_others_may_still_lease(void **state)
{
	static struct quota_lessor l;

	(void)state;
	start(4 * MIB);
	assert_int_equal(pthread_key_create(&late_key, late_end), 0);
	in_thread(lease_with_late_end, &l);
	pthread_key_delete(late_key);
	assert_int_equal(quota_used(&q), 0);
}

/* Takes the lessor over, ends what is leased and its own life. */
static void *only_ends(void *arg)
{
	(void)arg;
	if (quota_lessor_set_thread(&a) != 0)
		abort();
	quota_end_lease(&a, quota_leased(&a));
	return NULL;
}

/* cases.md 25 */
static void a_thread_that_only_frees_does_not_make_totals_drift(void **state)
{
	(void)state;
	start(64 * MIB);
	for (size_t i = 1; i < 20; i++) {
		assert_int_equal(quota_lease(&a, i * 300 * KIB), i * 300 * KIB);
		in_thread(only_ends, NULL);
		/* Its thread is gone, and so is what it took over. */
		assert_int_equal(quota_used(&q), 0);
		assert_null(quota_check(&q));
		assert_int_equal(quota_lessor_create(&a, &q), 0);
	}
}

static void *takes_over_and_hands_back(void *arg)
{
	sem_t *turn = arg;

	if (quota_lessor_set_thread(&a) != 0 || quota_lease(&a, MIN) != MIN)
		abort();
	sem_post(&turn[0]);
	sem_wait(&turn[1]);
	return NULL;
}

static void a_lessor_handed_back_survives_the_thread_that_had_it(void **state)
{
	pthread_t thread;
	sem_t turn[2];

	(void)state;
	start(64 * MIB);
	sem_init(&turn[0], 0, 0);
	sem_init(&turn[1], 0, 0);
	assert_int_equal(
		pthread_create(&thread, NULL, takes_over_and_hands_back, turn),
		0);
	sem_wait(&turn[0]);
	assert_int_equal(quota_lessor_set_thread(&a), 0);
	sem_post(&turn[1]);
	pthread_join(thread, NULL);
	assert_int_equal(quota_leased(&a), MIN);
	quota_end_lease(&a, MIN);
	sem_destroy(&turn[0]);
	sem_destroy(&turn[1]);
}

#define lessor_test(name) cmocka_unit_test_teardown(name, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		lessor_test(a_thread_that_ends_gives_everything_back),
		lessor_test(ten_thousand_short_threads_leave_nothing),
		lessor_test(key_destructors_of_others_may_still_lease),
		lessor_test(
			a_thread_that_only_frees_does_not_make_totals_drift),
		lessor_test(
			a_lessor_handed_back_survives_the_thread_that_had_it),
	};

	return cmocka_run_group_tests_name("quota_ends", tests, NULL, NULL);
}
