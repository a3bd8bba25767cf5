/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota_recall - before a refusal: what is free, then each reclaimer in the
 * order of registration until enough came back, then what is free once more.
 *
 * Worst case: one call of each reclaimer; q->lock is held throughout, so that
 * concurrent slow paths are answered one after the other.
 */
#include <small/quota_recall.h>

ssize_t quota_refuse(struct quota *q)
{
	__atomic_fetch_add(&q->refusals, 1, __ATOMIC_RELAXED);
	return -1;
}

/* Moves total and free in one step for a reader of both. */
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

static bool quota_grab(struct quota *q, const struct quota_need *need)
{
	size_t units = (need->bytes + QUOTA_UNIT_SIZE - 1) / QUOTA_UNIT_SIZE;

	return need->lowers ? quota_lower(q, units, units)
	                    : quota_take(q, units);
}

static size_t quota_missing(const struct quota *q, size_t need)
{
	size_t free =
		__atomic_load_n(&q->free, __ATOMIC_RELAXED) * QUOTA_UNIT_SIZE;

	return need > free ? need - free : 0;
}

static void quota_reclaim(struct quota *q, size_t need)
{
	struct quota_reclaimer *rc;

	rlist_foreach_entry (rc, &q->reclaimers, link) {
		size_t missing = quota_missing(q, need);

		if (missing == 0)
			break;
		(void)rc->reclaim(rc, missing);
	}
}

bool quota_find(struct quota *q, const struct quota_need *need)
{
	if (quota_grab(q, need))
		return true;
	quota_reclaim(q, need->bytes);
	return quota_grab(q, need);
}
