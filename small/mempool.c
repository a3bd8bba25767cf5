/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mempool - a bit an object, a current slab, and lists for the others, which
 * a slab changes only when a count in its header runs out: at the first free
 * of a full one (cold), when a sixteenth is free (warm), when it is
 * empty.
 *
 * Warm slabs form a heap by address, shaped as a trie: a slab is above all
 * those that it is lower than, and hangs left or right by the digits of its
 * own address. So the lowest is on top, nothing is ever rebalanced and any
 * slab is found without a link to its parent.
 *
 * Waste:  the header's share, less than a sixteenth of the objects of full
 *         and cold slabs,
 *         one empty slab. mempool_stats() shows the sum: totals.total less
 *         totals.used.
 * Steps:  an alloc scans at most objcount / 64 words and takes one slab from
 *         the heap; a free moves one slab. Each heap operation follows one
 *         path, at most as long as an address has bits.
 */
#include <small/mempool_impl.h>
#include <small/slab_cache_impl.h>
#include <small/track.h>

/* --- geometry --- */

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

/* --- damage --- */

/* A program wrote behind an object's end or before its start. */
static void panic_header(const char *call)
{
	small_panic(call, "a slab's header is overwritten");
}

/* Aborts when a slab that the pool is about to touch is not one, by its
 * address, before that is read, or not as the pool left it. */
static void check_header(const struct mempool *pool, const struct mslab *slab,
                         uint32_t state, const char *call)
{
	if (small_unlikely(((uintptr_t)slab & ~pool->slab_mask) != 0 ||
	                   !is_slab(&slab->slab) || slab->pool != pool ||
	                   slab->state != state))
		panic_header(call);
}

/* --- warm and cold slabs --- */

static void warm_add(struct mempool *pool, struct mslab *slab)
{
	struct mslab **link = &pool->warm;

	for (size_t depth = 0; *link != NULL; depth++) {
		struct mslab *at = *link;

		check_header(pool, at, MSLAB_WARM, "mempool_free");
		if (slab < at) {
			*link = slab;
			slab->link = at->link;
			slab = at;
			at = *link;
		}
		link = &at->link.warm[mslab_digit(mslab_path(pool, slab),
		                                  depth)];
	}
	*link = slab;
	slab->link.warm[0] = slab->link.warm[1] = NULL;
}

/* Where the link to a warm slab is. */
static struct mslab **warm_find(struct mempool *pool, struct mslab *slab)
{
	uintptr_t path = mslab_path(pool, slab);
	struct mslab **link = &pool->warm;

	for (size_t depth = 0; *link != slab; depth++) {
		struct mslab *at = *link;

		if (at == NULL || at > slab)
			panic_header("mempool_free");
		check_header(pool, at, MSLAB_WARM, "mempool_free");
		link = &at->link.warm[mslab_digit(path, depth)];
	}
	return link;
}

/* The lower one of the slabs below moves up, and so on down. */
static void warm_del(struct mempool *pool, struct mslab **link,
                     const char *call)
{
	union mslab_link below = (*link)->link;

	while (below.warm[0] != NULL || below.warm[1] != NULL) {
		size_t side = below.warm[0] == NULL ||
		              (below.warm[1] != NULL &&
		               below.warm[1] < below.warm[0]);
		struct mslab *up = below.warm[side];
		union mslab_link next;

		check_header(pool, up, MSLAB_WARM, call);
		next = up->link;
		*link = up;
		up->link.warm[!side] = below.warm[!side];
		link = &up->link.warm[side];
		below = next;
	}
	*link = NULL;
}

/* A link of the cold list leads to its head or into another slab's header. */
static bool is_cold_link(const struct mempool *pool, const struct rlist *link)
{
	uintptr_t slab = (uintptr_t)link - offsetof(struct mslab, link.cold);

	return link == &pool->cold || (slab & ~pool->slab_mask) == 0;
}

static void cold_del(struct mempool *pool, struct mslab *slab, const char *call)
{
	struct rlist *link = &slab->link.cold;

	if (!is_cold_link(pool, link->prev) ||
	    !is_cold_link(pool, link->next) || link->prev->next != link ||
	    link->next->prev != link)
		panic_header(call);
	rlist_del(link);
}

/* --- slabs --- */

static void set_all_free(const struct mempool *pool, struct mslab *slab)
{
	size_t rest = pool->objcount % 64;

	memset(slab->free, 0xff, pool->words * sizeof(*slab->free));
	if (rest != 0)
		slab->free[pool->words - 1] = ((uint64_t)1 << rest) - 1;
}

/* A slab with all objects free and on no list but the pool's own. */
static struct mslab *slab_add(struct mempool *pool)
{
	struct slab *base;
	struct mslab *slab;

	if (pool->objcount == 0)
		return NULL;
	base = slab_get_with_order(pool->cache, pool->slab_order);
	if (base == NULL)
		return NULL;
	slab = (struct mslab *)(void *)base;
	slab->key = mslab_key(pool, slab);
	slab->pool = pool;
	set_all_free(pool, slab);
	track_noaccess((char *)slab + pool->offset,
	               pool->objsize * pool->objcount);
	slab_list_add(&pool->slabs, base, next_in_list);
	return slab;
}

static void slab_del(struct mempool *pool, struct mslab *slab)
{
	slab_list_del(&pool->slabs, &slab->slab, next_in_list);
	slab->pool = NULL;
	slab->key = 0;
	slab_put_with_order(pool->cache, &slab->slab);
}

void mempool_destroy(struct mempool *pool)
{
	while (!rlist_empty(&pool->slabs.slabs)) {
		struct slab *slab = rlist_first_entry(
			&pool->slabs.slabs, struct slab, next_in_list);

		slab_del(pool, (struct mslab *)(void *)slab);
	}
	track_pool_destroy(pool);
	memset(pool, 0, sizeof(*pool));
}

/* --- the current slab --- */

/* Opens the fast path on a word of the current slab. */
static void set_word(struct mempool *pool, size_t word)
{
	char *first = (char *)pool->current + pool->offset;

	pool->current_word = word;
	pool->word_base = first + word * 64 * pool->objsize;
#if !TRACK_ENABLED
	pool->word = pool->current->free + word;
#endif
}

/* The first word with a free object in [from, to), or to. */
static size_t find_word(const struct mslab *slab, size_t from, size_t to)
{
	while (from < to && slab->free[from] == 0)
		from++;
	return from;
}

/* Goes on to the next word of the current slab with a free object; false when
 * there is none. What was passed is looked at again if there were frees. */
static bool next_word(struct mempool *pool)
{
	const struct mslab *slab = pool->current;
	size_t end = pool->words;
	size_t word = find_word(slab, pool->current_word + 1, end);

	if (word == end) {
		if (mslab_freed(slab) == 0)
			return false;
		end = pool->current_word + 1;
		word = find_word(slab, 0, end);
		if (word == end)
			return false;
	}
	set_word(pool, word);
	return true;
}

/* Closes the account of the current slab, of which free_now are free. */
static void settle(struct mempool *pool, size_t free_now)
{
	struct mslab *slab = pool->current;

	pool->live += pool->current_free + mslab_freed(slab) - free_now;
	pool->current_free = free_now;
	slab->left = MSLAB_CURRENT_LEFT;
}

/* Makes a slab current that is on no list; the one before is full. */
static void set_current(struct mempool *pool, struct mslab *slab,
                        size_t free_count)
{
	struct mslab *full = pool->current;

	if (full != NULL) {
		check_header(pool, full, MSLAB_CURRENT, "mempool_alloc");
		settle(pool, 0);
		full->state = MSLAB_FULL;
		full->left = 1;
	}
	pool->current = slab;
	pool->current_free = free_count;
	slab->state = MSLAB_CURRENT;
	slab->left = MSLAB_CURRENT_LEFT;
	set_word(pool, find_word(slab, 0, pool->words));
}

/* Takes a slab that has free objects off its list; NULL when there is none
 * and can be none. */
static struct mslab *take_slab(struct mempool *pool, size_t *free_count)
{
	struct mslab *slab = pool->warm;

	*free_count = pool->objcount;
	if (slab != NULL) {
		check_header(pool, slab, MSLAB_WARM, "mempool_alloc");
		warm_del(pool, &pool->warm, "mempool_alloc");
		*free_count -= mslab_live(pool, slab);
		return slab;
	}
	slab = slab_add(pool);
	if (slab != NULL || rlist_empty(&pool->cold))
		return slab;
	slab = rlist_first_entry(&pool->cold, struct mslab, link.cold);
	check_header(pool, slab, MSLAB_COLD, "mempool_alloc");
	cold_del(pool, slab, "mempool_alloc");
	*free_count -= mslab_live(pool, slab);
	return slab;
}

/* --- alloc --- */

/* The current word has a free object. */
static void *take_object(struct mempool *pool)
{
	uint64_t *word = pool->current->free + pool->current_word;
	void *ptr = pool->word_base + mempool_take_bit(word) * pool->objsize;

	track_alloc(pool, ptr, pool->objsize);
	return ptr;
}

/* Apart, so that going on to the next word needs no stack frame. */
static __attribute__((noinline)) void *alloc_in_next_slab(struct mempool *pool)
{
	size_t free_count;
	struct mslab *slab = take_slab(pool, &free_count);

	if (slab == NULL)
		return NULL;
	set_current(pool, slab, free_count);
	return take_object(pool);
}

void *mempool_alloc_slow(struct mempool *pool)
{
	const struct mslab *slab = pool->current;

	cache_check_thread(pool->cache, "mempool_alloc");
	if (slab == NULL)
		return alloc_in_next_slab(pool);
	/* The word is used up, unless the fast path is shut. */
	if (slab->free[pool->current_word] == 0 && !next_word(pool))
		return alloc_in_next_slab(pool);
	return take_object(pool);
}

/* --- free --- */

/* False when there is no current slab, too. */
static bool current_has_free(const struct mempool *pool)
{
	const struct mslab *slab = pool->current;

	if (slab == NULL)
		return false;
	if (slab->free[pool->current_word] != 0)
		return true;
	for (size_t i = 0; i < pool->words; i++) {
		if (slab->free[i] != 0)
			return true;
	}
	return false;
}

/* The last live object of a slab that is on no list was freed. It stays only
 * when the next alloc would need a new one. */
static void slab_emptied(struct mempool *pool, struct mslab *slab)
{
	if (pool->warm != NULL || current_has_free(pool))
		slab_del(pool, slab);
	else
		set_current(pool, slab, pool->objcount);
}

/* A sixteenth of the slab's objects are free, maybe all. */
static __attribute__((noinline)) void slab_warmed(struct mempool *pool,
                                                  struct mslab *slab)
{
	if (slab->state == MSLAB_COLD)
		cold_del(pool, slab, "mempool_free");
	slab->left = pool->objcount - pool->warm_count;
	if (slab->left == 0) {
		slab_emptied(pool, slab);
		return;
	}
	slab->state = MSLAB_WARM;
	warm_add(pool, slab);
}

static __attribute__((noinline)) void slab_drained(struct mempool *pool,
                                                   struct mslab *slab)
{
	warm_del(pool, warm_find(pool, slab), "mempool_free");
	slab_emptied(pool, slab);
}

/* slab->left is 0; its key was the right one. */
void mempool_relist(struct mempool *pool, struct mslab *slab)
{
	if (slab->state == MSLAB_FULL && pool->warm_count > 1) {
		slab->state = MSLAB_COLD;
		slab->left = pool->warm_count - 1;
		rlist_add_tail(&pool->cold, &slab->link.cold);
	} else if (slab->state == MSLAB_FULL || slab->state == MSLAB_COLD) {
		slab_warmed(pool, slab);
	} else if (slab->state == MSLAB_WARM) {
		slab_drained(pool, slab);
	} else if (slab == pool->current) {
		settle(pool, mslab_count_free(pool, slab));
		/* One of these counts as freed since: see next_word(). */
		slab->left--;
		pool->current_free--;
	} else {
		panic_header("mempool_free");
	}
}

/* What is wrong with ptr, of which mempool_index() gave index; NULL when it
 * is a live object. */
static const char *find_misuse(const struct mempool *pool, struct mslab *slab,
                               uint64_t index)
{
	const uint64_t *bits = slab->free;

	if (!is_slab(&slab->slab) || slab->pool == NULL)
		return "not an object of a pool";
	if (slab->pool != pool)
		return "an object of another pool";
	if (slab->key != mslab_key(pool, slab))
		return "a slab's header is overwritten";
	if (index >= pool->objcount)
		return "a pointer that is not an object's start";
	if ((bits[index / 64] >> index % 64 & 1) != 0)
		return "double free";
	return NULL;
}

void mempool_free_slow(struct mempool *pool, void *ptr)
{
	uintptr_t start = (uintptr_t)ptr & pool->slab_mask;
	struct mslab *slab = (struct mslab *)start;
	uint64_t index = mempool_index(pool, slab, ptr);
	const char *misuse;

	cache_check_thread(pool->cache, "mempool_free");
	misuse = find_misuse(pool, slab, index);
	if (misuse != NULL)
		small_panic("mempool_free", misuse);
	track_fill(ptr, '#', pool->objsize);
	track_free(pool, ptr, pool->objsize);
	slab->free[index / 64] |= (uint64_t)1 << index % 64;
	pool->live--;
	if (--slab->left == 0)
		mempool_relist(pool, slab);
}

void mempool_free_spare_slab(struct mempool *pool)
{
	struct mslab *slab = pool->current;

	cache_check_thread(pool->cache, "mempool_free_spare_slab");
	if (slab == NULL || mslab_count_free(pool, slab) != pool->objcount)
		return;
	settle(pool, pool->objcount);
	pool->current_free = 0;
	pool->current = NULL;
	pool->word = &pool->none;
	pool->word_base = NULL;
	slab_del(pool, slab);
}
