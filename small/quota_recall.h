/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_QUOTA_RECALL_H
#define SMALL_QUOTA_RECALL_H
/*
 * quota_recall - the slow half of a quota, shared by quota.c and
 * quota_lessor.c: what is tried before a refusal. Internal, not installed.
 *
 * Threads: as each function says.
 * Cost:    quota_find may call every reclaimer.
 * Errors:  false, and then nothing was taken.
 */
#include <small/quota.h>

/* Bytes that somebody needs. */
struct quota_need {
	size_t bytes;
	bool lowers; /* the total falls by as many once they are found */
};

/* Takes units from q->free by compare-and-swap. Any thread, no lock. */
bool quota_take(struct quota *q, size_t units) SMALL_SYM(quota_take);

/* Finds and takes what is needed, wherever it is idle. Under q->lock. */
bool quota_find(struct quota *q, const struct quota_need *need)
	SMALL_SYM(quota_find);

/* Counts a refusal; -1. Any thread, no lock. */
ssize_t quota_refuse(struct quota *q) SMALL_SYM(quota_refuse);

#endif /* SMALL_QUOTA_RECALL_H */
