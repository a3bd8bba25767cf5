/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_MEMPOOL_UNCHECKED_H
#define PERF_MEMPOOL_UNCHECKED_H
/*
 * mempool_unchecked - mempool_free() as it would be without its checks: no
 * salt that tells pools apart, no test that the number is one of an object,
 * no test of the bit. mempool_alloc() has none to leave out. The difference to
 * the real one is what they cost.
 */
#include <small/mempool.h>

static inline void unchecked_free(struct mempool *pool, void *ptr)
{
	uintptr_t start = (uintptr_t)ptr & pool->slab_mask;
	struct mslab *slab = (struct mslab *)start;
	uint64_t x = (uintptr_t)ptr * pool->factor - slab->key;
	uint64_t index = x >> MEMPOOL_INDEX_BITS;
	uint64_t word = index / 64, bits = slab->free[word];

#if MEMPOOL_X86
	__asm__("btsq %2, %0" : "+r"(bits), "+r"(word) : "r"(index) : "cc");
#else
	bits |= (uint64_t)1 << index % 64;
#endif
	slab->free[word] = bits;
	pool->live--;
	if (small_unlikely(--slab->left == 0))
		mempool_relist(pool, slab);
}

#endif /* PERF_MEMPOOL_UNCHECKED_H */
