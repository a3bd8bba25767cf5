/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deadline: whose time limit it is, with several sandboxes of one thread in
 * turns or inside each other, with one that moves between threads, and after
 * the ticker has gone to sleep.
 */
#include "box.h"

#include <small/lua/ticker.h>

#include <pthread.h>
#include <unistd.h>

#define FOREVER "while true do end"
#define LIMIT   (30 * BOX_MS)

static struct sandbox_opts timed(uint64_t ns)
{
	return (struct sandbox_opts){.limit = 4 * BOX_MIB, .timeout_ns = ns};
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* More than a busy machine keeps a process waiting. */
#define LONG (20000 * BOX_MS)

static void set_limit(struct box *box, uint64_t ns)
{
	assert_int_equal(sandbox_set_timeout(box->sb, ns), SANDBOX_OK);
}

static void works(struct box *box)
{
	set_limit(box, LONG);
	box_still_works(box);
}

/* A script without end is ended, and not before its time. */
static void is_ended(struct box *box, uint64_t limit)
{
	uint64_t start;

	set_limit(box, LONG);
	assert_int_equal(box_load(box, FOREVER), SANDBOX_OK);
	set_limit(box, limit);
	start = now_ns();
	assert_int_equal(sandbox_call(box->sb, 0, 0), SANDBOX_TIMEOUT);
	assert_true(now_ns() - start >= limit);
	lua_settop(box->L, 0);
	assert_ptr_equal(sandbox_check(box->sb), NULL);
}

static void sandboxes_of_a_thread_take_turns(void **state)
{
	struct box a, b, free_one;

	(void)state;
	box_open(&a, timed(LIMIT));
	box_open(&b, timed(2 * LIMIT));
	box_open(&free_one, (struct sandbox_opts){.limit = BOX_MIB});
	for (int i = 0; i < 3; i++) {
		is_ended(&a, LIMIT);
		works(&b);
		is_ended(&b, 2 * LIMIT);
		box_still_works(&free_one);
		works(&a);
	}
	/* one without a limit is not ended by what another one left */
	set_limit(&b, 0);
	is_ended(&a, LIMIT);
	box_expect(&b, "for i = 1, 3e7 do end", SANDBOX_OK);
	is_ended(&b, LIMIT);
	/* the thread's last one is gone */
	box_close(&b);
	is_ended(&a, LIMIT);
	box_close(&free_one);
	box_close(&a);
}

static struct box *inner;

/* spin(): a call of another sandbox, which takes all its time. */
static int spin_inside(lua_State *L)
{
	is_ended(inner, LIMIT);
	lua_pushboolean(L, 1);
	return 1;
}

static int work_inside(lua_State *L)
{
	(void)L;
	works(inner);
	return 0;
}

static void set_function(struct box *box, const char *name,
                         int (*fn)(lua_State *))
{
	assert_int_equal(sandbox_push_function(box->sb, fn), SANDBOX_OK);
	assert_int_equal(sandbox_set_global(box->sb, name), SANDBOX_OK);
}

/* A call inside the call of another sandbox has its own limit, and that of
 * the outer one goes on meanwhile. */
static void limits_nest(void **state)
{
	struct box outer, in;
	uint64_t start;

	(void)state;
	box_open(&outer, timed(LONG));
	box_open(&in, timed(LIMIT));
	inner = &in;
	set_function(&outer, "spin", spin_inside);
	set_function(&outer, "work", work_inside);
	box_expect(&outer, "assert(spin() and spin()) work() work()",
	           SANDBOX_OK);
	set_limit(&outer, 5 * LIMIT);
	start = now_ns();
	box_expect(&outer, "while true do spin() end", SANDBOX_TIMEOUT);
	assert_true(now_ns() - start >= 5 * LIMIT);
	start = now_ns();
	box_expect(&outer, "while true do pcall(work) end", SANDBOX_TIMEOUT);
	assert_true(now_ns() - start >= 5 * LIMIT);
	/* from then on as if nothing had been inside */
	is_ended(&outer, 5 * LIMIT);
	is_ended(&in, LIMIT);
	box_close(&in);
	is_ended(&outer, 5 * LIMIT);
	box_close(&outer);
}

static void *take_over(void *arg)
{
	struct box *box = arg;

	if (sandbox_set_thread(box->sb) != SANDBOX_OK)
		return NULL;
	slab_cache_set_thread(&box->core.cache);
	is_ended(box, LIMIT);
	return arg;
}

/* What another thread had, its end included. */
static void a_sandbox_moves_between_threads(void **state)
{
	struct box a, b;

	(void)state;
	box_open(&a, timed(LIMIT));
	box_open(&b, timed(LIMIT));
	is_ended(&a, LIMIT);
	for (int i = 0; i < 3; i++) {
		pthread_t thread;
		void *done;

		assert_int_equal(pthread_create(&thread, NULL, take_over, &a),
		                 0);
		is_ended(&b, LIMIT);
		pthread_join(thread, &done);
		assert_non_null(done);
		assert_int_equal(sandbox_set_thread(a.sb), SANDBOX_OK);
		slab_cache_set_thread(&a.core.cache);
		is_ended(&a, LIMIT);
	}
	box_close(&a);
	is_ended(&b, LIMIT);
	box_close(&b);
}

/* Asleep, the ticker is woken by a call of the last sandbox, of another one,
 * and by one that begins inside. */
static void each_way_of_beginning_wakes_the_ticker(void **state)
{
	struct box a, b;

	(void)state;
	box_open(&a, timed(LIMIT));
	box_open(&b, timed(LIMIT));
	inner = &b;
	set_function(&a, "spin", spin_inside);
	is_ended(&a, LIMIT);
	sleep(2);
	is_ended(&a, LIMIT);
	sleep(2);
	is_ended(&b, LIMIT);
	sleep(2);
	set_limit(&a, 0);
	box_expect(&a, "spin()", SANDBOX_OK);
	box_close(&b);
	box_close(&a);
}

/* --- a thread that loses its processor as the ticker goes to sleep --- */

static volatile bool overdue;

static void set_overdue(void *arg)
{
	(void)arg;
	overdue = true;
}

static void pause_ms(uint64_t ms)
{
	uint64_t end = now_ns() + ms * BOX_MS;

	while (now_ns() < end && !overdue)
		usleep(1000);
}

/* A begin that looked before the mark came and goes on after it, without a
 * second look. */
static bool is_seen_after_the_mark(struct ticker_thread *t,
                                   struct ticker_call *call)
{
	overdue = false;
	ticker_begin(t, call);
	ticker_end(t, call);
	while (ticker_is_top(t, call))
		usleep(1000);
	pause_ms(3 * TICKER_PERIOD_NS / BOX_MS);
	ticker_begin_top(t, call);
	pause_ms(1000);
	ticker_end(t, call);
	return overdue;
}

/* Again when this thread was really kept waiting. */
static void a_begin_that_missed_the_mark_is_seen(void **state)
{
	struct ticker_thread *t = ticker_start();
	struct ticker_call call = {.ns = 10 * BOX_MS, .expired = set_overdue};
	bool seen = false;

	(void)state;
	assert_non_null(t);
	for (int i = 0; i < 5 && !seen; i++)
		seen = is_seen_after_the_mark(t, &call);
	assert_true(seen);
	ticker_forget(&call);
}

static void a_wrong_call_is_misuse_under_a_limit_too(void **state)
{
	struct box box;

	(void)state;
	box_open(&box, timed(1000 * BOX_MS));
	box_calls_wrongly(&box);
	box_close(&box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sandboxes_of_a_thread_take_turns),
		cmocka_unit_test(limits_nest),
		cmocka_unit_test(a_sandbox_moves_between_threads),
		cmocka_unit_test(each_way_of_beginning_wakes_the_ticker),
		cmocka_unit_test(a_begin_that_missed_the_mark_is_seen),
		cmocka_unit_test(a_wrong_call_is_misuse_under_a_limit_too),
	};

	return cmocka_run_group_tests_name("deadline", tests, NULL, NULL);
}
