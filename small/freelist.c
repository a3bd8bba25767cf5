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
 * Worst-case waste, see freelist_stats: metadata + rounding are exact. What
 * is free but too scattered for a request of n granules is at most
 * (n - 1) / n of the piece, reached when every n-th granule is in use: no
 * allocator that does not move blocks has a better bound than that order.
 */
#include <small/freelist_index.h>
#include <small/freelist_shadow.h>

/* The offset in granules of a pointer; more than any piece has when it is
 * misaligned, as the bits below a granule come to the top. */
static inline size_t rotate(size_t offset, unsigned shift)
{
	return offset >> shift | offset << (sizeof(size_t) * CHAR_BIT - shift);
}

static inline struct node *node_shift(const struct freelist *f, size_t g,
                                      unsigned shift)
{
	return (struct node *)(void *)((char *)f + (g << shift));
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
static inline uint32_t get_at_hand(struct freelist *f, size_t n)
{
	uint32_t g, size = (uint32_t)n;

	if (n <= CLASS_EXACT && f->heads[n - 1] != NIL) {
		g = f->heads[n - 1];
		index_remove(f, g, size);
		return g;
	}
	if (n > bump_granules(f))
		return NIL;
	g = f->bump;
	f->bump += size;
	return g;
}

/* n granules, none of which wait; NIL when refused. */
static inline uint32_t get_merged(struct freelist *f, size_t n)
{
	uint32_t g = NIL;

	if (n <= QUICK_MAX && !f->is_squeezed)
		g = get_at_hand(f, n);
	return g != NIL ? g : freelist_get(f, n);
}

/* n granules. */
static inline uint32_t get(struct freelist *f, size_t n)
{
	uint32_t g;

	if (n > f->quick_max || f->quick[n] == NIL)
		return get_merged(f, n);
	g = f->quick[n];
	if (small_unlikely(g >= f->low))
		freelist_bad_link();
	f->quick[n] = meta_get(&node_at(f, g)->next);
	f->defer_room += (int64_t)n;
	return g;
}

static __attribute__((noinline)) void *alloc_slow(struct freelist *f,
                                                  size_t size)
{
	uint32_t g;
	void *ptr;

	if (small_unlikely(size == 0))
		return NULL;
	g = get_merged(f, granules_of(f, size));
	if (small_unlikely(g == NIL)) {
		f->refused++;
		return NULL;
	}
	ptr = at(f, g);
	meta_put(&node_at(f, g)->stamp, 0);
	track_undefined(ptr, size);
	return count_used(f, ptr, size);
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
		return alloc_slow(f, size);
	}
	node = node_shift(f, g, shift);
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
	return alloc_slow(f, size);
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

static __attribute__((noinline)) void free_slow(struct freelist *f, void *ptr,
                                                size_t size)
{
	size_t g = rotate((uintptr_t)ptr - (uintptr_t)f, f->shift);
	size_t n = granules_of(f, size);

	if (small_unlikely(!is_sound(f, g, n) || size == 0)) {
		free_odd(f, ptr, size);
		return;
	}
	f->peak_room += (int64_t)size;
	track_noaccess(ptr, size);
	if (can_wait(f) && n <= f->quick_max)
		freelist_put(f, (uint32_t)g, (uint32_t)n);
	else
		index_merge(f, (uint32_t)g, (uint32_t)n, bit_test(f, g - 1),
		            bit_test(f, g + n));
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
	next = f->quick[n];
	f->quick[n] = (uint32_t)g;
	meta_put(&node->next, next);
	f->peak_room += (int64_t)size;
	f->defer_room -= (int64_t)n;
	if (small_unlikely(f->defer_room < 0))
		freelist_flush_over(f, (uint32_t)n);
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

/* The tail goes; the block stays. */
static void *shrink(struct freelist *f, void *ptr, size_t old_size, size_t size)
{
	size_t n = granules_of(f, old_size), want = granules_of(f, size);
	size_t g = ((uintptr_t)ptr - (uintptr_t)f) >> f->shift;

	track_noaccess((char *)ptr + size, old_size - size);
	f->peak_room += (int64_t)(old_size - size);
	if (want < n)
		freelist_put(f, (uint32_t)(g + want), (uint32_t)(n - want));
	return ptr;
}

static void *refuse(struct freelist *f, uint8_t cause)
{
	f->cause = cause;
	f->refused++;
	return NULL;
}

/* Grows a block of n granules at g with its neighbours; its place then, or
 * NIL. Large ones slide, small ones only when there is no other way. */
static uint32_t grow_here(struct freelist *f, uint32_t g, uint32_t n,
                          uint32_t want, size_t bytes, bool is_last)
{
	if (want == n || freelist_extend(f, g, n, want))
		return g;
	if (is_last || want > QUICK_MAX)
		return freelist_slide(f, g, n, want, bytes);
	return NIL;
}

/* The old block is given up last. */
static void *copy(struct freelist *f, void *ptr, size_t old_size, size_t size,
                  uint32_t to)
{
	void *block = at(f, to);

	meta_put(&node_at(f, to)->stamp, 0);
	track_undefined(block, size);
	memcpy(block, ptr, old_size);
	release(f, ptr, old_size);
	return count_used(f, block, size);
}

static void *grow(struct freelist *f, void *ptr, size_t old_size, size_t size)
{
	size_t n = granules_of(f, old_size), want = granules_of(f, size);
	uint32_t g = (uint32_t)(((uintptr_t)ptr - (uintptr_t)f) >> f->shift);
	uint8_t cause = f->cause;
	uint32_t to;

	if (want == SIZE_MAX)
		return refuse(f, FREELIST_SYSTEM);
	if (want > f->lim ||
	    (f->is_squeezed && granules_in_use(f) + (want - n) > f->lim))
		return refuse(f, FREELIST_LIMIT);
	to = grow_here(f, g, (uint32_t)n, (uint32_t)want, old_size, false);
	if (to == NIL) {
		to = get(f, want);
		if (to != NIL)
			return copy(f, ptr, old_size, size, to);
		/* All that waited is merged now: look again. */
		to = grow_here(f, g, (uint32_t)n, (uint32_t)want, old_size,
		               true);
	}
	if (to == NIL)
		return refuse(f, f->cause);
	f->cause = cause;
	ptr = at(f, to);
	track_undefined((char *)ptr + old_size, size - old_size);
	track_noaccess((char *)ptr + size, (want << f->shift) - size);
	return count_used(f, ptr, size - old_size);
}

/* A block of old_size bytes becomes one of new_size, neither of them 0. */
static inline void *resize(struct freelist *f, void *ptr, size_t old_size,
                           size_t new_size)
{
	size_t g = rotate((uintptr_t)ptr - (uintptr_t)f, f->shift);

	if (small_unlikely(!is_sound(f, g, granules_of(f, old_size)) ||
	                   old_size == 0))
		freelist_guard(f, ptr, old_size, "freelist_realloc");
	if (new_size <= old_size)
		return shrink(f, ptr, old_size, new_size);
	return grow(f, ptr, old_size, new_size);
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
	block = resize(f, ptr, old_size, new_size);
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
