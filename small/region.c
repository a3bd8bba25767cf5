/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region - a cursor in the current slab, two lists of slabs, and a chain
 * through the slabs in use. A request that does not fit in the current slab
 * moves on to the next kept slab, or takes a new one of the smallest order
 * that fits; it is kept while the sum stays under the retain bound and joins
 * `rest` otherwise. A kept slab whose contents the next one has room for, too,
 * moves to the rest: kept slabs grow to what requests need, and stay few. A
 * reset rewinds the first list and drops the second.
 *
 * Waste:  a rest of a slab too small for what came next (at most half of what
 *         is used for sizes up to a slab), 64 bytes a slab, and the retain
 *         bound. region_stats() shows each.
 * Steps:  alloc looks at REGION_SKIP kept slabs at most; reset at none.
 */
#include <small/region_impl.h>

SMALL_STATIC_ASSERT(sizeof(struct rslab) % 16 == 0, "payloads are aligned");

void region_create(struct region *region, struct slab_cache *cache)
{
	memset(region, 0, sizeof(*region));
	region->cache = cache;
	region->retain = REGION_RETAIN;
	rlist_create(&region->kept);
	region->kept_pos = &region->kept;
	region_set_home(region);
	region->at = region->home;
}

void region_set_callbacks(struct region *region, region_on_alloc_f on_alloc,
                          void *on_alloc_arg, region_on_truncate_f on_truncate,
                          void *on_truncate_arg)
{
	bool had = region_has_callbacks(region);

	region->on_alloc = on_alloc;
	region->on_alloc_arg = on_alloc_arg;
	region->on_truncate = on_truncate;
	region->on_truncate_arg = on_truncate_arg;
	if (region_has_callbacks(region) != had)
		slab_cache_shut(region->cache, !had);
	region_set_stop(region);
	region_set_home(region);
}

static void call_on_truncate(struct region *region)
{
	if (region->on_truncate != NULL)
		region->on_truncate(region, region_used(region),
		                    region->on_truncate_arg);
}

/* --- allocation --- */

/* Opens size bytes at the cursor to the tools, padding included (join copies
 * it); bytes that a reserve has opened keep what was written there. */
static void track_take(struct region *region, size_t size)
{
	char *from = region->at.pos, *to = from + size;

	if (!TRACK_ENABLED)
		return;
	if (from < region->reserved)
		from = region->reserved < to ? region->reserved : to;
	track_undefined(from, (size_t)(to - from));
	if (region->reserved > to)
		track_noaccess(to, (size_t)(region->reserved - to));
	region->reserved = to;
}

/* The padding before an aligned block at the cursor. */
static size_t pad_to(const struct region *region, size_t align)
{
	return (0 - (uintptr_t)region->at.pos) & (align - 1);
}

static bool has_room(struct region *region, size_t size, size_t align)
{
	size_t room = region_room(region), pad = pad_to(region, align);

	return size <= room && pad <= room - size;
}

/* Makes sure that size bytes at align fit at the cursor. */
static bool make_room(struct region *region, size_t size, size_t align,
                      bool is_reserve)
{
	size_t need;

	if (region->at.cur != NULL && has_room(region, size, align))
		return true;
	/* Payloads are aligned to 16. */
	if (small_add(size, align > 16 ? align - 16 : 0, &need))
		return false;
	return region_next_slab(region, need, is_reserve);
}

static void check_args(const struct region *region, size_t size, size_t align,
                       const char *call)
{
	assert(size > 0);
	cache_check_thread(region->cache, call);
	if (small_unlikely(!small_is_pow2(align)))
		small_panic(call, "the alignment is not a power of two");
	(void)size;
}

void *region_aligned_alloc_slow(struct region *region, size_t size,
                                size_t align)
{
	char *ptr;
	size_t pad;

	check_args(region, size, align, "region_alloc");
	if (!make_room(region, size, align, false))
		return NULL;
	pad = pad_to(region, align);
	if (region->on_alloc != NULL)
		region->on_alloc(region, size + pad, region->on_alloc_arg);
	ptr = region->at.pos + pad;
	track_take(region, pad + size);
	region->at.pos = ptr + size;
	if (region_is_shut(region))
		region->at.stop = region->at.pos;
	return ptr;
}

/* The common move, from one kept slab to the next: the same as make_room()
 * and region_aligned_alloc_slow() do, in a third of the instructions. */
static void *alloc_in_next(struct region *region, size_t size)
{
	struct region_cursor *at = &region->at;
	struct rslab *cur = at->cur, *next;
	char *ptr;

	if (cur == NULL || !rslab_is_kept(cur) ||
	    cur->slab.next_in_list.next == &region->kept)
		return NULL;
	next = rslab_of(cur->slab.next_in_list.next);
	if (rslab_room(next) < size || region_is_surplus(region, next, size))
		return NULL;
	ptr = (char *)(next + 1);
	cur->used_before = (uintptr_t)(cur + 1) - at->base;
	next->prev = cur;
	at->base += (uintptr_t)ptr - (uintptr_t)at->pos;
	at->cur = next;
	at->pos = ptr + size;
	at->stop = (char *)next + next->slab.size;
	/* Its header is all that the next move waits for. */
	__builtin_prefetch(next->slab.next_in_list.next, 1);
	return ptr;
}

void *region_alloc_slow(struct region *region, size_t size)
{
	const struct region_cursor *home = &region->home;
	void *ptr = NULL;

	/* Kept slabs, and not shut: read where a reset has just been. */
	if (home->stop != home->pos)
		ptr = alloc_in_next(region, size);
	if (small_likely(ptr != NULL))
		return ptr;
	return region_aligned_alloc_slow(region, size, 1);
}

void *region_reserve_slow(struct region *region, size_t size, size_t align)
{
	struct rslab *cur = region->at.cur;
	size_t pad;

	check_args(region, size, align, "region_reserve");
	if (!make_room(region, size, align, true))
		return NULL;
	if (region->at.cur != cur)
		region->at.cur->slab.tag |= TAG_RESERVED;
	pad = pad_to(region, align);
	if (TRACK_ENABLED && region->reserved < region->at.pos + pad + size) {
		/* The padding, too: track_take() counts on it. */
		char *from = region->at.pos;

		if (from < region->reserved)
			from = region->reserved;
		region->reserved = region->at.pos + pad + size;
		track_undefined(from, (size_t)(region->reserved - from));
	}
	return region->at.pos + pad;
}

void *region_reserve_cb(void *ctx, size_t *size)
{
	struct region *region = ctx;
	void *ptr = region_reserve(region, *size);

	*size = ptr != NULL ? region_room(region) : 0;
	if (TRACK_ENABLED && ptr != NULL)
		region_reserve_slow(region, *size, 1);
	return ptr;
}

/* --- giving back --- */

/* The current slab was added by a reserve that nothing came of. */
static bool is_reserved(const struct region *region)
{
	return region_is_empty(region) &&
	       (region->at.cur->slab.tag & TAG_RESERVED) != 0;
}

/* Debug builds: what is cut off shows that it was, and is nobody's. */
static void scrub(struct region *region, char *from)
{
	char *end = region->at.pos;

	track_undefined(from, (size_t)(end - from));
	track_fill(from, 'P', (size_t)(end - from));
	if (region->reserved > end)
		end = region->reserved;
	track_noaccess(from, (size_t)(end - from));
}

void region_truncate_slow(struct region *region, size_t used)
{
	cache_check_thread(region->cache, "region_truncate");
	if (small_unlikely(used > region_used(region)))
		small_panic("region_truncate", "more than is used");
	if (is_reserved(region))
		region_leave(region);
	while (region->at.cur != NULL && region_used_before(region) > used) {
		scrub(region, (char *)(region->at.cur + 1));
		region_leave(region);
	}
	if (region->at.cur != NULL) {
		char *pos = (char *)region->at.base + used;

		scrub(region, pos);
		if (pos != region->at.pos)
			region->at.cur->slab.tag &= (uint8_t)~TAG_RESERVED;
		region_set_cursor(region, region->at.cur,
		                  region_used_before(region), used);
	}
	call_on_truncate(region);
}

/* Debug and ASan builds: nobody may touch what the slabs held. */
static void poison(struct region *region)
{
	struct rlist *item, **next = &region->rest;

	rlist_foreach (item, &region->kept)
		track_noaccess(rslab_of(item) + 1,
		               rslab_of(item)->slab.size -
		                       sizeof(struct rslab));
	for (; next != region->at.rest_tail; next = &(*next)->next)
		track_noaccess(rslab_of(*next) + 1,
		               rslab_of(*next)->slab.size -
		                       sizeof(struct rslab));
}

void region_reset_slow(struct region *region)
{
	struct slab_chain chain = {&region->rest, region->at.rest_tail,
	                           &region->at.rest_total};

	cache_check_thread(region->cache, "region_reset");
	if (TRACK_ENABLED)
		poison(region);
	slab_cache_drop_slow(region->cache, &chain);
	region->generation++;
	region->at = region->home;
	region->reserved = region->at.pos;
	call_on_truncate(region);
}

static void put_rest(struct region *region)
{
	while (region->at.rest_tail != &region->rest) {
		struct rslab *rslab =
			rslab_of(region_link_of(region, region->at.rest_tail));

		region_rest_del(region, &rslab->slab);
		slab_put(region->cache, &rslab->slab);
	}
}

void region_free(struct region *region)
{
	struct rslab *rslab, *next;

	cache_check_thread(region->cache, "region_free");
	put_rest(region);
	rlist_foreach_entry_safe (rslab, &region->kept, slab.next_in_list, next)
		slab_put(region->cache, &rslab->slab);
	rlist_create(&region->kept);
	region->kept_pos = &region->kept;
	region->kept_total = 0;
	region_set_home(region);
	region->at = region->home;
	region->reserved = NULL;
	region->generation++;
	call_on_truncate(region);
}

void region_destroy(struct region *region)
{
	region_free(region);
	region_set_callbacks(region, NULL, NULL, NULL, NULL);
}

void region_set_retain(struct region *region, size_t bytes)
{
	cache_check_thread(region->cache, "region_set_retain");
	region->retain = bytes;
	while (region->kept_total > bytes) {
		if (region_kept_pos(region) != region->kept.prev)
			region_put_kept(region, rslab_of(region->kept.prev));
		else
			region_demote(region, rslab_of(region->kept.prev));
	}
	region_set_home(region);
}

/* --- join --- */

/* Copies the size bytes before used() == used, the newest in slab rslab. */
static void copy_back(char *to, const struct rslab *rslab, size_t used,
                      size_t size)
{
	while (size > 0) {
		size_t part = used - rslab->used_before;

		if (part > size)
			part = size;
		size -= part;
		memcpy(to + size,
		       (const char *)(rslab + 1) +
		               (used - part - rslab->used_before),
		       part);
		used -= part;
		rslab = rslab->prev;
	}
}

void *region_join(struct region *region, size_t size)
{
	struct rslab *cur = region->at.cur;
	size_t used = region_used(region);
	char *ptr;

	cache_check_thread(region->cache, "region_join");
	assert(size > 0);
	if (small_unlikely(size > used))
		small_panic("region_join", "more than is used");
	if (cur == NULL)
		return NULL;
	cur->used_before = region_used_before(region);
	while (cur->used_before == used)
		cur = cur->prev; /* empty, and may go when another comes */
	if (size <= used - cur->used_before)
		return (char *)(cur + 1) + (used - size - cur->used_before);
	ptr = region_alloc(region, size);
	if (ptr != NULL)
		copy_back(ptr, cur, used, size);
	return ptr;
}

/* --- growable blocks --- */

static size_t growable_size(size_t size)
{
	size_t need;

	if (small_add(size, sizeof(struct rslab) - sizeof(struct slab), &need))
		return SIZE_MAX;
	return need;
}

static struct rslab *growable_of(void *ptr, const char *call)
{
	struct rslab *rslab = (struct rslab *)ptr - 1;

	if (!is_slab(&rslab->slab) || rslab->slab.tag != TAG_GROWABLE)
		small_panic(call, "not a growable block");
	return rslab;
}

void *region_growable(struct region *region, size_t size, size_t max_size)
{
	struct slab *slab = slab_get_growable(
		region->cache, growable_size(size), growable_size(max_size));

	if (slab == NULL)
		return NULL;
	slab->tag = TAG_GROWABLE;
	region_rest_add(region, slab);
	return (struct rslab *)slab + 1;
}

int region_resize_growable(struct region *region, void *ptr, size_t size)
{
	struct rslab *rslab = growable_of(ptr, "region_resize_growable");
	size_t before = rslab->slab.size;

	if (slab_resize(region->cache, &rslab->slab, growable_size(size)) != 0)
		return -1;
	region->at.rest_total += rslab->slab.size - before;
	return 0;
}

void region_drop_growable(struct region *region, void *ptr)
{
	struct rslab *rslab = growable_of(ptr, "region_drop_growable");

	region_rest_del(region, &rslab->slab);
	slab_put(region->cache, &rslab->slab);
}
