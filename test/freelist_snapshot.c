/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_snapshot: random work on a piece, a snapshot, random work, and
 * back: blocks, contents, statistics, limits, commit and charge are those of
 * the snapshot, whatever happened since and whichever way the copy takes.
 */
#include "core.h"
#include "die.h"

#include <pthread.h>

#include <small/freelist_snapshot.h>
#include <small/fault.h>

#define KIB   ((size_t)1024)
#define MIB   (1024 * KIB)
#define SLOTS 1024

struct slot {
	unsigned char *ptr;
	size_t size;
	unsigned char fill;
};

/* One kind of piece. */
struct kind {
	const char *name;
	size_t limit, max_limit, granule, cap;
	size_t buffer;  /* not 0: of so many bytes */
	size_t largest; /* block */
	bool blind;     /* the kernel does not tell what was written */
};

static const struct kind kinds[] = {
	{"16", 256 * KIB, MIB, 16, 0, 0, 4 * KIB, false},
	{"8", 256 * KIB, MIB, 8, 0, 0, 4 * KIB, false},
	{"merged", 128 * KIB, 0, 8, FREELIST_CAP_NONE, 0, 2 * KIB, false},
	{"buffer", 0, 0, 8, 0, 200 * KIB + 24, 2 * KIB, false},
	{"large", 8 * MIB, 16 * MIB, 8, 0, 0, 64 * KIB, false},
	{"blind", 8 * MIB, 16 * MIB, 16, 0, 0, 64 * KIB, true},
};

struct box {
	struct core core;
	const struct kind *kind;
	struct freelist *f;
	char *buffer;
	uint64_t random;
	struct slot slot[SLOTS];
};

/* What a rollback has to bring back. */
struct memory {
	struct slot slot[SLOTS];
	struct freelist_stats stats;
	struct freelist_extent extent;
	enum freelist_cause cause;
	size_t quota;
};

static uint64_t seed;

static void open_box(struct box *box, const struct kind *kind)
{
	struct freelist_opts opts = {.limit = kind->limit,
	                             .max_limit = kind->max_limit,
	                             .granule = kind->granule,
	                             .cap = kind->cap};

	memset(box, 0, sizeof(*box));
	core_create(&box->core, SIZE_MAX, 65536);
	box->kind = kind;
	box->random = seed;
	if (kind->buffer != 0) {
		box->buffer = malloc(kind->buffer);
		box->f = freelist_create_in(box->buffer, kind->buffer, &opts);
	} else {
		box->f = freelist_create(&box->core.region, &opts);
	}
	assert_non_null(box->f);
	if (kind->blind)
		fault_set(FAULT_WATCH, 1, true);
}

static void check_box(struct box *box)
{
	assert_ptr_equal(freelist_check(box->f), NULL);
	assert_ptr_equal(freelist_snapshot_check(box->f), NULL);
	core_check(&box->core);
}

static void close_box(struct box *box)
{
	fault_clear();
	check_box(box);
	freelist_destroy(box->f);
	core_destroy(&box->core);
	free(box->buffer);
}

static int take(struct box *box)
{
	return freelist_snapshot(box->f, &box->core.region, 0);
}

static size_t charged(const struct box *box)
{
	struct freelist_snapshot_stats stats;

	freelist_snapshot_stats(box->f, &stats);
	return stats.charged;
}

static bool is_watched(const struct box *box)
{
	struct freelist_snapshot_stats stats;

	freelist_snapshot_stats(box->f, &stats);
	return stats.watched != 0;
}

static void remember(const struct box *box, struct memory *m)
{
	memcpy(m->slot, box->slot, sizeof(m->slot));
	freelist_stats(box->f, &m->stats);
	freelist_extent(box->f, &m->extent);
	m->cause = freelist_last_refusal(box->f);
	m->quota = quota_used(&box->core.quota);
}

static unsigned char content(const struct slot *s, size_t i)
{
	return (unsigned char)(s->fill + i * 7);
}

static void fill(struct slot *s)
{
	for (size_t i = 0; i < s->size; i++)
		s->ptr[i] = content(s, i);
}

static void check_slot(const struct slot *s)
{
	for (size_t i = 0; i < s->size; i++)
		if (s->ptr[i] != content(s, i))
			fail_msg("byte %zu of %zu", i, s->size);
}

static void check_slots(const struct box *box)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (box->slot[i].ptr != NULL)
			check_slot(&box->slot[i]);
}

/* A block more, or one less, or a larger one, or other contents. */
static void step(struct box *box)
{
	struct slot *s = &box->slot[test_random(&box->random) % SLOTS];
	uint64_t r = test_random(&box->random);
	size_t most = r % 32 == 0 ? box->kind->largest : 256;
	size_t size = 1 + (size_t)(r >> 8) % most;
	unsigned char *ptr;

	if (s->ptr != NULL && r % 3 == 0) {
		freelist_free(box->f, s->ptr, s->size);
		s->ptr = NULL;
		return;
	}
	ptr = freelist_realloc(box->f, s->ptr, s->ptr != NULL ? s->size : 0,
	                       size);
	if (ptr != NULL) {
		s->ptr = ptr;
		s->size = size;
	}
	s->fill = (unsigned char)r;
	if (s->ptr != NULL)
		fill(s);
}

static void work(struct box *box, size_t steps)
{
	while (steps-- > 0)
		step(box);
}

static void rollback(struct box *box, const struct memory *m)
{
	struct memory now;

	assert_int_equal(freelist_rollback(box->f), 0);
	memcpy(box->slot, m->slot, sizeof(m->slot));
	remember(box, &now);
	assert_memory_equal(&now.stats, &m->stats, sizeof(m->stats));
	assert_memory_equal(&now.extent, &m->extent, sizeof(m->extent));
	assert_int_equal(now.cause, m->cause);
	assert_int_equal(now.quota, m->quota);
	check_box(box);
	check_slots(box);
}

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

/* --- tools and checks --- */

static void read_after_rollback(void *arg)
{
	(void)*(volatile unsigned char *)arg;
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
		cmocka_unit_test(only_written_pages_are_copied),
		cmocka_unit_test(what_the_kernel_writes_is_put_back),
		cmocka_unit_test(idle_pages_are_watched_again),
		cmocka_unit_test(a_forked_child_can_roll_back),
		cmocka_unit_test(tools_see_what_the_snapshot_saw),
		cmocka_unit_test(the_owner_stays_who_it_is),
	};

	seed = test_seed("freelist_snapshot");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
