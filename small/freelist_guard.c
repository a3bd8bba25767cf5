/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_guard - misuse of a freelist that is seen in every build.
 *
 * The short paths compare a block's second word with the stamp and its offset
 * with the piece; what fails there comes here and is decided exactly, so that
 * contents that look like a stamp cost time but never an abort.
 */
#include <small/freelist_index.h>
#include <small/freelist_shadow.h>

void freelist_bad_link(void)
{
	small_panic("freelist", "a free block was overwritten");
}

void freelist_owner_slow(const struct freelist *f, const char *call)
{
	if (f->magic != FREELIST_MAGIC)
		small_panic(call, "not a freelist");
	if (f->owner != small_thread_id())
		small_panic(call, "called by a thread that does not own it");
#ifndef NDEBUG
	freelist_shadow_sync(f);
#endif
}

static bool is_waiting(const struct freelist *f, uint32_t g)
{
	for (uint32_t n = 1; n <= f->quick_max; n++) {
		uint32_t q = f->quick[n];

		while (q != NIL) {
			if (small_unlikely(q >= f->low))
				freelist_bad_link();
			if (q == g)
				return true;
			q = meta_get(&node_at(f, q)->next);
		}
	}
	return false;
}

void freelist_guard_stamp(const struct freelist *f, const void *ptr,
                          const char *call)
{
	size_t offset = (size_t)((const char *)ptr - (const char *)f);
	uint32_t g = (uint32_t)(offset >> f->shift);

	if (bit_test(f, g) || is_waiting(f, g))
		small_panic(call, "the block is free already");
}

uint32_t freelist_guard(const struct freelist *f, const void *ptr, size_t size,
                        const char *call)
{
	size_t offset = (uintptr_t)ptr - (uintptr_t)f, g = offset >> f->shift;
	size_t n = granules_of(f, size);

	if (small_unlikely(g >= f->low || g << f->shift != offset ||
	                   g < f->first))
		small_panic(call, "the pointer is no block of the piece");
	if (small_unlikely(size == 0 || n > f->low - g))
		small_panic(call, "the size does not fit the piece");
	if (small_unlikely(bit_test(f, g)))
		small_panic(call, "the block is free already");
	if (small_unlikely(has_border(f, g, n)))
		small_panic(call, "the size reaches over a free block");
	if (small_unlikely(meta_peek(&node_at(f, g)->stamp) == stamp_of(f)))
		freelist_guard_stamp(f, ptr, call);
	return (uint32_t)g;
}
