/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_FREELIST_INDEX_H
#define SMALL_FREELIST_INDEX_H
/*
 * freelist_index - the short steps of the index, inline: they are most of
 * what a merge or a split costs. Internal.
 *
 * `shift` is log2 of the granule. Callers on a path that counts pass it as a
 * constant, 4 or 3, so that the path is compiled once for each: addresses are
 * then one shift, and the words for slivers fall out of the first.
 */
#include <small/freelist_impl.h>

#define FREELIST_INLINE static inline __attribute__((always_inline))

FREELIST_INLINE struct node *node_in(const struct freelist *f, size_t g,
                                     unsigned shift)
{
	return (struct node *)(void *)((char *)f + (g << shift));
}

/* The last word of the granule before g. */
FREELIST_INLINE uint32_t *foot_in(const struct freelist *f, size_t g,
                                  unsigned shift)
{
	return (uint32_t *)(void *)node_in(f, g, shift) - 1;
}

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
FREELIST_INLINE void check_link(const struct freelist *f, uint32_t link)
{
	if (small_unlikely(link >= f->low && link != NIL))
		freelist_bad_link();
}

/* The size of the free block that starts at g. */
FREELIST_INLINE uint32_t size_in(const struct freelist *f, size_t g,
                                 unsigned shift)
{
	const struct node *node = node_in(f, g, shift);
	uint32_t n;

	if (shift == 3 && small_unlikely(meta_get(&node->next) == SLIVER))
		return 1;
	n = meta_get(&node->size);
	if (small_unlikely(n - 1 >= f->low - g))
		freelist_bad_link();
	return n;
}

/* The size of the free block that ends before g. */
FREELIST_INLINE uint32_t size_ahead(const struct freelist *f, size_t g,
                                    unsigned shift)
{
	const uint32_t *foot = foot_in(f, g, shift);
	uint32_t n;

	if (shift == 3 && small_unlikely(meta_get(foot - 1) == SLIVER))
		return 1;
	n = meta_get(foot);
	if (small_unlikely(n - 1 >= g))
		freelist_bad_link();
	return n;
}

/* The same off the paths that count. */
static inline uint32_t size_at(const struct freelist *f, size_t g)
{
	return size_in(f, g, f->shift);
}

static inline uint32_t size_before(const struct freelist *f, size_t g)
{
	return size_ahead(f, g, f->shift);
}

/* Describes [g, g + n) as free and links it; its bits and what is counted are
 * the caller's. */
FREELIST_INLINE void index_link(struct freelist *f, size_t g, uint32_t n,
                                unsigned shift)
{
	struct node *node = node_in(f, g, shift);
	uint32_t *foot = foot_in(f, g + n, shift), class, next;

	if (shift == 3 && small_unlikely(n == 1)) {
		meta_put(&node->next, SLIVER);
		meta_put(&node->stamp, stamp_of(f));
		return;
	}
	class = class_of(n);
	/* First: in a short block the other words lie over this one. */
	if (shift == 3)
		meta_put(foot - 1, 0);
	meta_put(foot, n);
	/* In this order two stores are not made one by way of three. */
	meta_put(&node->stamp, stamp_of(f));
	meta_put(&node->size, n);
	next = f->heads[class];
	f->heads[class] = (uint32_t)g;
	meta_put(&node->next, next);
	meta_put(&node->prev, NIL);
	if (small_likely(next != NIL))
		meta_put(&node_in(f, next, shift)->prev, (uint32_t)g);
	else
		f->classes[class / 64] |= (uint64_t)1 << (class % 64);
}

/* The reverse. */
FREELIST_INLINE void index_unlink(struct freelist *f, size_t g, uint32_t n,
                                  unsigned shift)
{
	const struct node *node = node_in(f, g, shift);
	uint32_t class, next, prev;

	if (shift == 3 && small_unlikely(n == 1))
		return;
	next = meta_get(&node->next);
	prev = meta_get(&node->prev);
	if (small_likely(next < f->low))
		meta_put(&node_in(f, next, shift)->prev, prev);
	else if (small_unlikely(next != NIL))
		freelist_bad_link();
	if (small_likely(prev < f->low)) {
		meta_put(&node_in(f, prev, shift)->next, next);
		return;
	}
	if (small_unlikely(prev != NIL))
		freelist_bad_link();
	class = class_of(n);
	f->heads[class] = next;
	if (next == NIL)
		f->classes[class / 64] &= ~((uint64_t)1 << (class % 64));
}

/* A block that touches no other free one goes into the index. */
FREELIST_INLINE void index_insert(struct freelist *f, size_t g, uint32_t n,
                                  unsigned shift)
{
	f->steps++;
	f->indexed += n;
	index_link(f, g, n, shift);
	bit_set(f, g);
	bit_set(f, g + n - 1);
}

/* A block of the index goes out of it. */
FREELIST_INLINE void index_remove(struct freelist *f, size_t g, uint32_t n,
                                  unsigned shift)
{
	f->steps++;
	f->indexed -= n;
	index_unlink(f, g, n, shift);
	bit_clear(f, g);
	if (n > 1)
		bit_clear(f, g + n - 1);
}

/* [g, g + n) joins the index, of which its free neighbours are part if the
 * bits beside it say so. Outer bits of neighbours stay as they are. */
FREELIST_INLINE void index_merge(struct freelist *f, size_t g, uint32_t n,
                                 bool has_left, bool has_right, unsigned shift)
{
	uint32_t m;

	f->indexed += n;
	f->none = NIL;
	if (has_right) {
		m = size_in(f, g + n, shift);
		f->steps++;
		index_unlink(f, g + n, m, shift);
		if (small_likely(m > 1))
			bit_clear(f, g + n);
		n += m;
	} else {
		bit_set(f, g + n - 1);
	}
	if (has_left) {
		m = size_ahead(f, g, shift);
		f->steps++;
		index_unlink(f, g - m, m, shift);
		if (small_likely(m > 1))
			bit_clear(f, g - 1);
		g -= m;
		n += m;
	} else {
		bit_set(f, g);
	}
	f->steps++;
	index_link(f, g, n, shift);
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

/* What the bitmap says of [g, g + n) and the granules beside it. */
struct beside {
	bool has_left, has_right, has_border;
};

/* Of a short block in one word. n > 0, not past low. */
FREELIST_INLINE struct beside look_beside(const struct freelist *f, size_t g,
                                          size_t n)
{
	struct beside beside;
	uint64_t bits;

	if (small_likely(n <= BITS_AT_MAX - 2)) {
		bits = bits_at(f, g - 1);
		beside.has_left = bits & 1;
		bits >>= 1;
		beside.has_right = bits >> n & 1;
		beside.has_border = (bits & ~(~(uint64_t)0 << n)) != 0;
		return beside;
	}
	beside.has_left = bit_test(f, g - 1);
	beside.has_right = bit_test(f, g + n);
	beside.has_border = has_border(f, g, n);
	return beside;
}

#endif /* SMALL_FREELIST_INDEX_H */
