/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads - arena, caches and quota under several threads: slabs recycled at
 * once, garbage drained by others, hand-over, limits that move.
 */
#include "need.h"
#include "test.h"

#include <small/region.h>
#include <small/track.h>

#include <pthread.h>
#include <sched.h>

#define MIB     ((size_t)1 << 20)
#define THREADS 8

static struct quota quota;
static struct slab_arena arena;
static bool stop;

static bool stopped(void)
{
	return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static void create(size_t total, size_t slab_size)
{
	quota_init(&quota, total);
	need(slab_arena_create(&arena, &quota, 0, slab_size,
	                       SLAB_ARENA_PRIVATE) == 0);
	track_atomic(&stop, sizeof(stop));
	__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
}

static void destroy(void)
{
	need_null(slab_arena_check(&arena));
	slab_arena_destroy(&arena);
	assert_int_equal(quota_used(&quota), 0);
	need_null(quota_check(&quota));
}

/* f in count threads; arg is the number of each, from 1. */
static void start(pthread_t *threads, size_t count, void *(*f)(void *))
{
	for (size_t i = 0; i < count; i++)
		need(pthread_create(&threads[i], NULL, f, (void *)(i + 1)) ==
		     0);
}

static void join(const pthread_t *threads, size_t count)
{
	for (size_t i = 0; i < count; i++)
		need(pthread_join(threads[i], NULL) == 0);
}

/* --- the arena alone --- */

static size_t rounds;

/* Nobody else writes to a slab between map and unmap. */
static void *recycle(void *arg)
{
	uint64_t seed = (uintptr_t)arg * 7919;
	size_t *slabs[3];

	for (size_t i = 0; i < rounds; i++) {
		size_t count = (size_t)test_random(&seed) % 3 + 1, got = 0;

		for (; got < count; got++) {
			slabs[got] = slab_map(&arena);
			if (slabs[got] == NULL)
				break;
			slabs[got][0] = (uintptr_t)arg;
			slabs[got][1] = i;
		}
		if (i % 16 == 0)
			sched_yield();
		while (got-- > 0) {
			need(slabs[got][0] == (uintptr_t)arg);
			need(slabs[got][1] == i);
			slab_unmap(&arena, slabs[got]);
		}
	}
	return NULL;
}

static void slabs_recycled_at_once_are_in_one_hand_each(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	create(24 * SLAB_MIN_SIZE, SLAB_MIN_SIZE);
	rounds = test_scale(20000);
	slab_arena_set_retain(&arena, 24 * SLAB_MIN_SIZE);
	start(threads, THREADS, recycle);
	join(threads, THREADS);
	destroy();
}

/* Above the bound slabs go back to the OS while others look at the list. */
static void a_listed_slab_is_never_one_that_went_back_to_the_os(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	create(16 * SLAB_MIN_SIZE, SLAB_MIN_SIZE);
	rounds = test_scale(4000);
	slab_arena_set_retain(&arena, 3 * SLAB_MIN_SIZE);
	start(threads, THREADS, recycle);
	for (size_t i = 0; i < rounds; i++)
		slab_arena_trim(&arena);
	join(threads, THREADS);
	destroy();
}

/* --- caches under one quota --- */

/* Requests of a region, checked and dropped; what is refused is refused. */
static void *serve(void *arg)
{
	uint64_t seed = (uintptr_t)arg * 104729;
	struct slab_cache cache;
	struct region region;

	slab_cache_create(&cache, &arena);
	region_create(&region, &cache);
	for (size_t i = 0; i < rounds; i++) {
		unsigned char *first = NULL;

		for (size_t j = (size_t)test_random(&seed) % 40; j > 0; j--) {
			size_t size = (size_t)1 << test_random(&seed) % 17;
			unsigned char *ptr = region_alloc(&region, size);

			if (ptr == NULL)
				break;
			ptr[0] = ptr[size - 1] = (unsigned char)(uintptr_t)arg;
			first = first == NULL ? ptr : first;
		}
		need(first == NULL || *first == (unsigned char)(uintptr_t)arg);
		if (i % 8 == 7)
			region_free(&region);
		else
			region_reset(&region);
		need(i % 64 != 0 || slab_cache_check(&cache) == NULL);
	}
	need_null(region_check(&region));
	region_destroy(&region);
	need_null(slab_cache_check(&cache));
	slab_cache_destroy(&cache);
	return NULL;
}

static void
threads_that_drain_each_other_s_garbage_keep_their_own_bytes(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	create(3 * MIB, SLAB_MIN_SIZE);
	rounds = test_scale(2000);
	start(threads, THREADS, serve);
	join(threads, THREADS);
	destroy();
}

static void *come_and_go(void *arg)
{
	for (size_t i = 0; i < rounds; i++) {
		struct slab_cache cache;
		struct region region;

		slab_cache_create(&cache, &arena);
		region_create(&region, &cache);
		(void)region_alloc(&region, (uintptr_t)arg * 3000);
		(void)region_alloc(&region, 150000);
		region_reset(&region);
		slab_cache_destroy(&cache);
	}
	return NULL;
}

static void caches_come_and_go_while_others_are_under_pressure(void **state)
{
	pthread_t coming[2], serving[4];

	(void)state;
	create(2 * MIB, SLAB_MIN_SIZE);
	rounds = test_scale(1000);
	start(coming, 2, come_and_go);
	start(serving, 4, serve);
	join(coming, 2);
	join(serving, 4);
	destroy();
}

static void *move_limit(void *arg)
{
	uint64_t seed = 1;

	(void)arg;
	while (!stopped()) {
		size_t limit = (size_t)test_random(&seed) % (3 * MIB), total,
		       used;

		(void)quota_set(&quota, limit);
		quota_get_total_and_used(&quota, &total, &used);
		need(used <= total);
		sched_yield();
	}
	return NULL;
}

static void the_limit_moves_while_others_allocate(void **state)
{
	pthread_t mover, serving[4];

	(void)state;
	create(3 * MIB, SLAB_MIN_SIZE);
	rounds = test_scale(1000);
	start(&mover, 1, move_limit);
	start(serving, 4, serve);
	join(serving, 4);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	join(&mover, 1);
	destroy();
}

static void *grow_and_shrink(void *arg)
{
	uint64_t seed = (uintptr_t)arg;
	struct slab_cache cache;
	struct region region;
	char *ptr;

	slab_cache_create(&cache, &arena);
	region_create(&region, &cache);
	ptr = region_growable(&region, 1, MIB);
	for (size_t i = 0; ptr != NULL && i < rounds; i++) {
		size_t size = (size_t)test_random(&seed) % MIB + 1;

		if (region_resize_growable(&region, ptr, size) == 0)
			ptr[0] = ptr[size - 1] = 'g';
	}
	need_null(slab_cache_check(&cache));
	slab_cache_destroy(&cache);
	return NULL;
}

static void growable_slabs_share_a_quota_to_the_page(void **state)
{
	pthread_t threads[4];

	(void)state;
	create(5 * MIB / 2, SLAB_MIN_SIZE);
	rounds = test_scale(1000);
	start(threads, 4, grow_and_shrink);
	join(threads, 4);
	destroy();
}

/* --- the numbers, from elsewhere --- */

static struct slab_cache *watched;

static void *watch(void *arg)
{
	size_t most = quota_total(&quota);

	(void)arg;
	while (!stopped()) {
		struct slab_cache_stats stats;
		struct slab_arena_stats all;

		slab_cache_stats(watched, &stats);
		slab_arena_stats(&arena, &all);
		need(stats.used <= most && stats.garbage <= most);
		need(slab_cache_used(watched) <= most);
		need(slab_cache_garbage(watched) <= most);
		need(all.retain == arena.retain);
		sched_yield();
	}
	return NULL;
}

static void stats_are_read_from_another_thread(void **state)
{
	struct slab_cache cache;
	struct region region;
	pthread_t watcher;

	(void)state;
	create(16 * MIB, SLAB_MIN_SIZE);
	slab_cache_create(&cache, &arena);
	region_create(&region, &cache);
	watched = &cache;
	start(&watcher, 1, watch);
	for (size_t i = 0; i < test_scale(5000); i++) {
		struct slab *slab = slab_get(&cache, i % 64 * 1000);

		if (slab != NULL)
			slab_put(&cache, slab);
		(void)region_alloc(&region, 30000);
		(void)region_alloc(&region, 100000);
		if (i % 8 == 0)
			region_reset(&region);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	join(&watcher, 1);
	slab_cache_destroy(&cache);
	destroy();
}

/* --- a thread that sleeps --- */

static pthread_barrier_t barrier;
static size_t dropped;

/* Half in slabs of the cache, half in oversize ones; then sleeps. */
static void *drop_and_sleep(void *arg)
{
	struct slab_cache cache;
	struct region region;

	(void)arg;
	slab_cache_create(&cache, &arena);
	region_create(&region, &cache);
	while (region_used(&region) < dropped / 2)
		need(region_alloc(&region, MIB / 2 - 64) != NULL);
	while (region_used(&region) < dropped)
		need(region_alloc(&region, 8 * MIB - 64) != NULL);
	region_reset(&region);
	need(slab_cache_garbage(&cache) >= dropped);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	need(slab_cache_garbage(&cache) == 0);
	need_null(slab_cache_check(&cache));
	region_destroy(&region);
	slab_cache_destroy(&cache);
	return NULL;
}

/* What stays with the sleeper: the retained slabs, in one arena slab, and a
 * whole one (see slab_cache.h). */
static void a_sleeping_thread_s_garbage_is_there_for_others(void **state)
{
	size_t slab_size = 4 * MIB, bound = 2 * slab_size;
	struct slab_cache cache;
	struct slab *large;
	pthread_t sleeper;
	size_t got = 0;

	(void)state;
	dropped = (SIZE_MAX > UINT32_MAX ? 1024 : 128) * MIB;
#if TRACK_VALGRIND
	if (RUNNING_ON_VALGRIND)
		dropped = 64 * MIB;
#endif
	create(dropped + 32 * MIB, slab_size);
	pthread_barrier_init(&barrier, NULL, 2);
	start(&sleeper, 1, drop_and_sleep);
	pthread_barrier_wait(&barrier);
	slab_cache_create(&cache, &arena);
	large = slab_get(&cache, dropped / 2);
	assert_non_null(large);
	while (slab_get(&cache, MIB - 64) != NULL)
		got += MIB;
	assert_true(got + dropped / 2 + slab_size + bound >=
	            dropped + 32 * MIB);
	assert_true(quota_used(&quota) > quota_total(&quota) - slab_size);
	pthread_barrier_wait(&barrier);
	join(&sleeper, 1);
	pthread_barrier_destroy(&barrier);
	slab_cache_destroy(&cache);
	destroy();
}

/* --- hand-over --- */

static struct slab_cache handed;
static struct region handed_region;

static void *take_over(void *arg)
{
	char *ptr;

	(void)arg;
	slab_cache_set_thread(&handed);
	ptr = region_join(&handed_region, 4);
	need(ptr != NULL && memcmp(ptr, "mine", 4) == 0);
	region_reset(&handed_region);
	ptr = region_alloc(&handed_region, 100000);
	need(ptr != NULL);
	memcpy(ptr, "yours", 5);
	return ptr;
}

static void a_cache_and_its_regions_are_handed_over(void **state)
{
	pthread_t thread;
	void *ptr;

	(void)state;
	create(16 * MIB, MIB);
	slab_cache_create(&handed, &arena);
	region_create(&handed_region, &handed);
	memcpy(region_alloc(&handed_region, 4), "mine", 4);
	need(pthread_create(&thread, NULL, take_over, NULL) == 0);
	need(pthread_join(thread, &ptr) == 0);
	slab_cache_set_thread(&handed);
	assert_memory_equal(ptr, "yours", 5);
	region_destroy(&handed_region);
	slab_cache_destroy(&handed);
	destroy();
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
	const struct CMUnitTest tests[] = {
		T(slabs_recycled_at_once_are_in_one_hand_each),
		T(a_listed_slab_is_never_one_that_went_back_to_the_os),
		T(threads_that_drain_each_other_s_garbage_keep_their_own_bytes),
		T(caches_come_and_go_while_others_are_under_pressure),
		T(the_limit_moves_while_others_allocate),
		T(growable_slabs_share_a_quota_to_the_page),
		T(stats_are_read_from_another_thread),
		T(a_sleeping_thread_s_garbage_is_there_for_others),
		T(a_cache_and_its_regions_are_handed_over),
	};

	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
