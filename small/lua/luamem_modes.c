/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * luamem_modes: where the bytes come from. managed: a freelist in a growable
 * piece of a region. tracked, native: malloc, with a lease per byte or
 * without.
 *
 * An infallible section needs one free run as long as the sum of what may be
 * asked for. Where the limit has such a run it is committed and charged;
 * else a second piece, the overflow, is taken beside the limit, and is given
 * back when its last block is freed after the section.
 */
#include <small/lua/luamem_internal.h>

#include <small/fault.h>
#include <small/freelist_snapshot.h>
#include <small/quota.h>
#if __has_include(<small/quota_lessor.h>)
# include <small/quota_lessor.h>
#else
# define quota_lease(l, n)     (-1)
# define quota_end_lease(l, n) ((void)0)
#endif

/* What a piece of n bytes of blocks needs besides: control block and index,
 * bitmap and rounding of the small ones. */
static bool luamem_piece_size(size_t n, size_t *out)
{
	size_t size;

	if (small_add(n, n / 8, &size))
		return true;
	return small_add(size, (size_t)2 * FREELIST_SIZE_MIN, out);
}

/* The quota counts units and rounds each call up: charged is what the sum
 * comes to. */
static size_t luamem_units(size_t bytes)
{
	return small_align(bytes, QUOTA_UNIT_SIZE);
}

/* -- managed ------------------------------------------------------------ */

static const enum luamem_cause luamem_causes[] = {
	[FREELIST_NONE] = LUAMEM_LIMIT,
	[FREELIST_LIMIT] = LUAMEM_LIMIT,
	[FREELIST_QUOTA] = LUAMEM_QUOTA,
	[FREELIST_SYSTEM] = LUAMEM_SYSTEM,
};

enum luamem_cause luamem_heap_cause(const struct luamem *m)
{
	return luamem_causes[freelist_last_refusal(m->heap)];
}

/* Why no piece could be made: told apart by asking the quota. */
static enum luamem_cause luamem_create_cause(const struct luamem *m,
                                             size_t size)
{
	if (m->limit != 0 && m->limit < FREELIST_SIZE_MIN)
		return LUAMEM_LIMIT;
	if (quota_total(m->quota) - quota_used(m->quota) < size)
		return LUAMEM_QUOTA;
	return LUAMEM_SYSTEM;
}

static int luamem_create_managed(struct luamem *m,
                                 const struct luamem_opts *opts,
                                 enum luamem_cause *cause)
{
	struct freelist_opts heap = {
		.limit = opts->limit,
		.max_limit = opts->max_limit,
		.reserve = opts->reserve,
		.granule = opts->granule != 0 ? opts->granule : 8,
	};

	m->region = opts->region;
	if (m->region == NULL) {
		region_create(&m->own, opts->cache);
		m->region = &m->own;
	}
	m->quota = m->region->cache->arena->quota;
	m->heap = freelist_create(m->region, &heap);
	if (m->heap == NULL) {
		*cause = luamem_create_cause(m, opts->reserve +
		                                        small_getpagesize());
		return -1;
	}
	return 0;
}

/* -- tracked and native ------------------------------------------------- */

static int luamem_lease(struct luamem *m, size_t n, enum luamem_cause *cause)
{
	if (m->limit != 0 && (n > m->limit || luamem_used(m) > m->limit - n)) {
		*cause = LUAMEM_LIMIT;
		return -1;
	}
	if (m->lessor != NULL && quota_lease(m->lessor, n) < 0) {
		*cause = LUAMEM_QUOTA;
		return -1;
	}
	return 0;
}

static void luamem_end_lease(struct luamem *m, size_t n)
{
	if (m->lessor != NULL && n > 0)
		quota_end_lease(m->lessor, n);
}

void *luamem_malloc_grow(struct luamem *m, void *ptr, size_t osize,
                         size_t nsize, enum luamem_cause *cause)
{
	*cause = LUAMEM_SYSTEM;
	if (nsize > PTRDIFF_MAX || luamem_lease(m, nsize - osize, cause) != 0)
		return NULL;
	ptr = realloc(ptr, nsize);
	if (ptr == NULL) {
		*cause = LUAMEM_SYSTEM;
		luamem_end_lease(m, nsize - osize);
	}
	return ptr;
}

void *luamem_malloc_shrink(struct luamem *m, void *ptr, size_t osize,
                           size_t nsize)
{
	void *to = realloc(ptr, nsize);

	luamem_end_lease(m, osize - nsize);
	if (to == NULL)
		return ptr; /* the old block holds it as well */
	return to;
}

void luamem_malloc_free(struct luamem *m, void *ptr, size_t osize)
{
	free(ptr);
	luamem_end_lease(m, osize);
}

/* -- all ---------------------------------------------------------------- */

static bool luamem_opts_ok(const struct luamem_opts *o)
{
	switch (o->mode) {
	case LUAMEM_MANAGED:
		if ((o->region == NULL) == (o->cache == NULL))
			return false;
		if (o->granule != 0 && o->granule != 8 && o->granule != 16)
			return false;
		if (o->limit != 0 && o->reserve > o->limit)
			return false;
		return o->max_limit == 0 || o->limit <= o->max_limit;
	case LUAMEM_TRACKED:
	case LUAMEM_NATIVE:
		return o->reserve == 0 && o->max_limit == 0;
	default:
		return false;
	}
}

int luamem_create(struct luamem *m, const struct luamem_opts *opts,
                  enum luamem_cause *cause)
{
	enum luamem_cause ignored;

	if (cause == NULL)
		cause = &ignored;
	*cause = LUAMEM_NONE;
	if (!luamem_opts_ok(opts))
		return -1;
	memset(m, 0, sizeof(*m));
	m->mode = opts->mode;
	m->limit = opts->limit;
	m->mark = SIZE_MAX;
	m->owner = small_thread_id();
	m->max_limit = opts->max_limit != 0 ? opts->max_limit : opts->limit;
	if (opts->mode == LUAMEM_MANAGED)
		return luamem_create_managed(m, opts, cause);
	m->slow = LUAMEM_SLOW_MODE;
	m->max_limit = 0;
	if (opts->mode == LUAMEM_TRACKED)
		m->lessor = opts->lessor;
	else
		m->limit = 0;
	return 0;
}

void luamem_drop_overflow(struct luamem *m)
{
	if (m->overflow == NULL)
		return;
	freelist_destroy(m->overflow);
	if (m->mode == LUAMEM_MANAGED)
		region_drop_growable(m->region, m->overflow_buf);
	else
		free(m->overflow_buf);
	luamem_end_lease(m, m->overflow_charged);
	m->overflow = NULL;
	m->overflow_buf = NULL;
	m->overflow_size = m->overflow_charged = 0;
	m->slow &= ~(unsigned)LUAMEM_SLOW_OVERFLOW;
}

void luamem_destroy(struct luamem *m)
{
	luamem_end_lease(m, luamem_used(m) - m->taken - luamem_overflow(m));
	luamem_drop_overflow(m);
	if (m->heap != NULL)
		freelist_destroy(m->heap);
	if (m->region == &m->own)
		region_destroy(&m->own);
	if (m->taken > 0 && m->quota != NULL)
		quota_release(m->quota, luamem_units(m->taken));
	luamem_end_lease(m, m->taken);
	memset(m, 0, sizeof(*m));
	m->mark = SIZE_MAX;
}

void luamem_drop(struct luamem *m)
{
	if (m->region != &m->own) {
		luamem_destroy(m);
		return;
	}
	/* The pieces are all that the region has; the snapshot is one. */
	region_reset(&m->own);
	if (m->taken > 0)
		quota_release(m->quota, luamem_units(m->taken));
	m->heap = NULL;
	m->slow = 0;
}

int luamem_limit_heap(struct luamem *m, size_t limit)
{
	size_t outside = m->taken + luamem_overflow(m);

	if (m->heap == NULL)
		return 0;
	if (limit != 0)
		limit = limit > outside ? limit - outside : 1;
	return freelist_set_limit(m->heap, limit);
}

int luamem_set_limit(struct luamem *m, size_t limit)
{
	if (limit > m->max_limit && m->max_limit != 0)
		return -1;
	if (luamem_limit_heap(m, limit) != 0)
		return -1;
	if (m->mode != LUAMEM_NATIVE)
		m->limit = limit;
	return 0;
}

/* -- infallible sections ------------------------------------------------ */

/* A run within the limit; charged, so that nothing can refuse it later. */
static bool luamem_room_inside(struct luamem *m, size_t size)
{
	size_t want;

	if (m->heap == NULL || fault_hit(FAULT_BLOCK) ||
	    freelist_largest_free(m->heap) < size ||
	    small_add(freelist_total(m->heap), size, &want))
		return false;
	return freelist_reserve(m->heap, want) == 0;
}

static char *luamem_overflow_get(struct luamem *m, size_t size)
{
	char *buf;

	if (m->mode == LUAMEM_MANAGED)
		return (char *)region_growable(m->region, size, size);
	if (m->lessor != NULL && quota_lease(m->lessor, size) < 0)
		return NULL;
	buf = fault_hit(FAULT_BLOCK) ? NULL : (char *)malloc(size);
	if (buf == NULL)
		luamem_end_lease(m, size);
	return buf;
}

int luamem_enter_infallible(struct luamem *m, size_t bytes)
{
	struct freelist_opts opts = {.granule = 16};
	size_t size;

	if (m->overflow != NULL || (m->slow & LUAMEM_SLOW_SECTION) ||
	    luamem_piece_size(bytes, &size) || size > PTRDIFF_MAX)
		return -1;
	if (!luamem_room_inside(m, size)) {
		char *buf = luamem_overflow_get(m, size);

		if (buf == NULL)
			return -1;
		m->overflow_buf = buf;
		m->overflow_size = size;
		m->overflow_charged = size;
		m->overflow = freelist_create_in(buf, size, &opts);
		m->slow |= LUAMEM_SLOW_OVERFLOW;
	}
	m->slow |= LUAMEM_SLOW_SECTION;
	return 0;
}

size_t luamem_exit_infallible(struct luamem *m)
{
	m->slow &= ~(unsigned)LUAMEM_SLOW_SECTION;
	if (m->overflow == NULL)
		return 0;
	if (freelist_used(m->overflow) == 0)
		luamem_drop_overflow(m);
	luamem_limit_heap(m, m->limit);
	return luamem_overflow(m);
}

void *luamem_overflow_alloc(struct luamem *m, void *ptr, size_t osize,
                            size_t nsize)
{
	void *to = freelist_alloc(m->overflow, nsize);

	if (to != NULL && ptr != NULL) {
		memcpy(to, ptr, osize);
		luamem_free(m, ptr, osize);
	}
	return to;
}

void luamem_overflow_freed(struct luamem *m)
{
	if (m->slow & LUAMEM_SLOW_SECTION)
		return;
	if (freelist_used(m->overflow) == 0)
		luamem_drop_overflow(m);
	luamem_limit_heap(m, m->limit);
}

/* -- memory of C modules ------------------------------------------------ */

static enum luamem_cause luamem_take_heap(struct luamem *m, size_t bytes)
{
	size_t held = freelist_total(m->heap) + m->taken, taken, more;

	if (m->limit != 0 && (held > m->limit || bytes > m->limit - held))
		return LUAMEM_LIMIT;
	if (small_add(m->taken, bytes, &taken) || taken > PTRDIFF_MAX)
		return LUAMEM_SYSTEM;
	more = luamem_units(taken) - luamem_units(m->taken);
	if (more > 0 && quota_use(m->quota, more) < 0)
		return LUAMEM_QUOTA;
	return LUAMEM_NONE;
}

int luamem_take(struct luamem *m, size_t bytes)
{
	enum luamem_cause cause = LUAMEM_NONE;

	if (m->heap != NULL)
		cause = luamem_take_heap(m, bytes);
	else if (bytes > PTRDIFF_MAX)
		cause = LUAMEM_SYSTEM;
	else
		luamem_lease(m, bytes, &cause);
	if (cause != LUAMEM_NONE) {
		luamem_refuse(m, NULL, 0, bytes, cause);
		return -1;
	}
	m->taken += bytes;
	luamem_limit_heap(m, m->limit);
	luamem_count(m, 0, bytes);
	return 0;
}

void luamem_give(struct luamem *m, size_t bytes)
{
	size_t less;

	if (bytes > m->taken)
		small_panic("luamem_give", "more than was taken");
	less = luamem_units(m->taken) - luamem_units(m->taken - bytes);
	m->taken -= bytes;
	luamem_count(m, bytes, 0);
	if (m->heap == NULL)
		luamem_end_lease(m, bytes);
	else if (less > 0)
		quota_release(m->quota, less);
	luamem_limit_heap(m, m->limit);
}

/* -- what luamem.c asks for --------------------------------------------- */

size_t luamem_total(const struct luamem *m)
{
	size_t total = m->taken + m->overflow_size;

	if (m->heap != NULL)
		return total + freelist_total(m->heap);
	return luamem_used(m);
}

size_t luamem_overflow(const struct luamem *m)
{
	return m->overflow != NULL ? freelist_used(m->overflow) : 0;
}

void luamem_set_thread_heap(struct luamem *m)
{
	if (m->heap != NULL)
		freelist_set_thread(m->heap);
	if (m->overflow != NULL)
		freelist_set_thread(m->overflow);
}

const char *luamem_check_heap(const struct luamem *m)
{
	const char *broken = NULL;

	if (m->heap != NULL)
		broken = freelist_check(m->heap);
	if (broken == NULL && m->heap != NULL)
		broken = freelist_snapshot_check(m->heap);
	if (broken == NULL && m->overflow != NULL)
		broken = freelist_check(m->overflow);
	return broken;
}
