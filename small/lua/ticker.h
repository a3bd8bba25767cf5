/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_TICKER_H
#define SMALL_TICKER_H
/*
 * ticker - deadlines that cost their owner no system call: one thread a
 * process looks every few milliseconds which deadline has passed and sends
 * the owner's thread a signal, again at each tick until the deadline ends.
 *
 *   owner                         ticker thread
 *   ticker_begin: plain stores    every TICKER_PERIOD_NS:
 *   ...                             publish the time
 *   signal -> call->expired() <---  deadline passed? tgkill
 *   ticker_end: plain stores
 *
 * The thread starts with the first ticker_start(), sleeps while nobody begins
 * anything, and starts anew in the child after a fork. All signals are
 * blocked in it.
 *
 * Threads: begin and end on the thread of `struct ticker_thread`; the rest
 *          anywhere. expired() runs inside a signal handler.
 * Cost:    begin and end together are about 15 instructions.
 * Errors:  ticker_start() is NULL when the thread, the signal or memory can
 *          not be had. A deadline is never early, and late by at most two
 *          periods while the ticker gets a processor when it wants one.
 */
#include <small/util.h>

#include <small/rlist.h>

/* The resolution: 250 wake-ups a second cost 0.1 % of a processor, and only
 * while calls with a limit are made. */
#define TICKER_PERIOD_NS ((uint64_t)4000000)

#ifdef __cplusplus
extern "C" {
#endif

/* What the ticker publishes; written by it alone. */
struct ticker_clock {
	uint64_t now;    /* CLOCK_MONOTONIC in ns at the last tick */
	uint64_t parked; /* not 0: asleep or not running, ticker_wake() first */
};

/* One limit; those of a thread nest. Owned by who begins it. */
struct ticker_call {
	uint64_t ns;                /* from the tick that first sees it */
	uint64_t deadline;          /* of clock->now; 0 = not known yet */
	void (*expired)(void *arg); /* at each tick from the deadline on */
	void *arg;
	struct ticker_call *outer;
};

/*
 * A thread that has limits. The owner stores the first half, the ticker the
 * second. A call's time starts at the tick that first sees it: so the owner
 * need not know what time it is, and the limit is never cut short.
 */
struct ticker_thread {
	uint64_t ns;       /* of the innermost call, 0 = none */
	uint64_t begun;    /* raised by each begin */
	uint64_t deadline; /* the earliest of the outer calls, 0 = none */
	struct ticker_call *top;
	const struct ticker_clock *clock;
	uint64_t seen;    /* begun, when the ticker last looked */
	uint64_t seen_at; /* when it saw that value first */
	int tid;
	struct rlist link;
};

/* The calling thread's; starts the ticker. NULL: not to be had. */
SMALL_API struct ticker_thread *ticker_start(void) SMALL_SYM(ticker_start);
/* Wakes (or starts) a parked ticker and brings its clock up to date. */
SMALL_API void ticker_wake(void) SMALL_SYM(ticker_wake);
/* The signal to use, SIGRTMIN..SIGRTMAX, before the first start (default:
 * SIGRTMIN + 6). -1: no such signal, already in use, or already started. */
SMALL_API int ticker_set_signal(int signo) SMALL_SYM(ticker_set_signal);
SMALL_API int ticker_signal(void) SMALL_SYM(ticker_signal);

/* The rare halves: a call inside another one. */
SMALL_API void ticker_begin_inner(struct ticker_thread *t)
	SMALL_SYM(ticker_begin_inner);
SMALL_API void ticker_end_inner(struct ticker_thread *t)
	SMALL_SYM(ticker_end_inner);

/* call->expired and arg are set; ns > 0. */
static inline void ticker_begin(struct ticker_thread *t,
                                struct ticker_call *call, uint64_t ns)
{
	if (small_unlikely(t->top != NULL))
		ticker_begin_inner(t);
	call->ns = ns;
	call->deadline = 0;
	call->outer = t->top;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->top = call;
	__atomic_store_n(&t->ns, ns, __ATOMIC_RELAXED);
	__atomic_store_n(&t->begun, t->begun + 1, __ATOMIC_RELEASE);
	if (small_unlikely(
		    __atomic_load_n(&t->clock->parked, __ATOMIC_RELAXED) != 0))
		ticker_wake();
}

/* Ends the innermost one; after it expired() is not called any more. */
static inline void ticker_end(struct ticker_thread *t)
{
	t->top = t->top->outer;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&t->ns, 0, __ATOMIC_RELAXED);
	if (small_unlikely(t->top != NULL))
		ticker_end_inner(t);
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_TICKER_H */
