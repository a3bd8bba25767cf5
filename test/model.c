/* SPDX-License-Identifier: BSD-2-Clause */
/* model - see model.h. */
#include "model.h"

/* Blocks up to this many bytes are filled and compared whole, larger ones at
 * both ends: what overlaps a block overlaps one of its ends in the end. */
#define WHOLE 4096
#define EDGE  64

/* --- contents --- */

static void stamp(unsigned char *ptr, size_t size, unsigned char fill)
{
	if (size <= WHOLE) {
		memset(ptr, fill, size);
		return;
	}
	memset(ptr, fill, EDGE);
	memset(ptr + size - EDGE, fill, EDGE);
}

static bool all_are(const unsigned char *ptr, size_t size, unsigned char fill)
{
	/* All are the first one: each equals the one before it. */
	return size == 0 ||
	       (*ptr == fill && memcmp(ptr, ptr + 1, size - 1) == 0);
}

static bool is_stamped(const unsigned char *ptr, size_t size,
                       unsigned char fill)
{
	if (size <= WHOLE)
		return all_are(ptr, size, fill);
	return all_are(ptr, EDGE, fill) &&
	       all_are(ptr + size - EDGE, EDGE, fill);
}

static bool block_is_whole(const struct model_block *block)
{
	return is_stamped(block->ptr, block->size, block->fill);
}

/* The bytes [from, to) of a stamped block of size bytes, as found at ptr. */
static bool part_is_stamped(const unsigned char *ptr, size_t size, size_t from,
                            size_t to, unsigned char fill)
{
	size_t tail = size > WHOLE ? size - EDGE : 0;
	size_t head = size > WHOLE ? EDGE : 0;

	if (from < head && !all_are(ptr, (to < head ? to : head) - from, fill))
		return false;
	if (from < tail) {
		if (to <= tail)
			return true;
		ptr += tail - from;
		from = tail;
	}
	return all_are(ptr, to - from, fill);
}

/* --- callbacks --- */

static void on_alloc(struct region *region, size_t size, void *arg)
{
	struct model *model = arg;

	need(region == &model->region);
	need(region_used(region) == model->used);
	model->seen_alloc += size;
}

static void on_truncate(struct region *region, size_t used, void *arg)
{
	struct model *model = arg;

	need(region == &model->region && used == region_used(region));
	model->seen_truncate = used;
	model->truncates++;
}

/* What every step that adds bytes ends with. */
static void grown(struct model *model)
{
	size_t used = region_used(&model->region);

	need(!model->callbacks || model->seen_alloc == used - model->used);
	need(model->truncates == 0);
	model->used = used;
	model->seen_alloc = 0;
}

/* What every step that drops bytes ends with. */
static void dropped(struct model *model, size_t used)
{
	need(region_used(&model->region) == used);
	need(model->truncates == model->callbacks);
	need(!model->callbacks || model->seen_truncate == used);
	need(model->seen_alloc == 0);
	model->used = used;
	model->truncates = 0;
}

/* --- one region --- */

/* Records what a call returned; contents are stamped unless kept. */
static bool record(struct model *model, void *ptr, size_t size, size_t align)
{
	struct model_block *block = &model->blocks[model->count];
	size_t before = model->used, used = region_used(&model->region);

	if (ptr == NULL) {
		need(used == before && model->seen_alloc == 0);
		return false;
	}
	need((uintptr_t)ptr % align == 0);
	need(used - before >= size && used - before < size + align);
	grown(model);
	block->ptr = ptr;
	block->size = size;
	block->end = used;
	block->fill = ++model->fill;
	stamp(ptr, size, block->fill);
	model->count++;
	return true;
}

static bool reserve(struct model *model, size_t size, size_t part)
{
	unsigned char *ptr = region_reserve(&model->region, size), *again;

	need(region_used(&model->region) == model->used);
	if (ptr == NULL)
		return false;
	stamp(ptr, size, 0xee);
	part %= size + 1;
	if (part == 0)
		return true;
	again = region_alloc(&model->region, part);
	need(again == ptr && *ptr == 0xee);
	return record(model, again, part, 1);
}

static bool aligned_reserve(struct model *model, size_t size, size_t align)
{
	struct region *region = &model->region;
	unsigned char *ptr = region_aligned_reserve(region, size, align);
	size_t part = (size + 1) / 2;

	need(region_used(region) == model->used);
	if (ptr == NULL)
		return false;
	need((uintptr_t)ptr % align == 0);
	stamp(ptr, size, 0xee);
	need(region_aligned_alloc(region, part, align) == ptr);
	need(*ptr == 0xee);
	return record(model, ptr, part, align);
}

/* The joined bytes are those of the blocks that end there, padding aside. */
static void check_join(const struct model *model, const unsigned char *joined,
                       size_t size, size_t used)
{
	size_t i = model->count, start = used - size;

	while (i-- > 0 && model->blocks[i].end > start) {
		const struct model_block *block = &model->blocks[i];
		size_t from = 0, at = block->end - block->size;

		if (at < start)
			from = start - at;
		need(part_is_stamped(joined + (at + from - start), block->size,
		                     from, block->size, block->fill));
	}
}

static bool join(struct model *model, size_t size)
{
	size_t used = model->used;
	unsigned char *ptr;

	size = size < used ? size : used;
	if (size == 0)
		return true;
	ptr = region_join(&model->region, size);
	if (ptr == NULL)
		return record(model, NULL, size, 1);
	check_join(model, ptr, size, used);
	if (region_used(&model->region) == used)
		return true;
	need(region_used(&model->region) == used + size);
	return record(model, ptr, size, 1);
}

/* Before bytes beyond `used` go: they are as they were. */
static void forget(struct model *model, size_t used)
{
	while (model->count > 0 && model->blocks[model->count - 1].end > used)
		need(block_is_whole(&model->blocks[--model->count]));
}

/* Savepoints above what is used are refused, as long as it stays so. */
static void drop_svps(struct model *model)
{
	for (size_t i = 0; i < MODEL_SVPS; i++) {
		struct region_svp *svp = &model->svps[i];

		if (!model->svp_live[i] || svp->used <= model->used)
			continue;
		need(region_rollback_to_svp(&model->region, svp) == -1);
		model->svp_live[i] = false;
	}
}

static void truncate_to(struct model *model, size_t keep)
{
	size_t used;

	keep %= model->count + 1;
	used = keep == 0 ? 0 : model->blocks[keep - 1].end;
	forget(model, used);
	region_truncate(&model->region, used);
	dropped(model, used);
	drop_svps(model);
}

static void rollback(struct model *model, size_t which)
{
	const struct region_svp *svp = &model->svps[which];

	if (!model->svp_live[which])
		return;
	forget(model, svp->used);
	need(region_rollback_to_svp(&model->region, svp) == 0);
	dropped(model, svp->used);
	drop_svps(model);
}

/* What reset, free and free_after have in common. */
static void forget_all(struct model *model, void (*drop)(struct region *region))
{
	struct model_growable *growable = model->growables;

	forget(model, 0);
	for (size_t i = 0; i < MODEL_GROWABLES; i++, growable++) {
		need(growable->ptr == NULL ||
		     is_stamped(growable->ptr, growable->size, growable->fill));
		growable->ptr = NULL;
	}
	drop(&model->region);
	dropped(model, 0);
	for (size_t i = 0; i < MODEL_SVPS; i++) {
		need(!model->svp_live[i] ||
		     region_rollback_to_svp(&model->region, &model->svps[i]) ==
		             -1);
		model->svp_live[i] = false;
	}
}

static void free_after(struct model *model, size_t limit)
{
	if (model->used > limit)
		forget_all(model, region_free);
	region_free_after(&model->region, limit);
	need(region_used(&model->region) == model->used);
}

static void set_callbacks(struct model *model, bool on)
{
	region_set_callbacks(&model->region, on ? on_alloc : NULL, model,
	                     on ? on_truncate : NULL, model);
	model->callbacks = on;
}

static bool create_growable(struct model *model,
                            struct model_growable *growable, size_t size)
{
	size_t total = region_total(&model->region), max = 4 * size;

	growable->ptr = region_growable(&model->region, size, max);
	if (growable->ptr == NULL) {
		need(region_total(&model->region) == total);
		return false;
	}
	need((uintptr_t)growable->ptr % (SIZE_MAX > UINT32_MAX ? 64 : 16) == 0);
	growable->size = size;
	growable->max = max;
	growable->fill = ++model->fill;
	stamp(growable->ptr, size, growable->fill);
	return true;
}

static bool step_growable(struct model *model, size_t size, size_t which)
{
	struct model_growable *growable =
		&model->growables[which % MODEL_GROWABLES];
	size_t kept;

	if (growable->ptr == NULL)
		return size == 0 || create_growable(model, growable, size);
	need(is_stamped(growable->ptr, growable->size, growable->fill));
	if (size == 0) {
		region_drop_growable(&model->region, growable->ptr);
		growable->ptr = NULL;
		return true;
	}
	/* One fill from end to end: what a resize keeps can be compared. */
	kept = size < growable->size ? size : growable->size;
	memset(growable->ptr, growable->fill, kept);
	if (region_resize_growable(&model->region, growable->ptr, size) != 0) {
		need(size > growable->size);
		need(is_stamped(growable->ptr, growable->size, growable->fill));
		return false;
	}
	need(all_are(growable->ptr, kept, growable->fill));
	growable->size = size;
	stamp(growable->ptr, size, growable->fill);
	need(size <= growable->max ||
	     region_resize_growable(&model->region, growable->ptr,
	                            SIZE_MAX / 4) == -1);
	return true;
}

static bool step_region(struct model *model, enum model_op op, size_t n,
                        size_t m)
{
	struct region *region = &model->region;
	size_t which = n % MODEL_SVPS;

	if (model->count == MODEL_BLOCKS)
		truncate_to(model, MODEL_BLOCKS / 2);
	switch (op) {
	case OP_ALLOC:
		return record(model, region_alloc(region, n), n, 1);
	case OP_ALIGNED:
		return record(model,
		              region_aligned_alloc(region, n, (size_t)1 << m),
		              n, (size_t)1 << m);
	case OP_RESERVE:
		return reserve(model, n, m);
	case OP_ALIGNED_RESERVE:
		return aligned_reserve(model, n, (size_t)1 << m);
	case OP_JOIN:
		return join(model, n);
	case OP_TRUNCATE:
		truncate_to(model, n);
		return true;
	case OP_SVP:
		model->svps[which] = region_create_svp(region);
		model->svp_live[which] = true;
		return true;
	case OP_ROLLBACK:
		rollback(model, which);
		return true;
	case OP_RESET:
		forget_all(model, region_reset);
		return true;
	case OP_FREE:
		forget_all(model, region_free);
		need(region_total(region) == 0);
		return true;
	case OP_FREE_AFTER:
		free_after(model, n);
		return true;
	case OP_RETAIN:
		region_set_retain(region, n);
		return true;
	case OP_CALLBACKS:
		set_callbacks(model, n & 1);
		return true;
	default:
		return step_growable(model, n, m);
	}
}

/* --- the world --- */

/* What stands on the arena. */
static void create_cache(struct world *world)
{
	slab_cache_create(&world->cache, &world->arena);
	for (size_t i = 0; i < MODEL_SLABS; i++)
		world->slabs[i] = NULL;
	for (size_t i = 0; i < MODEL_REGIONS; i++) {
		struct model *model = &world->models[i];

		model->count = model->used = 0;
		model->seen_alloc = model->truncates = 0;
		model->callbacks = false;
		memset(model->growables, 0, sizeof(model->growables));
		memset(model->svp_live, 0, sizeof(model->svp_live));
		memset(&model->region, 0xff, sizeof(model->region));
		region_create(&model->region, &world->cache);
	}
}

void world_create(struct world *world, size_t total, size_t slab_size)
{
	memset(world, 0xff, sizeof(*world));
	quota_init(&world->quota, total);
	need(slab_arena_create(&world->arena, &world->quota, 0, slab_size,
	                       SLAB_ARENA_PRIVATE) == 0);
	create_cache(world);
}

static void slab_put_checked(struct world *world, size_t which)
{
	struct slab *slab = world->slabs[which];

	if (slab == NULL)
		return;
	need((slab->magic & slab_magic_mask) == slab_magic);
	need(is_stamped(slab_data(slab), slab_capacity(slab),
	                (unsigned char)(which + 1)));
	slab_put(&world->cache, slab);
	world->slabs[which] = NULL;
}

static bool slab_get_checked(struct world *world, size_t size, size_t which)
{
	size_t used = slab_cache_used(&world->cache);
	struct slab *slab;

	slab_put_checked(world, which);
	used = slab_cache_used(&world->cache);
	slab = slab_get(&world->cache, size);
	if (slab == NULL) {
		need(slab_cache_used(&world->cache) == used);
		return false;
	}
	need(slab_capacity(slab) >= size);
	need(slab->size == slab_real_size(&world->cache, size));
	need(slab_cache_used(&world->cache) == used + slab->size);
	stamp(slab_data(slab), slab_capacity(slab), (unsigned char)(which + 1));
	world->slabs[which] = slab;
	return true;
}

bool world_step(struct world *world, enum model_op op, size_t who, size_t n,
                size_t m)
{
	switch (op) {
	case OP_SLAB_GET:
		return slab_get_checked(world, n, m % MODEL_SLABS);
	case OP_SLAB_PUT:
		slab_put_checked(world, m % MODEL_SLABS);
		return true;
	case OP_CACHE_TRIM:
		slab_cache_trim(&world->cache);
		need(slab_cache_garbage(&world->cache) == 0);
		return true;
	case OP_ARENA_TRIM:
		slab_arena_trim(&world->arena);
		return true;
	case OP_ARENA_RETAIN:
		slab_arena_set_retain(&world->arena, n);
		return true;
	case OP_GARBAGE_CAP:
		slab_cache_set_garbage_cap(&world->cache, n);
		return true;
	default:
		return step_region(&world->models[who % MODEL_REGIONS], op, n,
		                   m);
	}
}

void world_check(struct world *world)
{
	struct slab_cache_stats cache;
	struct slab_arena_stats arena;
	size_t held = 0;

	for (size_t i = 0; i < MODEL_REGIONS; i++) {
		struct region *region = &world->models[i].region;
		struct region_stats stats;

		need_null(region_check(region));
		region_stats(region, &stats);
		need(stats.used == world->models[i].used);
		need(stats.used + stats.free + stats.overhead +
		             stats.growable ==
		     stats.total);
		held += stats.total;
	}
	for (size_t i = 0; i < MODEL_SLABS; i++)
		held += world->slabs[i] != NULL ? world->slabs[i]->size : 0;
	need_null(slab_cache_check(&world->cache));
	slab_cache_stats(&world->cache, &cache);
	need(cache.used == held);
	need(cache.used + cache.free + cache.garbage + cache.overhead ==
	     cache.total);
	need_null(slab_arena_check(&world->arena));
	slab_arena_stats(&world->arena, &arena);
	need(arena.used - arena.idle + arena.large == cache.total);
	need(arena.used + arena.large == quota_used(&world->quota));
	need_null(quota_check(&world->quota));
}

void world_verify(struct world *world)
{
	for (size_t i = 0; i < MODEL_REGIONS; i++) {
		const struct model *model = &world->models[i];

		for (size_t j = 0; j < model->count; j++)
			need(block_is_whole(&model->blocks[j]));
	}
}

static void destroy_cache(struct world *world)
{
	world_verify(world);
	for (size_t i = 0; i < MODEL_REGIONS; i++) {
		set_callbacks(&world->models[i], false);
		forget_all(&world->models[i], region_destroy);
	}
	for (size_t i = 0; i < MODEL_SLABS; i++)
		slab_put_checked(world, i);
	world_check(world);
	slab_cache_destroy(&world->cache);
}

void world_restart(struct world *world)
{
	destroy_cache(world);
	need(quota_used(&world->quota) == world->arena.idle);
	create_cache(world);
}

void world_destroy(struct world *world)
{
	destroy_cache(world);
	slab_arena_destroy(&world->arena);
	need(quota_used(&world->quota) == 0);
}
