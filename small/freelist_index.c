/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_index - the merged free blocks of a freelist: lists by size class,
 * a bitmap of their ends, merging, and the waiting blocks' way into it.
 *
 * One class a size up to CLASS_EXACT granules, then 2^CLASS_SUB_LB an octave.
 * A search looks at only a few blocks of the size's own class for
 * the smallest that fits, then takes any of the next class that has one: all
 * of those fit. Bits are set at the first and the last granule of each block,
 * so a neighbour is free iff the bit beside one's own border is set, and its
 * size is in the word at that border. Granule 0 and the one at low stay 0:
 * no test for the ends of the piece.
 */
#include <small/freelist_index.h>

/* More probes find a tighter fit: 16 were as dense as all of them. */
#define PROBES_TIGHT 16
/* While there is room: of more, most find nothing better. */
#define PROBES 4

uint32_t freelist_class_count(uint32_t cover)
{
	return class_of(cover) + 1;
}

/* --- search --- */

/* The first class >= from that has blocks, or NIL. */
FREELIST_INLINE uint32_t find_class(const struct freelist *f, uint32_t from)
{
	uint32_t word = from / 64, words = (f->class_max + 63u) / 64;
	uint64_t bits;

	if (from >= f->class_max)
		return NIL;
	bits = f->classes[word] & (~(uint64_t)0 << (from % 64));
	while (bits == 0) {
		if (++word >= words)
			return NIL;
		bits = f->classes[word];
	}
	return word * 64 + (uint32_t)__builtin_ctzll(bits);
}

/* The smallest block of a class that holds n; looks at `probes` of them. */
FREELIST_INLINE uint32_t fit_in_class(struct freelist *f, uint32_t class,
                                      uint32_t n, size_t probes, unsigned shift)
{
	uint32_t g = f->heads[class], found = NIL, best = UINT32_MAX;

	for (; g != NIL && probes > 0; probes--) {
		struct node *node = node_in(f, g, shift);
		uint32_t size = meta_get(&node->size);

		f->steps++;
		if (size >= n && size < best) {
			found = g;
			best = size;
			if (size == n)
				break;
		}
		g = meta_get(&node->next);
		check_link(f, g);
	}
	return found;
}

FREELIST_INLINE uint32_t take(struct freelist *f, uint32_t n, size_t probes,
                              uint32_t *size, unsigned shift)
{
	uint32_t class = class_of(n), g = NIL;

	if (n > CLASS_EXACT && class < f->class_max)
		g = fit_in_class(f, class ++, n, probes, shift);
	if (g == NIL) {
		class = find_class(f, class);
		if (class == NIL)
			return NIL;
		g = f->heads[class];
	}
	*size = size_in(f, g, shift);
	index_remove(f, g, *size, shift);
	return g;
}

uint32_t freelist_take(struct freelist *f, uint32_t n, bool is_exact,
                       uint32_t *size)
{
	size_t probes = is_exact      ? SIZE_MAX
	                : f->is_tight ? PROBES_TIGHT
	                              : PROBES;

	if (n > f->indexed)
		return NIL;
	return f->shift == 4 ? take(f, n, probes, size, 4)
	                     : take(f, n, probes, size, 3);
}

/* The highest class with blocks, or NIL. */
static uint32_t last_class(const struct freelist *f)
{
	for (uint32_t word = (f->class_max + 63u) / 64; word-- > 0;)
		if (f->classes[word] != 0)
			return word * 64 + 63 -
			       (uint32_t)__builtin_clzll(f->classes[word]);
	return NIL;
}

uint32_t freelist_take_large(struct freelist *f, uint32_t n, uint32_t *size)
{
	uint32_t class = last_class(f), g;

	if (class == NIL || class <= class_of(n))
		return NIL;
	g = f->heads[class];
	*size = f->shift == 4 ? size_in(f, g, 4) : size_in(f, g, 3);
	freelist_remove(f, g, *size);
	return g;
}

uint32_t freelist_largest(const struct freelist *f)
{
	uint32_t largest = 0, class = last_class(f), g;

	if (class == NIL)
		return f->indexed != 0; /* slivers */
	for (g = f->heads[class]; g != NIL;
	     g = meta_get(&node_at(f, g)->next)) {
		uint32_t n = size_at(f, g);

		largest = n > largest ? n : largest;
	}
	return largest;
}

/* --- merging --- */

void freelist_insert(struct freelist *f, uint32_t g, uint32_t n)
{
	if (f->shift == 4)
		index_insert(f, g, n, 4);
	else
		index_insert(f, g, n, 3);
}

void freelist_remove(struct freelist *f, uint32_t g, uint32_t n)
{
	if (f->shift == 4)
		index_remove(f, g, n, 4);
	else
		index_remove(f, g, n, 3);
}

void freelist_merge(struct freelist *f, uint32_t g, uint32_t n)
{
	bool has_left = bit_test(f, g - (size_t)1);
	bool has_right = bit_test(f, g + (size_t)n);

	if (f->shift == 4)
		index_merge(f, g, n, has_left, has_right, 4);
	else
		index_merge(f, g, n, has_left, has_right, 3);
}

void freelist_return_bump(struct freelist *f)
{
	uint32_t g = f->bump, n = bump_granules(f);

	f->bump = 0;
	f->bump_end = 0;
	if (n != 0)
		freelist_merge(f, g, n);
}

/* The block on top of a list goes into the index. Its size was taken on
 * trust when it was freed. */
FREELIST_INLINE void merge_top_in(struct freelist *f, uint32_t n,
                                  unsigned shift)
{
	uint32_t g = f->quick[n], next;
	struct beside beside;

	next = meta_get(&node_in(f, g, shift)->next);
	check_link(f, next);
	beside = look_beside(f, g, n);
	if (small_unlikely(beside.has_border))
		small_panic("freelist_free",
		            "the size reached over a free block");
	f->quick[n] = next;
	f->defer_room += n;
	index_merge(f, g, n, beside.has_left, beside.has_right, shift);
}

static void merge_top(struct freelist *f, uint32_t n)
{
	if (f->shift == 4)
		merge_top_in(f, n, 4);
	else
		merge_top_in(f, n, 3);
}

/* Round robin over the sizes, so that no size is starved of waiting blocks
 * while another one hoards them. */
void freelist_flush(struct freelist *f, size_t count)
{
	size_t n = f->cursor;

	if (deferred_granules(f) == 0)
		return;
	for (size_t empty = 0; count > 0 && empty < f->quick_max;) {
		if (f->quick[n] == NIL) {
			empty++;
			n = n < f->quick_max ? n + 1 : 1;
			continue;
		}
		merge_top(f, (uint32_t)n);
		count--;
		empty = 0;
		n = n < f->quick_max ? n + 1 : 1;
	}
	f->cursor = (uint8_t)n;
}

void freelist_flush_over(struct freelist *f, const void *ptr, size_t size)
{
	uint32_t n = (uint32_t)granules_of(f, size);

	assert(f->quick[n] == ((uintptr_t)ptr - (uintptr_t)f) >> f->shift);
	(void)ptr;
	if (f->defer_max == 0) {
		merge_top(f, n);
		if (f->defer_room >= 0)
			return;
	}
	freelist_flush(f, FLUSH_OVER);
	if (f->cap != 0 && deferred_granules(f) > f->cap && f->quick[n] != NIL)
		merge_top(f, n);
}
