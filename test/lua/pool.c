/* SPDX-License-Identifier: BSD-2-Clause */
/* pool: a fresh interpreter each time, whatever the one before it did. */
#include "box.h"

#include <small/lua/sandbox_pool.h>

#include "../die.h"

#include <pthread.h>

#define COUNT 4

static const char prelude[] =
	"count = 0 function answer(k) count = count + 1 return k .. count end";

static int build(struct sandbox *sb, void *arg)
{
	int rc = sandbox_load(sb, prelude, sizeof(prelude) - 1, "=prelude");

	(void)arg;
	if (rc == SANDBOX_OK)
		rc = sandbox_call(sb, 0, 0);
	if (rc == SANDBOX_OK)
		rc = sandbox_push_global(sb, "answer");
	return rc;
}

static struct sandbox_pool *pool_of(struct slab_cache *cache, size_t count)
{
	struct sandbox_pool_opts opts = {.sandbox = {.cache = cache,
	                                             .limit = BOX_MIB,
	                                             .instructions = 1000000},
	                                 .count = count,
	                                 .prelude = build};
	struct sandbox_pool *pool;

	assert_int_equal(sandbox_pool_create(&opts, &pool), SANDBOX_OK);
	return pool;
}

static struct sandbox_pool *open_pool(struct core *core, size_t count)
{
	core_create(core, SIZE_MAX, 65536);
	return pool_of(&core->cache, count);
}

static void close_pool(struct core *core, struct sandbox_pool *pool)
{
	assert_ptr_equal(sandbox_pool_check(pool), NULL);
	sandbox_pool_destroy(pool);
	core_destroy(core);
}

/* A request, as a host makes it. */
static void answer(struct sandbox *sb, const char *want)
{
	lua_State *L = sandbox_state(sb);

	assert_int_equal(lua_gettop(L), 1);
	assert_int_equal(sandbox_push_string(sb, "k", 1), SANDBOX_OK);
	assert_int_equal(sandbox_call(sb, 1, 1), SANDBOX_OK);
	assert_string_equal(lua_tostring(L, -1), want);
}

static int run(struct sandbox *sb, const char *text)
{
	int rc = sandbox_load(sb, text, strlen(text), "=run");

	return rc == SANDBOX_OK ? sandbox_call(sb, 0, 0) : rc;
}

static void each_checkout_is_fresh(void **state)
{
	size_t rounds = test_scale(20000);
	struct sandbox_pool *pool;
	struct sandbox *sb[COUNT];
	struct core core;

	(void)state;
	pool = open_pool(&core, COUNT);
	for (size_t i = 0; i < rounds; i++) {
		size_t n = 1 + i % COUNT;

		for (size_t j = 0; j < n; j++)
			assert_int_equal(sandbox_pool_checkout(pool, &sb[j]),
			                 SANDBOX_OK);
		for (size_t j = 0; j < n; j++) {
			answer(sb[(i / 7 + j) % n], "k1");
			assert_int_equal(
				sandbox_pool_return(pool, sb[(i / 7 + j) % n]),
				SANDBOX_OK);
		}
	}
	close_pool(&core, pool);
}

static void after_any_verdict_the_next_request_is_served(void **state)
{
	static const char *const texts[] = {
		"count = 'spoilt' answer = nil string.format = error",
		"local t = {} for i = 1, 1e9 do t[i] = {i} end",
		"while true do end",
		"error({})",
		"this is no Lua",
	};
	size_t rounds = test_scale(100), quota;
	struct sandbox_pool_stats stats;
	struct sandbox_pool *pool;
	struct sandbox *sb;
	struct core core;

	(void)state;
	pool = open_pool(&core, 1);
	quota = quota_used(&core.quota);
	for (size_t i = 0; i < rounds * lengthof(texts); i++) {
		assert_int_equal(sandbox_pool_checkout(pool, &sb), SANDBOX_OK);
		answer(sb, "k1");
		run(sb, texts[i % lengthof(texts)]);
		assert_int_equal(sandbox_pool_return(pool, sb), SANDBOX_OK);
		assert_int_equal(quota_used(&core.quota), quota);
	}
	sandbox_pool_stats(pool, &stats);
	assert_int_equal(stats.built, 1);
	assert_int_equal(stats.rollbacks, rounds * lengthof(texts));
	close_pool(&core, pool);
}

static void all_out_is_busy(void **state)
{
	struct sandbox_pool_stats stats;
	struct sandbox_pool *pool;
	struct sandbox *sb[COUNT], *more;
	struct core core;

	(void)state;
	pool = open_pool(&core, COUNT);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(sandbox_pool_checkout(pool, &sb[i]),
		                 SANDBOX_OK);
	assert_int_equal(sandbox_pool_checkout(pool, &more), SANDBOX_BUSY);
	assert_null(more);
	sandbox_pool_stats(pool, &stats);
	assert_int_equal(stats.out, COUNT);
	assert_int_equal(stats.ready + stats.missing, 0);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(sandbox_pool_return(pool, sb[i]), SANDBOX_OK);
	close_pool(&core, pool);
}

/* It lost its snapshot: dropped, and built anew when it is wanted; a refusal
 * then leaves the place for another try. */
static void a_hurt_one_is_built_anew(void **state)
{
	struct sandbox_pool_stats stats;
	struct sandbox_pool *pool;
	struct sandbox *sb;
	struct core core;

	(void)state;
	pool = open_pool(&core, 1);
	for (size_t i = 1; i <= 5; i++) {
		assert_int_equal(sandbox_pool_checkout(pool, &sb), SANDBOX_OK);
		answer(sb, "k1");
		assert_int_equal(sandbox_discard(sb), SANDBOX_OK);
		assert_int_equal(sandbox_pool_return(pool, sb), SANDBOX_OK);
		sandbox_pool_stats(pool, &stats);
		assert_int_equal(stats.missing, 1);
		assert_int_equal(stats.built, i);
		fault_set(FAULT_ALL, i, true);
		assert_int_not_equal(sandbox_pool_checkout(pool, &sb),
		                     SANDBOX_OK);
		fault_clear();
		assert_null(sb);
		assert_ptr_equal(sandbox_pool_check(pool), NULL);
	}
	assert_int_equal(sandbox_pool_checkout(pool, &sb), SANDBOX_OK);
	answer(sb, "k1");
	assert_int_equal(sandbox_pool_return(pool, sb), SANDBOX_OK);
	close_pool(&core, pool);
}

static void each_failure_of_create_leaves_nothing(void **state)
{
	struct sandbox_pool_opts opts = {.count = 2, .prelude = build};
	struct sandbox_pool *pool;
	struct core core;
	size_t n, step = 1 + 50 / test_scale(50);
	int rc = SANDBOX_MEM_LIMIT;

	(void)state;
	core_create(&core, SIZE_MAX, 65536);
	opts.sandbox.cache = &core.cache;
	opts.sandbox.limit = BOX_MIB;
	for (n = 1; n < 100000 && rc != SANDBOX_OK; n += step) {
		fault_set(FAULT_ALL, n, true);
		rc = sandbox_pool_create(&opts, &pool);
		fault_clear();
		assert_true((rc == SANDBOX_OK) == (pool != NULL));
		slab_cache_trim(&core.cache);
		slab_arena_trim(&core.arena);
		if (rc != SANDBOX_OK)
			assert_int_equal(core.arena.large, 0);
	}
	assert_int_equal(rc, SANDBOX_OK);
	sandbox_pool_destroy(pool);
	opts.count = 0;
	assert_int_equal(sandbox_pool_create(&opts, &pool), SANDBOX_MISUSE);
	core_destroy(&core);
}

static int failing(struct sandbox *sb, void *arg)
{
	(void)arg;
	return run(sb, "error('no')");
}

static void a_failing_prelude_is_reported(void **state)
{
	struct sandbox_pool_opts opts = {.count = 2, .prelude = failing};
	struct sandbox_pool *pool;
	struct core core;

	(void)state;
	core_create(&core, SIZE_MAX, 65536);
	opts.sandbox.cache = &core.cache;
	assert_int_equal(sandbox_pool_create(&opts, &pool), SANDBOX_ERROR);
	assert_null(pool);
	core_destroy(&core);
}

#define WORKERS 3

struct worker {
	struct slab_arena *arena;
	size_t rounds;
	pthread_t thread;
};

static void serve_some(struct sandbox_pool *pool, size_t rounds)
{
	struct sandbox *sb;

	for (size_t i = 0; i < rounds; i++) {
		assert_int_equal(sandbox_pool_checkout(pool, &sb), SANDBOX_OK);
		answer(sb, "k1");
		if (i % 8 == 0)
			run(sb, "local t = {} while true do t[#t + 1] = {} "
			        "end");
		assert_int_equal(sandbox_pool_return(pool, sb), SANDBOX_OK);
	}
}

static void *serve(void *arg)
{
	struct worker *worker = arg;
	struct sandbox_pool *pool;
	struct slab_cache cache;

	slab_cache_create(&cache, worker->arena);
	for (int lives = 0; lives < 3; lives++) {
		pool = pool_of(&cache, 2);
		serve_some(pool, worker->rounds);
		assert_ptr_equal(sandbox_pool_check(pool), NULL);
		sandbox_pool_destroy(pool);
	}
	slab_cache_destroy(&cache);
	return NULL;
}

static void workers_have_their_pools_over_one_quota(void **state)
{
	struct worker worker[WORKERS];
	struct core core;

	(void)state;
	core_create(&core, 64 * BOX_MIB, 65536);
	for (int i = 0; i < WORKERS; i++) {
		worker[i].arena = &core.arena;
		worker[i].rounds = test_scale(500);
		assert_int_equal(pthread_create(&worker[i].thread, NULL, serve,
		                                &worker[i]),
		                 0);
	}
	for (int i = 0; i < WORKERS; i++)
		pthread_join(worker[i].thread, NULL);
	core_destroy(&core);
}

static struct sandbox_pool *inside_pool;
static int inside_rc;

static int return_inside(lua_State *L)
{
	inside_rc = sandbox_pool_return(inside_pool, sandbox_of(L));
	return 0;
}

static void return_from_inside_is_busy(void **state)
{
	struct sandbox *sb;
	struct core core;

	(void)state;
	inside_pool = open_pool(&core, 1);
	assert_int_equal(sandbox_pool_checkout(inside_pool, &sb), SANDBOX_OK);
	assert_int_equal(sandbox_push_function(sb, return_inside), SANDBOX_OK);
	assert_int_equal(sandbox_call(sb, 0, 0), SANDBOX_OK);
	assert_int_equal(inside_rc, SANDBOX_BUSY);
	inside_rc = -1;
	assert_int_equal(sandbox_protect(sb, return_inside, NULL), SANDBOX_OK);
	assert_int_equal(inside_rc, SANDBOX_BUSY);
	assert_int_equal(sandbox_pool_return(inside_pool, sb), SANDBOX_OK);
	close_pool(&core, inside_pool);
}

static void return_twice(void *arg)
{
	struct sandbox_pool *pool = arg;
	struct sandbox *sb;

	sandbox_pool_checkout(pool, &sb);
	sandbox_pool_return(pool, sb);
	sandbox_pool_return(pool, sb);
}

static void destroy_early(void *arg)
{
	struct sandbox *sb;

	sandbox_pool_checkout(arg, &sb);
	sandbox_pool_destroy(arg);
}

static void misuse_is_named(void **state)
{
	struct sandbox_pool *pool;
	struct core core;

	(void)state;
	pool = open_pool(&core, 2);
	assert_panics(return_twice, pool, "sandbox_pool_return",
	              "not a sandbox of the pool");
	assert_panics(destroy_early, pool, "sandbox_pool_destroy",
	              "a sandbox is out");
	close_pool(&core, pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_checkout_is_fresh),
		cmocka_unit_test(after_any_verdict_the_next_request_is_served),
		cmocka_unit_test(all_out_is_busy),
		cmocka_unit_test(a_hurt_one_is_built_anew),
		cmocka_unit_test(each_failure_of_create_leaves_nothing),
		cmocka_unit_test(a_failing_prelude_is_reported),
		cmocka_unit_test(workers_have_their_pools_over_one_quota),
		cmocka_unit_test(return_from_inside_is_busy),
		cmocka_unit_test(misuse_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
