/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_shadow - the blocks in use of each piece, in debug builds.
 *
 * A table a piece, open addressing with linear probing, from the granule of a
 * block to the bytes that were asked for. A deletion moves later slots of the
 * run back, so no marks stay behind. Granule 0 is the control block: empty.
 */
#include <small/freelist_shadow.h>

#ifndef NDEBUG

# include <pthread.h>

/* Slots of the first table. */
# define SLOTS_MIN ((size_t)64)

struct slot {
	size_t granule;
	size_t size;
};

struct freelist_shadow {
	struct freelist_shadow *next;
	struct freelist_shadow *saved;
	const struct freelist *base; /* the piece */
	size_t count;                /* blocks */
	size_t bytes;                /* sum of their sizes */
	size_t mask;                 /* slots - 1 */
	struct slot *slots;
	uint16_t serial; /* f->serial, unless the piece was rolled back */
	bool is_partial; /* there may be blocks that are not known */
};

static struct freelist_shadow *shadows;
static pthread_mutex_t shadows_lock = PTHREAD_MUTEX_INITIALIZER;

/* --- one table --- */

static size_t home_of(const struct freelist_shadow *s, size_t granule)
{
	return (size_t)((uint64_t)granule * 0x9e3779b97f4a7c15u >> 32) &
	       s->mask;
}

/* Where the granule is, or an empty slot. */
static size_t find(const struct freelist_shadow *s, size_t granule)
{
	size_t i = home_of(s, granule);

	while (s->slots[i].granule != 0 && s->slots[i].granule != granule)
		i = (i + 1) & s->mask;
	return i;
}

/* Nothing is known any more. */
static void forget(struct freelist_shadow *s)
{
	memset(s->slots, 0, (s->mask + 1) * sizeof(*s->slots));
	s->count = 0;
	s->bytes = 0;
	s->is_partial = true;
}

/* Twice the slots; false without memory. */
static bool widen(struct freelist_shadow *s)
{
	/* not `next`, which other threads change */
	struct freelist_shadow wide = {.mask = 2 * s->mask + 1};

	wide.slots = calloc(wide.mask + 1, sizeof(*wide.slots));
	if (wide.slots == NULL)
		return false;
	for (size_t i = 0; i <= s->mask; i++)
		if (s->slots[i].granule != 0)
			wide.slots[find(&wide, s->slots[i].granule)] =
				s->slots[i];
	free(s->slots);
	s->slots = wide.slots;
	s->mask = wide.mask;
	return true;
}

static void remove_slot(struct freelist_shadow *s, size_t i)
{
	size_t hole = i;

	s->count--;
	s->bytes -= s->slots[i].size;
	for (;;) {
		i = (i + 1) & s->mask;
		if (s->slots[i].granule == 0)
			break;
		/* Not past its home. */
		if (((i - home_of(s, s->slots[i].granule)) & s->mask) <
		    ((i - hole) & s->mask))
			continue;
		s->slots[hole] = s->slots[i];
		hole = i;
	}
	s->slots[hole].granule = 0;
}

static size_t granule_of(const struct freelist *f, const void *ptr)
{
	return ((uintptr_t)ptr - (uintptr_t)f) >> f->shift;
}

/* --- life --- */

static void drop_saved(struct freelist_shadow *s)
{
	if (s->saved == NULL)
		return;
	free(s->saved->slots);
	free(s->saved);
	s->saved = NULL;
}

static void dispose(struct freelist_shadow *s)
{
	drop_saved(s);
	free(s->slots);
	free(s);
}

/* Takes out the shadows whose piece began in [f, f + bytes). */
static void purge(const struct freelist *f, size_t bytes)
{
	struct freelist_shadow **link = &shadows;

	while (*link != NULL) {
		struct freelist_shadow *s = *link;

		if ((uintptr_t)s->base - (uintptr_t)f >= bytes) {
			link = &s->next;
			continue;
		}
		*link = s->next;
		dispose(s);
	}
}

void freelist_shadow_open(struct freelist *f, size_t bytes)
{
	struct freelist_shadow *s = calloc(1, sizeof(*s));

	f->shadow = NULL;
	if (s != NULL)
		s->slots = calloc(SLOTS_MIN, sizeof(*s->slots));
	if (s == NULL || s->slots == NULL) {
		free(s);
		return;
	}
	s->mask = SLOTS_MIN - 1;
	s->base = f;
	s->serial = f->serial;
	f->shadow = s;
	pthread_mutex_lock(&shadows_lock);
	purge(f, bytes);
	s->next = shadows;
	shadows = s;
	pthread_mutex_unlock(&shadows_lock);
}

void freelist_shadow_close(struct freelist *f)
{
	f->shadow = NULL;
	pthread_mutex_lock(&shadows_lock);
	purge(f, 1);
	pthread_mutex_unlock(&shadows_lock);
}

void freelist_shadow_clear(struct freelist *f)
{
	if (f->shadow == NULL)
		return;
	forget(f->shadow);
	f->shadow->serial = f->serial;
	f->shadow->is_partial = false;
}

void freelist_shadow_sync(const struct freelist *f)
{
	struct freelist_shadow *s = f->shadow;

	if (s == NULL || freelist_shadow_sums(f, freelist_used(f)))
		return;
	forget(s);
	s->serial = f->serial;
}

/* --- blocks --- */

/* What the release build sees has a better name. */
static void __attribute__((noreturn))
fail(const struct freelist *f, const void *ptr, size_t size, bool is_known,
     const char *call)
{
	freelist_guard(f, ptr, size, call);
	small_panic(call, is_known ? "the size is not that of the block"
	                           : "the pointer is no block in use");
}

void freelist_shadow_expect(const struct freelist *f, const void *ptr,
                            size_t size, const char *call)
{
	const struct freelist_shadow *s = f->shadow;
	size_t offset = (uintptr_t)ptr - (uintptr_t)f;
	const struct slot *slot;
	bool is_known;

	if (s == NULL)
		return;
	slot = &s->slots[find(s, offset >> f->shift)];
	is_known = slot->granule != 0 && slot->granule << f->shift == offset;
	if (is_known ? slot->size != size : !s->is_partial)
		fail(f, ptr, size, is_known, call);
}

void freelist_shadow_add(struct freelist *f, const void *ptr, size_t size)
{
	struct freelist_shadow *s = f->shadow;
	struct slot *slot;

	if (s == NULL || ptr == NULL)
		return;
	if (2 * s->count > s->mask && !widen(s))
		forget(s);
	slot = &s->slots[find(s, granule_of(f, ptr))];
	if (slot->granule != 0)
		small_panic("freelist", "two blocks in the same place");
	slot->granule = granule_of(f, ptr);
	slot->size = size;
	s->serial = ++f->serial;
	s->count++;
	s->bytes += size;
}

void freelist_shadow_del(struct freelist *f, const void *ptr)
{
	struct freelist_shadow *s = f->shadow;
	size_t i;

	if (s == NULL || ptr == NULL)
		return;
	s->serial = ++f->serial;
	i = find(s, granule_of(f, ptr));
	if (s->slots[i].granule != 0)
		remove_slot(s, i);
}

bool freelist_shadow_sums(const struct freelist *f, size_t used)
{
	const struct freelist_shadow *s = f->shadow;

	return s == NULL ||
	       (s->serial == f->serial && (s->is_partial || s->bytes == used));
}

/* --- rollback --- */

void freelist_shadow_save(const struct freelist *f)
{
	struct freelist_shadow *s = f->shadow, *copy;

	if (s == NULL)
		return;
	drop_saved(s);
	copy = calloc(1, sizeof(*copy));
	if (copy == NULL)
		return;
	copy->count = s->count;
	copy->bytes = s->bytes;
	copy->mask = s->mask;
	copy->is_partial = s->is_partial;
	copy->slots = calloc(copy->mask + 1, sizeof(*copy->slots));
	if (copy->slots == NULL) {
		free(copy);
		return;
	}
	memcpy(copy->slots, s->slots, (copy->mask + 1) * sizeof(*copy->slots));
	s->saved = copy;
}

void freelist_shadow_load(struct freelist *f)
{
	struct freelist_shadow *s = f->shadow;
	const struct freelist_shadow *copy;

	if (s == NULL)
		return;
	forget(s);
	s->serial = f->serial;
	copy = s->saved;
	if (copy == NULL)
		return;
	/* A table never shrinks: there is room. */
	for (size_t i = 0; i <= copy->mask; i++)
		if (copy->slots[i].granule != 0)
			s->slots[find(s, copy->slots[i].granule)] =
				copy->slots[i];
	s->count = copy->count;
	s->bytes = copy->bytes;
	s->is_partial = copy->is_partial;
}

#endif /* NDEBUG */
