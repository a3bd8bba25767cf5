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
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

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

/* The status of a child that ran misuse(arg), as from waitpid(); what it wrote
 * to stderr goes to text, cut to size, without what qemu adds when a program
 * that it runs dies. */
static inline int die_run(void (*misuse)(void *), void *arg, char *text,
                          size_t size)
{
	size_t len = 0;
	ssize_t n;
	int ends[2], status;
	char *qemu;
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
	qemu = strstr(text, "qemu: uncaught target signal");
	if (qemu != NULL)
		*qemu = '\0';
	return status;
}

/* True when misuse(arg) did not come back, or came back with an error found. */
static inline bool die_of(void (*misuse)(void *), void *arg, char *text,
                          size_t size)
{
	int status = die_run(misuse, arg, text, size);

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

/* misuse(arg) aborts with this line, and it is the only one. */
static inline void assert_dies(void (*misuse)(void *), void *arg,
                               const char *line)
{
	char text[512], want[256];
	int status = die_run(misuse, arg, text, sizeof(text));

	snprintf(want, sizeof(want), "small: %s\n", line);
	assert_string_equal(text, want);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* misuse(arg) touches what it must not: with ASan it dies of that. */
static inline void assert_asan_dies(void (*misuse)(void *), void *arg)
{
#if TRACK_ASAN
	char text[4096];

	assert_true(die_of(misuse, arg, text, sizeof(text)));
	assert_non_null(strstr(text, "AddressSanitizer"));
#else
	(void)misuse, (void)arg;
#endif
}

#endif /* TEST_DIE_H */
