/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_QUOTA_LESSOR_H
#define SMALL_QUOTA_LESSOR_H
/*
 * quota_lessor - one thread's byte-exact credit on a quota. It takes credit in
 * large batches and leases single bytes of it, without a shared atomic.
 *
 * The credit that it does not lease is never in the way: before any charge,
 * lease or lowered limit on the quota is refused, idle credit is recalled from
 * every lessor, whether its thread runs, waits or sleeps. So a lease fails
 * only if, at one instant within the call,
 *
 *     bytes leased by all lessors + units charged directly + size > total
 *
 * The recall puts the cost on the one who needs it. The owner stores what it
 * wants to have leased, then reads its limit; a recaller closes the limit,
 * has membarrier(2) put a barrier into every running thread, then reads what
 * is leased. One of the two sees the other. Where membarrier is missing, and
 * in debug and sanitizer builds of the library, limit stays closed, each call
 * enters the library, and the owner pays for the barrier itself.
 *
 * Threads: one owner, the thread that created it, or the last one to call
 *          quota_lessor_set_thread(). The library names a wrong one wherever
 *          it is entered: on slow paths, in debug builds on each call. A
 *          thread that ends gives everything back; the struct is then as
 *          after quota_lessor_destroy(). Until that moment it stays where it
 *          is, so it is no local of the function that the thread started
 *          with, unless that function destroys it.
 * Cost:    a lease and an end_lease are about six instructions each while the
 *          credit lasts: no lock prefix, no fence, no store to a line that
 *          another thread stores to. A refill is one compare-and-swap under
 *          the quota's lock; a recall one system call and a read per lessor.
 * Errors:  -1, and then nothing has changed but the count of refusals. To end
 *          more than is leased is misuse in every build: one line on stderr
 *          and abort().
 *
 * Neither is called with a lock held that a reclaimer of the quota takes.
 *
 * INV(leased_held): leased <= held
 * INV(gate_open):   gate == held when nobody recalls
 * INV(limit_open):  limit == (fenced ? 0 : gate)
 * INV(floor_bound): floor is what quota_floor() says of held and fenced
 * INV(linked):      source != NULL exactly when both links are in their lists
 */
#include <small/quota.h>
#include <small/rlist.h>
#include <small/util.h>

/* Bytes that a lessor takes at once, while the quota has them. */
#define QUOTA_USE_MIN ((size_t)1024 * 1024)

struct quota_lessor {
	char apart0[SMALL_CACHE_LINE - sizeof(size_t)];
	/* Stored by the owner only. */
	size_t leased; /* bytes leased, a lease that is being tried included */
	size_t before; /* leased before that lease */
	char apart1[SMALL_CACHE_LINE - sizeof(size_t)];
	/* Stored under the quota's lock, by whichever thread has it. */
	size_t limit;      /* up to here a lease needs nobody */
	size_t floor;      /* from here up an end_lease leaves little idle */
	size_t gate;       /* held, or 0 while a recall is counting */
	size_t held;       /* bytes taken from the quota, leased or idle */
	size_t counted;    /* leased, when a recall last looked */
	size_t fenced;     /* 1: the owner enters the library on each call */
	struct rlist link; /* in source->lessors */
	struct rlist of_thread; /* in the owner's list */
	struct quota *source;   /* NULL before create and after destroy */
	uintptr_t owner;        /* small_thread_id() of the owner */
};

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or -1 when the thread can not be watched for its end (no memory, no
 * thread key); then every lease on it is refused. Takes no credit yet. */
SMALL_API int quota_lessor_create(struct quota_lessor *l, struct quota *source)
	SMALL_SYM(quota_lessor_create);

/* Gives all credit back to the quota, leased or not. Nothing on a lessor that
 * was destroyed before, by this call or by the end of its thread. */
SMALL_API void quota_lessor_destroy(struct quota_lessor *l)
	SMALL_SYM(quota_lessor_destroy);

/* The caller is the owner from now on; the old owner is done with it. -1 as
 * in create, and then the old owner still is the owner. */
SMALL_API int quota_lessor_set_thread(struct quota_lessor *l)
	SMALL_SYM(quota_lessor_set_thread);

/* NULL or the name of the first broken invariant. The owner calls it. */
SMALL_API const char *quota_lessor_check(const struct quota_lessor *l)
	SMALL_SYM(quota_lessor_check);

/* The halves out of line; size as given to the call. */
SMALL_API ssize_t quota_lease_slow(struct quota_lessor *l, size_t size)
	SMALL_SYM(quota_lease_slow) __attribute__((cold));
SMALL_API void quota_end_lease_slow(struct quota_lessor *l)
	SMALL_SYM(quota_end_lease_slow) __attribute__((cold));
SMALL_API void quota_end_lease_misuse(void) SMALL_SYM(quota_end_lease_misuse)
	__attribute__((noreturn, cold));

/* Bytes leased; exact for the owner. */
static inline size_t quota_leased(const struct quota_lessor *l)
{
	return __atomic_load_n(&l->leased, __ATOMIC_RELAXED);
}

/* Bytes taken from the quota and not leased; others may recall them. */
static inline size_t quota_available(const struct quota_lessor *l)
{
	size_t leased = __atomic_load_n(&l->leased, __ATOMIC_RELAXED);
	size_t held = __atomic_load_n(&l->held, __ATOMIC_RELAXED);

	return held > leased ? held - leased : 0;
}

/*
 * size, or -1. The new sum is stored before limit is read, see above: one
 * instruction of the owner's stands between them, never a barrier. `before`
 * lets a recaller tell a sum that can not have been granted yet.
 */
static inline ssize_t quota_lease(struct quota_lessor *l, size_t size)
{
	size_t leased = __atomic_load_n(&l->leased, __ATOMIC_RELAXED);

	__atomic_store_n(&l->before, leased, __ATOMIC_RELAXED);
	if (small_unlikely(__builtin_add_overflow(leased, size, &leased)))
		return quota_lease_slow(l, size);
	__atomic_store_n(&l->leased, leased, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (small_unlikely(leased >
	                   __atomic_load_n(&l->limit, __ATOMIC_RELAXED)))
		return quota_lease_slow(l, size);
	/* size <= limit <= QUOTA_MAX: the caller's test for -1 costs nothing
	 * on this path. */
	if (size > QUOTA_MAX)
		__builtin_unreachable();
	return (ssize_t)size;
}

/* Ends leases of size bytes, in parts or together as it suits. */
static inline void quota_end_lease(struct quota_lessor *l, size_t size)
{
	size_t leased = __atomic_load_n(&l->leased, __ATOMIC_RELAXED);

	if (small_unlikely(__builtin_sub_overflow(leased, size, &leased)))
		quota_end_lease_misuse();
	__atomic_store_n(&l->leased, leased, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (small_unlikely(leased <
	                   __atomic_load_n(&l->floor, __ATOMIC_RELAXED)))
		quota_end_lease_slow(l);
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_QUOTA_LESSOR_H */
