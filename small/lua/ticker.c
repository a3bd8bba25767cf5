/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ticker: a list of threads under a mutex, one thread that walks it each
 * period. Worst case of a tick: one load a thread, one tgkill an overdue one.
 *
 * Parking: after a second without a begin the ticker puts a mark where the
 * threads have their innermost call, looks on for a while - in which the mark
 * is seen everywhere, and a begin that did not see it is seen, also of a
 * thread that lost its processor in between - and then sleeps until the begin
 * that finds the mark wakes it.
 */
#include <small/lua/ticker.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <small/track.h>

/* A second of nothing: shorter than a person waits, long enough that a
 * server's pauses between requests do not make it park. */
#define TICKER_IDLE_TICKS (1000000000 / TICKER_PERIOD_NS)
/* A fifth of one with the mark in place: many times what a thread waits for a
 * processor that others use, too. */
#define TICKER_MARKED_TICKS (TICKER_IDLE_TICKS / 5)
/* Enough for the thread's frames with any sanitizer. */
#define TICKER_STACK ((size_t)256 * 1024)

/* Written by the ticker, read by the handlers: CLOCK_MONOTONIC in ns at the
 * last tick. */
static uint64_t ticker_now;
/* Under the lock: asleep, about to be, or not running. */
static bool ticker_parked = true;
static pthread_mutex_t ticker_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ticker_cond = PTHREAD_COND_INITIALIZER;
static RLIST_HEAD(ticker_threads);
static bool ticker_running;  /* under the lock */
static bool ticker_prepared; /* signal, key and fork handler are set up */
static int ticker_signo;     /* 0 = the default */
static pthread_key_t ticker_key;
static __thread struct ticker_thread ticker_self;
/* Stands for no call, of a thread that has to wake the ticker. */
static struct ticker_call ticker_mark;

static uint64_t ticker_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void ticker_publish(void)
{
	__atomic_store_n(&ticker_now, ticker_time(), __ATOMIC_RELAXED);
}

/*
 * 0 while the ticker has not seen the call. On the owner's thread. The ticker
 * may be writing what it has seen: seen_at comes before `seen` there.
 */
static uint64_t ticker_deadline(const struct ticker_thread *t,
                                const struct ticker_call *call)
{
	uint64_t at, deadline;

	if (call->deadline_of == call->count)
		return call->deadline;
	if (__atomic_load_n(&t->seen_top, __ATOMIC_ACQUIRE) != call ||
	    __atomic_load_n(&t->seen, __ATOMIC_ACQUIRE) != call->count)
		return 0;
	at = __atomic_load_n(&t->seen_at, __ATOMIC_RELAXED);
	deadline = at + call->ns;
	return deadline < at ? UINT64_MAX : deadline;
}

/* On the owner's thread. */
static void ticker_handler(int signo)
{
	struct ticker_thread *t = &ticker_self;
	uint64_t now = __atomic_load_n(&ticker_now, __ATOMIC_RELAXED);
	int saved = errno;

	(void)signo;
	for (struct ticker_call *c = t->active ? t->top : NULL;
	     c != NULL && c != &ticker_mark; c = c->outer) {
		uint64_t deadline = ticker_deadline(t, c);

		if (deadline != 0 && now >= deadline)
			c->expired(c->arg);
	}
	errno = saved;
}

/* Wakes (or starts) a parked ticker and brings its clock up to date. */
static void ticker_wake(void);

/* The mark came as a call began. */
static void ticker_unmark(struct ticker_thread *t)
{
	__atomic_store_n(&t->top, __atomic_load_n(&t->marked, __ATOMIC_ACQUIRE),
	                 __ATOMIC_RELAXED);
}

bool ticker_switch(struct ticker_thread *t, struct ticker_call *call)
{
	if (ticker_is_top(t, &ticker_mark)) {
		ticker_wake();
		if (t->active)
			ticker_unmark(t);
	}
	if (t->active)
		return false;
	__atomic_store_n(&t->top, call, __ATOMIC_RELAXED);
	return true;
}

/* The outer call's deadline becomes known now, as the ticker is to watch
 * another one. */
static void ticker_nest(struct ticker_thread *t, struct ticker_call *call)
{
	struct ticker_call *outer = t->top;

	if (outer->deadline_of != outer->count) {
		uint64_t deadline = ticker_deadline(t, outer);

		if (deadline == 0)
			deadline = ticker_time() + outer->ns;
		__atomic_store_n(&outer->deadline, deadline, __ATOMIC_RELAXED);
		__atomic_store_n(&outer->deadline_of, outer->count,
		                 __ATOMIC_RELEASE);
	}
	__atomic_store_n(&call->outer, outer, __ATOMIC_RELEASE);
	/* a count that no deadline is known of, before it can be looked at */
	__atomic_store_n(&call->count, call->count + 1, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&t->top, call, __ATOMIC_RELEASE);
}

void ticker_begin(struct ticker_thread *t, struct ticker_call *call)
{
	if (ticker_is_top(t, call) || ticker_switch(t, call))
		ticker_begin_top(t, call);
	else
		ticker_nest(t, call);
}

void ticker_end(struct ticker_thread *t, struct ticker_call *call)
{
	struct ticker_call *outer = call->outer;

	if (outer == NULL) {
		ticker_end_top(t);
		return;
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&t->top, outer, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&call->outer, NULL, __ATOMIC_RELAXED);
}

static void ticker_clear(struct ticker_call **at, struct ticker_call *call)
{
	__atomic_compare_exchange_n(at, &call, NULL, false, __ATOMIC_SEQ_CST,
	                            __ATOMIC_RELAXED);
}

void ticker_forget(struct ticker_call *call)
{
	struct ticker_thread *t;

	pthread_mutex_lock(&ticker_lock);
	rlist_foreach_entry (t, &ticker_threads, link) {
		ticker_clear(&t->top, call);
		ticker_clear(&t->marked, call);
		ticker_clear(&t->seen_top, call);
	}
	pthread_mutex_unlock(&ticker_lock);
}

/*
 * What the ticker reads of a call may be changing under its eyes: a signal too
 * many is none, as the handler looks again, and one too few comes with the next
 * tick. A call that it can reach is not given back while the lock is held.
 */
static bool ticker_is_overdue(const struct ticker_thread *t,
                              const struct ticker_call *call, uint64_t now)
{
	if (__atomic_load_n(&call->deadline_of, __ATOMIC_ACQUIRE) ==
	    __atomic_load_n(&call->count, __ATOMIC_RELAXED))
		return now >=
		       __atomic_load_n(&call->deadline, __ATOMIC_RELAXED);
	return call == t->seen_top &&
	       now - t->seen_at >= __atomic_load_n(&call->ns, __ATOMIC_RELAXED);
}

/* Notes since when it is this call; true when since now. */
static bool ticker_see(struct ticker_thread *t, struct ticker_call *call,
                       uint64_t now)
{
	uint64_t count = __atomic_load_n(&call->count, __ATOMIC_RELAXED);

	if (call == t->seen_top && count == t->seen)
		return false;
	__atomic_store_n(&t->seen_top, NULL, __ATOMIC_RELEASE);
	__atomic_store_n(&t->seen_at, now, __ATOMIC_RELEASE);
	__atomic_store_n(&t->seen, count, __ATOMIC_RELEASE);
	__atomic_store_n(&t->seen_top, call, __ATOMIC_RELEASE);
	return true;
}

/* One thread; true when it is busy. A begin that did not see the mark is
 * found at the call that the mark was put over. */
static bool ticker_look(struct ticker_thread *t, uint64_t now)
{
	struct ticker_call *top = __atomic_load_n(&t->top, __ATOMIC_ACQUIRE);
	struct ticker_call *call = top == &ticker_mark ? t->marked : top;
	bool active = __atomic_load_n(&t->active, __ATOMIC_ACQUIRE);
	bool busy, late = false;

	if (call == NULL)
		return false;
	busy = ticker_see(t, call, now) || active;
	if (busy && top == &ticker_mark)
		__atomic_compare_exchange_n(&t->top, &top, call, false,
		                            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	for (; active && call != NULL && !late;
	     call = __atomic_load_n(&call->outer, __ATOMIC_ACQUIRE))
		late = ticker_is_overdue(t, call, now);
	if (late)
		syscall(SYS_tgkill, getpid(), t->tid, ticker_signo);
	return busy;
}

/* One look at every thread; true when any is busy. */
static bool ticker_tick(uint64_t now)
{
	struct ticker_thread *t;
	bool busy = false;

	rlist_foreach_entry (t, &ticker_threads, link)
		busy |= ticker_look(t, now);
	return busy;
}

/* The next begin of each thread is to find the mark. */
static void ticker_mark_all(void)
{
	struct ticker_thread *t;

	rlist_foreach_entry (t, &ticker_threads, link) {
		struct ticker_call *last =
			__atomic_load_n(&t->top, __ATOMIC_RELAXED);

		if (last == &ticker_mark)
			continue;
		__atomic_store_n(&t->marked, last, __ATOMIC_RELEASE);
		__atomic_compare_exchange_n(&t->top, &last, &ticker_mark, false,
		                            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	}
}

/* Sleeps until woken; the lock is held. */
static void ticker_park(void)
{
	while (ticker_parked)
		pthread_cond_wait(&ticker_cond, &ticker_lock);
}

static void *ticker_main(void *arg)
{
	const struct timespec period = {.tv_nsec = TICKER_PERIOD_NS};
	uint64_t idle = 0;

	(void)arg;
	for (;;) {
		nanosleep(&period, NULL);
		pthread_mutex_lock(&ticker_lock);
		ticker_publish();
		if (ticker_tick(ticker_now)) {
			idle = 0;
			ticker_parked = false;
		} else if (++idle == TICKER_IDLE_TICKS) {
			ticker_parked = true;
			ticker_mark_all();
		} else if (idle > TICKER_IDLE_TICKS + TICKER_MARKED_TICKS) {
			ticker_park();
			idle = 0;
		}
		pthread_mutex_unlock(&ticker_lock);
	}
	return NULL;
}

/* The lock is held. 0 or -1. */
static int ticker_run(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int rc;

	if (ticker_running)
		return 0;
	if (pthread_attr_init(&attr) != 0)
		return -1;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, TICKER_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attr, ticker_main, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	ticker_running = rc == 0;
	return rc == 0 ? 0 : -1;
}

/* A thread ends: forget it. */
static void ticker_leave(void *arg)
{
	struct ticker_thread *t = (struct ticker_thread *)arg;

	pthread_mutex_lock(&ticker_lock);
	rlist_del_entry(t, link);
	t->joined = false;
	pthread_mutex_unlock(&ticker_lock);
}

static void ticker_before_fork(void)
{
	pthread_mutex_lock(&ticker_lock);
}

static void ticker_fork_parent(void)
{
	pthread_mutex_unlock(&ticker_lock);
}

/* The child has one thread, and no ticker. */
static void ticker_fork_child(void)
{
	ticker_running = false;
	ticker_parked = true;
	pthread_cond_init(&ticker_cond, NULL);
	rlist_create(&ticker_threads);
	if (ticker_self.joined) {
		ticker_self.tid = (int)syscall(SYS_gettid);
		rlist_add_entry(&ticker_threads, &ticker_self, link);
	}
	pthread_mutex_unlock(&ticker_lock);
	if (ticker_self.active) {
		ticker_wake();
	} else {
		ticker_self.top = &ticker_mark;
		ticker_self.marked = NULL;
	}
}

/* Once a process; the lock is held. */
static int ticker_prepare(void)
{
	struct sigaction action, before;

	if (ticker_prepared)
		return 0;
	if (ticker_signo == 0)
		ticker_signo = SIGRTMIN + 6;
	if (sigaction(ticker_signo, NULL, &before) != 0 ||
	    before.sa_handler != SIG_DFL)
		return -1; /* somebody else's */
	if (pthread_key_create(&ticker_key, ticker_leave) != 0)
		return -1;
	memset(&action, 0, sizeof(action));
	action.sa_handler = ticker_handler;
	action.sa_flags = SA_RESTART | SA_ONSTACK;
	sigemptyset(&action.sa_mask);
	if (pthread_atfork(ticker_before_fork, ticker_fork_parent,
	                   ticker_fork_child) != 0 ||
	    sigaction(ticker_signo, &action, NULL) != 0) {
		pthread_key_delete(ticker_key);
		return -1;
	}
	track_atomic(&ticker_now, sizeof(ticker_now));
	ticker_prepared = true;
	return 0;
}

/* The lock is held. */
static int ticker_join(struct ticker_thread *t)
{
	sigset_t set;

	if (t->joined)
		return 0;
	if (pthread_setspecific(ticker_key, t) != 0)
		return -1;
	sigemptyset(&set);
	sigaddset(&set, ticker_signo);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	track_atomic(t, sizeof(*t));
	t->tid = (int)syscall(SYS_gettid);
	t->joined = true;
	t->top = &ticker_mark;
	rlist_add_entry(&ticker_threads, t, link);
	return 0;
}

struct ticker_thread *ticker_start(void)
{
	struct ticker_thread *t = &ticker_self;
	int rc;

	pthread_mutex_lock(&ticker_lock);
	rc = ticker_prepare();
	if (rc == 0)
		rc = ticker_join(t);
	if (rc == 0)
		rc = ticker_run();
	pthread_mutex_unlock(&ticker_lock);
	if (rc != 0)
		return NULL;
	return t;
}

static void ticker_wake(void)
{
	pthread_mutex_lock(&ticker_lock);
	if (ticker_run() == 0) {
		ticker_publish();
		ticker_parked = false;
		pthread_cond_signal(&ticker_cond);
	}
	pthread_mutex_unlock(&ticker_lock);
}

int ticker_set_signal(int signo)
{
	struct sigaction before;
	int rc = -1;

	pthread_mutex_lock(&ticker_lock);
	if (!ticker_prepared && signo >= SIGRTMIN && signo <= SIGRTMAX &&
	    sigaction(signo, NULL, &before) == 0 &&
	    before.sa_handler == SIG_DFL) {
		ticker_signo = signo;
		rc = 0;
	}
	pthread_mutex_unlock(&ticker_lock);
	return rc;
}

int ticker_signal(void)
{
	int signo;

	pthread_mutex_lock(&ticker_lock);
	signo = ticker_signo != 0 ? ticker_signo : SIGRTMIN + 6;
	pthread_mutex_unlock(&ticker_lock);
	return signo;
}
