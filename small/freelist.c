/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist - blocks of any size from one piece of memory.
 *
 * A freed block of up to QUICK_MAX granules waits, unmerged, in a last-in
 * first-out list of its size, and the next allocation of that size pops it:
 * those are the two paths here. How much may wait follows what is free (twice
 * that: amortised, each merge is paid by a push), and never passes the cap.
 * Everything else: freelist_block.c, freelist_index.c, freelist_piece.c.
 *
 * Worst-case waste, see freelist_stats: metadata + rounding are exact. With B
 * blocks in use, a refusal of n granules means free <= (B + 2) (n - 1)
 * granules, as no run between two of them (the table counts as one) has n; in
 * a piece that grows, also the room of a larger table. That is (n - 1) / n of
 * the piece when every n-th granule is in use: no allocator that does not
 * move blocks has a better bound than that order.
 */
#include <small/freelist_index.h>
#include <small/freelist_shadow.h>

/* The offset in granules of a pointer; more than any piece has when it is
 * misaligned, as the bits below a granule come to the top. */
static inline size_t rotate(size_t offset, unsigned shift)
{
	return offset >> shift | offset << (sizeof(size_t) * CHAR_BIT - shift);
}

/* Granules of size > 0 bytes; of 0 bytes, more than any piece has less 1. */
FREELIST_INLINE size_t granules_over(size_t size, unsigned shift)
{
	size_t n = ((size - 1) >> shift) + 1;

	return shift == 3 && n < 2 ? 2 : n;
}

/* used() moved past the peak. */
static __attribute__((noinline)) void *new_peak(struct freelist *f, void *ptr)
{
	f->peak -= (size_t)f->peak_room;
	f->peak_room = 0;
	return ptr;
}

static inline void *count_used(struct freelist *f, void *ptr, size_t size)
{
	f->peak_room -= (int64_t)size;
	if (small_unlikely(f->peak_room < 0))
		return new_peak(f, ptr);
	return ptr;
}

/* A small block from its exact list or the bump run, or NIL. */
FREELIST_INLINE uint32_t get_at_hand(struct freelist *f, size_t n,
                                     unsigned shift)
{
	uint32_t g, size = (uint32_t)n;

	if (n <= CLASS_EXACT && f->heads[n - 1] != NIL) {
		g = f->heads[n - 1];
		check_link(f, g);
		index_remove(f, g, size, shift);
		return g;
	}
	if (n > bump_granules(f))
		return NIL;
	g = f->bump;
	f->bump += size;
	return g;
}

/* n granules, none of which wait; NIL when refused. */
FREELIST_INLINE uint32_t get_merged(struct freelist *f, size_t n,
                                    unsigned shift)
{
	uint32_t g = NIL;

	if (n <= QUICK_MAX && !f->is_squeezed)
		g = get_at_hand(f, n, shift);
	return g != NIL ? g : freelist_get(f, n);
}

FREELIST_INLINE void *alloc_merged(struct freelist *f, size_t size,
                                   unsigned shift)
{
	size_t n = granules_over(size, shift);
	struct node *node;
	uint32_t g;

	if (n > QUICK_MAX && small_unlikely(size == 0))
		return NULL;
	g = get_merged(f, n, shift);
	if (small_unlikely(g == NIL)) {
		f->refused++;
		return NULL;
	}
	node = node_in(f, g, shift);
	meta_put(&node->stamp, 0);
	track_undefined(node, size);
	return count_used(f, node, size);
}

static __attribute__((noinline)) void *alloc_slow16(struct freelist *f,
                                                    size_t size)
{
	return alloc_merged(f, size, 4);
}

static __attribute__((noinline)) void *alloc_slow8(struct freelist *f,
                                                   size_t size)
{
	return alloc_merged(f, size, 3);
}

FREELIST_INLINE void *alloc_slow(struct freelist *f, size_t size,
                                 unsigned shift)
{
	return shift == 4 ? alloc_slow16(f, size) : alloc_slow8(f, size);
}

/* Pops a block of n granules that waits. */
static inline void *pop(struct freelist *f, size_t n, size_t size,
                        unsigned shift)
{
	size_t g = f->quick[n];
	struct node *node;

	/* NIL is not below low, and neither is most of what may come from a
	 * link that somebody wrote over. */
	if (small_unlikely(g >= f->low)) {
		if (g != NIL)
			freelist_bad_link();
		return alloc_slow(f, size, shift);
	}
	node = node_in(f, g, shift);
	f->quick[n] = meta_get(&node->next);
	f->defer_room += (int64_t)n;
	meta_put(&node->stamp, 0);
	track_undefined(node, size);
	return count_used(f, node, size);
}

static inline void *alloc(struct freelist *f, size_t size)
{
	/* 0, and what wraps to it, finds the list that is always empty. */
	size_t n = (size + 15) >> 4;

	if (small_likely(n <= f->quick16))
		return pop(f, n, size, 4);
	n = (size - 9) >> 3;
	if (small_likely(n < f->quick8))
		return pop(f, n + 2, size, 3);
	return alloc_slow(f, size, f->shift);
}

void *freelist_alloc(struct freelist *f, size_t size)
{
	void *ptr;

	freelist_owner(f, "freelist_alloc");
	ptr = alloc(f, size);
	freelist_shadow_add(f, ptr, size);
	return ptr;
}

/* Something is odd: aborts, unless it was chance. */
static __attribute__((noinline)) void free_odd(struct freelist *f, void *ptr,
                                               size_t size)
{
	uint32_t g;

	if (ptr == NULL && size == 0)
		return;
	g = freelist_guard(f, ptr, size, "freelist_free");
	f->peak_room += (int64_t)size;
	track_noaccess(ptr, size);
	freelist_put(f, g, (uint32_t)granules_of(f, size));
}

/* Granules of the largest block that waits. */
FREELIST_INLINE size_t may_wait(const struct freelist *f, unsigned shift)
{
	return shift == 4 ? f->quick16 : f->quick8 + (f->quick8 != 0);
}

/* Is this no place of n + 1 granules, or does it look like a free block? */
FREELIST_INLINE bool is_odd(const struct freelist *f, size_t g, size_t n,
                            unsigned shift)
{
	return g >= f->low || g < f->first || n >= f->low - g ||
	       meta_peek(&node_in(f, g, shift)->stamp) == stamp_of(f);
}

/* Merges a block, unless it is small and may wait. */
FREELIST_INLINE void free_merged(struct freelist *f, void *ptr, size_t size,
                                 unsigned shift)
{
	size_t g = rotate((uintptr_t)ptr - (uintptr_t)f, shift);
	size_t n = (size - 1) >> shift; /* one less than granules */
	struct beside beside;

	if (small_unlikely(is_odd(f, g, n, shift))) {
		free_odd(f, ptr, size);
		return;
	}
	n = granules_over(size, shift);
	beside = look_beside(f, g, n);
	if (small_unlikely(beside.has_border)) {
		free_odd(f, ptr, size);
		return;
	}
	f->peak_room += (int64_t)size;
	track_noaccess(ptr, size);
	if (n <= may_wait(f, shift))
		freelist_put(f, (uint32_t)g, (uint32_t)n);
	else
		index_merge(f, g, (uint32_t)n, beside.has_left,
		            beside.has_right, shift);
}

static __attribute__((noinline)) void free_slow(struct freelist *f, void *ptr,
                                                size_t size)
{
	if (f->shift == 4)
		free_merged(f, ptr, size, 4);
	else
		free_merged(f, ptr, size, 3);
}

/* Lets a block of n granules wait. */
static inline void push(struct freelist *f, void *ptr, size_t n, size_t size,
                        unsigned shift)
{
	size_t g = rotate((uintptr_t)ptr - (uintptr_t)f, shift);
	struct node *node = ptr;
	uint32_t next;

	/* Near the end, and with a stamp, a closer look. */
	if (small_unlikely(g >= f->safe ||
	                   meta_peek(&node->stamp) == stamp_of(f))) {
		free_slow(f, ptr, size);
		return;
	}
	track_noaccess(ptr, size);
	/* In this order two stores are not made one by way of three. */
	meta_put(&node->stamp, stamp_of(f));
	AS_IT_IS(n);
	next = f->quick[n];
	AS_IT_IS(n);
	f->quick[n] = (uint32_t)g;
	meta_put(&node->next, next);
	f->peak_room += (int64_t)size;
	f->defer_room -= (int64_t)n;
	if (small_unlikely(f->defer_room < 0))
		freelist_flush_over(f, ptr, size);
}

static inline void release(struct freelist *f, void *ptr, size_t size)
{
	size_t n = (size - 1) >> 4;

	if (small_likely(n < f->quick16)) {
		push(f, ptr, n + 1, size, 4);
		return;
	}
	n = (size - 9) >> 3;
	if (small_likely(n < f->quick8)) {
		push(f, ptr, n + 2, size, 3);
		return;
	}
	free_slow(f, ptr, size);
}

void freelist_free(struct freelist *f, void *ptr, size_t size)
{
	freelist_owner(f, "freelist_free");
	if (ptr != NULL || size != 0)
		freelist_shadow_expect(f, ptr, size, "freelist_free");
	freelist_shadow_del(f, ptr);
	release(f, ptr, size);
}

/* --- realloc --- */

/* A block that is being resized: `n` granules at g, `want` then. */
struct resize {
	void *ptr;
	size_t old_size, size;
	size_t g, n, want;
	struct beside beside;
	unsigned shift;
};

/* The tail goes; the block stays. */
FREELIST_INLINE void *shrink(struct freelist *f, const struct resize *r)
{
	track_noaccess((char *)r->ptr + r->size, r->old_size - r->size);
	f->peak_room += (int64_t)(r->old_size - r->size);
	if (r->want < r->n)
		freelist_put(f, (uint32_t)(r->g + r->want),
		             (uint32_t)(r->n - r->want));
	return r->ptr;
}

static __attribute__((noinline)) void *refuse(struct freelist *f, uint8_t cause)
{
	f->cause = cause;
	f->refused++;
	return NULL;
}

/* In place; its granules are where they should be. */
FREELIST_INLINE void *stay(struct freelist *f, const struct resize *r,
                           void *ptr)
{
	track_undefined((char *)ptr + r->old_size, r->size - r->old_size);
	track_noaccess((char *)ptr + r->size, (r->want << r->shift) - r->size);
	return count_used(f, ptr, r->size - r->old_size);
}

/* The old block is given up last. */
FREELIST_INLINE void *copy(struct freelist *f, const struct resize *r,
                           uint32_t to)
{
	struct node *block = node_in(f, to, r->shift);

	meta_put(&block->stamp, 0);
	track_undefined(block, r->size);
	memcpy(block, r->ptr, r->old_size);
	f->peak_room += (int64_t)r->old_size;
	track_noaccess(r->ptr, r->old_size);
	freelist_put(f, (uint32_t)r->g, (uint32_t)r->n);
	return count_used(f, block, r->size);
}

/* n granules, which may have waited. */
FREELIST_INLINE uint32_t get(struct freelist *f, size_t n, unsigned shift)
{
	uint32_t g;

	if (n > f->quick_max || f->quick[n] == NIL)
		return get_merged(f, n, shift);
	g = f->quick[n];
	if (small_unlikely(g >= f->low))
		freelist_bad_link();
	f->quick[n] = meta_get(&node_in(f, g, shift)->next);
	f->defer_room += (int64_t)n;
	return g;
}

/* With its neighbours, or NIL. Large ones slide, small ones only when there
 * is no other way. */
static __attribute__((noinline)) uint32_t
grow_here(struct freelist *f, const struct resize *r, bool may_slide)
{
	uint32_t g = (uint32_t)r->g, n = (uint32_t)r->n;

	if (freelist_extend(f, g, n, (uint32_t)r->want))
		return g;
	if (may_slide)
		return freelist_slide(f, g, n, (uint32_t)r->want, r->old_size);
	return NIL;
}

/* Nothing that is free holds it, and all that waited is merged now. */
static __attribute__((noinline)) void *
grow_last(struct freelist *f, const struct resize *r, uint8_t cause)
{
	uint32_t to = grow_here(f, r, true);

	if (to == NIL)
		return refuse(f, f->cause);
	f->cause = cause;
	return stay(f, r, at(f, to));
}

FREELIST_INLINE void *grow(struct freelist *f, const struct resize *r)
{
	size_t end = r->g + r->n;
	bool is_large = r->want > QUICK_MAX;
	struct resize here; /* a copy to point at: r stays in registers */
	uint8_t cause = f->cause;
	uint32_t to;

	if (small_unlikely(r->want > f->lim))
		return refuse(f, r->want > FREELIST_GRANULES_MAX
		                         ? FREELIST_SYSTEM
		                         : FREELIST_LIMIT);
	if (small_unlikely(f->is_squeezed) &&
	    granules_in_use(f) + (r->want - r->n) > f->lim)
		return refuse(f, FREELIST_LIMIT);
	if (r->beside.has_right || end == f->bump || end == f->low ||
	    (is_large && r->beside.has_left)) {
		here = *r;
		to = grow_here(f, &here, is_large);
		if (to != NIL) {
			f->cause = cause;
			return stay(f, r, node_in(f, to, r->shift));
		}
	}
	to = get(f, r->want, r->shift);
	if (small_likely(to != NIL))
		return copy(f, r, to);
	here = *r;
	return grow_last(f, &here, cause);
}

/* A block of old_size bytes becomes one of new_size, which is not 0. */
FREELIST_INLINE void *resize(struct freelist *f, void *ptr, size_t old_size,
                             size_t new_size, unsigned shift)
{
	struct resize r = {
		.ptr = ptr,
		.old_size = old_size,
		.size = new_size,
		.g = rotate((uintptr_t)ptr - (uintptr_t)f, shift),
		.n = granules_over(old_size, shift),
		.want = granules_over(new_size, shift),
		.shift = shift,
	};

	if (small_unlikely(is_odd(f, r.g, r.n - 1, shift) || old_size == 0))
		freelist_guard(f, ptr, old_size, "freelist_realloc");
	r.beside = look_beside(f, r.g, r.n);
	if (small_unlikely(r.beside.has_border))
		freelist_guard(f, ptr, old_size, "freelist_realloc");
	if (new_size <= old_size)
		return shrink(f, &r);
	return r.want == r.n ? stay(f, &r, ptr) : grow(f, &r);
}

void *freelist_realloc(struct freelist *f, void *ptr, size_t old_size,
                       size_t new_size)
{
	void *block;

	freelist_owner(f, "freelist_realloc");
	if (ptr == NULL)
		return freelist_alloc(f, new_size);
	freelist_shadow_expect(f, ptr, old_size, "freelist_realloc");
	if (new_size == 0) {
		freelist_free(f, ptr, old_size);
		return NULL;
	}
	block = f->shift == 4 ? resize(f, ptr, old_size, new_size, 4)
	                      : resize(f, ptr, old_size, new_size, 3);
	if (block != NULL) {
		freelist_shadow_del(f, ptr);
		freelist_shadow_add(f, block, new_size);
	}
	return block;
}

/* --- what is asked --- */

size_t freelist_used(const struct freelist *f)
{
	return f->peak - (size_t)f->peak_room;
}

size_t freelist_total(const struct freelist *f)
{
	size_t bytes = ((size_t)f->end << f->shift) + f->head;

	return f->region == NULL ? bytes
	                         : small_align(bytes, small_getpagesize());
}

size_t freelist_peak(const struct freelist *f)
{
	return f->peak;
}

size_t freelist_limit(const struct freelist *f)
{
	return f->limit;
}

enum freelist_cause freelist_last_refusal(const struct freelist *f)
{
	return (enum freelist_cause)f->cause;
}

void freelist_extent(const struct freelist *f, struct freelist_extent *extent)
{
	extent->low = f->low << f->shift;
	extent->high = (size_t)f->end << f->shift;
	extent->end = extent->high;
}
