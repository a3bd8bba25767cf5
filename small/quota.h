/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_QUOTA_H
#define SMALL_QUOTA_H
/*
 * quota - one hard limit in bytes, shared by threads, that every allocator of
 * the library is charged to. It counts in units of QUOTA_UNIT_SIZE: each
 * charge and each release is rounded up to whole units, so what was charged in
 * one call is released in one call. quota_lessor.h counts single bytes.
 *
 * What nobody has taken is one word, moved by compare-and-swap; the limit
 * changes under a lock. A charge that does not fit at once looks, under the
 * same lock, for the idle credit of lessors and then asks the reclaimers; it
 * is refused only if
 *
 *     bytes leased by all lessors + units charged directly + request > total
 *
 * held at one instant within the call. Nothing is ever added and then undone,
 * so a request that fits is never refused because a larger one is being tried.
 *
 * Threads: every call from any thread. quota_init() before the first of them;
 *          there is nothing to destroy.
 * Cost:    quota_use and quota_release are one compare-and-swap, no lock;
 *          quota_use takes the lock before it refuses. quota_release never
 *          does, so it may be called under any lock.
 * Errors:  -1, and then nothing has changed but the count of refusals. To
 *          release more than is in use is misuse in every build: one line on
 *          stderr and abort(), never a wrapped counter.
 *
 * INV(free_fits):   free <= total <= QUOTA_MAX
 * INV(seq_even):    seq is even whenever the lock is free
 * INV(spare_small): spare < QUOTA_UNIT_SIZE
 * INV(held_units):  spare + what the lessors hold == credit, in whole units,
 *                   all of them in use
 * INV(lists):       both lists are rings
 */
#include <pthread.h>

#include <small/rlist.h>
#include <small/util.h>

/* The unit of every charge, in bytes. */
#define QUOTA_UNIT_SIZE ((size_t)1024)
/* The largest limit, in bytes: the sum of two still fits in a size_t. */
#define QUOTA_MAX ((SIZE_MAX >> 2) + 1)

/*
 * Someone who holds charged memory that nobody uses. Before a refusal reclaim
 * is called, by the refused thread and under the quota's lock, with the bytes
 * still missing; it gives back what it can through quota_release() and
 * returns how many bytes that was. It charges nothing to this quota, calls no
 * lessor of it and does not add or delete reclaimers.
 */
struct quota_reclaimer {
	size_t (*reclaim)(struct quota_reclaimer *self, size_t want);
	struct rlist link; /* in quota.reclaimers */
};

struct quota {
	char apart0[SMALL_CACHE_LINE - sizeof(size_t)];
	size_t free;  /* units nobody has taken; by compare-and-swap */
	size_t total; /* the limit in units; written under the lock */
	size_t seq;   /* odd while total and free are being moved together */
	char apart1[SMALL_CACHE_LINE - sizeof(size_t)];
	size_t refusals; /* calls refused so far, lessors' too */
	size_t recalls;  /* times idle credit was looked for */
	size_t credit;   /* bytes that lessors took, and spare */
	size_t leased;   /* of these leased, when last counted */
	/* Under the lock. */
	size_t spare;            /* bytes of a broken unit nobody holds */
	struct rlist lessors;    /* struct quota_lessor, by link */
	struct rlist reclaimers; /* struct quota_reclaimer, by link */
	pthread_mutex_t lock;    /* held by slow paths, reclaimers too */
};

/* used == direct + leased + idle holds while no other thread moves. While a
 * slow path is under way, leased is as of the last count. */
struct quota_stats {
	size_t total;    /* the limit, in bytes as those that follow */
	size_t used;     /* charged, by whatever way */
	size_t direct;   /* of these, through quota_use() */
	size_t leased;   /* of these, leased by lessors */
	size_t idle;     /* of these, what lessors hold and have not leased */
	size_t refusals; /* calls refused since quota_init() */
	size_t recalls;  /* calls that looked for idle credit */
};

#ifdef __cplusplus
extern "C" {
#endif

/* total is rounded up to a unit and clamped to QUOTA_MAX. */
SMALL_API void quota_init(struct quota *q, size_t total) SMALL_SYM(quota_init);

SMALL_API size_t quota_total(const struct quota *q) SMALL_SYM(quota_total);
SMALL_API size_t quota_used(const struct quota *q) SMALL_SYM(quota_used);

/* Both as they were at one instant: *used <= *total, always. */
SMALL_API void quota_get_total_and_used(const struct quota *q, size_t *total,
                                        size_t *used)
	SMALL_SYM(quota_get_total_and_used);

/* The new limit, rounded up to a unit; -1 when more than that stays in use
 * after recall and reclaim, or when it is above QUOTA_MAX. */
SMALL_API ssize_t quota_set(struct quota *q, size_t new_total)
	SMALL_SYM(quota_set);

/* The bytes charged, size rounded up to a unit (0 for 0), or -1. */
SMALL_API ssize_t quota_use(struct quota *q, size_t size) SMALL_SYM(quota_use);

/* The bytes given back, size rounded up to a unit. Never fails. */
SMALL_API ssize_t quota_release(struct quota *q, size_t size)
	SMALL_SYM(quota_release);

/* rc stays where it is until quota_del_reclaimer() has returned; from then on
 * it is not called and not being called. */
SMALL_API void quota_add_reclaimer(struct quota *q, struct quota_reclaimer *rc)
	SMALL_SYM(quota_add_reclaimer);
SMALL_API void quota_del_reclaimer(struct quota *q, struct quota_reclaimer *rc)
	SMALL_SYM(quota_del_reclaimer);

/* Never waits for a slow path. */
SMALL_API void quota_stats(const struct quota *q, struct quota_stats *stats)
	SMALL_SYM(quota_stats);

/* NULL or the name of the first broken invariant. Takes the lock. */
SMALL_API const char *quota_check(const struct quota *q) SMALL_SYM(quota_check);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_QUOTA_H */
