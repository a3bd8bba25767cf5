/* SPDX-License-Identifier: BSD-2-Clause */
/* mempool_create - how objects of a size and their bits lie in a slab. */
#include <small/mempool_impl.h>
#include <small/slab_cache_impl.h>
#include <small/track.h>

/* How many objects fit with their bits into room bytes. */
static size_t fit(size_t room, size_t objsize)
{
	size_t group, count, rest = room;

	if (small_mul(objsize, 64, &group) || small_add(group, 8, &group))
		group = SIZE_MAX;
	count = room / group * 64;
	rest = room % group;
	return rest < 8 ? count : count + (rest - 8) / objsize;
}

/* Numbers of objects that the arithmetic of the fast paths is right for:
 * slabs of 2^32 times the alignment of an object, and stride * 63 in 32 bits.
 * No slab below 4 GiB is cut by it. */
static size_t limit(size_t count, size_t objsize, size_t slab_size)
{
	uint32_t even = (uint32_t)__builtin_ctzll(objsize);

	if (even > MEMPOOL_INDEX_BITS ||
	    (uint64_t)slab_size >> even > (uint64_t)1 << 32)
		return 0;
	if (count > 1 && objsize > UINT32_MAX / 64 &&
	    count > UINT32_MAX / objsize)
		return objsize > UINT32_MAX ? 1 : UINT32_MAX / objsize;
	return count;
}

/* The inverse of an odd number modulo 2^64: each step doubles the number of
 * right bits, of which an odd number starts with three. */
static uint64_t invert(uint64_t odd)
{
	uint64_t inverse = odd;

	for (size_t bits = 3; bits < 64; bits *= 2)
		inverse *= 2 - odd * inverse;
	return inverse;
}

/* A slab's number (its address over its size) times the golden ratio has the
 * digits of its path on top, so that slabs at any stride spread evenly; an
 * odd factor gives two slabs two different paths. */
static uintptr_t path_factor(size_t slab_size)
{
	uint64_t golden = 0x9e3779b97f4a7c15;

	if (sizeof(uintptr_t) < sizeof(uint64_t))
		golden >>= 32;
	return (uintptr_t)golden / slab_size | 1;
}

void mempool_set_geometry(struct mempool *pool, size_t objsize)
{
	size_t slab_size = slab_order_size(pool->cache, pool->slab_order);
	size_t count, even;

	if (small_align_up(objsize != 0 ? objsize : 1, 8, &objsize))
		objsize = SIZE_MAX - 7;
	count = fit(slab_size - mslab_sizeof(), objsize);
	count = limit(count, objsize, slab_size);
	even = (size_t)__builtin_ctzll(objsize);
	pool->slab_mask = ~(uintptr_t)(slab_size - 1);
	pool->objsize = objsize;
	pool->stride = (uint32_t)objsize;
	if (even <= MEMPOOL_INDEX_BITS)
		pool->factor = invert((uint64_t)objsize >> even)
		               << (MEMPOOL_INDEX_BITS - even);
	pool->path_factor = path_factor(slab_size);
	pool->objcount = count;
	pool->offset = slab_size - count * objsize;
	pool->words = (count + 63) / 64;
	pool->warm_count = count < MEMPOOL_WARM ? 1 : count / MEMPOOL_WARM;
#if !TRACK_ENABLED
	pool->fast_count = count;
#endif
}

void mempool_create_with_order(struct mempool *pool, struct slab_cache *cache,
                               size_t objsize, uint8_t order)
{
	assert(order <= cache->order_max && objsize > 0);
	memset(pool, 0, sizeof(*pool));
	pool->cache = cache;
	pool->slab_order = order;
	mempool_set_geometry(pool, objsize);
	/* Odd and with bits everywhere: see mempool_index(). */
	pool->salt = ((uintptr_t)pool | 1) * 0xd1342543de82ef95;
	pool->word = &pool->none;
	rlist_create(&pool->cold);
	slab_list_create(&pool->slabs);
	track_pool_create(pool);
}

void mempool_create(struct mempool *pool, struct slab_cache *cache,
                    size_t objsize)
{
	size_t need = objsize;
	uint8_t order = 0;

	if (need < mslab_sizeof())
		need = mslab_sizeof();
	while (order < cache->order_max &&
	       slab_order_size(cache, order) / 100 < need)
		order++;
	mempool_create_with_order(pool, cache, objsize, order);
}
