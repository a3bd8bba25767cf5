/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_block - the ways to a block when none of its size waits, and back.
 *
 * Small blocks are cut from the bump run, low end first; a run that is used
 * up is replaced by the smallest fitting block of the index, or by fresh
 * granules. Large ones take the high end of an indexed block, so that small
 * and large ones meet as seldom as may be. What waits is merged before
 * anything is refused, and the last search of the index is exhaustive.
 */
#include <small/freelist_index.h>

/* Fresh granules that the bump run takes at once: one word of the bitmap. */
#define BUMP_FRESH 64
/* Waiting blocks merged between two searches, when memory is short. */
#define FLUSH_SHORT 16

/* The free block that ends at low, or 0; its granules continue in fresh
 * ones, unless the table has to move to low for them. */
static uint32_t tail_size(const struct freelist *f, size_t n)
{
	uint32_t m;

	if (!bit_test(f, f->low - 1))
		return 0;
	m = size_before(f, (uint32_t)f->low);
	return f->low + n > (size_t)f->cover + m ? 0 : m;
}

/* Takes the block of m granules that ends at low out of the index. */
static void take_tail(struct freelist *f, uint32_t low, uint32_t m)
{
	freelist_remove(f, low - m, m);
}

/* n granules at the end of what is touched. */
static uint32_t get_fresh(struct freelist *f, size_t n)
{
	uint32_t m = tail_size(f, n), g;

	if (m >= n) {
		take_tail(f, (uint32_t)f->low, m);
		if (m > n)
			freelist_insert(f, (uint32_t)f->low - m,
			                m - (uint32_t)n);
		return (uint32_t)(f->low - n);
	}
	g = freelist_fresh(f, n - m);
	if (g == NIL || m == 0)
		return g;
	take_tail(f, g, m);
	return g - m;
}

/* Makes the bump run of at least n granules from fresh ones. */
static bool refill_bump(struct freelist *f, uint32_t n)
{
	uint32_t rest = 0, g;
	size_t more, at_hand;

	if (f->bump_end == f->low && f->bump + n <= f->cover)
		rest = bump_granules(f);
	else
		freelist_return_bump(f);
	/* As much as is committed, but no more pages than for n. */
	more = n - rest;
	at_hand = (f->end < f->cover ? f->end : f->cover) - f->low;
	if (f->low < f->end && more < at_hand)
		more = at_hand < BUMP_FRESH ? at_hand : BUMP_FRESH;
	if (rest != 0) {
		if (freelist_fresh(f, more) == NIL)
			return false;
	} else {
		g = get_fresh(f, more);
		if (g == NIL)
			return false;
		f->bump = g;
	}
	f->bump_end = (uint32_t)f->low;
	return true;
}

static uint32_t cut_bump(struct freelist *f, uint32_t n)
{
	uint32_t g = f->bump;

	f->bump += n;
	if (f->bump == f->bump_end) {
		f->bump = 0;
		f->bump_end = 0;
	}
	return g;
}

/* From the index alone; the low end for small blocks, the high one else. */
static uint32_t get_indexed(struct freelist *f, uint32_t n, bool is_exact)
{
	uint32_t m, g = freelist_take(f, n, is_exact, &m);

	if (g == NIL || m == n)
		return g;
	if (n <= QUICK_MAX) {
		freelist_insert(f, g + n, m - n);
		return g;
	}
	freelist_insert(f, g, m - n);
	return g + m - n;
}

/* The rest of a block that was taken becomes the bump run. */
static uint32_t cut_block(struct freelist *f, uint32_t g, uint32_t m,
                          uint32_t n)
{
	freelist_return_bump(f);
	if (m > n) {
		f->bump = g + n;
		f->bump_end = g + m;
	}
	return g;
}

/* Nothing waits and a third of the memory is free: speed before fit. The
 * bump run comes from fresh granules while those merged are few, for the more
 * there are the fewer merges; else from a block of the largest class, so that
 * it lasts for many calls. */
static uint32_t get_loose(struct freelist *f, uint32_t n)
{
	size_t fresh = f->lim - f->low;
	uint32_t g, m;

	if (3 * (f->indexed + fresh) <= f->low + fresh)
		return NIL;
	if (fresh >= n && f->indexed < f->low / 2 && refill_bump(f, n))
		return cut_bump(f, n);
	g = freelist_take_large(f, n, &m);
	return g != NIL ? cut_block(f, g, m, n) : NIL;
}

/* None of its size is merged, nor is the bump run long enough. */
static uint32_t get_small(struct freelist *f, uint32_t n)
{
	uint32_t g, m;

	if (f->is_tight) {
		freelist_return_bump(f);
		g = get_indexed(f, n, false);
		if (g != NIL)
			return g;
	}
	g = freelist_take(f, n, false, &m);
	if (g != NIL)
		return cut_block(f, g, m, n);
	if (!refill_bump(f, n))
		return NIL;
	return cut_bump(f, n);
}

static uint32_t get_large(struct freelist *f, uint32_t n)
{
	uint32_t g = get_indexed(f, n, false);

	if (g != NIL)
		return g;
	/* No rest of the bump run stays behind between large blocks. */
	if (f->bump_end == f->low) {
		set_low(f, f->bump);
		f->bump = 0;
		f->bump_end = 0;
	}
	return get_fresh(f, n);
}

/* Everything that is free joins the index, until it holds n granules. */
static uint32_t get_last(struct freelist *f, uint32_t n)
{
	uint32_t g;

	freelist_return_bump(f);
	for (;;) {
		g = get_indexed(f, n, false);
		if (g != NIL)
			return g;
		if (deferred_granules(f) == 0)
			break;
		freelist_flush(f, FLUSH_SHORT);
	}
	g = get_indexed(f, n, true);
	return g != NIL ? g : get_fresh(f, n);
}

static uint32_t refuse(struct freelist *f, enum freelist_cause cause)
{
	f->cause = (uint8_t)cause;
	return NIL;
}

/* All that is free has been looked through, and all that waits merged. */
static uint32_t get_none(struct freelist *f, uint32_t n)
{
	if (f->why == FREELIST_LIMIT)
		f->none = n;
	return refuse(f, f->why);
}

/* None of the size waits. */
static uint32_t get_more(struct freelist *f, uint32_t n)
{
	uint32_t g = NIL;

	if (n > QUICK_MAX)
		return get_large(f, n);
	if (!can_wait(f))
		g = get_loose(f, n);
	return g != NIL ? g : get_small(f, n);
}

uint32_t freelist_get(struct freelist *f, size_t n)
{
	uint32_t g = NIL;

	if (small_unlikely(n > f->lim))
		return refuse(f, n > FREELIST_GRANULES_MAX ? FREELIST_SYSTEM
		                                           : FREELIST_LIMIT);
	if (small_unlikely(f->is_squeezed) && granules_in_use(f) + n > f->lim)
		return refuse(f, FREELIST_LIMIT);
	if (small_unlikely(n >= f->none) && deferred_granules(f) == 0)
		return refuse(f, FREELIST_LIMIT);
	if (small_likely(!f->is_squeezed))
		g = get_more(f, (uint32_t)n);
	if (small_unlikely(g == NIL)) {
		f->why = FREELIST_LIMIT;
		g = get_last(f, (uint32_t)n);
	}
	if (can_wait(f))
		freelist_adapt(f);
	return small_likely(g != NIL) ? g : get_none(f, (uint32_t)n);
}

void freelist_put(struct freelist *f, uint32_t g, uint32_t n)
{
	struct node *node = node_at(f, g);

	if (!can_wait(f) || n > f->quick_max || n < granules_min(f)) {
		freelist_merge(f, g, n);
		return;
	}
	meta_put(&node->next, f->quick[n]);
	meta_put(&node->stamp, stamp_of(f));
	f->quick[n] = g;
	f->defer_room -= n;
	if (f->defer_room < 0)
		freelist_flush_over(f, node, (size_t)n << f->shift);
}

/* --- growing in place --- */

/* The block ends at the bump run. */
static bool extend_into_bump(struct freelist *f, uint32_t delta)
{
	uint32_t room = bump_granules(f);

	if (room < delta) {
		if (f->bump_end != f->low || f->bump + delta > f->cover ||
		    freelist_fresh(f, delta - room) == NIL)
			return false;
		f->bump_end = (uint32_t)f->low;
	}
	cut_bump(f, delta);
	return true;
}

/* The block ends at the free one at `end`. */
static bool extend_into_free(struct freelist *f, uint32_t end, uint32_t delta)
{
	uint32_t m = size_at(f, end);

	if (m < delta && (end + m != f->low || end + delta > f->cover ||
	                  freelist_fresh(f, delta - m) == NIL))
		return false;
	freelist_remove(f, end, m);
	if (m > delta)
		freelist_insert(f, end + delta, m - delta);
	return true;
}

bool freelist_extend(struct freelist *f, uint32_t g, uint32_t n, uint32_t want)
{
	uint32_t end = g + n, delta = want - n;

	if (end == f->bump)
		return extend_into_bump(f, delta);
	if (end == f->low)
		return f->low + delta <= f->cover &&
		       freelist_fresh(f, delta) != NIL;
	if (bit_test(f, end))
		return extend_into_free(f, end, delta);
	return false;
}

/* Of [to, to + want), what is not in [g, g + n): to < g. */
static void open_rest(const struct freelist *f, uint32_t g, uint32_t n,
                      uint32_t to, uint32_t want)
{
	track_undefined(at(f, to), (size_t)(g - to) << f->shift);
	if (to + want > g + n)
		track_undefined(at(f, g + n), (size_t)(to + want - g - n)
		                                      << f->shift);
}

/* Of [g, g + n), what is not in [to, to + want) any more: to < g. */
static void shut_rest(const struct freelist *f, uint32_t g, uint32_t n,
                      uint32_t to, uint32_t want)
{
	if (g + n > to + want)
		track_noaccess(at(f, to + want), (size_t)(g + n - to - want)
		                                         << f->shift);
}

uint32_t freelist_slide(struct freelist *f, uint32_t g, uint32_t n,
                        uint32_t want, size_t bytes)
{
	uint32_t left, right = 0, total, to;

	if (!bit_test(f, g - 1))
		return NIL;
	left = size_before(f, g);
	if (bit_test(f, g + n))
		right = size_at(f, g + n);
	total = left + n + right;
	if (total < want)
		return NIL;
	freelist_remove(f, g - left, left);
	if (right != 0) {
		freelist_remove(f, g + n, right);
	}
	f->none = NIL;
	to = want > QUICK_MAX ? g + n + right - want : g - left;
	open_rest(f, g, n, to, want);
	node_at(f, to)->stamp = 0;
	memmove(at(f, to), at(f, g), bytes);
	shut_rest(f, g, n, to, want);
	if (total > want && want > QUICK_MAX)
		freelist_insert(f, g - left, total - want);
	else if (total > want)
		freelist_insert(f, to + want, total - want);
	return to;
}
