/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_TICKER_H
#define SMALL_TICKER_H
/*
 * ticker - deadlines that cost their owner no system call and next to no
 * instruction: one thread a process looks every few milliseconds which call
 * is overdue and sends its thread a signal, again at each tick until it ends.
 *
 *   owner                             ticker thread
 *   begin: two plain stores           every TICKER_PERIOD_NS, a thread:
 *   ...                                 which call, since when? tgkill
 *   signal -> call->expired() <---
 *   end: a plain store
 *
 * The thread starts with the first ticker_start(), sleeps while nobody begins
 * anything, and starts anew in the child after a fork. All signals are
 * blocked in it.
 *
 * Threads: a call belongs to one thread, that of its `struct ticker_thread`;
 *          ticker_forget() anywhere. expired() runs inside a signal handler.
 * Cost:    begin and end together are about 9 instructions when the thread's
 *          last call was the same, some 20 when it was another one.
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

/*
 * What has a time limit, again and again; those of a thread nest. Zero but
 * for ns, expired and arg before the first begin; ns may change between calls.
 */
struct ticker_call {
	uint64_t count;             /* raised by each begin */
	uint64_t ns;                /* from the tick that first sees it, > 0 */
	void (*expired)(void *arg); /* at each tick from the deadline on */
	void *arg;
	uint64_t deadline;    /* of CLOCK_MONOTONIC, known since another one was
	                         begun inside; */
	uint64_t deadline_of; /* of the call with this count */
	struct ticker_call *outer; /* that it was begun inside of */
};

/*
 * A thread that has limits. A call's time starts at the tick that first sees
 * it: so the owner need not know what time it is, and the limit is never cut
 * short.
 */
struct ticker_thread {
	struct ticker_call *top; /* the innermost call; when none is active,
	                            the last one, NULL, or the ticker's mark:
	                            it is asleep */
	bool active;             /* a call is */
	/* the ticker's */
	struct ticker_call *marked;   /* what the mark was put over */
	struct ticker_call *seen_top; /* top, when it last looked, */
	uint64_t seen;                /* its count, and */
	uint64_t seen_at;             /* when it saw these first */
	int tid;
	bool joined; /* the ticker looks after it */
	struct rlist link;
};

/* The calling thread's; starts the ticker. NULL: not to be had. */
SMALL_API struct ticker_thread *ticker_start(void) SMALL_SYM(ticker_start);
/* The signal to use, SIGRTMIN..SIGRTMAX, before the first start (default:
 * SIGRTMIN + 6). -1: no such signal, already in use, or already started. */
SMALL_API int ticker_set_signal(int signo) SMALL_SYM(ticker_set_signal);
SMALL_API int ticker_signal(void) SMALL_SYM(ticker_signal);

/* Before memory of a call that has ever begun is given back, or it moves to
 * another thread; it is not active. */
SMALL_API void ticker_forget(struct ticker_call *call) SMALL_SYM(ticker_forget);

/* Makes the call its thread's top; false while another one is active, and
 * then it has to be ticker_begin(). */
SMALL_API bool ticker_switch(struct ticker_thread *t, struct ticker_call *call)
	SMALL_SYM(ticker_switch);

/* Begins inside an active call, too. */
SMALL_API void ticker_begin(struct ticker_thread *t, struct ticker_call *call)
	SMALL_SYM(ticker_begin);
SMALL_API void ticker_end(struct ticker_thread *t, struct ticker_call *call)
	SMALL_SYM(ticker_end);

/* The short way, when this is true and no call is active. */
static inline bool ticker_is_top(const struct ticker_thread *t,
                                 const struct ticker_call *call)
{
	return __atomic_load_n(&t->top, __ATOMIC_RELAXED) == call;
}

static inline void ticker_begin_top(struct ticker_thread *t,
                                    struct ticker_call *call)
{
	__atomic_store_n(&call->count, call->count + 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&t->active, true, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Ends what it began; after it expired() is not called any more. */
static inline void ticker_end_top(struct ticker_thread *t)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&t->active, false, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_TICKER_H */
