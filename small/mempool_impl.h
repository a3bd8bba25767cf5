/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_MEMPOOL_IMPL_H
#define SMALL_MEMPOOL_IMPL_H
/*
 * mempool_impl - what the files of mempool share: how many objects of a slab
 * are live, and where a warm slab hangs. Internal.
 */
#include <small/mempool.h>

/* `left` of a current slab: no program frees that often before the slab is
 * full once; if one does, mempool_relist() starts again. */
#define MSLAB_CURRENT_LEFT (SIZE_MAX / 2)

/* Sets what follows from the size of an object and of a slab. */
void mempool_set_geometry(struct mempool *pool, size_t objsize)
	SMALL_SYM(mempool_set_geometry);

/* Bytes of a slab's header without the bits. */
static inline size_t mslab_sizeof(void)
{
	return offsetof(struct mslab, free);
}

/* Free bits of a slab, counted. */
static inline size_t mslab_count_free(const struct mempool *pool,
                                      const struct mslab *slab)
{
	size_t sum = 0;

	for (size_t i = 0; i < pool->words; i++)
		sum += (size_t)__builtin_popcountll(slab->free[i]);
	return sum;
}

/* Live objects of a slab that is not the current one: what is left until it
 * changes its list, and what is live then. */
static inline size_t mslab_live(const struct mempool *pool,
                                const struct mslab *slab)
{
	if (slab->state == MSLAB_FULL)
		return slab->left + pool->objcount - 1;
	if (slab->state == MSLAB_COLD)
		return slab->left + pool->objcount - pool->warm_count;
	return slab->left;
}

/* Frees into the current slab since it became that. */
static inline size_t mslab_freed(const struct mslab *slab)
{
	return MSLAB_CURRENT_LEFT - slab->left;
}

/* What mempool_index() takes away for this slab. */
static inline uint64_t mslab_key(const struct mempool *pool,
                                 const struct mslab *slab)
{
	return ((uintptr_t)slab + pool->offset) * pool->factor + pool->salt;
}

/* The digits that say where a warm slab hangs, from the highest bit down: see
 * mempool_set_geometry(). */
static inline uintptr_t mslab_path(const struct mempool *pool,
                                   const struct mslab *slab)
{
	return (uintptr_t)slab * pool->path_factor;
}

/* The path's first digit. */
static inline size_t mslab_digit(uintptr_t path)
{
	return path >> (sizeof(path) * CHAR_BIT - 1);
}

#endif /* SMALL_MEMPOOL_IMPL_H */
