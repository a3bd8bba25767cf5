/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_watch: large pieces, of which a rollback copies the pages that the
 * kernel saw written, where it tells; and all of them where it does not.
 */
#include "piece.h"

/* --- pages --- */

/* A piece of some MiB in blocks of a page or so. */
static void fill_pages(struct box *box)
{
	for (size_t i = 0; i < SLOTS; i++) {
		struct slot *s = &box->slot[i];

		s->size = 4000;
		s->fill = (unsigned char)i;
		s->ptr = freelist_alloc(box->f, s->size);
		assert_non_null(s->ptr);
		fill(s);
	}
}

static size_t touch(struct box *box, const struct memory *m, size_t from,
                    size_t to)
{
	struct freelist_snapshot_stats stats;

	for (size_t i = from; i < to; i++)
		box->slot[i].ptr[17] ^= 0xff;
	rollback(box, m);
	freelist_snapshot_stats(box->f, &stats);
	return stats.copied;
}

static void only_written_pages_are_copied(void **state)
{
	static struct box box;
	static struct memory m;
	size_t page = small_getpagesize();

	(void)state;
	open_box(&box, &kinds[4]);
	fill_pages(&box);
	assert_int_equal(take(&box), 0);
	remember(&box, &m);
	if (is_watched(&box)) {
		/* the control block's, and the one that was written */
		assert_true(touch(&box, &m, 500, 501) <= 3 * page);
		assert_true(touch(&box, &m, 500, 501) <= 3 * page);
	} else {
		assert_int_equal(touch(&box, &m, 500, 501),
		                 m.extent.low + (m.extent.end - m.extent.high));
	}
	close_box(&box);
}

/* What read(2) stores is a write like any other, also to a watched page. */
static void what_the_kernel_writes_is_put_back(void **state)
{
	static struct box box;
	static struct memory m;
	char text[] = "from a pipe";
	int ends[2];

	(void)state;
	open_box(&box, &kinds[4]);
	fill_pages(&box);
	assert_int_equal(take(&box), 0);
	remember(&box, &m);
	assert_int_equal(pipe(ends), 0);
	for (size_t i = 300; i < 304; i++) {
		assert_int_equal(write(ends[1], text, sizeof(text)),
		                 sizeof(text));
		assert_int_equal(read(ends[0], box.slot[i].ptr, sizeof(text)),
		                 sizeof(text));
		assert_string_equal((char *)box.slot[i].ptr, text);
		rollback(&box, &m);
	}
	close(ends[0]);
	close(ends[1]);
	close_box(&box);
}

/* Two phases: pages that only the first writes stop being copied. */
static void idle_pages_are_watched_again(void **state)
{
	static struct box box;
	static struct memory m;
	struct freelist_snapshot_stats stats;
	size_t many, n = 0;

	(void)state;
	open_box(&box, &kinds[4]);
	fill_pages(&box);
	assert_int_equal(take(&box), 0);
	remember(&box, &m);
	many = touch(&box, &m, 0, SLOTS);
	while (is_watched(&box) && n++ < 1000000) {
		box.slot[5].ptr[17] ^= 0xff;
		assert_int_equal(freelist_rollback(box.f), 0);
		freelist_snapshot_stats(box.f, &stats);
		if (stats.copied < many / 100)
			break;
	}
	assert_true(n < 1000000);
	rollback(&box, &m);
	close_box(&box);
}

static void in_a_forked_child(void *arg)
{
	struct box *box = arg;

	box->slot[7].ptr[0] ^= 0xff;
	if (freelist_rollback(box->f) != 0)
		abort();
	check_slots(box);
	_exit(0);
}

static void a_forked_child_can_roll_back(void **state)
{
	static struct box box;
	static struct memory m;
	char text[4096];

	(void)state;
	open_box(&box, &kinds[4]);
	fill_pages(&box);
	assert_int_equal(take(&box), 0);
	remember(&box, &m);
	touch(&box, &m, 100, 200);
	assert_false(die_of(in_a_forked_child, &box, text, sizeof(text)));
	touch(&box, &m, 50, 300);
	close_box(&box);
}

/* A process of its own, which shares the memory but not the watch. */
static void write_and_leave(void *arg)
{
	struct slot *s = arg;

	memset(s->ptr + s->size / 2, 'x', s->size / 4);
	_exit(0);
}

static void what_another_process_writes_is_put_back(void **state)
{
	struct freelist_opts opts = {.limit = 4 * MIB};
	struct slot s = {.size = 2 * MIB, .fill = 1};
	struct core core;
	char text[4096];
	struct freelist *f;

	(void)state;
	core_create_with(&core, SIZE_MAX, 65536, SLAB_ARENA_SHARED);
	f = freelist_create(&core.region, &opts);
	assert_non_null(f);
	s.ptr = freelist_alloc(f, s.size);
	assert_non_null(s.ptr);
	fill(&s);
	assert_int_equal(freelist_snapshot(f, NULL, 0), 0);
	for (int i = 0; i < 2; i++) {
		assert_false(die_of(write_and_leave, &s, text, sizeof(text)));
		assert_int_equal(s.ptr[s.size / 2], 'x');
		assert_int_equal(freelist_rollback(f), 0);
		check_slot(&s);
	}
	freelist_destroy(f);
	core_destroy(&core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_written_pages_are_copied),
		cmocka_unit_test(what_the_kernel_writes_is_put_back),
		cmocka_unit_test(idle_pages_are_watched_again),
		cmocka_unit_test(a_forked_child_can_roll_back),
		cmocka_unit_test(what_another_process_writes_is_put_back),
	};

	seed = test_seed("freelist_watch");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
