/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_FREELIST_INDEX_H
#define SMALL_FREELIST_INDEX_H
/*
 * freelist_index - the short steps of the index, inline: they are most of
 * what a merge or a split costs. Internal.
 */
#include <small/freelist_impl.h>

/* n granules; the octaves above CLASS_EXACT have CLASS_SUB classes each. */
static inline uint32_t class_of(uint32_t n)
{
	uint32_t lb;

	if (n <= CLASS_EXACT)
		return n - 1;
	lb = 31 ^ (uint32_t)__builtin_clz(n);
	return (lb << CLASS_SUB_LB) + (n >> (lb - CLASS_SUB_LB)) + CLASS_EXACT -
	       (5u << CLASS_SUB_LB);
}

/* Every link that is followed comes through here. */
static inline void check_link(const struct freelist *f, uint32_t link)
{
	if (small_unlikely(link >= f->low && link != NIL))
		freelist_bad_link();
}

/* The size of the free block that starts at g. */
static inline uint32_t size_at(const struct freelist *f, uint32_t g)
{
	const struct node *node = node_at(f, g);
	uint32_t n;

	if (small_unlikely(meta_get(&node->next) == SLIVER))
		return 1;
	n = meta_get(&node->size);
	if (small_unlikely(n - 1 >= f->low - g))
		freelist_bad_link();
	return n;
}

/* The size of the free block that ends before g. */
static inline uint32_t size_before(const struct freelist *f, uint32_t g)
{
	const uint32_t *foot = foot_before(f, g);
	uint32_t n;

	if (small_unlikely(meta_get(foot - 1) == SLIVER))
		return 1;
	n = meta_get(foot);
	if (small_unlikely(n - 1 >= g))
		freelist_bad_link();
	return n;
}

/* Describes [g, g + n) as free and links it; its bits are the caller's. */
static inline void index_link(struct freelist *f, uint32_t g, uint32_t n)
{
	struct node *node = node_at(f, g);
	uint32_t *foot = foot_before(f, g + n), class, next;

	f->steps++;
	f->indexed += n;
	if (small_unlikely(n == 1) && f->shift == 3) {
		meta_put(&node->next, SLIVER);
		meta_put(&node->stamp, stamp_of(f));
		return;
	}
	class = class_of(n);
	next = f->heads[class];
	/* First: in a short block the other words lie over this one. */
	meta_put(foot - 1, 0);
	meta_put(foot, n);
	meta_put(&node->next, next);
	meta_put(&node->stamp, stamp_of(f));
	meta_put(&node->prev, NIL);
	meta_put(&node->size, n);
	f->heads[class] = g;
	if (next != NIL)
		meta_put(&node_at(f, next)->prev, g);
	else
		f->classes[class / 64] |= (uint64_t)1 << (class % 64);
}

/* The reverse. */
static inline void index_unlink(struct freelist *f, uint32_t g, uint32_t n)
{
	const struct node *node = node_at(f, g);
	uint32_t class, next, prev;

	f->steps++;
	f->indexed -= n;
	if (small_unlikely(n == 1) && f->shift == 3)
		return;
	next = meta_get(&node->next);
	prev = meta_get(&node->prev);
	check_link(f, next);
	if (next != NIL)
		meta_put(&node_at(f, next)->prev, prev);
	if (prev != NIL) {
		check_link(f, prev);
		meta_put(&node_at(f, prev)->next, next);
		return;
	}
	class = class_of(n);
	f->heads[class] = next;
	if (next == NIL)
		f->classes[class / 64] &= ~((uint64_t)1 << (class % 64));
}

/* A block that touches no other free one goes into the index. */
static inline void index_insert(struct freelist *f, uint32_t g, uint32_t n)
{
	index_link(f, g, n);
	bit_set(f, g);
	bit_set(f, g + n - 1);
}

/* A block of the index goes out of it. */
static inline void index_remove(struct freelist *f, uint32_t g, uint32_t n)
{
	index_unlink(f, g, n);
	bit_clear(f, g);
	bit_clear(f, g + n - 1);
}

/* [g, g + n) joins the index, of which its free neighbours are part if the
 * bits beside it say so. Outer bits of neighbours stay as they are. */
static inline void index_merge(struct freelist *f, uint32_t g, uint32_t n,
                               bool has_left, bool has_right)
{
	uint32_t m;

	if (has_right) {
		m = size_at(f, g + n);
		index_unlink(f, g + n, m);
		if (m > 1)
			bit_clear(f, g + n);
		n += m;
	} else {
		bit_set(f, g + n - 1);
	}
	if (has_left) {
		m = size_before(f, g);
		index_unlink(f, g - m, m);
		if (m > 1)
			bit_clear(f, g - 1);
		g -= m;
		n += m;
	} else {
		bit_set(f, g);
	}
	f->none = NIL;
	index_link(f, g, n);
	if (small_unlikely(f->is_squeezed))
		freelist_retreat(f);
}

/* Is a border of a free block in [g, g + n)? n > 0, not past low. */
static inline bool has_border(const struct freelist *f, size_t g, size_t n)
{
	size_t word = g / 64, last = (g + n - 1) / 64;
	uint64_t bits;

	if (n <= BITS_AT_MAX)
		return (bits_at(f, g) & ~(~(uint64_t)0 << n)) != 0;
	bits = f->bitmap[word] & (~(uint64_t)0 << (g % 64));
	while (bits == 0 && word < last)
		bits = f->bitmap[++word];
	if (word == last)
		bits &= ~(uint64_t)0 >> (63 - (g + n - 1) % 64);
	return bits != 0;
}

/* Could a block of n granules at g be in use, for all that is quickly seen?
 * n may be anything, as may what is in the block. */
static inline bool is_sound(const struct freelist *f, size_t g, size_t n)
{
	return g < f->low && g >= f->first && n <= f->low - g && n != 0 &&
	       !has_border(f, g, n) &&
	       meta_peek(&node_at(f, g)->stamp) != stamp_of(f);
}

#endif /* SMALL_FREELIST_INDEX_H */
