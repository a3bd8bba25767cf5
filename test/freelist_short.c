/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_short - every sequence of up to seven calls out of eight on a tiny
 * piece; and the worst case of waste against its formula.
 */
#include "test.h"

#include <small/freelist_impl.h>

#define DEPTH  7
#define BLOCKS 3
#define PIECE  768

static _Alignas(16) char buffer[256 * 1024];

struct block {
	unsigned char *ptr;
	size_t size;
};

struct tiny {
	struct freelist_opts opts;
	struct freelist *f;
	struct block block[BLOCKS];
	size_t used;
};

enum { OPS = 8 };

/* Blocks are handled like a stack, but for frees of the oldest. */
static void drop(struct tiny *t, size_t i)
{
	struct block *b = &t->block[i];

	for (size_t k = 0; k < b->size; k++)
		assert_int_equal(b->ptr[k], (unsigned char)b->size);
	freelist_free(t->f, b->ptr, b->size);
	t->used -= b->size;
	memset(b, 0, sizeof(*b));
}

static void take(struct tiny *t, size_t size)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		struct block *b = &t->block[i];

		if (b->ptr != NULL)
			continue;
		b->ptr = freelist_alloc(t->f, size);
		if (b->ptr == NULL)
			return;
		b->size = size;
		memset(b->ptr, (int)size, size);
		t->used += size;
		return;
	}
}

static void resize(struct tiny *t, size_t i, size_t size)
{
	struct block *b = &t->block[i];
	unsigned char *ptr = freelist_realloc(t->f, b->ptr, b->size, size);
	size_t kept = size < b->size ? size : b->size;

	assert_true(ptr == b->ptr || size > b->size);
	if (ptr == NULL)
		return;
	for (size_t k = 0; k < kept; k++)
		assert_int_equal(ptr[k], (unsigned char)b->size);
	t->used = t->used - b->size + size;
	b->ptr = ptr;
	b->size = size;
	memset(ptr, (int)size, size);
}

/* The i-th block in use, or BLOCKS. */
static size_t in_use(const struct tiny *t, bool is_last)
{
	size_t found = BLOCKS;

	for (size_t i = 0; i < BLOCKS; i++)
		if (t->block[i].ptr != NULL && (is_last || found == BLOCKS))
			found = i;
	return found;
}

static void do_op(struct tiny *t, unsigned op)
{
	size_t i = in_use(t, op % 2 == 0);

	switch (op) {
	case 0:
		take(t, 1);
		return;
	case 1:
		take(t, 17);
		return;
	case 2:
		take(t, 100);
		return;
	default:
		break;
	}
	if (i == BLOCKS)
		return;
	switch (op) {
	case 3:
	case 4:
		drop(t, i);
		return;
	case 5:
		resize(t, i, t->block[i].size * 2);
		return;
	case 6:
		resize(t, i, (t->block[i].size + 1) / 2);
		return;
	default:
		resize(t, i, 60);
	}
}

static void run(struct tiny *t, unsigned sequence, unsigned length)
{
	struct freelist_stats st;
	const char *broken;

	memset(t->block, 0, sizeof(t->block));
	t->used = 0;
	t->f = freelist_create_in(buffer, PIECE, &t->opts);
	assert_non_null(t->f);
	for (unsigned i = 0, rest = sequence; i < length; i++, rest /= OPS)
		do_op(t, rest % OPS);
	broken = freelist_check(t->f);
	if (broken != NULL)
		fail_msg("sequence %o of %u: %s", sequence, length, broken);
	freelist_stats(t->f, &st);
	assert_int_equal(st.used, t->used);
	assert_int_equal(st.used + st.free + st.overhead, st.total);
	for (size_t i = 0; i < BLOCKS; i++)
		if (t->block[i].ptr != NULL)
			drop(t, i);
	freelist_largest_free(t->f);
	broken = freelist_check(t->f);
	if (broken != NULL)
		fail_msg("sequence %o of %u, freed: %s", sequence, length,
		         broken);
	assert_int_equal(freelist_used(t->f), 0);
	freelist_destroy(t->f);
}

static void all_short_sequences(void **state)
{
	static const size_t caps[] = {0, FREELIST_CAP_NONE};
	unsigned depth = test_scale(20) >= 20 ? DEPTH : DEPTH - 2;
	struct tiny t;

	(void)state;
	memset(&t, 0, sizeof(t));
	for (size_t i = 0; i < 4; i++) {
		unsigned count = 1;

		t.opts.granule = i % 2 ? 8 : 16;
		t.opts.cap = caps[i / 2];
		for (unsigned length = 1; length <= depth; length++) {
			count *= OPS;
			for (unsigned s = 0; s < count; s++)
				run(&t, s, length);
		}
	}
}

/* --- waste --- */

static void *held[64 * 1024];

/*
 * The formula in freelist.c: a request of n granules is refused only when in
 * each run of n granules of the piece one is in use. The adversary keeps one
 * granule (the smallest block) of each such run, and the request is refused;
 * it frees one more, and it is served.
 */
static void worst_case(size_t granule, size_t n)
{
	struct freelist_opts opts = {.granule = granule};
	struct freelist *f = freelist_create_in(buffer, sizeof(buffer), &opts);
	size_t least = 16, size = n * granule, count = 0, stride;
	struct freelist_stats st;

	assert_non_null(f);
	while ((held[count] = freelist_alloc(f, least)) != NULL)
		count++;
	stride = size / least;
	for (size_t i = 0; i < count; i++)
		if (i % stride != stride - 1)
			freelist_free(f, held[i], least);
	assert_null(freelist_alloc(f, size));
	freelist_stats(f, &st);
	/* In use: one block in each run, and what the ends leave. */
	assert_true(st.used >= st.free / (stride - 1) - 2 * least);
	assert_true(st.used <= (st.total - st.metadata) / stride + least);
	assert_true(st.largest_free < size);
	assert_true(st.deferred == 0);
	assert_int_equal(st.metadata + st.rounding, st.overhead);
	freelist_free(f, held[stride - 1], least);
	assert_non_null(freelist_alloc(f, size));
	assert_ptr_equal(freelist_check(f), NULL);
	freelist_destroy(f);
}

static void waste_is_what_the_formula_says(void **state)
{
	(void)state;
	for (size_t n = 4; n <= 512; n *= 2) {
		worst_case(16, n);
		worst_case(8, n * 2);
	}
}

static size_t held_size[lengthof(held)];

/* Allocates until a refusal; each has to agree with the formula. */
static size_t fill(struct freelist *f, size_t count, size_t granule, size_t low,
                   size_t high, uint64_t *random)
{
	struct freelist_stats st;
	size_t size, n;
	void *ptr;

	for (;; count++) {
		size = low + test_random(random) % (high - low + 1);
		ptr = freelist_alloc(f, size);
		if (ptr == NULL)
			break;
		held[count] = ptr;
		held_size[count] = size;
	}
	n = (size + granule - 1) / granule;
	n = n * granule < 16 ? 16 / granule : n;
	freelist_stats(f, &st);
	assert_true(st.free / granule <= (count + 2) * (n - 1));
	assert_true(st.largest_free < size);
	return count;
}

/* Frees the blocks that `keep` does not want; returns how many are left. */
static size_t thin(struct freelist *f, size_t count,
                   bool (*keep)(size_t i, uintptr_t pos, size_t size,
                                size_t step, uint64_t *random),
                   size_t step, uint64_t *random)
{
	size_t left = 0;

	for (size_t i = 0; i < count; i++) {
		uintptr_t pos = (uintptr_t)held[i] - (uintptr_t)f;

		if (keep(i, pos, held_size[i], step, random)) {
			held[left] = held[i];
			held_size[left++] = held_size[i];
		} else {
			freelist_free(f, held[i], held_size[i]);
		}
	}
	return left;
}

/* Robson: what covers one granule of each run of `step` bytes. */
static bool keep_robson(size_t i, uintptr_t pos, size_t size, size_t step,
                        uint64_t *random)
{
	(void)i, (void)random;
	return pos / step != (pos + size - 1) / step || pos % step == 0;
}

static bool keep_every_other(size_t i, uintptr_t pos, size_t size, size_t step,
                             uint64_t *random)
{
	(void)pos, (void)size, (void)step, (void)random;
	return i % 2 == 0;
}

static bool keep_few(size_t i, uintptr_t pos, size_t size, size_t step,
                     uint64_t *random)
{
	(void)i, (void)pos, (void)size, (void)step;
	return test_random(random) % 8 == 0;
}

/* Each round fills the piece with blocks of twice the size, in what the round
 * before has left of it. */
static void no_sequence_wastes_more_than_the_formula(void **state)
{
	bool (*const keep[])(size_t, uintptr_t, size_t, size_t, uint64_t *) = {
		keep_robson, keep_every_other, keep_few};
	static const size_t caps[] = {0, FREELIST_CAP_NONE, 64};
	uint64_t random = test_seed("freelist_short");

	(void)state;
	for (size_t i = 0; i < 2 * lengthof(keep) * lengthof(caps); i++) {
		struct freelist_opts opts = {.granule = i % 2 ? 8 : 16,
		                             .cap = caps[i / 2 % 3]};
		struct freelist *f =
			freelist_create_in(buffer, sizeof(buffer), &opts);
		size_t count = 0;

		for (size_t size = 16; size <= 4096; size *= 2) {
			size_t least = i % 3 == 0 ? size : size / 2 + 1;

			count = fill(f, count, opts.granule, least, size,
			             &random);
			count = thin(f, count, keep[i / 6], 2 * size, &random);
			assert_ptr_equal(freelist_check(f), NULL);
		}
		freelist_destroy(f);
	}
}

/* Metadata and rounding, by the formula. */
static void overhead_is_what_the_formula_says(void **state)
{
	(void)state;
	for (size_t granule = 8; granule <= 16; granule += 8) {
		struct freelist_opts opts = {.granule = granule};
		struct freelist *f =
			freelist_create_in(buffer, sizeof(buffer), &opts);
		struct freelist_stats st;
		size_t used = 0, rounded = 0, size;

		for (size_t i = 1; i < 500; i++) {
			size = i * 7 % 300 + 1;
			assert_non_null(freelist_alloc(f, size));
			used += size;
			size = size < 16 ? 16 : size;
			rounded += small_align(size, granule);
		}
		freelist_stats(f, &st);
		assert_int_equal(st.used, used);
		assert_int_equal(st.rounding, rounded - used);
		assert_true(st.metadata <= 1024 + sizeof(buffer) / granule / 8);
		freelist_destroy(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_short_sequences),
		cmocka_unit_test(waste_is_what_the_formula_says),
		cmocka_unit_test(no_sequence_wastes_more_than_the_formula),
		cmocka_unit_test(overhead_is_what_the_formula_says),
	};

	return cmocka_run_group_tests_name("freelist_short", tests, NULL, NULL);
}
