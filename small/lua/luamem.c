/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * luamem: one short way for managed mode, one general way for the rest.
 *
 * `line` is the next value of used() at which something has to be done (a new
 * peak, a mark) and `room` is how far away it is, so that counting costs one
 * subtraction whose sign is the whole test. Everything else that has to look
 * at each call (a refusal that may be recovered, an open section, a pressure
 * callback, a mode over malloc) sets a bit in `slow`.
 *
 * Worst case: the freelist's, see there. Verify with luamem_stats(): refused,
 * by_cause, total - used.
 */
#include <small/lua/luamem_internal.h>

#include <small/fault.h>
#include <small/track.h>

/* With fault points each growth has to pass one. */
#ifdef SMALL_FAULT
# define LUAMEM_FAULTS 1
#else
# define LUAMEM_FAULTS 0
#endif

#ifdef NDEBUG
# define luamem_assert_owner(m) ((void)(m))
#else
# define luamem_assert_owner(m)                   \
  do {                                            \
   if ((m)->owner != small_thread_id())           \
    small_panic("luamem_alloc", "not the owner"); \
  } while (0)
#endif

/* Where used() has to be looked at next. */
static void luamem_set_line(struct luamem *m, size_t used)
{
	size_t line = m->peak < m->mark ? m->peak : m->mark;

	m->line = line < used ? used : line;
	m->room = (ptrdiff_t)(m->line - used);
}

/* used passed the line: a new peak, the mark, or both. */
static __attribute__((noinline)) void luamem_cross(struct luamem *m)
{
	size_t used = luamem_used(m);

	if (used > m->peak)
		m->peak = used;
	if (used > m->mark)
		m->mark = m->on_mark(m->mark_arg, used);
	/* above the mark each call is looked at, until use is below it */
	if (used > m->mark)
		m->slow |= LUAMEM_SLOW_MARK;
	else
		m->slow &= ~(unsigned)LUAMEM_SLOW_MARK;
	luamem_set_line(m, used);
}

void luamem_count(struct luamem *m, size_t osize, size_t nsize)
{
	m->room += (ptrdiff_t)(osize - nsize);
	if (m->room < 0)
		luamem_cross(m);
}

void *luamem_refuse(struct luamem *m, void *ptr, size_t osize, size_t nsize,
                    enum luamem_cause cause)
{
	m->refused++;
	m->by_cause[cause]++;
	m->cause = cause;
	if (m->first_refused == 0)
		m->first_refused = nsize;
	if (nsize > m->largest_refused)
		m->largest_refused = nsize;
	m->want_ptr = ptr;
	m->want_osize = osize;
	m->want_nsize = nsize;
	m->slow |= LUAMEM_SLOW_WANT;
	if (m->on_refusal != NULL)
		m->on_refusal(m->refusal_arg);
	return NULL;
}

/* A growth was granted while the last refusal was still open. */
static void luamem_granted(struct luamem *m, void *ptr, size_t osize,
                           size_t nsize)
{
	if (m->want_ptr == ptr && m->want_osize == osize &&
	    m->want_nsize == nsize)
		m->recovered++;
	m->slow &= ~(unsigned)LUAMEM_SLOW_WANT;
}

void luamem_pressure(struct luamem *m)
{
	size_t used = luamem_used(m);
	ptrdiff_t delta = (ptrdiff_t)(used - m->pressure_used);

	if ((size_t)(delta < 0 ? -delta : delta) < m->pressure_batch)
		return;
	m->pressure_used = used;
	m->on_pressure(m->pressure_arg, delta);
}

void luamem_free(struct luamem *m, void *ptr, size_t osize)
{
	if (luamem_in_overflow(m, ptr)) {
		freelist_free(m->overflow, ptr, osize);
		luamem_overflow_freed(m);
	} else if (m->heap != NULL) {
		freelist_free(m->heap, ptr, osize);
	} else {
		luamem_malloc_free(m, ptr, osize);
	}
}

static void *luamem_shrink(struct luamem *m, void *ptr, size_t osize,
                           size_t nsize)
{
	if (luamem_in_overflow(m, ptr))
		return freelist_realloc(m->overflow, ptr, osize, nsize);
	if (m->heap != NULL)
		return freelist_realloc(m->heap, ptr, osize, nsize);
	return luamem_malloc_shrink(m, ptr, osize, nsize);
}

/* Within the limit, from a place that is not the overflow. */
static void *luamem_grow_inside(struct luamem *m, void *ptr, size_t osize,
                                size_t nsize, enum luamem_cause *cause)
{
	void *to;

	if (m->heap == NULL)
		return luamem_malloc_grow(m, ptr, osize, nsize, cause);
	to = ptr == NULL ? freelist_alloc(m->heap, nsize)
	                 : freelist_realloc(m->heap, ptr, osize, nsize);
	if (to == NULL)
		*cause = luamem_heap_cause(m);
	return to;
}

/* A block of the overflow has to move to grow. */
static void *luamem_grow_overflow(struct luamem *m, void *ptr, size_t osize,
                                  size_t nsize, enum luamem_cause *cause)
{
	void *to = luamem_grow_inside(m, NULL, 0, nsize, cause);

	if (to != NULL) {
		memcpy(to, ptr, osize);
		luamem_free(m, ptr, osize);
	}
	return to;
}

/* ptr may be NULL with osize 0. *cause stays as it is when growth is denied. */
static void *luamem_grow(struct luamem *m, void *ptr, size_t osize,
                         size_t nsize, enum luamem_cause *cause)
{
	bool section = (m->slow & LUAMEM_SLOW_SECTION) != 0;
	void *to;

	if (!section && (m->slow & LUAMEM_SLOW_DENY))
		return NULL;
	if (!section && fault_hit(FAULT_BLOCK)) {
		*cause = LUAMEM_SYSTEM;
		return NULL;
	}
	if (ptr != NULL && luamem_in_overflow(m, ptr))
		to = luamem_grow_overflow(m, ptr, osize, nsize, cause);
	else
		to = luamem_grow_inside(m, ptr, osize, nsize, cause);
	if (to == NULL && section && m->overflow != NULL)
		to = luamem_overflow_alloc(m, ptr, osize, nsize);
	return to;
}

static __attribute__((noinline)) void *
luamem_alloc_slow(struct luamem *m, void *ptr, size_t osize, size_t nsize)
{
	enum luamem_cause cause = LUAMEM_NONE;
	void *to;

	if (nsize == 0) {
		luamem_free(m, ptr, osize);
		to = NULL;
	} else if (nsize <= osize) {
		to = luamem_shrink(m, ptr, osize, nsize);
	} else {
		to = luamem_grow(m, ptr, osize, nsize, &cause);
		if (to == NULL && cause == LUAMEM_NONE)
			return NULL; /* denied: not a refusal */
		if (to == NULL)
			return luamem_refuse(m, ptr, osize, nsize, cause);
		if (m->slow & LUAMEM_SLOW_WANT)
			luamem_granted(m, ptr, osize, nsize);
	}
	luamem_count(m, osize, nsize);
	if ((m->slow & LUAMEM_SLOW_MARK) && nsize != osize)
		luamem_cross(m);
	if (m->slow & LUAMEM_SLOW_PRESSURE)
		luamem_pressure(m);
	return to;
}

void *luamem_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
	struct luamem *m = (struct luamem *)ud;

	luamem_assert_owner(m);
	if (ptr == NULL) {
		if (nsize == 0)
			return NULL;
		osize = 0; /* it was a type tag */
	}
	if (small_unlikely(m->slow != 0) || LUAMEM_FAULTS)
		return luamem_alloc_slow(m, ptr, osize, nsize);
	if (nsize == 0) {
		freelist_free(m->heap, ptr, osize);
		m->room += (ptrdiff_t)osize;
		return NULL;
	}
	void *to = ptr == NULL ? freelist_alloc(m->heap, nsize)
	                       : freelist_realloc(m->heap, ptr, osize, nsize);
	if (small_unlikely(to == NULL))
		return luamem_refuse(m, ptr, osize, nsize,
		                     luamem_heap_cause(m));
	m->room += (ptrdiff_t)(osize - nsize);
	if (small_unlikely(m->room < 0))
		luamem_cross(m);
	return to;
}

void luamem_set_pressure_cb(struct luamem *m, luamem_pressure_f cb, void *arg,
                            size_t batch)
{
	m->on_pressure = cb;
	m->pressure_arg = arg;
	m->pressure_batch = batch != 0 ? batch : LUAMEM_PRESSURE_BATCH;
	m->pressure_used = luamem_used(m);
	if (cb != NULL)
		m->slow |= LUAMEM_SLOW_PRESSURE;
	else
		m->slow &= ~(unsigned)LUAMEM_SLOW_PRESSURE;
}

void luamem_set_mark(struct luamem *m, size_t mark, luamem_mark_f cb, void *arg)
{
	m->mark = cb != NULL ? mark : SIZE_MAX;
	m->on_mark = cb;
	m->mark_arg = arg;
	m->slow &= ~(unsigned)LUAMEM_SLOW_MARK;
	luamem_set_line(m, luamem_used(m));
}

void luamem_set_refusal_cb(struct luamem *m, luamem_refusal_f cb, void *arg)
{
	m->on_refusal = cb;
	m->refusal_arg = arg;
}

void luamem_deny(struct luamem *m, bool on)
{
	if (on)
		m->slow |= LUAMEM_SLOW_DENY;
	else
		m->slow &= ~(unsigned)LUAMEM_SLOW_DENY;
}

void luamem_set_thread(struct luamem *m)
{
	m->owner = small_thread_id();
	luamem_set_thread_heap(m);
}

void luamem_stats(const struct luamem *m, struct luamem_stats *out)
{
	out->used = luamem_used(m);
	out->peak = m->peak > out->used ? m->peak : out->used;
	out->limit = m->limit;
	out->taken = m->taken;
	out->total = luamem_total(m);
	out->overflow = luamem_overflow(m);
	out->refused = m->refused;
	out->recovered = m->recovered;
	memcpy(out->by_cause, m->by_cause, sizeof(out->by_cause));
	out->first_refused = m->first_refused;
	out->largest_refused = m->largest_refused;
	out->cause = m->cause;
}

void luamem_reset_stats(struct luamem *m)
{
	size_t used = luamem_used(m);

	m->peak = used;
	luamem_set_line(m, used);
	m->refused = m->recovered = 0;
	memset(m->by_cause, 0, sizeof(m->by_cause));
	m->first_refused = m->largest_refused = 0;
	m->cause = LUAMEM_NONE;
	m->slow &= ~(unsigned)LUAMEM_SLOW_WANT;
}

const char *luamem_check(const struct luamem *m)
{
	size_t sum = 0;

	if ((m->mode == LUAMEM_MANAGED) != (m->heap != NULL))
		return "mode";
	if (m->room < 0 || luamem_used(m) > m->peak)
		return "room";
	for (int i = LUAMEM_LIMIT; i < LUAMEM_CAUSES; i++)
		sum += m->by_cause[i];
	if (sum != m->refused || m->recovered > m->refused)
		return "refused";
	if ((m->overflow != NULL) != (m->overflow_buf != NULL))
		return "overflow";
	return luamem_check_heap(m);
}
