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
/* Blocks merged when more wait than may: each pays for three pushes. */
#define FLUSH_OVER 4

uint32_t freelist_class_count(uint32_t cover)
{
	return class_of(cover) + 1;
}

/* --- search --- */

/* The first class >= from that has blocks, or NIL. */
static uint32_t find_class(const struct freelist *f, uint32_t from)
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
static uint32_t fit_in_class(struct freelist *f, uint32_t class, uint32_t n,
                             size_t probes)
{
	uint32_t g = f->heads[class], found = NIL, best = UINT32_MAX;

	for (; g != NIL && probes > 0; probes--) {
		struct node *node = node_at(f, g);
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

uint32_t freelist_take(struct freelist *f, uint32_t n, bool is_exact,
                       uint32_t *size)
{
	uint32_t class = class_of(n), g = NIL, m;
	size_t probes = f->is_tight ? PROBES_TIGHT : PROBES;

	if (n > f->indexed)
		return NIL;
	if (n > CLASS_EXACT && class < f->class_max)
		g = fit_in_class(f, class ++, n, is_exact ? SIZE_MAX : probes);
	if (g == NIL) {
		class = find_class(f, class);
		if (class == NIL)
			return NIL;
		g = f->heads[class];
	}
	m = size_at(f, g);
	index_remove(f, g, m);
	*size = m;
	return g;
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
	*size = size_at(f, g);
	index_remove(f, g, *size);
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

void freelist_merge(struct freelist *f, uint32_t g, uint32_t n)
{
	index_merge(f, g, n, bit_test(f, g - 1), bit_test(f, g + n));
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
static void merge_top(struct freelist *f, uint32_t n)
{
	uint32_t g = f->quick[n], next = meta_get(&node_at(f, g)->next);

	check_link(f, next);
	if (small_unlikely(has_border(f, g, n)))
		small_panic("freelist_free",
		            "the size reached over a free block");
	f->quick[n] = next;
	f->defer_room += n;
	freelist_merge(f, g, n);
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

void freelist_flush_over(struct freelist *f, uint32_t n)
{
	if (f->defer_max == 0) {
		merge_top(f, n);
		if (f->defer_room >= 0)
			return;
	}
	freelist_flush(f, FLUSH_OVER);
	if (f->cap != 0 && deferred_granules(f) > f->cap && f->quick[n] != NIL)
		merge_top(f, n);
}
