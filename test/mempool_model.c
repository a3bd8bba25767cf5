/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mempool_model - ten million random steps on pools of random sizes over one
 * cache, against plain arrays of what is live and what it holds.
 */
#include "core.h"

#include <small/mempool.h>

#define MIB   ((size_t)1 << 20)
#define STEPS ((size_t)10 * 1000 * 1000)
#define POOLS 4
#define LIVE  6000
/* Steps from one check of a pool to the next, and of all bytes. */
#define CHECK  512
#define VERIFY 50000

struct model {
	struct mempool pool;
	unsigned char *live[LIVE];
	size_t count;
	size_t objsize;
	size_t goal; /* live objects that the next steps drift to */
	bool created;
};

static struct core core;
static struct model models[POOLS];
static uint64_t seed;

static size_t below(size_t n)
{
	return (size_t)(test_random(&seed) >> 16) % n;
}

/* Every byte follows from the address. */
static unsigned char fill_of(const unsigned char *ptr)
{
	return (unsigned char)((uintptr_t)ptr >> 3) ^ 0x35;
}

static void model_open(struct model *model)
{
	size_t bits = below(17), size = ((size_t)1 << bits) + below(300);

	if (below(2) == 0)
		size = below(100) + 1;
	memset(&model->pool, 0xff, sizeof(model->pool));
	if (below(3) == 0 && size < 4000)
		mempool_create_with_order(&model->pool, &core.cache, size,
		                          (uint8_t)below(3));
	else
		mempool_create(&model->pool, &core.cache, size);
	model->objsize = model->pool.objsize;
	assert_int_equal(model->objsize, small_align(size, 8));
	model->count = model->goal = 0;
	model->created = true;
}

static void model_check(struct model *model)
{
	assert_ptr_equal(mempool_check(&model->pool), NULL);
	assert_int_equal(mempool_count(&model->pool), model->count);
	assert_int_equal(mempool_used(&model->pool),
	                 model->count * model->objsize);
	assert_true(mempool_total(&model->pool) >= mempool_used(&model->pool));
}

static bool is_filled(const struct model *model, const unsigned char *ptr,
                      bool all)
{
	unsigned char fill = fill_of(ptr);

	if (!all)
		return ptr[0] == fill && ptr[model->objsize - 1] == fill &&
		       ptr[model->objsize / 2] == fill;
	for (size_t i = 0; i < model->objsize; i++) {
		if (ptr[i] != fill)
			return false;
	}
	return true;
}

static void model_verify(struct model *model)
{
	for (size_t i = 0; i < model->count; i++)
		assert_true(is_filled(model, model->live[i], true));
}

static void model_close(struct model *model)
{
	model_check(model);
	model_verify(model);
	if (below(2) == 0) {
		while (model->count > 0)
			mempool_free(&model->pool, model->live[--model->count]);
		model_check(model);
		assert_true(
			mempool_total(&model->pool) <=
			slab_order_size(&core.cache, model->pool.slab_order));
	}
	mempool_destroy(&model->pool);
	assert_false(mempool_is_initialized(&model->pool));
	model->created = false;
}

static bool model_alloc(struct model *model)
{
	size_t total = mempool_total(&model->pool);
	unsigned char *ptr = mempool_alloc(&model->pool);

	if (ptr == NULL) {
		assert_int_equal(mempool_total(&model->pool), total);
		/* All that it holds is live. */
		assert_int_equal(
			total /
				slab_order_size(&core.cache,
		                                model->pool.slab_order) *
				model->pool.objcount,
			model->count);
		return false;
	}
	memset(ptr, fill_of(ptr), model->objsize);
	model->live[model->count++] = ptr;
	return true;
}

static void model_free(struct model *model, size_t i)
{
	unsigned char *ptr = model->live[i];

	assert_true(is_filled(model, ptr, false));
	model->live[i] = model->live[--model->count];
	mempool_free(&model->pool, ptr);
}

/* Mostly around the goal, so that slabs fill, run cold and warm, and empty. */
static bool model_step(struct model *model)
{
	size_t r = below(1024);

	if (r == 0 && below(40) == 0) {
		model_close(model);
		model_open(model);
	} else if (r == 1) {
		mempool_free_spare_slab(&model->pool);
	} else if (r < 4) {
		size_t most = 12 * MIB / model->objsize;

		model->goal = below((most < LIVE ? most : LIVE) + 1);
	} else if (model->count < model->goal ? r % 8 != 0 : r % 8 == 0) {
		return model->count == LIVE || model_alloc(model);
	} else if (model->count > 0) {
		/* The last one, or any. */
		model_free(model,
		           r & 512 ? model->count - 1 : below(model->count));
	}
	return true;
}

static void ten_million_steps_keep_every_byte(void **state)
{
	size_t steps = test_scale(STEPS), refused = 0;

	(void)state;
	seed = test_seed("mempool_model");
	core_create(&core, 24 * MIB, MIB);
	for (size_t i = 0; i < POOLS; i++)
		model_open(&models[i]);
	for (size_t i = 0; i < steps; i++) {
		struct model *model = &models[(i >> 6) % POOLS];

		if (!model_step(model))
			refused++;
		if (i % CHECK == 0)
			model_check(model);
		if (i % VERIFY == 0) {
			for (size_t k = 0; k < POOLS; k++)
				model_verify(&models[k]);
			core_check(&core);
		}
	}
	printf("mempool_model: %zu steps, %zu refused\n", steps, refused);
	for (size_t i = 0; i < POOLS; i++)
		model_close(&models[i]);
	core_destroy(&core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_million_steps_keep_every_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
