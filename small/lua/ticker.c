/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ticker: a list of threads under a mutex, one thread that walks it each
 * period. Worst case of a tick: one load a thread, one tgkill an overdue one.
 *
 * Parking: after a second without a begin the ticker says that it is parked,
 * waits one more period - in which the store is seen everywhere, and a begin
 * that did not see it is seen - and then sleeps until somebody wakes it.
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
/* Enough for the thread's frames with any sanitizer. */
#define TICKER_STACK ((size_t)256 * 1024)

static struct ticker_clock ticker_clock = {.now = 0, .parked = 1};
static pthread_mutex_t ticker_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ticker_cond = PTHREAD_COND_INITIALIZER;
static RLIST_HEAD(ticker_threads);
static bool ticker_running;  /* under the lock */
static bool ticker_prepared; /* signal, key and fork handler are set up */
static int ticker_signo;     /* 0 = the default */
static pthread_key_t ticker_key;
static __thread struct ticker_thread ticker_self;

static uint64_t ticker_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void ticker_publish(void)
{
	__atomic_store_n(&ticker_clock.now, ticker_time(), __ATOMIC_RELAXED);
}

/* 0 while the ticker has not seen the call. */
static uint64_t ticker_deadline(const struct ticker_thread *t,
                                const struct ticker_call *call)
{
	uint64_t at, deadline;

	if (call->deadline != 0)
		return call->deadline;
	at = __atomic_load_n(&t->seen_at, __ATOMIC_RELAXED);
	if (__atomic_load_n(&t->seen, __ATOMIC_ACQUIRE) != t->begun)
		return 0;
	deadline = at + call->ns;
	return deadline < at ? UINT64_MAX : deadline;
}

/* On the owner's thread. */
static void ticker_handler(int signo)
{
	struct ticker_thread *t = &ticker_self;
	uint64_t now = __atomic_load_n(&ticker_clock.now, __ATOMIC_RELAXED);
	int saved = errno;

	(void)signo;
	for (struct ticker_call *c = t->top; c != NULL; c = c->outer) {
		uint64_t deadline = ticker_deadline(t, c);

		if (deadline != 0 && now >= deadline)
			c->expired(c->arg);
	}
	errno = saved;
}

/* The outer calls' deadlines become known now, as the ticker is to watch
 * another one. */
void ticker_begin_inner(struct ticker_thread *t)
{
	struct ticker_call *call = t->top;

	if (call->deadline == 0)
		call->deadline = ticker_deadline(t, call);
	if (call->deadline == 0)
		call->deadline = ticker_time() + call->ns;
	if (t->deadline == 0 || call->deadline < t->deadline)
		__atomic_store_n(&t->deadline, call->deadline,
		                 __ATOMIC_RELAXED);
}

void ticker_end_inner(struct ticker_thread *t)
{
	uint64_t first = 0;

	for (struct ticker_call *c = t->top; c != NULL; c = c->outer) {
		if (first == 0 || c->deadline < first)
			first = c->deadline;
	}
	__atomic_store_n(&t->deadline, first, __ATOMIC_RELAXED);
}

/* One thread; true when it is busy. */
static bool ticker_look(struct ticker_thread *t, uint64_t now)
{
	uint64_t begun = __atomic_load_n(&t->begun, __ATOMIC_ACQUIRE);
	uint64_t ns = __atomic_load_n(&t->ns, __ATOMIC_RELAXED);
	uint64_t deadline = __atomic_load_n(&t->deadline, __ATOMIC_RELAXED);
	bool fresh = begun != t->seen;

	if (fresh) {
		__atomic_store_n(&t->seen_at, now, __ATOMIC_RELAXED);
		__atomic_store_n(&t->seen, begun, __ATOMIC_RELEASE);
	}
	if ((ns != 0 && now - t->seen_at >= ns) ||
	    (deadline != 0 && now >= deadline))
		syscall(SYS_tgkill, getpid(), t->tid, ticker_signo);
	return fresh || ns != 0 || deadline != 0;
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

/* Sleeps until woken; the lock is held. */
static void ticker_park(void)
{
	while (__atomic_load_n(&ticker_clock.parked, __ATOMIC_RELAXED) != 0)
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
		if (ticker_tick(ticker_clock.now)) {
			idle = 0;
			__atomic_store_n(&ticker_clock.parked, 0,
			                 __ATOMIC_RELAXED);
		} else if (++idle == TICKER_IDLE_TICKS) {
			__atomic_store_n(&ticker_clock.parked, 1,
			                 __ATOMIC_SEQ_CST);
		} else if (idle > TICKER_IDLE_TICKS) {
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
	t->clock = NULL;
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
	__atomic_store_n(&ticker_clock.parked, 1, __ATOMIC_RELAXED);
	pthread_cond_init(&ticker_cond, NULL);
	rlist_create(&ticker_threads);
	if (ticker_self.clock != NULL) {
		ticker_self.tid = (int)syscall(SYS_gettid);
		rlist_add_entry(&ticker_threads, &ticker_self, link);
	}
	pthread_mutex_unlock(&ticker_lock);
	if (ticker_self.top != NULL)
		ticker_wake();
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
	track_atomic(&ticker_clock, sizeof(ticker_clock));
	ticker_prepared = true;
	return 0;
}

/* The lock is held. */
static int ticker_join(struct ticker_thread *t)
{
	sigset_t set;

	if (t->clock != NULL)
		return 0;
	if (pthread_setspecific(ticker_key, t) != 0)
		return -1;
	sigemptyset(&set);
	sigaddset(&set, ticker_signo);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	track_atomic(t, sizeof(*t));
	t->tid = (int)syscall(SYS_gettid);
	t->clock = &ticker_clock;
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

void ticker_wake(void)
{
	pthread_mutex_lock(&ticker_lock);
	if (ticker_run() == 0) {
		ticker_publish();
		__atomic_store_n(&ticker_clock.parked, 0, __ATOMIC_RELAXED);
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
