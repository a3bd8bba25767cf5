/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota_recall - before a refusal: what is free; the idle credit of all
 * lessors; each reclaimer until enough came back; free and idle once more.
 *
 * The recall is Dekker's handshake with the barrier on one side only. It
 * closes every lessor and runs the barrier. From then on an owner can do one
 * more thing at most: its next store to `leased` is followed by a read of the
 * closed limit or floor, and it waits for the lock. A sum that fits what was
 * held counts as leased, granted already or not: the owner will find it so
 * when it has the lock. A larger one can not have been granted; then `before`
 * counts. If what is free does not cover the rest, the lessors are counted
 * once more: had nothing changed, the first count held at the very instant at
 * which free was read, and that is the proof of the refusal.
 *
 * Worst case: two barriers; 2 + (number of lessors) counts, as each count but
 * the last is repeated because an owner gave something back; every reclaimer
 * once. q->lock is held throughout, so slow paths are answered one after the
 * other. quota_stats() tells refusals and recalls.
 */
#include <small/quota_recall.h>
#include <small/membarrier.h>
#include <small/quota_lessor.h>
#include <small/track.h>

/* Whether lessors made from now on fence themselves. */
static bool quota_fenced;

bool quota_barrier_init(void)
{
	track_atomic(&quota_fenced, sizeof(quota_fenced));
	if (!membarrier_init())
		__atomic_store_n(&quota_fenced, true, __ATOMIC_RELAXED);
	return __atomic_load_n(&quota_fenced, __ATOMIC_RELAXED);
}

/* Every lessor fences itself from now on; waits until each owner knows. An
 * owner that ran without a fence sees its closed limit when stores drained. */
static void quota_fence_all(struct quota *q)
{
	struct quota_lessor *l;
	bool late = false;

	__atomic_store_n(&quota_fenced, true, __ATOMIC_RELAXED);
	rlist_foreach_entry (l, &q->lessors, link) {
		late = late || !l->fenced;
		__atomic_store_n(&l->fenced, 1, __ATOMIC_SEQ_CST);
	}
	if (late)
		membarrier_drain();
}

size_t quota_floor(const struct quota_lessor *l)
{
	if (l->fenced)
		return SIZE_MAX;
	return l->held < 2 * QUOTA_USE_MIN ? 0
	                                   : l->held - 2 * QUOTA_USE_MIN + 1;
}

void quota_open(struct quota_lessor *l)
{
	__atomic_store_n(&l->floor, quota_floor(l), __ATOMIC_RELEASE);
	__atomic_store_n(&l->gate, l->held, __ATOMIC_RELEASE);
	__atomic_store_n(&l->limit, l->fenced ? 0 : l->held, __ATOMIC_RELEASE);
}

/* What l has not leased; never more than at the call before. */
static size_t quota_count(struct quota_lessor *l)
{
	size_t leased = __atomic_load_n(&l->leased, __ATOMIC_SEQ_CST);

	if (leased > l->counted)
		leased = __atomic_load_n(&l->before, __ATOMIC_ACQUIRE);
	l->counted = leased;
	return l->held - leased;
}

static size_t quota_count_all(struct quota *q, const struct quota_lessor *self)
{
	struct quota_lessor *l;
	size_t idle = 0;

	rlist_foreach_entry (l, &q->lessors, link)
		idle += l == self ? 0 : quota_count(l);
	return idle;
}

static void quota_close_all(struct quota *q, const struct quota_lessor *self)
{
	struct quota_lessor *l;

	rlist_foreach_entry (l, &q->lessors, link) {
		if (l == self)
			continue;
		l->counted = l->held;
		__atomic_store_n(&l->gate, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&l->limit, 0, __ATOMIC_RELEASE);
		__atomic_store_n(&l->floor, SIZE_MAX, __ATOMIC_RELEASE);
	}
	if (__atomic_load_n(&quota_fenced, __ATOMIC_RELAXED) ||
	    !membarrier_try())
		quota_fence_all(q);
}

/* taken: what was counted as idle leaves the lessors. */
static void quota_open_all(struct quota *q, const struct quota_lessor *self,
                           bool taken)
{
	struct quota_lessor *l;

	/* self may be NULL, a lessor in the list never is. */
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	rlist_foreach_entry (l, &q->lessors, link) {
		if (l == self)
			continue;
		if (taken)
			__atomic_store_n(&l->held, l->counted,
			                 __ATOMIC_RELAXED);
		quota_open(l);
	}
}

/* total and free move in one step for a reader of both. */
static bool quota_lower(struct quota *q, size_t units, size_t lowered)
{
	size_t total = q->total - lowered;
	bool done;

	__atomic_store_n(&q->seq, q->seq + 1, __ATOMIC_RELAXED);
	done = quota_take(q, units);
	if (done)
		__atomic_store_n(&q->total, total, __ATOMIC_RELEASE);
	__atomic_store_n(&q->seq, q->seq + 1, __ATOMIC_RELEASE);
	return done;
}

void quota_settle(struct quota *q)
{
	size_t units = q->spare / QUOTA_UNIT_SIZE;

	q->spare -= units * QUOTA_UNIT_SIZE;
	quota_credit_add(q, 0 - units * QUOTA_UNIT_SIZE);
	if (units > 0)
		quota_give(q, units);
}

/* Takes the need from `idle` bytes that were counted, from spare ones and, in
 * whole units, from what is free; what is left over of these is spare. */
static bool quota_grab(struct quota *q, const struct quota_need *need,
                       size_t idle)
{
	size_t pot = q->spare + idle;
	size_t lack = need->bytes > pot ? need->bytes - pot : 0;
	size_t units = (lack + QUOTA_UNIT_SIZE - 1) / QUOTA_UNIT_SIZE;

	if (need->lowers ? !quota_lower(q, units, need->bytes / QUOTA_UNIT_SIZE)
	                 : !quota_take(q, units))
		return false;
	q->spare = pot + units * QUOTA_UNIT_SIZE - need->bytes;
	quota_credit_add(q, units * QUOTA_UNIT_SIZE -
	                            (need->self == NULL ? need->bytes : 0));
	return true;
}

static bool quota_recall(struct quota *q, const struct quota_need *need)
{
	size_t idle, counted;
	bool found;

	if (rlist_empty(&q->lessors))
		return false;
	__atomic_fetch_add(&q->recalls, 1, __ATOMIC_RELAXED);
	quota_close_all(q, need->self);
	counted = quota_count_all(q, need->self);
	do {
		idle = counted;
		found = quota_grab(q, need, idle);
		counted = found ? idle : quota_count_all(q, need->self);
	} while (counted != idle);
	quota_open_all(q, need->self, found);
	if (found)
		quota_settle(q);
	return found;
}

/* Whether a reclaimer gave anything back. */
static bool quota_reclaim(struct quota *q, size_t need)
{
	struct quota_reclaimer *rc;
	size_t back = 0;

	rlist_foreach_entry (rc, &q->reclaimers, link) {
		size_t free = __atomic_load_n(&q->free, __ATOMIC_RELAXED) *
		              QUOTA_UNIT_SIZE;

		if (free >= need)
			return true;
		back += rc->reclaim(rc, need - free);
	}
	return back > 0;
}

bool quota_find(struct quota *q, const struct quota_need *need)
{
	if (quota_grab(q, need, 0) || quota_recall(q, need))
		return true;
	if (!quota_reclaim(q, need->bytes))
		return false;
	return quota_grab(q, need, 0) || quota_recall(q, need);
}

void quota_sum(const struct quota *q, size_t *leased, size_t *held)
{
	struct quota_lessor *l;

	*leased = *held = 0;
	rlist_foreach_entry (l, &q->lessors, link) {
		size_t bytes = __atomic_load_n(&l->leased, __ATOMIC_ACQUIRE);

		if (bytes > l->held)
			bytes = __atomic_load_n(&l->before, __ATOMIC_RELAXED);
		*leased += bytes;
		*held += l->held;
	}
}

ssize_t quota_refuse(struct quota *q)
{
	__atomic_fetch_add(&q->refusals, 1, __ATOMIC_RELAXED);
	return -1;
}
