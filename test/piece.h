/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_PIECE_H
#define TEST_PIECE_H
/*
 * piece - a freelist of some kind, random work on it, and what of it a
 * rollback has to bring back; for the tests of snapshots.
 */
#include "core.h"
#include "die.h"

#include <small/fault.h>
#include <small/freelist_snapshot.h>

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

static inline void open_box(struct box *box, const struct kind *kind)
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

static inline void check_box(struct box *box)
{
	assert_ptr_equal(freelist_check(box->f), NULL);
	assert_ptr_equal(freelist_snapshot_check(box->f), NULL);
	core_check(&box->core);
}

static inline void close_box(struct box *box)
{
	fault_clear();
	check_box(box);
	freelist_destroy(box->f);
	core_destroy(&box->core);
	free(box->buffer);
}

static inline int take(struct box *box)
{
	return freelist_snapshot(box->f, &box->core.region, 0);
}

static inline size_t charged(const struct box *box)
{
	struct freelist_snapshot_stats stats;

	freelist_snapshot_stats(box->f, &stats);
	return stats.charged;
}

static inline bool is_watched(const struct box *box)
{
	struct freelist_snapshot_stats stats;

	freelist_snapshot_stats(box->f, &stats);
	return stats.watched != 0;
}

static inline void remember(const struct box *box, struct memory *m)
{
	memcpy(m->slot, box->slot, sizeof(m->slot));
	freelist_stats(box->f, &m->stats);
	freelist_extent(box->f, &m->extent);
	m->cause = freelist_last_refusal(box->f);
	m->quota = quota_used(&box->core.quota);
}

static inline unsigned char content(const struct slot *s, size_t i)
{
	return (unsigned char)(s->fill + i * 7);
}

static inline void fill(struct slot *s)
{
	for (size_t i = 0; i < s->size; i++)
		s->ptr[i] = content(s, i);
}

static inline void check_slot(const struct slot *s)
{
	for (size_t i = 0; i < s->size; i++)
		if (s->ptr[i] != content(s, i))
			fail_msg("byte %zu of %zu", i, s->size);
}

static inline void check_slots(const struct box *box)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (box->slot[i].ptr != NULL)
			check_slot(&box->slot[i]);
}

/* A block more, or one less, or a larger one, or other contents. */
static inline void step(struct box *box)
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

static inline void work(struct box *box, size_t steps)
{
	while (steps-- > 0)
		step(box);
}

static inline void rollback(struct box *box, const struct memory *m)
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

#endif /* TEST_PIECE_H */
