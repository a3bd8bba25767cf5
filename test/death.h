/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_DEATH_H
#define TEST_DEATH_H
/*
 * death - runs what must abort in a child and compares its last words.
 *
 * Threads: one; the child has no other.
 * Errors:  a failed assertion of cmocka.
 */
#include "test.h"

#include <small/track.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child wrote to stderr; cut to what fits. */
struct death {
	int status; /* as from waitpid() */
	char words[512];
};

static inline void death_run(struct death *death, void (*call)(void *),
                             void *arg)
{
	size_t fill = 0;
	ssize_t got;
	int fd[2];
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		signal(SIGSEGV, SIG_DFL);
		dup2(fd[1], STDERR_FILENO);
		call(arg);
		_exit(0);
	}
	close(fd[1]);
	while ((got = read(fd[0], death->words + fill,
	                   sizeof(death->words) - 1 - fill)) > 0)
		fill += (size_t)got;
	death->words[fill] = 0;
	close(fd[0]);
	assert_int_equal(waitpid(pid, &death->status, 0), pid);
}

/* call(arg) aborts with this line, and it is the only one but for what qemu
 * says when a program that it runs dies. */
static inline void assert_dies(void (*call)(void *), void *arg,
                               const char *line)
{
	struct death death;
	char want[256], *qemu;

	death_run(&death, call, arg);
	qemu = strstr(death.words, "qemu: uncaught target signal");
	if (qemu != NULL)
		*qemu = 0;
	snprintf(want, sizeof(want), "small: %s\n", line);
	assert_string_equal(death.words, want);
	assert_true(WIFSIGNALED(death.status) &&
	            WTERMSIG(death.status) == SIGABRT);
}

/* call(arg) touches what it must not: with ASan it dies of that. */
static inline void assert_asan_dies(void (*call)(void *), void *arg)
{
#if TRACK_ASAN
	struct death death;

	death_run(&death, call, arg);
	assert_false(WIFEXITED(death.status) && WEXITSTATUS(death.status) == 0);
	assert_non_null(strstr(death.words, "AddressSanitizer"));
#else
	(void)call, (void)arg;
#endif
}

#endif /* TEST_DEATH_H */
