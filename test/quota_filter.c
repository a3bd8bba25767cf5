/* SPDX-License-Identifier: BSD-2-Clause */
/* quota_filter - a process that loses membarrier(2) under way, as one that
 * installs a filter of system calls does, and stays exact. */
#include "test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <small/quota_lessor.h>
#include <small/track.h>

#define UNIT  QUOTA_UNIT_SIZE
#define MIB   ((size_t)1024 * 1024)
#define TRIES 10000000 /* minutes: rather a failure than a hang */

static struct quota q;

struct owner {
	pthread_t thread;
	struct quota_lessor lessor;
	sem_t ready;
};

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

/* From now on this thread's membarrier calls fail. */
static bool forbid_membarrier(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
	                 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {lengthof(code), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool stop_leasing;

static void *leases(void *arg)
{
	struct owner *o = arg;
	struct quota_lessor *l = &o->lessor;
	size_t wrong = quota_lessor_create(l, &q) != 0;

	sem_post(&o->ready);
	while (!__atomic_load_n(&stop_leasing, __ATOMIC_RELAXED)) {
		if (quota_lease(l, 5000) < 0)
			continue;
		for (int i = 0; i < 30; i++)
			wrong += __atomic_load_n(&l->held, __ATOMIC_RELAXED) <
			         5000;
		quota_end_lease(l, 5000);
	}
	quota_lessor_destroy(l);
	return (void *)wrong;
}

static struct owner owners[2];

static bool is_fenced(void)
{
	return __atomic_load_n(&owners[0].lessor.fenced, __ATOMIC_RELAXED) != 0;
}

/* Two owners that run without a fence when the filter comes down. */
static int recalls_without_membarrier(void)
{
	struct quota_lessor mine;
	size_t charges = test_scale(20000);
	bool failed = false;
	void *wrong;

	quota_init(&q, MIB);
	for (size_t i = 0; i < 2; i++) {
		sem_init(&owners[i].ready, 0, 0);
		failed = failed || pthread_create(&owners[i].thread, NULL,
		                                  leases, &owners[i]) != 0;
		sem_wait(&owners[i].ready);
	}
	if (!forbid_membarrier())
		return 2;
	/* On a busy machine it may take a while until one needs a recall. */
	for (size_t i = 0; i < charges || (i < TRIES && !is_fenced()); i++)
		if (quota_use(&q, MIB - 2 * UNIT) > 0)
			quota_release(&q, MIB - 2 * UNIT);
	/* A lessor that is made now knows it from the start. */
	failed = failed || quota_lessor_create(&mine, &q) != 0 ||
	         mine.fenced != 1 || owners[0].lessor.fenced != 1;
	quota_lessor_destroy(&mine);
	__atomic_store_n(&stop_leasing, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < 2; i++) {
		failed = failed ||
		         pthread_join(owners[i].thread, &wrong) != 0 ||
		         wrong != NULL;
	}
	return failed || quota_used(&q) != 0 || quota_check(&q) != NULL;
}

static void a_process_that_loses_membarrier_stays_exact(void **state)
{
	(void)state;
	track_atomic(&stop_leasing, sizeof(stop_leasing));
	assert_int_equal(in_child(recalls_without_membarrier), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_that_loses_membarrier_stays_exact),
	};

	return cmocka_run_group_tests_name("quota_filter", tests, NULL, NULL);
}
