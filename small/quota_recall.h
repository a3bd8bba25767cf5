/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_QUOTA_RECALL_H
#define SMALL_QUOTA_RECALL_H
/*
 * quota_recall - the slow half of a quota, shared by quota.c and
 * quota_lessor.c: what is tried before a refusal. Internal, not installed.
 *
 * Threads: as each function says.
 * Cost:    quota_find may make two system calls, look at every lessor twice
 *          and call every reclaimer.
 * Errors:  false, and then nothing was taken.
 */
#include <small/quota.h>

struct quota_lessor;

/* Bytes that somebody needs. */
struct quota_need {
	size_t bytes;
	bool lowers;               /* the total falls by as many */
	struct quota_lessor *self; /* who will hold them; NULL: whole units
	                              that leave the lessors' credit */
};

/* Takes units from q->free by compare-and-swap. Any thread, no lock. */
bool quota_take(struct quota *q, size_t units) SMALL_SYM(quota_take);

/* Gives units that were taken back to q->free. Any thread, no lock. */
void quota_give(struct quota *q, size_t units) SMALL_SYM(quota_give);

/* Finds and takes what is needed, wherever it is idle. Under q->lock. */
bool quota_find(struct quota *q, const struct quota_need *need)
	SMALL_SYM(quota_find);

/* Counts a refusal; -1. Any thread, no lock. */
ssize_t quota_refuse(struct quota *q) SMALL_SYM(quota_refuse);

/* Sets the words that l's owner reads from what l holds. Under q->lock. */
void quota_open(struct quota_lessor *l) SMALL_SYM(quota_open);

/* What all lessors have leased and what they hold. Under q->lock. */
void quota_sum(const struct quota *q, size_t *leased, size_t *held)
	SMALL_SYM(quota_sum);

/* The credit grows by bytes, which may be a wrapped difference. Under
 * q->lock; read without it. */
static inline void quota_credit_add(struct quota *q, size_t bytes)
{
	__atomic_store_n(&q->credit, q->credit + bytes, __ATOMIC_RELAXED);
}

/* What INV(floor_bound) means. */
size_t quota_floor(const struct quota_lessor *l) SMALL_SYM(quota_floor);

/* Whole units of q->spare go back to q->free. Under q->lock. */
void quota_settle(struct quota *q) SMALL_SYM(quota_settle);

/* Registers the process for membarrier, once; true when owners must fence
 * themselves. Serialised by the caller. */
bool quota_barrier_init(void) SMALL_SYM(quota_barrier_init);

#endif /* SMALL_QUOTA_RECALL_H */
