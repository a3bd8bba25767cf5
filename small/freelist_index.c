/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_index - the merged free blocks of a freelist: lists by size class,
 * a bitmap of their ends, merging, and the waiting blocks' way into it.
 *
 * One class a size up to CLASS_EXACT granules, then CLASS_SUB an octave.
 * A search looks at no more than PROBES blocks of the size's own class for
 * the smallest that fits, then takes any of the next class that has one: all
 * of those fit. Bits are set at the first and the last granule of each block,
 * so a neighbour is free iff the bit beside one's own border is set, and its
 * size is in the word at that border. Granule 0 and the one at low stay 0:
 * no test for the ends of the piece.
 */
#include <small/freelist_impl.h>

/* More probes find a tighter fit: 16 were as dense as all of them. */
#define PROBES 16
/* Blocks merged when more wait than may: each pays for three pushes. */
#define FLUSH_OVER   4
#define CLASS_SUB_LB (CLASS_SUB == 8 ? 3 : 2)

uint32_t freelist_class_of(uint32_t n)
{
	uint32_t lb;

	if (n <= CLASS_EXACT)
		return n - 1;
	lb = (uint32_t)small_lb(n);
	return CLASS_EXACT + (lb - 4) * CLASS_SUB +
	       ((n >> (lb - CLASS_SUB_LB)) & (CLASS_SUB - 1));
}

uint32_t freelist_class_count(uint32_t cover)
{
	return freelist_class_of(cover) + 1;
}

/* Every link that is followed comes through here. */
static inline void check_link(const struct freelist *f, uint32_t link)
{
	if (small_unlikely(link >= f->low && link != NIL))
		freelist_bad_link();
}

static inline bool is_sliver(const struct freelist *f, uint32_t n)
{
	return n < granules_min(f);
}

/* Both sizes. The granule of the last one never looks like a sliver. */
static inline void write_sizes(struct freelist *f, uint32_t g, uint32_t n)
{
	struct node *node = node_at(f, g);

	if (f->shift == 3 && n > 2)
		meta_put(foot_before(f, g + n) - 1, 0);
	meta_put(foot_before(f, g + n), n);
	meta_put(&node->size, n);
}

void freelist_insert(struct freelist *f, uint32_t g, uint32_t n)
{
	struct node *node = node_at(f, g);

	f->steps++;
	f->indexed += n;
	meta_put(&node->stamp, stamp_of(f));
	bit_set(f, g);
	if (is_sliver(f, n)) {
		meta_put(&node->next, SLIVER);
		return;
	}
	uint32_t class = freelist_class_of(n);
	uint32_t next = f->heads[class];

	bit_set(f, g + n - 1);
	write_sizes(f, g, n);
	meta_put(&node->next, next);
	meta_put(&node->prev, NIL);
	if (next != NIL)
		meta_put(&node_at(f, next)->prev, g);
	f->heads[class] = g;
	f->classes[class / 64] |= (uint64_t)1 << (class % 64);
}

void freelist_unlink(struct freelist *f, uint32_t g, uint32_t n)
{
	struct node *node = node_at(f, g);
	uint32_t class, next, prev;

	f->steps++;
	f->indexed -= n;
	if (is_sliver(f, n))
		return;
	class = freelist_class_of(n);
	next = meta_get(&node->next);
	prev = meta_get(&node->prev);
	check_link(f, next);
	check_link(f, prev);
	if (next != NIL)
		meta_put(&node_at(f, next)->prev, prev);
	if (prev != NIL) {
		meta_put(&node_at(f, prev)->next, next);
		return;
	}
	f->heads[class] = next;
	if (next == NIL)
		f->classes[class / 64] &= ~((uint64_t)1 << (class % 64));
}

uint32_t freelist_size_at(const struct freelist *f, uint32_t g)
{
	struct node *node = node_at(f, g);
	uint32_t n;

	if (f->shift == 3 && meta_get(&node->next) == SLIVER)
		return 1;
	n = meta_get(&node->size);
	if (small_unlikely(n - 1 >= f->low - g))
		freelist_bad_link();
	return n;
}

uint32_t freelist_size_before(const struct freelist *f, uint32_t g)
{
	const uint32_t *foot = foot_before(f, g);
	uint32_t n;

	if (f->shift == 3 && meta_get(foot - 1) == SLIVER)
		return 1;
	n = meta_get(foot);
	if (small_unlikely(n - 1 >= g))
		freelist_bad_link();
	return n;
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
	uint32_t class = freelist_class_of(n), g = NIL, m;

	if (n > f->indexed)
		return NIL;
	if (n > CLASS_EXACT && class < f->class_max)
		g = fit_in_class(f, class ++, n, is_exact ? SIZE_MAX : PROBES);
	if (g == NIL) {
		class = find_class(f, class);
		if (class == NIL)
			return NIL;
		g = f->heads[class];
	}
	m = freelist_size_at(f, g);
	freelist_unlink(f, g, m);
	bit_clear(f, g);
	bit_clear(f, g + m - 1);
	*size = m;
	return g;
}

uint32_t freelist_largest(const struct freelist *f)
{
	uint32_t largest = 0;

	for (uint32_t word = (f->class_max + 63u) / 64; word-- > 0;) {
		uint32_t g;

		if (f->classes[word] == 0)
			continue;
		g = f->heads[word * 64 + 63 -
		             (uint32_t)__builtin_clzll(f->classes[word])];
		while (g != NIL) {
			uint32_t n = freelist_size_at(f, g);

			largest = n > largest ? n : largest;
			g = meta_get(&node_at(f, g)->next);
		}
		return largest;
	}
	return f->indexed != 0; /* slivers */
}

/* --- merging --- */

void freelist_merge(struct freelist *f, uint32_t g, uint32_t n)
{
	uint32_t m;

	if (bit_test(f, g + n)) {
		m = freelist_size_at(f, g + n);
		freelist_unlink(f, g + n, m);
		bit_clear(f, g + n);
		bit_clear(f, g + n + m - 1);
		n += m;
	}
	if (bit_test(f, g - 1)) {
		m = freelist_size_before(f, g);
		g -= m;
		freelist_unlink(f, g, m);
		bit_clear(f, g);
		bit_clear(f, g + m - 1);
		n += m;
	}
	f->none = NIL;
	freelist_insert(f, g, n);
	if (small_unlikely(f->squeezed))
		freelist_retreat(f);
}

void freelist_return_bump(struct freelist *f)
{
	uint32_t g = f->bump, n = bump_granules(f);

	f->bump = 0;
	f->bump_end = 0;
	if (n != 0)
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
		uint32_t g = f->quick[n], next;

		if (g == NIL) {
			empty++;
			n = n < f->quick_max ? n + 1 : 1;
			continue;
		}
		next = meta_get(&node_at(f, g)->next);
		check_link(f, next);
		f->quick[n] = next;
		f->defer_room += (int64_t)n;
		freelist_merge(f, g, (uint32_t)n);
		count--;
		empty = 0;
		n = n < f->quick_max ? n + 1 : 1;
	}
	f->cursor = (uint8_t)n;
}

void freelist_flush_over(struct freelist *f, uint32_t n)
{
	uint32_t g;

	freelist_flush(f, FLUSH_OVER);
	if (f->cap == 0 || deferred_granules(f) <= f->cap)
		return;
	g = f->quick[n];
	f->quick[n] = meta_get(&node_at(f, g)->next);
	f->defer_room += n;
	freelist_merge(f, g, n);
}
