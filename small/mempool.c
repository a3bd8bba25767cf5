/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mempool - a bit an object, a current slab, and lists for the others, which
 * a slab changes only when a count in its header runs out: at the first free
 * of a full one (cold), when a sixteenth is free (warm), when it is empty.
 * What is empty goes to the cache's stock, where it stays as it is until this
 * pool or somebody else needs it.
 *
 * Warm slabs form a heap by address, shaped as a trie: a slab is above all
 * those that it is lower than, and hangs left or right by the digits of its
 * own address. So the lowest is on top, nothing is ever rebalanced and any
 * slab is found without a link to its parent.
 *
 * Waste:  the header's share, less than a sixteenth of the objects of full
 *         and cold slabs, what is free in warm ones, one empty slab.
 *         mempool_stats() shows the sum: totals.total less totals.used.
 * Steps:  an alloc scans at most objcount / 64 words and takes one slab from
 *         the heap; a free moves one slab. Each heap operation follows one
 *         path, at most as long as an address has bits.
 */
#include <small/mempool_impl.h>
#include <small/slab_cache_impl.h>
#include <small/track.h>

/* --- damage --- */

/* A program wrote behind an object's end or before its start. */
static __attribute__((cold, noreturn)) void panic_header(const char *call)
{
	small_panic(call, "a slab's header is overwritten");
}

/* Aborts when a slab that the pool is about to touch is not one, by its
 * address, before that is read, or not as the pool left it. */
static inline void check_header(const struct mempool *pool,
                                const struct mslab *slab, uint32_t state,
                                const char *call)
{
	if (small_unlikely(((uintptr_t)slab & ~pool->slab_mask) != 0 ||
	                   slab->pool != pool || slab->state != state))
		panic_header(call);
}

/* --- warm and cold slabs --- */

static inline void warm_add(struct mempool *pool, struct mslab *slab)
{
	uintptr_t path = mslab_path(pool, slab);
	struct mslab **link = &pool->warm, *at;

	for (size_t depth = 0; (at = *link) != NULL; depth++) {
		check_header(pool, at, MSLAB_WARM, "mempool_free");
		if (slab < at) {
			*link = slab;
			slab->link = at->link;
			slab = at;
			at = *link;
			path = mslab_path(pool, slab) << depth;
		}
		link = &at->link.warm[mslab_digit(path)];
		path <<= 1;
	}
	*link = slab;
	slab->link.warm[0] = slab->link.warm[1] = NULL;
}

/* Where the link to a warm slab is. */
static inline struct mslab **warm_find(struct mempool *pool, struct mslab *slab)
{
	uintptr_t path = mslab_path(pool, slab);
	struct mslab **link = &pool->warm, *at;

	for (; (at = *link) != slab; path <<= 1) {
		if (at == NULL || at > slab)
			panic_header("mempool_free");
		check_header(pool, at, MSLAB_WARM, "mempool_free");
		link = &at->link.warm[mslab_digit(path)];
	}
	return link;
}

/* The lower one of the slabs below moves up, and so on down. */
static inline void warm_del(struct mempool *pool, struct mslab **link,
                            const char *call)
{
	struct mslab *below[2] = {(*link)->link.warm[0], (*link)->link.warm[1]};

	for (;;) {
		/* No slab counts as the highest one. */
		size_t side = (uintptr_t)below[1] - 1 < (uintptr_t)below[0] - 1;
		struct mslab *up = side ? below[1] : below[0];
		struct mslab *rest = side ? below[0] : below[1];

		*link = up;
		if (up == NULL)
			return;
		check_header(pool, up, MSLAB_WARM, call);
		link = &up->link.warm[side];
		below[0] = up->link.warm[0];
		below[1] = up->link.warm[1];
		up->link.warm[!side] = rest;
	}
}

/* A link of the cold list leads to its head or into another slab's header. */
static bool is_cold_link(const struct mempool *pool, const struct rlist *link)
{
	uintptr_t slab = (uintptr_t)link - offsetof(struct mslab, link.cold);

	return link == &pool->cold || (slab & ~pool->slab_mask) == 0;
}

static inline void cold_del(struct mempool *pool, struct mslab *slab,
                            const char *call)
{
	struct rlist *link = &slab->link.cold;

	if (!is_cold_link(pool, link->prev) ||
	    !is_cold_link(pool, link->next) || link->prev->next != link ||
	    link->next->prev != link)
		panic_header(call);
	link->prev->next = link->next;
	link->next->prev = link->prev;
}

/* --- slabs --- */

static void set_all_free(const struct mempool *pool, struct mslab *slab)
{
	size_t rest = pool->objcount % 64;

	memset(slab->free, 0xff, pool->words * sizeof(*slab->free));
	if (rest != 0)
		slab->free[pool->words - 1] = ((uint64_t)1 << rest) - 1;
}

static void slab_put_back(struct mempool *pool, struct mslab *slab)
{
	slab->pool = NULL;
	slab->key = 0;
	slab_put_with_order(pool->cache, &slab->slab);
}

static void slab_del(struct mempool *pool, struct mslab *slab)
{
	slab_list_del(&pool->slabs, &slab->slab, next_in_list);
	slab_put_back(pool, slab);
}

/* The cache keeps an empty slab as it is, for alloc_in_next(), if it has
 * room. */
static inline void slab_del_empty(struct mempool *pool, struct mslab *slab)
{
	slab_list_del(&pool->slabs, &slab->slab, next_in_list);
	if (!slab_stock_put(pool->cache, &slab->slab))
		slab_put_back(pool, slab);
}

/* Makes a slab of the cache's one of the pool's, with all objects free. */
static struct mslab *slab_add(struct mempool *pool, struct slab *base)
{
	struct mslab *slab = (struct mslab *)(void *)base;

	/* From the stock: objects of another pool were where the bits go. */
	track_undefined(base + 1, base->size - sizeof(*base));
	slab->key = mslab_key(pool, slab);
	slab->pool = pool;
	slab->stride = pool->stride;
	set_all_free(pool, slab);
	track_noaccess((char *)slab + pool->offset,
	               pool->objsize * pool->objcount);
	slab_list_add(&pool->slabs, base, next_in_list);
	return slab;
}

void mempool_destroy(struct mempool *pool)
{
	struct rlist *slabs = &pool->slabs.slabs;

	while (!rlist_empty(slabs)) {
		struct slab *slab =
			rlist_first_entry(slabs, struct slab, next_in_list);

		slab_del(pool, (struct mslab *)(void *)slab);
	}
	slab_stock_merge(pool->cache);
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

/* The current slab is full. */
static inline void current_full(struct mempool *pool)
{
	struct mslab *slab = pool->current;

	if (!is_slab(&slab->slab) || slab->pool != pool ||
	    slab->state != MSLAB_CURRENT)
		panic_header("mempool_alloc");
	settle(pool, 0);
	slab->state = MSLAB_FULL;
	slab->left = 1;
}

/* Makes a slab current that is on no list and has its first free object in
 * this word; the one before is accounted for. */
static inline void set_current(struct mempool *pool, struct mslab *slab,
                               size_t free_count, size_t word)
{
	pool->current = slab;
	pool->current_free = free_count;
	slab->state = MSLAB_CURRENT;
	slab->left = MSLAB_CURRENT_LEFT;
	set_word(pool, word);
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

/* Makes a slab current that is on no list, and takes its first object, which
 * is in this word. The current slab before is full. */
static inline void *alloc_in(struct mempool *pool, struct mslab *slab,
                             size_t free_count, size_t word)
{
	if (pool->current != NULL)
		current_full(pool);
	set_current(pool, slab, free_count, word);
	return take_object(pool);
}

static inline void *alloc_in_partial(struct mempool *pool, struct mslab *slab)
{
	return alloc_in(pool, slab, pool->objcount - mslab_live(pool, slab),
	                find_word(slab, 0, pool->words));
}

/* In the warm slab of the lowest address. */
static __attribute__((noinline)) void *alloc_in_warm(struct mempool *pool)
{
	struct mslab *slab = pool->warm;

	check_header(pool, slab, MSLAB_WARM, "mempool_alloc");
	warm_del(pool, &pool->warm, "mempool_alloc");
	return alloc_in_partial(pool, slab);
}

/* In this slab of the cache's or, without one, in a new one, or in a cold one
 * when there is none. */
static __attribute__((noinline)) void *alloc_in_new(struct mempool *pool,
                                                    struct slab *base)
{
	struct mslab *slab;

	if (base == NULL && pool->objcount != 0)
		base = slab_get_with_order(pool->cache, pool->slab_order);
	if (base != NULL)
		return alloc_in(pool, slab_add(pool, base), pool->objcount, 0);
	if (rlist_empty(&pool->cold))
		return NULL;
	slab = rlist_first_entry(&pool->cold, struct mslab, link.cold);
	check_header(pool, slab, MSLAB_COLD, "mempool_alloc");
	cold_del(pool, slab, "mempool_alloc");
	return alloc_in_partial(pool, slab);
}

/* Three ways, each apart so that none has another one's stack frame. The
 * slab that the cache has in stock is often one that this pool emptied. */
static __attribute__((noinline)) void *alloc_in_next(struct mempool *pool)
{
	struct slab *base;
	struct mslab *slab;

	if (pool->warm != NULL)
		return alloc_in_warm(pool);
	base = slab_stock_get(pool->cache, pool->slab_order);
	slab = (struct mslab *)(void *)base;
	if (base == NULL || slab->pool != pool || slab->stride != pool->stride)
		return alloc_in_new(pool, base);
	slab_list_add(&pool->slabs, base, next_in_list);
	return alloc_in(pool, slab, pool->objcount, 0);
}

void *mempool_alloc_slow(struct mempool *pool)
{
	const struct mslab *slab = pool->current;

	cache_check_thread(pool->cache, "mempool_alloc");
	if (slab == NULL)
		return alloc_in_next(pool);
	/* The word is used up, unless the fast path is shut. */
	if (slab->free[pool->current_word] == 0 && !next_word(pool))
		return alloc_in_next(pool);
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
	if (pool->warm == NULL && !current_has_free(pool)) {
		if (pool->current != NULL)
			current_full(pool);
		set_current(pool, slab, pool->objcount, 0);
	} else {
		slab_del_empty(pool, slab);
	}
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

/* Apart, so that mempool_relist() needs no stack frame. */
static __attribute__((noinline)) void current_recount(struct mempool *pool,
                                                      struct mslab *slab)
{
	if (slab != pool->current)
		panic_header("mempool_free");
	settle(pool, mslab_count_free(pool, slab));
	/* One of these counts as freed since: see next_word(). */
	slab->left--;
	pool->current_free--;
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
	} else {
		current_recount(pool, slab);
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
	if (slab == NULL || mslab_count_free(pool, slab) != pool->objcount) {
		slab_stock_merge(pool->cache);
		return;
	}
	settle(pool, pool->objcount);
	pool->current_free = 0;
	pool->current = NULL;
	pool->word = &pool->none;
	pool->word_base = NULL;
	slab_del(pool, slab);
	slab_stock_merge(pool->cache);
}
