/* SPDX-License-Identifier: BSD-2-Clause */
/* check - corrupts what each invariant names and expects its name. */
#include "core.h"

#include <small/region_impl.h>

static struct core core;
static struct slab *used[40], *spare, *large, *garbage;
static size_t page;

/* Sets an integer or a pointer to a wrong value, expects a name, and puts it
 * right again. */
#define poke(check, object, field, value, name)                       \
 do {                                                                 \
  __typeof__(field) right = (field);                                  \
                                                                      \
  (field) = (__typeof__(field))(value);                               \
  if (check(object) == NULL || strcmp(check(object), (name)) != 0)    \
   fail_msg("%s = %s: %s, not %s", #field, #value,                    \
	    check(object) != NULL ? check(object) : "clean", (name)); \
  (field) = right;                                                    \
  assert_ptr_equal(check(object), NULL);                              \
 } while (0)

#define poke_arena(field, value, name) \
 poke(slab_arena_check, &core.arena, field, value, name)
#define poke_cache(field, value, name) \
 poke(slab_cache_check, &core.cache, field, value, name)
#define poke_region(field, value, name) \
 poke(region_check, &core.region, field, value, name)

/* Slabs of every kind in the cache: used, free, spare, large, garbage. */
static int setup(void **state)
{
	RLIST_HEAD(none);
	struct rlist *first, **tail;
	size_t bytes;
	struct slab_chain chain = {&first, NULL, &bytes};

	*state = NULL;
	page = small_getpagesize();
	core_create(&core, 4096 * page, 64 * page);
	for (size_t i = 0; i < lengthof(used); i++)
		used[i] = slab_get(&core.cache, 1);
	large = slab_get(&core.cache, 100 * page);
	garbage = used[30];
	first = &garbage->next_in_list;
	tail = &first->next;
	chain.tail = tail;
	bytes = garbage->size;
	slab_cache_drop_slow(&core.cache, &chain);
	spare = used[20];
	slab_put(&core.cache, spare);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < lengthof(used); i++)
		if (used[i] != garbage && used[i] != spare)
			slab_put(&core.cache, used[i]);
	slab_put(&core.cache, large);
	core_destroy(&core);
	return 0;
}

static void arena_invariants_are_named(void **state)
{
	struct slab_arena *arena = &core.arena;
	void *slabs[3];

	(void)state;
	for (size_t i = 0; i < 3; i++)
		slabs[i] = slab_map(arena);
	for (size_t i = 0; i < 3; i++)
		slab_unmap(arena, slabs[i]);
	poke_arena(arena->idle, arena->retain + arena->slab_size,
	           "idle_retained");
	poke_arena(arena->retain, 2 * arena->slab_size, "idle_retained");
	poke_arena(arena->idle, 2 * arena->slab_size, "idle_listed");
	poke_arena(arena->cache.head, 0, "idle_listed");
	poke_arena(arena->cache.head, (uint32_t)arena->table_size + 1,
	           "idle_listed");
	poke_arena(arena->used, 2 * arena->slab_size, "idle_used");
	poke_arena(arena->used, arena->used + 1, "idle_used");
}

static void cache_slabs_are_named(void **state)
{
	struct slab_cache *cache = &core.cache;
	struct slab *lost = NULL;

	(void)state;
	for (uint8_t order = 0; order <= cache->order_max; order++)
		if (!rlist_empty(&cache->free[order]))
			lost = rlist_first_entry(&cache->free[order],
			                         struct slab, next_in_list);
	assert_non_null(lost);
	poke_cache(lost->magic, magic_spare, "magic");
	poke_cache(lost->order, lost->order + 1, "order_size");
	poke_cache(lost->size, lost->size * 2, "order_size");
	poke_cache(lost->size_lb, 0, "order_size");
	poke_cache(spare->magic, 0, "magic");
	poke_cache(spare->size, page + 1, "order_size");
	poke_cache(large->magic, 0, "magic");
	poke_cache(large->order, 0, "order_size");
	poke_cache(garbage->magic, magic_free, "magic");
	poke_cache(rlist_first_entry(&cache->allocated.slabs, struct slab,
	                             next_in_cache)
	                   ->magic,
	           magic_gone, "magic");
}

static void a_free_slab_beside_a_free_buddy_is_named(void **state)
{
	struct slab *slab = used[0], *buddy;

	(void)state;
	/* Put among the free ones by hand, so that it is not merged. */
	buddy = (struct slab *)((uintptr_t)slab ^ page);
	while (core.cache.spare_room[spare_index(&core.cache, 0)] > 0) {
		used[20] = slab_get(&core.cache, 1);
		spare = used[20];
		core.cache.spare_room[spare_index(&core.cache, 0)] = 0;
	}
	core.cache.spare_room[spare_index(&core.cache, 0)] =
		(int32_t)spare_bound(&core.cache, 0);
	cache_free_add(&core.cache, slab);
	core.cache.out -= page;
	core.cache.allocated.stats.used -= page;
	cache_add_out(&core.cache, 0);
	assert_ptr_equal(slab_cache_check(&core.cache), NULL);
	poke_cache(buddy->magic, magic_free, "merged");
	cache_free_del(&core.cache, slab);
	core.cache.out += page;
	core.cache.allocated.stats.used += page;
	cache_add_out(&core.cache, 0);
	set_magic(slab, core.cache.magic);
	slab_put(&core.cache, spare);
}

static void a_slab_that_is_not_aligned_is_named(void **state)
{
	static union {
		struct slab slab;
		char bytes[4096];
	} fake[2] __attribute__((aligned(4096)));
	struct slab *slab = (struct slab *)(fake[0].bytes + 64);
	struct slab_cache *cache = &core.cache;
	struct rlist all;

	(void)state;
	*slab = *used[0];
	slab->magic = magic_free;
	rlist_create(&all);
	rlist_swap(&all, &cache->free[0]);
	rlist_add(&cache->free[0], &slab->next_in_list);
	cache->free_bits |= 1;
	assert_string_equal(slab_cache_check(cache), "aligned");
	rlist_create(&cache->free[0]);
	rlist_swap(&all, &cache->free[0]);
	if (rlist_empty(&cache->free[0]))
		cache->free_bits &= ~1u;
}

static void cache_counters_are_named(void **state)
{
	struct slab_cache *cache = &core.cache;
	int32_t *room = &cache->spare_room[spare_index(cache, 0)];
	size_t *total = &cache->allocated.stats.total;

	(void)state;
	for (uint8_t order = 0; order <= cache->order_max; order++)
		poke_cache(cache->free_bits, cache->free_bits ^ (1u << order),
		           "bitmap");
	poke_cache(*room, *room - 1, "spare_bound");
	poke_cache(*room, *room + 1, "spare_bound");
	poke_cache(cache->spare[spare_index(cache, 0)], NULL, "spare_bound");
	poke_cache(*total, *total + page, "sum");
	poke_cache(cache->overhead, cache->overhead + 1, "sum");
	poke_cache(cache->allocated.stats.used, 0, "sum");
	poke_cache(cache->garbage, NULL, "sum");
	poke_cache(cache->out, cache->out + 1, "out");
	poke_cache(cache->gate, cache->gate - 1, "gate");
}

/* Kept slabs before and behind the cursor, rest slabs, a large one. */
static struct rslab *fill_region(void)
{
	struct region *region = &core.region;

	region_set_retain(region, 4 * page);
	for (int i = 0; i < 3; i++)
		assert_non_null(region_alloc(region, page * 3 / 4));
	region_truncate(region, page);
	for (int i = 0; i < 6; i++)
		assert_non_null(region_alloc(region, page * 3 / 4));
	assert_non_null(region_alloc(region, 70 * page));
	assert_non_null(region_alloc(region, page));
	assert_non_null(region_alloc(region, 10));
	return region->at.cur;
}

static void region_cursors_are_named(void **state)
{
	struct region *region = &core.region;
	struct region_cursor *at = &region->at, *home = &region->home;

	(void)state;
	poke_region(at->pos, &core, "cursor");
	poke_region(at->base, 1, "used");
	fill_region();
	poke_region(at->pos, NULL, "cursor");
	poke_region(at->pos, (char *)at->cur + at->cur->slab.size + 1,
	            "cursor");
	poke_region(at->cur, NULL, "cursor");
	poke_region(at->base, at->pos, "used");
	poke_region(at->stop, at->pos + 1, "shut");
	poke_region(home->pos, home->pos + 1, "home");
	poke_region(home->stop, home->stop + 1, "home");
	poke_region(home->base, 0, "home");
	poke_region(home->cur, NULL, "home");
	poke_region(home->rest_total, 1, "home");
	poke_region(home->rest_tail, NULL, "home");
}

static void region_lists_are_named(void **state)
{
	struct region *region = &core.region;
	struct rslab *cur = fill_region(), *kept, *rest;

	(void)state;
	kept = rslab_of(region->kept.next);
	rest = rslab_of(region->rest);
	assert_true(rslab_is_kept(kept) && !rslab_is_kept(rest));
	poke_region(region->kept_total, region->kept_total + 1, "kept");
	poke_region(region->retain, region->kept_total - 1, "kept");
	poke_region(kept->slab.order, core.cache.order_max + 1, "kept");
	poke_region(kept->slab.tag, TAG_REST, "kept");
	poke_region(kept->slab.magic, 0, "kept");
	poke_region(region->at.rest_total, 0, "rest");
	poke_region(rest->slab.tag, TAG_KEPT, "rest");
	poke_region(rest->slab.magic, 0, "rest");
	poke_region(rest->slab.next_in_list.prev, &core, "rest");
	poke_region(cur->prev, NULL, "chain");
	poke_region(cur->prev->used_before, region_used(region) + 1, "chain");
	poke_region(cur->prev->used_before, 0, "chain");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(arena_invariants_are_named),
		T(cache_slabs_are_named),
		T(a_free_slab_beside_a_free_buddy_is_named),
		T(a_slab_that_is_not_aligned_is_named),
		T(cache_counters_are_named),
		T(region_cursors_are_named),
		T(region_lists_are_named),
	};

	return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
