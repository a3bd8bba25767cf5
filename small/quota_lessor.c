/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota_lessor - the slow half of a lease: refills, what goes back, whose
 * thread ends. A refill takes QUOTA_USE_MIN, or what is missing if that is
 * more; when that does not fit it halves, and takes the end of a quota whole.
 * What a recall brings is shared: the one who needed it takes what it lacked
 * and half of the rest, so that two lessors near the limit do not recall each
 * other's credit on every lease.
 *
 * Worst case: idle credit of a lessor is below 2 * QUOTA_USE_MIN after every
 * call, and all of it can be had by every other thread. quota_stats() shows
 * what is leased and what is idle.
 */
#include <small/quota_lessor.h>
#include <small/fault.h>
#include <small/quota_recall.h>
#include <small/track.h>

#include <pthread.h>

/* Below this a batch is not halved again: what is left is taken whole. The
 * lease after that one would need a recall in any case. */
#define QUOTA_USE_LAST ((size_t)128 * 1024)

/* Every list of a thread's lessors, and the set-up of the process. */
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t thread_key;
static bool thread_key_made;

/* What this thread owns. */
static __thread struct {
	struct rlist lessors;
	int rounds; /* of key destructors, since the thread began to end */
} thread;

static void lessor_give_back(struct quota_lessor *l);

/* Runs in the last round but one of a thread's key destructors, so that those
 * of others may still lease and end leases; the sanitizers take the thread
 * apart in the last. */
static void thread_ends(void *arg)
{
	struct quota_lessor *l;

	if (++thread.rounds < PTHREAD_DESTRUCTOR_ITERATIONS - 1 &&
	    pthread_setspecific(thread_key, arg) == 0)
		return;
	for (;;) {
		pthread_mutex_lock(&threads_lock);
		if (rlist_empty(&thread.lessors))
			break;
		l = rlist_shift_entry(&thread.lessors, struct quota_lessor,
		                      of_thread);
		pthread_mutex_unlock(&threads_lock);
		lessor_give_back(l);
	}
	pthread_mutex_unlock(&threads_lock);
}

/* The end of the calling thread will be seen; under threads_lock. */
static bool thread_watch(void)
{
	if (!thread_key_made &&
	    pthread_key_create(&thread_key, thread_ends) != 0)
		return false;
	thread_key_made = true;
	if (thread.lessors.next == NULL)
		rlist_create(&thread.lessors);
	return pthread_setspecific(thread_key, &thread) == 0;
}

static void lessor_check_owner(const struct quota_lessor *l, const char *call)
{
	if (l->source != NULL && l->owner != small_thread_id())
		small_panic(call, "called by a thread that is not the owner");
}

int quota_lessor_create(struct quota_lessor *l, struct quota *source)
{
	bool watched = false;

	memset(l, 0, sizeof(*l));
	track_atomic(&l->leased, 2 * sizeof(l->leased));
	track_atomic(&l->limit, 6 * sizeof(l->limit));
	rlist_create(&l->link);
	rlist_create(&l->of_thread);
	if (fault_hit(FAULT_LESSOR))
		return -1;
	pthread_mutex_lock(&threads_lock);
	l->fenced = quota_barrier_init();
	watched = thread_watch();
	if (watched)
		rlist_add_tail(&thread.lessors, &l->of_thread);
	pthread_mutex_unlock(&threads_lock);
	if (!watched)
		return -1;
	l->owner = small_thread_id();
	l->source = source;
	pthread_mutex_lock(&source->lock);
	quota_open(l);
	rlist_add_tail(&source->lessors, &l->link);
	pthread_mutex_unlock(&source->lock);
	return 0;
}

/* l is in no thread's list any more. */
static void lessor_give_back(struct quota_lessor *l)
{
	struct quota *q = l->source;

	pthread_mutex_lock(&q->lock);
	rlist_del(&l->link);
	q->spare += l->held;
	quota_settle(q);
	__atomic_store_n(&l->leased, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&l->before, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&l->held, 0, __ATOMIC_RELAXED);
	quota_open(l);
	pthread_mutex_unlock(&q->lock);
	l->source = NULL;
}

void quota_lessor_destroy(struct quota_lessor *l)
{
	if (l->source == NULL)
		return;
	lessor_check_owner(l, "quota_lessor_destroy");
	pthread_mutex_lock(&threads_lock);
	rlist_del(&l->of_thread);
	pthread_mutex_unlock(&threads_lock);
	lessor_give_back(l);
}

int quota_lessor_set_thread(struct quota_lessor *l)
{
	bool watched = true;

	if (l->source == NULL)
		return 0;
	pthread_mutex_lock(&threads_lock);
	watched = thread_watch();
	if (watched) {
		rlist_move_tail(&thread.lessors, &l->of_thread);
		l->owner = small_thread_id();
	}
	pthread_mutex_unlock(&threads_lock);
	return watched ? 0 : -1;
}

/* Bytes to take of `free` ones when `missing` of these are needed. */
static size_t lessor_batch(size_t free, size_t missing)
{
	size_t batch = QUOTA_USE_MIN;

	while (batch > free && batch >= QUOTA_USE_LAST)
		batch /= 2;
	if (batch < QUOTA_USE_LAST && free < QUOTA_USE_LAST)
		batch = free;
	return batch > missing ? batch : missing;
}

/* Takes a batch, in units, from what is free. */
static bool lessor_take_batch(struct quota_lessor *l, size_t missing)
{
	struct quota *q = l->source;
	size_t free, batch, units;

	do {
		free = __atomic_load_n(&q->free, __ATOMIC_RELAXED) *
		       QUOTA_UNIT_SIZE;
		batch = lessor_batch(free, missing);
		units = (batch + QUOTA_UNIT_SIZE - 1) / QUOTA_UNIT_SIZE;
		if (missing > free)
			return false;
	} while (!quota_take(q, units));
	q->spare += units * QUOTA_UNIT_SIZE;
	quota_credit_add(q, units * QUOTA_UNIT_SIZE);
	return true;
}

/* Takes what is missing after a recall or reclaim, and half of what is free
 * then, a batch at most. */
static bool lessor_take_found(struct quota_lessor *l, size_t missing)
{
	struct quota_need need = {missing, false, l};
	struct quota *q = l->source;
	size_t units;

	if (!quota_find(q, &need))
		return false;
	q->spare += missing;
	if (missing >= QUOTA_USE_MIN)
		return true;
	units = __atomic_load_n(&q->free, __ATOMIC_RELAXED) / 2;
	if (units > QUOTA_USE_MIN / QUOTA_UNIT_SIZE)
		units = QUOTA_USE_MIN / QUOTA_UNIT_SIZE;
	if (quota_take(q, units)) {
		q->spare += units * QUOTA_UNIT_SIZE;
		quota_credit_add(q, units * QUOTA_UNIT_SIZE);
	}
	return true;
}

/* Under the lock: leased is granted, or refused and as before. */
static bool lessor_refill(struct quota_lessor *l)
{
	size_t missing = l->leased > l->held ? l->leased - l->held : 0;
	struct quota *q = l->source;

	if (missing == 0)
		return true;
	if (!lessor_take_batch(l, missing) && !lessor_take_found(l, missing)) {
		__atomic_store_n(&l->leased, l->before, __ATOMIC_RELAXED);
		return false;
	}
	/* A broken unit goes with whoever takes credit. */
	__atomic_store_n(&l->held, l->held + q->spare, __ATOMIC_RELAXED);
	q->spare = 0;
	quota_open(l);
	return true;
}

/* An owner that fences itself stores leased where no recall can miss it, then
 * reads the gate. 0: it is closed, or the owner has to take the lock. */
static size_t lessor_fenced_gate(struct quota_lessor *l)
{
	if (__atomic_load_n(&l->fenced, __ATOMIC_RELAXED) == 0)
		return 0;
	(void)__atomic_exchange_n(&l->leased, l->leased, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&l->gate, __ATOMIC_SEQ_CST);
}

ssize_t quota_lease_slow(struct quota_lessor *l, size_t size)
{
	struct quota *q = l->source;
	bool done;

	lessor_check_owner(l, "quota_lease");
	if (size > QUOTA_MAX || q == NULL || fault_hit(FAULT_LESSOR)) {
		__atomic_store_n(&l->leased, l->before, __ATOMIC_RELEASE);
		return q == NULL ? -1 : quota_refuse(q);
	}
	if (l->leased <= lessor_fenced_gate(l))
		return (ssize_t)size;
	pthread_mutex_lock(&q->lock);
	done = lessor_refill(l);
	pthread_mutex_unlock(&q->lock);
	return done ? (ssize_t)size : quota_refuse(q);
}

/* Keeps about QUOTA_USE_MIN of idle credit; under the lock. */
static void lessor_shrink(struct quota_lessor *l)
{
	size_t idle = l->held - l->leased;
	size_t units;

	if (idle < 2 * QUOTA_USE_MIN)
		return;
	units = (idle - QUOTA_USE_MIN) / QUOTA_UNIT_SIZE;
	__atomic_store_n(&l->held, l->held - units * QUOTA_UNIT_SIZE,
	                 __ATOMIC_RELAXED);
	quota_open(l);
	l->source->spare += units * QUOTA_UNIT_SIZE;
	quota_settle(l->source);
}

void quota_end_lease_slow(struct quota_lessor *l)
{
	struct quota *q = l->source;
	size_t gate;

	lessor_check_owner(l, "quota_end_lease");
	if (q == NULL)
		return;
	gate = lessor_fenced_gate(l);
	if (gate != 0 && gate - l->leased < 2 * QUOTA_USE_MIN)
		return;
	pthread_mutex_lock(&q->lock);
	lessor_shrink(l);
	pthread_mutex_unlock(&q->lock);
}

void quota_end_lease_misuse(void)
{
	small_panic("quota_end_lease", "more than is leased");
}

const char *quota_lessor_check(const struct quota_lessor *l)
{
	pthread_mutex_t *lock;
	const char *broken = NULL;

	if (l->source == NULL)
		return l->held != 0 || l->limit != 0 ? "linked" : NULL;
	lock = &l->source->lock;
	pthread_mutex_lock(lock);
	if (l->leased > l->held)
		broken = "leased_held";
	else if (l->gate != l->held)
		broken = "gate_open";
	else if (l->limit != (l->fenced ? 0 : l->gate))
		broken = "limit_open";
	else if (l->floor != quota_floor(l))
		broken = "floor_bound";
	else if (l->link.next->prev != &l->link ||
	         l->of_thread.next->prev != &l->of_thread ||
	         rlist_empty(&l->link) || rlist_empty(&l->of_thread))
		broken = "linked";
	pthread_mutex_unlock(lock);
	return broken;
}
