/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_DIE_H
#define TEST_DIE_H
/*
 * die - runs what must end a process in a forked one, and tells how it went.
 */
#include "test.h"

#include <small/track.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* True where a tool watches what track.h says: ASan builds, and debug builds
 * under memcheck. */
static inline bool die_watched(void)
{
#if TRACK_VALGRIND
	return RUNNING_ON_VALGRIND && VALGRIND_GET_VBITS(NULL, NULL, 0) != 0;
#else
	return TRACK_ASAN != 0;
#endif
}

/* The child: what the tools report on stderr, and an exit status for memcheck
 * errors, which do not end a process by themselves. */
static inline void die_child(void (*misuse)(void *), void *arg, int fd)
{
	/* cmocka's handlers would go on with the next test, in the child. */
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};

	for (size_t i = 0; i < lengthof(signals); i++)
		signal(signals[i], SIG_DFL);
	dup2(fd, STDERR_FILENO);
	close(fd);
	misuse(arg);
#if TRACK_VALGRIND
	_exit(VALGRIND_COUNT_ERRORS != 0 ? 1 : 0);
#else
	_exit(0);
#endif
}

/* What misuse(arg) wrote to stderr goes to text, cut to size; true when it
 * did not come back, or came back with an error found. */
static inline bool die_of(void (*misuse)(void *), void *arg, char *text,
                          size_t size)
{
	size_t len = 0;
	ssize_t n;
	int ends[2], status;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ends[0]);
		die_child(misuse, arg, ends[1]);
	}
	close(ends[1]);
	while ((n = read(ends[0], text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	/* The rest of a long report, so that the child is not held up. */
	while (len == size - 1 && (n = read(ends[0], &(char){0}, 1)) > 0)
		;
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* misuse(arg) aborts with a line that names call and what is wrong. */
static inline void assert_panics(void (*misuse)(void *), void *arg,
                                 const char *call, const char *what)
{
	char text[4096];

	assert_true(die_of(misuse, arg, text, sizeof(text)));
	if (strstr(text, call) == NULL || strstr(text, what) == NULL)
		fail_msg("not \"%s: %s\": %s", call, what, text);
}

#endif /* TEST_DIE_H */
