/* SPDX-License-Identifier: BSD-2-Clause */
/* quota_recall - the credit of threads that sleep, of a forked parent's
 * threads, of many lessors. */
#include "test.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include <small/quota_lessor.h>

#define UNIT QUOTA_UNIT_SIZE
#define MIB  ((size_t)1024 * 1024)

static struct quota q;

/* A thread that leases a byte and sleeps until it is told to go on. */
struct sleeper {
	pthread_t thread;
	struct quota_lessor lessor;
	sem_t asleep, wake;
};

static void *sleeps(void *arg)
{
	struct sleeper *s = arg;

	if (quota_lessor_create(&s->lessor, &q) != 0 ||
	    quota_lease(&s->lessor, 1) != 1)
		abort();
	sem_post(&s->asleep);
	sem_wait(&s->wake);
	if (quota_leased(&s->lessor) != 1)
		abort();
	quota_lessor_destroy(&s->lessor);
	return NULL;
}

static void sleeper_start(struct sleeper *s)
{
	assert_int_equal(sem_init(&s->asleep, 0, 0), 0);
	assert_int_equal(sem_init(&s->wake, 0, 0), 0);
	assert_int_equal(pthread_create(&s->thread, NULL, sleeps, s), 0);
	sem_wait(&s->asleep);
}

static void sleeper_stop(struct sleeper *s)
{
	sem_post(&s->wake);
	assert_int_equal(pthread_join(s->thread, NULL), 0);
	sem_destroy(&s->asleep);
	sem_destroy(&s->wake);
}

static void the_credit_of_a_sleeping_thread_is_recalled(void **state)
{
	struct sleeper s;
	struct quota_lessor l;

	(void)state;
	quota_init(&q, 2 * MIB);
	sleeper_start(&s);
	assert_int_equal(quota_used(&q), MIB);
	/* By a charge, a lease, a lower limit. */
	assert_int_equal(quota_use(&q, 2 * MIB - UNIT), 2 * MIB - UNIT);
	assert_int_equal(quota_release(&q, 2 * MIB - UNIT), 2 * MIB - UNIT);
	assert_int_equal(quota_lessor_create(&l, &q), 0);
	assert_int_equal(quota_lease(&l, 2 * MIB), -1);
	assert_int_equal(quota_lease(&l, 2 * MIB - 1), 2 * MIB - 1);
	quota_lessor_destroy(&l);
	assert_int_equal(quota_set(&q, UNIT), UNIT);
	assert_int_equal(quota_set(&q, 0), -1);
	assert_null(quota_check(&q));
	sleeper_stop(&s);
	assert_int_equal(quota_used(&q), 0);
	assert_null(quota_check(&q));
}

static void every_one_of_many_lessors_is_recalled(void **state)
{
	static struct quota_lessor many[300];

	(void)state;
	quota_init(&q, 8 * MIB);
	for (size_t i = 0; i < lengthof(many); i++) {
		assert_int_equal(quota_lessor_create(&many[i], &q), 0);
		assert_int_equal(quota_lease(&many[i], 20000 + i), 20000 + i);
	}
	for (size_t i = 0; i < lengthof(many); i++)
		quota_end_lease(&many[i], 20000);
	assert_int_equal(quota_use(&q, 8 * MIB - 44 * UNIT),
	                 8 * MIB - 44 * UNIT);
	assert_int_equal(quota_use(&q, UNIT), -1); /* 300 * 299 / 2 bytes */
	assert_int_equal(quota_lease(&many[7], 44 * UNIT - 44850),
	                 44 * UNIT - 44850);
	assert_int_equal(quota_lease(&many[8], 1), -1);
	for (size_t i = 0; i < lengthof(many); i++) {
		assert_null(quota_lessor_check(&many[i]));
		quota_lessor_destroy(&many[i]);
	}
	quota_release(&q, 8 * MIB - 44 * UNIT);
	assert_int_equal(quota_used(&q), 0);
	assert_null(quota_check(&q));
}

/* Runs call() in a child; its exit status. */
static int in_child(int (*call)(void))
{
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(call());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int recalls_after_a_fork(void)
{
	return quota_use(&q, 2 * MIB - UNIT) < 0 || quota_check(&q) != NULL;
}

static void a_forked_child_recalls_what_its_parents_threads_held(void **state)
{
	struct sleeper s;

	(void)state;
	quota_init(&q, 2 * MIB);
	sleeper_start(&s);
	assert_int_equal(in_child(recalls_after_a_fork), 0);
	assert_int_equal(quota_used(&q), MIB);
	sleeper_stop(&s);
	assert_int_equal(quota_used(&q), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_credit_of_a_sleeping_thread_is_recalled),
		cmocka_unit_test(every_one_of_many_lessors_is_recalled),
		cmocka_unit_test(
			a_forked_child_recalls_what_its_parents_threads_held),
	};

	return cmocka_run_group_tests_name("quota_recall", tests, NULL, NULL);
}
