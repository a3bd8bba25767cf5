/* SPDX-License-Identifier: BSD-2-Clause */
/* util - arithmetic that fails closed, rounding, ids. */
#include "test.h"

#include <pthread.h>

static void overflow_is_reported_and_leaves_the_result(void **state)
{
	size_t out = 7;

	(void)state;
	assert_true(small_add(SIZE_MAX, 1, &out));
	assert_true(small_mul(SIZE_MAX / 2 + 1, 2, &out));
	for (size_t n = SIZE_MAX - 62; n != 0; n++)
		assert_true(small_align_up(n, 64, &out));
	assert_int_equal(out, 7);
	assert_false(small_align_up(SIZE_MAX - 63, 64, &out));
	assert_true(out == SIZE_MAX - 63);
	assert_false(small_add(SIZE_MAX - 1, 1, &out));
	assert_true(out == SIZE_MAX);
}

static void rounding_is_right_at_every_power_of_two(void **state)
{
	(void)state;
	assert_int_equal(small_round(0), 1);
	for (unsigned i = 0; i < sizeof(size_t) * CHAR_BIT - 1; i++) {
		size_t n = (size_t)1 << i;

		assert_true(small_is_pow2(n));
		assert_int_equal(small_lb(n), i);
		assert_true(small_round(n) == n);
		assert_true(small_round(n + 1) == n * 2);
	}
	assert_int_equal(small_round(SIZE_MAX), 0);
}

static void *thread_id(void *arg)
{
	*(uintptr_t *)arg = small_thread_id();
	return NULL;
}

static void threads_have_different_ids(void **state)
{
	uintptr_t other = 0;
	pthread_t t;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, thread_id, &other), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_true(other != 0 && other != small_thread_id());
	assert_true(small_thread_id() == small_thread_id());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overflow_is_reported_and_leaves_the_result),
		cmocka_unit_test(rounding_is_right_at_every_power_of_two),
		cmocka_unit_test(threads_have_different_ids),
	};

	return cmocka_run_group_tests_name("util", tests, NULL, NULL);
}
