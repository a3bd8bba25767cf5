/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region - a cursor in the current slab, two lists of slabs, and a chain
 * through the slabs in use. A request that does not fit in the current slab
 * moves on to the next kept slab, or takes a new one of the smallest order
 * that fits; it is kept while the sum stays under the retain bound and joins
 * `rest` otherwise. A reset rewinds the first list and drops the second.
 *
 * Waste:  a rest of a slab too small for what came next (at most half of what
 *         is used for sizes up to a slab), 64 bytes a slab, and the retain
 *         bound. region_stats() shows each.
 * Steps:  alloc looks at REGION_SKIP kept slabs at most; reset at none.
 */
#include <small/region.h>
#include <small/track.h>

/* Kept slabs too small for a request that one call gives back: enough to
 * follow a change of sizes, and still a constant. */
#define REGION_SKIP 2

enum { TAG_KEPT = 1, TAG_REST, TAG_GROWABLE };

SMALL_STATIC_ASSERT(sizeof(struct rslab) % 16 == 0, "payloads are aligned");

static struct rslab *rslab_of(struct rlist *item)
{
	return rlist_entry(item, struct rslab, slab.next_in_list);
}

static bool is_shut(const struct region *region)
{
	return TRACK_ENABLED || region->on_alloc != NULL ||
	       region->on_truncate != NULL;
}

/* Sets the cursor: in cur, or nowhere. */
static void set_cursor(struct region *region, struct rslab *cur, char *pos,
                       size_t used)
{
	region->cur = cur;
	region->pos = pos;
	region->base = (uintptr_t)pos - used;
	region->stop =
		cur == NULL || is_shut(region) ? pos : rslab_data_end(cur);
}

static char *end_of(struct region *region)
{
	return region->cur == NULL ? region->pos : rslab_data_end(region->cur);
}

/* Makes a slab that holds nothing the current one. */
static void enter(struct region *region, struct rslab *rslab)
{
	size_t used = region_used(region);

	rslab->prev = region->cur;
	rslab->used_before = used;
	set_cursor(region, rslab, rslab_data(rslab), used);
	region->reserved = region->pos;
	if (rslab->slab.tag == TAG_KEPT)
		region->kept_pos = &rslab->slab.next_in_list;
}

void region_create(struct region *region, struct slab_cache *cache)
{
	memset(region, 0, sizeof(*region));
	region->cache = cache;
	region->retain = REGION_RETAIN;
	rlist_create(&region->kept);
	rlist_create(&region->rest);
	region->kept_pos = &region->kept;
}

void region_set_callbacks(struct region *region, region_on_alloc_f on_alloc,
                          void *on_alloc_arg, region_on_truncate_f on_truncate,
                          void *on_truncate_arg)
{
	region->on_alloc = on_alloc;
	region->on_alloc_arg = on_alloc_arg;
	region->on_truncate = on_truncate;
	region->on_truncate_arg = on_truncate_arg;
	region->stop = is_shut(region) ? region->pos : end_of(region);
}

static void call_on_truncate(struct region *region)
{
	if (region->on_truncate != NULL)
		region->on_truncate(region, region_used(region),
		                    region->on_truncate_arg);
}

/* --- slabs --- */

/* A kept slab ahead of the cursor, or NULL. */
static struct rslab *kept_next(struct region *region)
{
	struct rlist *next = region->kept_pos->next;

	return next == &region->kept ? NULL : rslab_of(next);
}

static void put_kept(struct region *region, struct rslab *rslab)
{
	rlist_del(&rslab->slab.next_in_list);
	region->kept_total -= rslab->slab.size;
	slab_put(region->cache, &rslab->slab);
}

/* Gives the kept slabs ahead of the cursor back; false if there are none. */
static bool give_up_kept(struct region *region)
{
	struct rslab *rslab = kept_next(region);

	if (rslab == NULL)
		return false;
	do
		put_kept(region, rslab);
	while ((rslab = kept_next(region)) != NULL);
	return true;
}

/* Leaves the current slab, which nothing is wanted of. */
static void leave(struct region *region)
{
	struct rslab *rslab = region->cur, *prev = rslab->prev;
	size_t used = rslab->used_before;

	if (rslab->slab.tag == TAG_KEPT) {
		region->kept_pos = rslab->slab.next_in_list.prev;
		track_noaccess(rslab + 1, rslab->slab.size - sizeof(*rslab));
	} else {
		rlist_del(&rslab->slab.next_in_list);
		region->rest_total -= rslab->slab.size;
		slab_put(region->cache, &rslab->slab);
	}
	if (prev == NULL)
		set_cursor(region, NULL, NULL, 0);
	else
		set_cursor(region, prev,
		           (char *)rslab_data(prev) + used - prev->used_before,
		           used);
	region->reserved = region->pos;
}

/* Lists a new slab where it belongs. */
static void add_slab(struct region *region, struct rslab *rslab)
{
	size_t size = rslab->slab.size;

	if (size <= region->retain - region->kept_total &&
	    rslab->slab.order <= region->cache->order_max) {
		rslab->slab.tag = TAG_KEPT;
		region->kept_total += size;
		rlist_add(region->kept_pos, &rslab->slab.next_in_list);
	} else {
		rslab->slab.tag = TAG_REST;
		region->rest_total += size;
		rlist_add_tail(&region->rest, &rslab->slab.next_in_list);
	}
}

/* A slab for size bytes at the cursor; the region is as before on NULL, but
 * for idle slabs that it gave up in vain. */
static struct rslab *next_slab(struct region *region, size_t size)
{
	size_t need = size + sizeof(struct rslab) - sizeof(struct slab);
	struct rslab *rslab = kept_next(region);
	struct slab *slab;

	if (rslab != NULL && rslab->slab.size - sizeof(struct rslab) >= size) {
		enter(region, rslab);
		return rslab;
	}
	if (need < size)
		return NULL;
	slab = slab_get(region->cache, need);
	if (slab == NULL && give_up_kept(region))
		slab = slab_get(region->cache, need);
	if (slab == NULL)
		return NULL;
	if (region->cur != NULL &&
	    region_used(region) == region->cur->used_before)
		leave(region); /* empty and too small: for later, or back */
	/* The small ones make room for a new one that could be kept. */
	for (int i = 0; i < REGION_SKIP && slab->size <= region->retain; i++) {
		rslab = kept_next(region);
		if (rslab == NULL)
			break;
		put_kept(region, rslab);
	}
	rslab = (struct rslab *)slab;
	track_undefined(slab + 1, sizeof(*rslab) - sizeof(*slab));
	add_slab(region, rslab);
	track_noaccess(rslab + 1, slab->size - sizeof(*rslab));
	enter(region, rslab);
	return rslab;
}

/* --- allocation --- */

/* Opens size bytes at the cursor to the tools, padding included (join copies
 * it); bytes that a reserve has opened keep what was written there. */
static void track_take(struct region *region, size_t size)
{
	char *from = region->pos, *to = from + size;

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
	return (0 - (uintptr_t)region->pos) & (align - 1);
}

static bool has_room(struct region *region, size_t size, size_t align)
{
	size_t room = region_room(region), pad = pad_to(region, align);

	return size <= room && pad <= room - size;
}

/* Makes sure that size bytes at align fit at the cursor. */
static bool make_room(struct region *region, size_t size, size_t align)
{
	size_t need;

	if (region->cur != NULL && has_room(region, size, align))
		return true;
	/* Payloads are aligned to 16. */
	if (small_add(size, align > 16 ? align - 16 : 0, &need))
		return false;
	return next_slab(region, need) != NULL;
}

static void check_args(const struct region *region, size_t size, size_t align,
                       const char *call)
{
	assert(size > 0);
	slab_cache_check_thread(region->cache, call);
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
	if (!make_room(region, size, align))
		return NULL;
	pad = pad_to(region, align);
	if (region->on_alloc != NULL)
		region->on_alloc(region, size + pad, region->on_alloc_arg);
	ptr = region->pos + pad;
	track_take(region, pad + size);
	region->pos = ptr + size;
	region->reserve_only = false;
	if (is_shut(region))
		region->stop = region->pos;
	return ptr;
}

void *region_alloc_slow(struct region *region, size_t size)
{
	return region_aligned_alloc_slow(region, size, 1);
}

void *region_reserve_slow(struct region *region, size_t size, size_t align)
{
	struct rslab *cur = region->cur;
	size_t pad;

	check_args(region, size, align, "region_reserve");
	if (!make_room(region, size, align))
		return NULL;
	if (region->cur != cur)
		region->reserve_only = true;
	pad = pad_to(region, align);
	if (TRACK_ENABLED && region->reserved < region->pos + pad + size) {
		/* The padding, too: track_take() counts on it. */
		char *from = region->pos;

		if (from < region->reserved)
			from = region->reserved;
		region->reserved = region->pos + pad + size;
		track_undefined(from, (size_t)(region->reserved - from));
	}
	return region->pos + pad;
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

void region_truncate_slow(struct region *region, size_t used)
{
	size_t used_now = region_used(region);

	slab_cache_check_thread(region->cache, "region_truncate");
	if (small_unlikely(used > used_now))
		small_panic("region_truncate", "more than is used");
	if (region->reserve_only && region->cur->used_before != used_now)
		region->reserve_only = false;
	while (region->cur != NULL &&
	       (region->cur->used_before > used ||
	        (region->cur->used_before == used && region->reserve_only))) {
		region->reserve_only = false;
		leave(region);
	}
	if (region->cur != NULL) {
		char *pos = (char *)rslab_data(region->cur) + used -
		            region->cur->used_before;
		char *end = region->reserved > region->pos ? region->reserved
		                                           : region->pos;

		track_undefined(pos, (size_t)(region->pos - pos));
		track_fill(pos, 'P', (size_t)(region->pos - pos));
		track_noaccess(pos, (size_t)(end - pos));
		set_cursor(region, region->cur, pos, used);
		region->reserved = pos;
	}
	call_on_truncate(region);
}

/* Debug and ASan builds: nobody may touch what the slabs held. */
static void poison(struct rlist *list)
{
	struct rslab *rslab;

	rlist_foreach_entry (rslab, list, slab.next_in_list)
		track_noaccess(rslab + 1, rslab->slab.size - sizeof(*rslab));
}

void region_reset(struct region *region)
{
	struct rlist *first = region->kept.next;

	slab_cache_check_thread(region->cache, "region_reset");
	region->generation++;
	region->reserve_only = false;
	if (TRACK_ENABLED) {
		poison(&region->kept);
		poison(&region->rest);
	}
	if (region->rest_total != 0) {
		slab_cache_drop(region->cache, &region->rest,
		                region->rest_total);
		region->rest_total = 0;
	} else if (small_unlikely(slab_cache_garbage(region->cache) >
	                          region->cache->garbage_cap)) {
		slab_cache_sort(region->cache);
	}
	region->pos = NULL;
	region->base = 0;
	region->cur = NULL;
	if (small_likely(first != &region->kept))
		enter(region, rslab_of(first));
	else
		region->stop = NULL;
	call_on_truncate(region);
}

void region_free(struct region *region)
{
	struct slab_cache *cache = region->cache;
	struct rslab *rslab, *next;

	slab_cache_check_thread(cache, "region_free");
	region->generation++;
	region->reserve_only = false;
	rlist_splice(&region->kept, &region->rest);
	rlist_foreach_entry_safe (rslab, &region->kept, slab.next_in_list, next)
		slab_put(cache, &rslab->slab);
	rlist_create(&region->kept);
	region->kept_pos = &region->kept;
	region->kept_total = region->rest_total = 0;
	set_cursor(region, NULL, NULL, 0);
	region->reserved = NULL;
	call_on_truncate(region);
}

void region_destroy(struct region *region)
{
	region_free(region);
}

void region_set_retain(struct region *region, size_t bytes)
{
	slab_cache_check_thread(region->cache, "region_set_retain");
	region->retain = bytes;
	while (region->kept_total > bytes) {
		struct rslab *last = rslab_of(region->kept.prev);

		if (region->kept_pos != region->kept.prev) {
			put_kept(region, last);
			continue;
		}
		region->kept_pos = region->kept.prev->prev;
		region->kept_total -= last->slab.size;
		region->rest_total += last->slab.size;
		last->slab.tag = TAG_REST;
		rlist_move(&region->rest, &last->slab.next_in_list);
	}
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
	struct rslab *cur = region->cur;
	size_t used = region_used(region);
	char *ptr;

	slab_cache_check_thread(region->cache, "region_join");
	assert(size > 0);
	if (small_unlikely(size > used))
		small_panic("region_join", "more than is used");
	if (cur == NULL)
		return NULL;
	while (cur->used_before == used)
		cur = cur->prev; /* empty, and may go when another one comes */
	if (size <= used - cur->used_before)
		return (char *)rslab_data(cur) + (used - size) -
		       cur->used_before;
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

	if (rslab->slab.magic != slab_magic || rslab->slab.tag != TAG_GROWABLE)
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
	region->rest_total += slab->size;
	rlist_add_tail(&region->rest, &slab->next_in_list);
	return (struct rslab *)slab + 1;
}

int region_resize_growable(struct region *region, void *ptr, size_t size)
{
	struct rslab *rslab = growable_of(ptr, "region_resize_growable");
	size_t before = rslab->slab.size;

	if (slab_resize(region->cache, &rslab->slab, growable_size(size)) != 0)
		return -1;
	region->rest_total += rslab->slab.size - before;
	return 0;
}

void region_drop_growable(struct region *region, void *ptr)
{
	struct rslab *rslab = growable_of(ptr, "region_drop_growable");

	rlist_del(&rslab->slab.next_in_list);
	region->rest_total -= rslab->slab.size;
	slab_put(region->cache, &rslab->slab);
}
