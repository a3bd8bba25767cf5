/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_snapshot: random work on a piece, a snapshot, random work, and
 * back: blocks, contents, statistics, limits, commit and charge are those of
 * the snapshot, whatever happened since and whichever way the copy takes.
 */
#include "piece.h"

#include <pthread.h>

/* --- the model --- */

static void random_work_is_undone(void **state)
{
	size_t rounds = 12, scale = test_scale(200);

	(void)state;
	for (size_t k = 0; k < lengthof(kinds); k++) {
		static struct box box;
		static struct memory m;

		open_box(&box, &kinds[k]);
		for (size_t i = 0; i < 4; i++) {
			work(&box, 10 * scale);
			assert_int_equal(take(&box), 0);
			remember(&box, &m);
			for (size_t j = 0; j < rounds; j++) {
				work(&box, scale);
				rollback(&box, &m);
			}
			freelist_discard(box.f);
			check_box(&box);
		}
		close_box(&box);
	}
}

/* The same work gives the same blocks: the allocator's state is back too. */
static void after_a_rollback_the_same_calls_give_the_same_blocks(void **state)
{
	(void)state;
	for (size_t k = 0; k < lengthof(kinds); k++) {
		static struct box box;
		static struct memory m, first, second;
		uint64_t random;

		open_box(&box, &kinds[k]);
		work(&box, test_scale(2000));
		assert_int_equal(take(&box), 0);
		remember(&box, &m);
		random = box.random;
		work(&box, test_scale(1000));
		remember(&box, &first);
		rollback(&box, &m);
		box.random = random;
		work(&box, test_scale(1000));
		remember(&box, &second);
		assert_memory_equal(first.slot, second.slot,
		                    sizeof(first.slot));
		assert_int_equal(first.stats.steps, second.stats.steps);
		close_box(&box);
	}
}

/* --- what may happen in between --- */

static void limit_growth_reserve_and_reset_are_undone(void **state)
{
	(void)state;
	for (size_t k = 0; k < lengthof(kinds); k++) {
		static struct box box;
		static struct memory m;
		size_t limit;

		open_box(&box, &kinds[k]);
		work(&box, 500);
		limit = freelist_limit(box.f);
		assert_int_equal(take(&box), 0);
		remember(&box, &m);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(freelist_set_limit(box.f, 1), 0);
			assert_ptr_equal(freelist_check(box.f), NULL);
			work(&box, 300);
			rollback(&box, &m);
			assert_int_equal(freelist_set_limit(box.f, 0), 0);
			work(&box, 5000);
			rollback(&box, &m);
			assert_int_equal(freelist_limit(box.f), limit);
			assert_int_equal(freelist_reserve(box.f, limit), 0);
			rollback(&box, &m);
			freelist_reset(box.f);
			assert_non_null(freelist_alloc(box.f, 1));
			rollback(&box, &m);
		}
		close_box(&box);
	}
}

/* Pages that the snapshot needs stay under a lowered limit, and a rollback
 * with nothing left in the quota finds them. */
static void rollback_needs_nothing_from_the_quota(void **state)
{
	static struct box box;
	static struct memory m;
	size_t quota, limit;

	(void)state;
	open_box(&box, &kinds[0]);
	work(&box, 4000);
	limit = freelist_limit(box.f);
	assert_int_equal(take(&box), 0);
	remember(&box, &m);
	freelist_reset(box.f);
	assert_int_equal(freelist_set_limit(box.f, 8 * KIB), 0);
	assert_ptr_equal(freelist_check(box.f), NULL);
	quota = quota_used(&box.core.quota);
	assert_int_equal(quota, m.quota);
	quota_set(&box.core.quota, quota);
	fault_set(FAULT_ALL, 1, true);
	assert_int_equal(freelist_rollback(box.f), 0);
	assert_int_equal(fault_refused(), 0);
	fault_clear();
	quota_set(&box.core.quota, SIZE_MAX);
	rollback(&box, &m);
	assert_int_equal(freelist_limit(box.f), limit);
	/* without the snapshot they go */
	freelist_reset(box.f);
	assert_int_equal(freelist_set_limit(box.f, 8 * KIB), 0);
	freelist_discard(box.f);
	assert_true(quota_used(&box.core.quota) < quota);
	close_box(&box);
}

/* --- its memory, and failures --- */

static void each_failure_leaves_the_piece_as_it_was(void **state)
{
	static const unsigned masks[] = {FAULT_ALL, FAULT_QUOTA, FAULT_MMAP,
	                                 FAULT_SLAB};

	(void)state;
	for (size_t i = 0; i < lengthof(masks); i++) {
		size_t n, refused = 0;

		for (n = 1; n < 100; n++) {
			static struct box box;
			static struct memory m, now;
			int rc;

			open_box(&box, &kinds[0]);
			work(&box, 500);
			remember(&box, &m);
			fault_set(masks[i], n, true);
			rc = take(&box);
			refused = fault_refused();
			fault_clear();
			if (rc != 0) {
				remember(&box, &now);
				assert_memory_equal(&now, &m, sizeof(m));
				assert_int_equal(freelist_rollback(box.f), -1);
				work(&box, 100);
				assert_int_equal(take(&box), 0);
			}
			close_box(&box);
			if (refused == 0)
				break;
		}
		assert_true(n > 1 && n < 100);
	}
}

static void it_is_charged_and_given_back(void **state)
{
	static struct box box;
	size_t before, used;

	(void)state;
	for (size_t k = 0; k < lengthof(kinds); k++) {
		open_box(&box, &kinds[k]);
		work(&box, 1000);
		before = quota_used(&box.core.quota);
		assert_int_equal(
			freelist_snapshot(box.f, &box.core.region, 1000), 0);
		used = quota_used(&box.core.quota) - before;
		assert_int_equal(used, charged(&box));
		assert_int_equal(take(&box), -1); /* one at a time */
		freelist_discard(box.f);
		freelist_discard(box.f);
		assert_int_equal(quota_used(&box.core.quota), before);
		assert_int_equal(charged(&box), 0);
		assert_int_equal(freelist_rollback(box.f), -1);
		assert_int_equal(take(&box), 0);
		close_box(&box);
	}
}

static void impossible_sizes_are_refused(void **state)
{
	static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 64, SIZE_MAX / 2,
	                               SIZE_MAX - 4096};
	static struct box box;

	(void)state;
	open_box(&box, &kinds[3]);
	assert_int_equal(freelist_snapshot(box.f, NULL, 0), -1);
	for (size_t i = 0; i < lengthof(sizes); i++)
		assert_int_equal(
			freelist_snapshot(box.f, &box.core.region, sizes[i]),
			-1);
	assert_null(freelist_snapshot_extra(box.f));
	close_box(&box);
}

static void extra_bytes_are_the_callers(void **state)
{
	static struct box box;
	static struct memory m;
	unsigned char *extra;

	(void)state;
	open_box(&box, &kinds[0]);
	work(&box, 500);
	assert_int_equal(freelist_snapshot(box.f, NULL, 333), 0);
	remember(&box, &m);
	extra = freelist_snapshot_extra(box.f);
	assert_int_equal((uintptr_t)extra % 16, 0);
	memset(extra, 0x5a, 333);
	work(&box, 500);
	rollback(&box, &m);
	for (int i = 0; i < 333; i++)
		assert_int_equal(extra[i], 0x5a);
	close_box(&box);
}

/* What is reset or freed takes the snapshot along. */
static void it_goes_with_the_region(void **state)
{
	static struct box box;

	(void)state;
	open_box(&box, &kinds[0]);
	assert_int_equal(freelist_snapshot(box.f, NULL, 0), 0);
	region_reset(&box.core.region);
	core_check(&box.core);
	core_destroy(&box.core);
}

/* --- tools and checks --- */

/* The value decides something: valgrind leaves out a load that does not. */
static void read_after_rollback(void *arg)
{
	if (*(volatile unsigned char *)arg == 0)
		fflush(stdout);
}

/* A block made since is out of reach again; those freed since are read by
 * each rollback() here. */
static void tools_see_what_the_snapshot_saw(void **state)
{
	static struct box box;
	static struct memory m;
	unsigned char *made;
	char text[4096];

	(void)state;
	for (size_t k = 0; k < 4; k++) {
		open_box(&box, &kinds[k]);
		work(&box, 300);
		assert_int_equal(take(&box), 0);
		remember(&box, &m);
		made = freelist_alloc(box.f, 700);
		assert_non_null(made);
		*made = 1;
		work(&box, 300);
		rollback(&box, &m);
		assert_int_equal(
			die_of(read_after_rollback, made, text, sizeof(text)),
			die_watched());
		close_box(&box);
	}
}

static void *rolled_back_elsewhere(void *arg)
{
	struct box *box = arg;

	slab_cache_set_thread(&box->core.cache);
	freelist_set_thread(box->f);
	assert_int_equal(freelist_rollback(box->f), 0);
	assert_non_null(freelist_alloc(box->f, 10));
	return NULL;
}

static void the_owner_stays_who_it_is(void **state)
{
	static struct box box;
	static struct memory m;
	pthread_t thread;

	(void)state;
	open_box(&box, &kinds[0]);
	work(&box, 300);
	assert_int_equal(take(&box), 0);
	remember(&box, &m);
	pthread_create(&thread, NULL, rolled_back_elsewhere, &box);
	pthread_join(thread, NULL);
	slab_cache_set_thread(&box.core.cache);
	freelist_set_thread(box.f);
	rollback(&box, &m);
	close_box(&box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_work_is_undone),
		cmocka_unit_test(
			after_a_rollback_the_same_calls_give_the_same_blocks),
		cmocka_unit_test(limit_growth_reserve_and_reset_are_undone),
		cmocka_unit_test(rollback_needs_nothing_from_the_quota),
		cmocka_unit_test(each_failure_leaves_the_piece_as_it_was),
		cmocka_unit_test(it_is_charged_and_given_back),
		cmocka_unit_test(impossible_sizes_are_refused),
		cmocka_unit_test(extra_bytes_are_the_callers),
		cmocka_unit_test(it_goes_with_the_region),
		cmocka_unit_test(tools_see_what_the_snapshot_saw),
		cmocka_unit_test(the_owner_stays_who_it_is),
	};

	seed = test_seed("freelist_snapshot");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
