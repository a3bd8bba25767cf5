/* SPDX-License-Identifier: BSD-2-Clause */
/* snapshot_timeout: after a run that its time limit ended, the next is the
 * first again; the time limit itself is put back with the rest. */
#include "box.h"

static void after_a_timeout_the_next_run_is_the_first(void **state)
{
	size_t rounds = test_scale(20);
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB,
	                                     .timeout_ns = 2 * BOX_MS});
	assert_int_equal(sandbox_snapshot(box.sb, NULL), SANDBOX_OK);
	for (size_t i = 0; i < rounds; i++) {
		assert_int_equal(box_run(&box,
		                         "assert(x == nil) x = 1 "
		                         "while true do end",
		                         0),
		                 SANDBOX_TIMEOUT);
		assert_int_equal(sandbox_rollback(box.sb), SANDBOX_OK);
		assert_string_equal(sandbox_message(box.sb), "");
		assert_ptr_equal(sandbox_check(box.sb), NULL);
		sandbox_set_timeout(box.sb, 0);
		box_expect(&box, "assert(x == nil) x = 2", SANDBOX_OK);
		assert_int_equal(sandbox_rollback(box.sb), SANDBOX_OK);
	}
	box_close(&box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_a_timeout_the_next_run_is_the_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
