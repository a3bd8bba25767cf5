/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota - `free` counts the units that nobody has taken. A charge subtracts
 * from it and a release adds to it by compare-and-swap, so it never passes
 * through a value that nobody asked for; `total` changes only under the lock
 * and always together with `free`, between two steps of `seq`, which lets a
 * reader of both notice that it read halves. A raised total is stored before
 * the units are handed out and a lowered one after they were taken, hence
 * free <= total at every instant.
 *
 * Worst case: a charge rounds up by QUOTA_UNIT_SIZE - 1 bytes; the loops
 * repeat only when another thread's charge or release got through.
 */
#include <small/quota.h>
#include <small/fault.h>
#include <small/quota_recall.h>
#include <small/track.h>

/* Reads of total and free before the lock is taken to get a pair: a change of
 * the limit takes a few instructions, so one or two retries are the rule. */
#define QUOTA_PAIR_READS 16

static size_t quota_units(size_t size)
{
	return (size + QUOTA_UNIT_SIZE - 1) / QUOTA_UNIT_SIZE;
}

void quota_init(struct quota *q, size_t total)
{
	const pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	memset(q, 0, sizeof(*q));
	track_atomic(&q->free, 3 * sizeof(q->free));
	track_atomic(&q->refusals, 4 * sizeof(q->refusals));
	total = quota_units(total < QUOTA_MAX ? total : QUOTA_MAX);
	__atomic_store_n(&q->total, total, __ATOMIC_RELAXED);
	__atomic_store_n(&q->free, total, __ATOMIC_RELEASE);
	rlist_create(&q->lessors);
	rlist_create(&q->reclaimers);
	q->lock = lock;
}

/* False when the total changed meanwhile. */
static bool quota_read_pair(const struct quota *q, size_t *total, size_t *free)
{
	size_t seq = __atomic_load_n(&q->seq, __ATOMIC_ACQUIRE);

	*total = __atomic_load_n(&q->total, __ATOMIC_ACQUIRE);
	*free = __atomic_load_n(&q->free, __ATOMIC_ACQUIRE);
	return (seq & 1) == 0 &&
	       seq == __atomic_load_n(&q->seq, __ATOMIC_RELAXED);
}

void quota_get_total_and_used(const struct quota *q, size_t *total,
                              size_t *used)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&q->lock;
	size_t units = 0, free = 0;
	int tries = QUOTA_PAIR_READS;

	while (tries > 0 && !quota_read_pair(q, &units, &free))
		tries--;
	if (tries == 0) {
		pthread_mutex_lock(lock);
		(void)quota_read_pair(q, &units, &free);
		pthread_mutex_unlock(lock);
	}
	*total = units * QUOTA_UNIT_SIZE;
	*used = (units - free) * QUOTA_UNIT_SIZE;
}

size_t quota_total(const struct quota *q)
{
	return __atomic_load_n(&q->total, __ATOMIC_RELAXED) * QUOTA_UNIT_SIZE;
}

size_t quota_used(const struct quota *q)
{
	size_t total, used;

	quota_get_total_and_used(q, &total, &used);
	return used;
}

bool quota_take(struct quota *q, size_t units)
{
	size_t free = __atomic_load_n(&q->free, __ATOMIC_ACQUIRE);

	do {
		if (small_unlikely(free < units))
			return false;
	} while (!__atomic_compare_exchange_n(&q->free, &free, free - units,
	                                      true, __ATOMIC_ACQ_REL,
	                                      __ATOMIC_ACQUIRE));
	return true;
}

void quota_give(struct quota *q, size_t units)
{
	__atomic_fetch_add(&q->free, units, __ATOMIC_ACQ_REL);
}

static bool quota_find_units(struct quota *q, size_t units)
{
	struct quota_need need = {units * QUOTA_UNIT_SIZE, false, NULL};
	bool found;

	pthread_mutex_lock(&q->lock);
	found = quota_find(q, &need);
	pthread_mutex_unlock(&q->lock);
	return found;
}

ssize_t quota_use(struct quota *q, size_t size)
{
	size_t units;

	if (size == 0)
		return 0;
	if (fault_hit(FAULT_QUOTA) || size > QUOTA_MAX)
		return quota_refuse(q);
	units = quota_units(size);
	if (small_unlikely(!quota_take(q, units)) &&
	    !quota_find_units(q, units))
		return quota_refuse(q);
	return (ssize_t)(units * QUOTA_UNIT_SIZE);
}

/* Read apart, total and free may belong to two limits; only a pair that held
 * at one instant is proof. */
static void quota_release_suspect(const struct quota *q, size_t units)
{
	size_t total, free;

	if (quota_read_pair(q, &total, &free) && units > total - free)
		small_panic("quota_release", "more than is in use");
}

ssize_t quota_release(struct quota *q, size_t size)
{
	size_t units = quota_units(size < QUOTA_MAX ? size : QUOTA_MAX);
	size_t free, total;

	if (small_unlikely(size > QUOTA_MAX))
		small_panic("quota_release", "more than is in use");
	for (;;) {
		free = __atomic_load_n(&q->free, __ATOMIC_RELAXED);
		total = __atomic_load_n(&q->total, __ATOMIC_RELAXED);
		if (small_unlikely(units > total - free))
			quota_release_suspect(q, units);
		else if (__atomic_compare_exchange_n(
				 &q->free, &free, free + units, true,
				 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			break;
	}
	return (ssize_t)(units * QUOTA_UNIT_SIZE);
}

/* A raised total is stored before its units are handed out. */
static void quota_raise(struct quota *q, size_t total)
{
	size_t more = total - q->total;

	__atomic_store_n(&q->seq, q->seq + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&q->total, total, __ATOMIC_RELEASE);
	__atomic_fetch_add(&q->free, more, __ATOMIC_ACQ_REL);
	__atomic_store_n(&q->seq, q->seq + 1, __ATOMIC_RELEASE);
}

ssize_t quota_set(struct quota *q, size_t new_total)
{
	size_t units = quota_units(new_total <= QUOTA_MAX ? new_total : 0);
	struct quota_need need = {0, true, NULL};
	bool done = true;

	if (new_total > QUOTA_MAX)
		return quota_refuse(q);
	pthread_mutex_lock(&q->lock);
	if (units >= q->total) {
		quota_raise(q, units);
	} else {
		need.bytes = (q->total - units) * QUOTA_UNIT_SIZE;
		done = quota_find(q, &need);
	}
	/* A release of too much that raced with the change is caught here. */
	if (__atomic_load_n(&q->free, __ATOMIC_ACQUIRE) > q->total)
		small_panic("quota_release", "more than is in use");
	pthread_mutex_unlock(&q->lock);
	return done ? (ssize_t)(units * QUOTA_UNIT_SIZE) : quota_refuse(q);
}

void quota_add_reclaimer(struct quota *q, struct quota_reclaimer *rc)
{
	pthread_mutex_lock(&q->lock);
	rlist_add_tail(&q->reclaimers, &rc->link);
	pthread_mutex_unlock(&q->lock);
}

void quota_del_reclaimer(struct quota *q, struct quota_reclaimer *rc)
{
	pthread_mutex_lock(&q->lock);
	rlist_del(&rc->link);
	pthread_mutex_unlock(&q->lock);
}

/* Counts what is leased now, unless somebody is in a slow path. */
static size_t quota_leased_now(const struct quota *q)
{
	struct quota *counted = (struct quota *)q;
	size_t leased, held;

	if (pthread_mutex_trylock(&counted->lock) != 0)
		return __atomic_load_n(&q->leased, __ATOMIC_RELAXED);
	quota_sum(q, &leased, &held);
	__atomic_store_n(&counted->leased, leased, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&counted->lock);
	return leased;
}

void quota_stats(const struct quota *q, struct quota_stats *stats)
{
	size_t credit;

	stats->leased = quota_leased_now(q);
	quota_get_total_and_used(q, &stats->total, &stats->used);
	credit = __atomic_load_n(&q->credit, __ATOMIC_RELAXED);
	stats->direct = stats->used > credit ? stats->used - credit : 0;
	stats->idle = credit > stats->leased ? credit - stats->leased : 0;
	stats->refusals = __atomic_load_n(&q->refusals, __ATOMIC_RELAXED);
	stats->recalls = __atomic_load_n(&q->recalls, __ATOMIC_RELAXED);
}

static bool quota_is_ring(const struct rlist *head)
{
	const struct rlist *link = head;

	do {
		if (link->next == NULL || link->next->prev != link)
			return false;
		link = link->next;
	} while (link != head);
	return true;
}

/* Under the lock; the lists are rings. */
static bool quota_is_held_right(const struct quota *q)
{
	size_t free = __atomic_load_n(&q->free, __ATOMIC_ACQUIRE);
	size_t leased, held;

	quota_sum(q, &leased, &held);
	return held + q->spare == q->credit &&
	       q->credit % QUOTA_UNIT_SIZE == 0 &&
	       q->credit / QUOTA_UNIT_SIZE <= q->total - free;
}

const char *quota_check(const struct quota *q)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&q->lock;
	const char *broken = NULL;

	pthread_mutex_lock(lock);
	if (__atomic_load_n(&q->free, __ATOMIC_ACQUIRE) > q->total ||
	    q->total > QUOTA_MAX / QUOTA_UNIT_SIZE)
		broken = "free_fits";
	else if ((q->seq & 1) != 0)
		broken = "seq_even";
	else if (q->spare >= QUOTA_UNIT_SIZE)
		broken = "spare_small";
	else if (!quota_is_ring(&q->lessors) || !quota_is_ring(&q->reclaimers))
		broken = "lists";
	else if (!quota_is_held_right(q))
		broken = "held_units";
	pthread_mutex_unlock(lock);
	return broken;
}
