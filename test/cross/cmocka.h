/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CROSS_CMOCKA_H
#define CROSS_CMOCKA_H
/*
 * cmocka - the words of that library which our tests use, for targets that
 * have no package of it (musl, 32 bits, aarch64). The output is its own: a
 * line a failed test and a total.
 *
 * Threads: an assertion that fails outside the thread that runs the test
 *          aborts the program.
 * Errors:  a failed assertion ends its test, not the program.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

typedef void (*CMUnitTestFunction)(void **state);
typedef int (*CMFixtureFunction)(void **state);

struct CMUnitTest {
	const char *name;
	CMUnitTestFunction test_func;
	CMFixtureFunction setup_func;
	CMFixtureFunction teardown_func;
	void *initial_state;
};

#define cmocka_unit_test(f) \
 {                          \
#  f, f, NULL, NULL, NULL   \
 }
#define cmocka_unit_test_setup(f, s) \
 {                                   \
#  f, f, s, NULL, NULL               \
 }
#define cmocka_unit_test_teardown(f, t) \
 {                                      \
#  f, f, NULL, t, NULL                  \
 }
#define cmocka_unit_test_setup_teardown(f, s, t) \
 {                                               \
#  f, f, s, t, NULL                              \
 }
#define cmocka_unit_test_prestate(f, state) \
 {                                          \
#  f, f, NULL, NULL, state                  \
 }
#define cmocka_unit_test_prestate_setup_teardown(f, s, t, state) \
 {                                                               \
#  f, f, s, t, state                                             \
 }

static jmp_buf cmocka_here;
static pthread_t cmocka_thread;
static bool cmocka_inside;

__attribute__((noreturn, unused)) static void
cmocka_failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	if (!cmocka_inside || !pthread_equal(cmocka_thread, pthread_self()))
		abort();
	longjmp(cmocka_here, 1);
}

#define cmocka_need(cond, what) \
 ((cond) ? (void)0 : cmocka_failed(what, __FILE__, __LINE__))

#define fail() cmocka_need(0, "fail()")
#define fail_msg(...) \
 (fprintf(stderr, __VA_ARGS__), cmocka_failed("", __FILE__, __LINE__))
#define print_message(...)            ((void)printf(__VA_ARGS__))
#define print_error(...)              ((void)fprintf(stderr, __VA_ARGS__))
#define assert_true(c)                cmocka_need((c), #c)
#define assert_false(c)               cmocka_need(!(c), "not: " #c)
#define assert_null(p)                cmocka_need((p) == NULL, #p " is not NULL")
#define assert_non_null(p)            cmocka_need((p) != NULL, #p " is NULL")
#define assert_return_code(rc, error) cmocka_need((rc) >= 0, #rc " < 0")

#define assert_int_equal(a, b) \
 cmocka_need((uintmax_t)(a) == (uintmax_t)(b), #a " != " #b)
#define assert_int_not_equal(a, b) \
 cmocka_need((uintmax_t)(a) != (uintmax_t)(b), #a " == " #b)
#define assert_ptr_equal(a, b) \
 cmocka_need((const void *)(a) == (const void *)(b), #a " != " #b)
#define assert_ptr_not_equal(a, b) \
 cmocka_need((const void *)(a) != (const void *)(b), #a " == " #b)
#define assert_string_equal(a, b) \
 cmocka_need(strcmp((a), (b)) == 0, #a " != " #b)
#define assert_string_not_equal(a, b) \
 cmocka_need(strcmp((a), (b)) != 0, #a " == " #b)
#define assert_memory_equal(a, b, n) \
 cmocka_need(memcmp((a), (b), (n)) == 0, #a " differs from " #b)
#define assert_memory_not_equal(a, b, n) \
 cmocka_need(memcmp((a), (b), (n)) != 0, #a " is the same as " #b)
#define assert_in_range(v, low, high)                     \
 cmocka_need((uintmax_t)(v) >= (uintmax_t)(low) &&        \
	             (uintmax_t)(v) <= (uintmax_t)(high), \
	     #v " is not in " #low ".." #high)

/* Leaks are looked for where cmocka itself is used. */
#define test_malloc(size)       malloc(size)
#define test_calloc(n, size)    calloc(n, size)
#define test_realloc(ptr, size) realloc(ptr, size)
#define test_free(ptr)          free(ptr)

/* The test between its fixtures; true when all three went well. */
__attribute__((unused)) static bool cmocka_run(const struct CMUnitTest *test,
                                               void *group_state)
{
	/* volatile: they are read after a longjmp. */
	void *volatile state =
		test->initial_state != NULL ? test->initial_state : group_state;
	volatile bool ok = true;
	void *value = state;

	cmocka_thread = pthread_self();
	if (test->setup_func != NULL && test->setup_func(&value) != 0)
		return false;
	state = value;
	cmocka_inside = true;
	if (setjmp(cmocka_here) == 0) {
		value = state;
		test->test_func(&value);
		state = value;
	} else {
		ok = false;
	}
	if (setjmp(cmocka_here) == 0) {
		value = state;
		if (test->teardown_func != NULL &&
		    test->teardown_func(&value) != 0)
			ok = false;
	} else {
		ok = false;
	}
	cmocka_inside = false;
	return ok;
}

__attribute__((unused)) static int
cmocka_run_all(const char *group, const struct CMUnitTest *tests, size_t count,
               CMFixtureFunction setup, CMFixtureFunction teardown)
{
	void *state = NULL;
	int failed = 0;

	if (setup != NULL && setup(&state) != 0)
		return 1;
	for (size_t i = 0; i < count; i++) {
		if (cmocka_run(&tests[i], state))
			continue;
		fprintf(stderr, "%s: %s failed\n", group, tests[i].name);
		failed++;
	}
	if (teardown != NULL && teardown(&state) != 0)
		failed++;
	printf("%s: %d passed, %d failed\n", group, (int)count - failed,
	       failed);
	return failed;
}

#define cmocka_run_group_tests_name(name, tests, setup, teardown)       \
 cmocka_run_all(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, \
	        teardown)
#define cmocka_run_group_tests(tests, setup, teardown) \
 cmocka_run_group_tests_name(#tests, tests, setup, teardown)

#endif /* CROSS_CMOCKA_H */
