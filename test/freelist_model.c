/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_model - random operations against a model that knows each block's
 * place, size and contents.
 */
#include "test.h"

#include <small/freelist.h>

#define KIB   ((size_t)1024)
#define MIB   (1024 * KIB)
#define SLOTS 4096

struct slot {
	unsigned char *ptr;
	size_t size;
	unsigned char fill;
};

struct model {
	struct freelist *f;
	size_t granule;
	size_t used, peak;
	uint64_t random;
	size_t slots; /* in play */
	size_t largest;
	struct slot slot[SLOTS];
};

static void fill(struct slot *s, size_t from)
{
	for (size_t i = from; i < s->size; i++)
		s->ptr[i] = (unsigned char)(s->fill + i * 7);
}

/* Ends and some bytes between: enough to see an overlap sooner or later. */
static void check_content(const struct slot *s, size_t size)
{
	size_t step = size > 256 ? size / 61 : 1;

	for (size_t i = 0; i < size; i += step)
		if (s->ptr[i] != (unsigned char)(s->fill + i * 7))
			fail_msg("byte %zu of %zu was changed", i, size);
	if (size > 0 &&
	    s->ptr[size - 1] != (unsigned char)(s->fill + (size - 1) * 7))
		fail_msg("the last byte of %zu was changed", size);
}

static void model_used(struct model *m, size_t minus, size_t plus)
{
	m->used = m->used - minus + plus;
	if (m->used > m->peak)
		m->peak = m->used;
}

static size_t pick_size(struct model *m)
{
	uint64_t r = test_random(&m->random);
	size_t span = 16;

	switch (r % 16) {
	case 0:
		span = m->largest;
		break;
	case 1:
	case 2:
		span = 4096;
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		span = 1024;
		break;
	case 7:
	case 8:
	case 9:
	case 10:
	case 11:
		span = 128;
		break;
	default:
		span = 48;
	}
	if (span > m->largest)
		span = m->largest;
	return 1 + (size_t)(r >> 8) % span;
}

static void check_place(const struct model *m, const struct slot *s)
{
	size_t align = s->size >= 16 ? m->granule : 8;

	assert_int_equal((uintptr_t)s->ptr % align, 0);
}

static void do_alloc(struct model *m, struct slot *s)
{
	size_t size = pick_size(m);
	void *ptr = freelist_alloc(m->f, size);

	if (ptr == NULL) {
		assert_null(freelist_alloc(m->f, size));
		return;
	}
	s->ptr = ptr;
	s->size = size;
	s->fill = (unsigned char)test_random(&m->random);
	check_place(m, s);
	fill(s, 0);
	model_used(m, 0, size);
}

static void do_free(struct model *m, struct slot *s)
{
	check_content(s, s->size);
	freelist_free(m->f, s->ptr, s->size);
	model_used(m, s->size, 0);
	s->ptr = NULL;
}

static void do_realloc(struct model *m, struct slot *s)
{
	size_t size = pick_size(m), old = s->size;
	unsigned char *ptr;

	if (test_random(&m->random) % 4 == 0)
		size = old * 2 < m->largest ? old * 2 : old;
	ptr = freelist_realloc(m->f, s->ptr, old, size);
	if (size <= old)
		assert_ptr_equal(ptr, s->ptr);
	if (ptr != NULL) {
		s->ptr = ptr;
		s->size = size;
		model_used(m, old, size);
		check_place(m, s);
	}
	check_content(s, old < s->size ? old : s->size);
	if (ptr != NULL)
		fill(s, old < size ? old : size);
}

static void check_sums(struct model *m)
{
	struct freelist_stats st;

	freelist_stats(m->f, &st);
	assert_int_equal(st.used, m->used);
	assert_int_equal(st.used + st.free + st.overhead, st.total);
	assert_int_equal(st.metadata + st.rounding, st.overhead);
	assert_int_equal(freelist_used(m->f), m->used);
	assert_int_equal(freelist_peak(m->f), m->peak);
	assert_true(st.metadata < st.total);
	assert_true(st.total <= st.limit || freelist_total(m->f) > st.limit);
}

/* largest_free() can be had, and one byte more can not. */
static void check_largest(struct model *m)
{
	size_t size = freelist_largest_free(m->f), peak = m->peak;
	void *ptr;

	if (size < 64 * MIB)
		assert_null(freelist_alloc(m->f, size + 1));
	if (size != 0 && size < 64 * MIB) {
		ptr = freelist_alloc(m->f, size);
		if (ptr == NULL)
			fail_msg("largest_free %zu is not there", size);
		m->peak = m->used + size > peak ? m->used + size : peak;
		freelist_free(m->f, ptr, size);
	}
}

static void step(struct model *m, size_t i)
{
	struct slot *s = &m->slot[test_random(&m->random) % m->slots];

	if (s->ptr == NULL)
		do_alloc(m, s);
	else if (test_random(&m->random) % 4 == 0)
		do_realloc(m, s);
	else
		do_free(m, s);
	if (i % 97 == 0)
		check_sums(m);
	if (i % 997 == 0) {
		const char *broken = freelist_check(m->f);

		if (broken != NULL)
			fail_msg("step %zu: %s", i, broken);
	}
	if (i % 9973 == 0)
		check_largest(m);
}

static void run(struct model *m, size_t steps)
{
	struct freelist_stats st;

	for (size_t i = 0; i < steps; i++)
		step(m, i);
	for (size_t i = 0; i < SLOTS; i++)
		if (m->slot[i].ptr != NULL)
			do_free(m, &m->slot[i]);
	check_sums(m);
	freelist_largest_free(m->f);
	assert_null(freelist_check(m->f));
	freelist_stats(m->f, &st);
	assert_int_equal(st.used + st.rounding, 0);
	assert_int_equal(st.deferred, 0);
}

struct rig {
	struct quota quota;
	struct slab_arena arena;
	struct slab_cache cache;
	struct region region;
};

static void rig_create(struct rig *r, size_t quota)
{
	quota_init(&r->quota, quota);
	assert_int_equal(slab_arena_create(&r->arena, &r->quota, 0, 1024 * KIB,
	                                   SLAB_ARENA_PRIVATE),
	                 0);
	slab_cache_create(&r->cache, &r->arena);
	region_create(&r->region, &r->cache);
}

static void rig_destroy(struct rig *r)
{
	region_destroy(&r->region);
	slab_cache_destroy(&r->cache);
	slab_arena_destroy(&r->arena);
	assert_int_equal(quota_used(&r->quota), 0);
}

static const size_t caps[] = {0, FREELIST_CAP_NONE, 1, 256};

static void model_in(size_t limit, size_t slots, bool is_buffer)
{
	struct model *m = small_xmalloc(sizeof(*m));
	uint64_t seed = test_seed("freelist_model");
	size_t steps = test_scale(10000000) / (2 * lengthof(caps) * 4);

	for (size_t i = 0; i < 2 * lengthof(caps); i++) {
		struct freelist_opts opts = {.limit = limit,
		                             .granule = i % 2 ? 8 : 16,
		                             .cap = caps[i / 2]};
		struct rig r;
		char *buf = NULL;

		memset(m, 0, sizeof(*m));
		m->random = seed + i;
		m->slots = slots;
		m->granule = opts.granule;
		m->largest = limit != 0 ? limit / 4 : 64 * KIB;
		if (is_buffer) {
			buf = small_xmalloc(limit + 32);
			memset(buf + limit, 0x5a, 32);
			m->f = freelist_create_in(buf, limit, &opts);
		} else {
			rig_create(&r, QUOTA_MAX);
			m->f = freelist_create(&r.region, &opts);
		}
		assert_non_null(m->f);
		run(m, steps);
		freelist_destroy(m->f);
		if (is_buffer) {
			for (size_t k = 0; k < 32; k++)
				assert_int_equal(buf[limit + k], 0x5a);
			free(buf);
		} else {
			rig_destroy(&r);
		}
	}
	free(m);
}

static void random_operations_in_16_kib(void **state)
{
	(void)state;
	model_in(16 * KIB, 200, false);
}

static void random_operations_in_1_mib(void **state)
{
	(void)state;
	model_in(MIB, 3000, false);
}

static void random_operations_in_a_buffer(void **state)
{
	(void)state;
	model_in(256 * KIB + 5, 1200, true);
}

static void random_operations_without_a_limit(void **state)
{
	(void)state;
	model_in(0, 4000, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations_in_16_kib),
		cmocka_unit_test(random_operations_in_1_mib),
		cmocka_unit_test(random_operations_in_a_buffer),
		cmocka_unit_test(random_operations_without_a_limit),
	};

	return cmocka_run_group_tests_name("freelist_model", tests, NULL, NULL);
}
