/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_DIRTY_H
#define SMALL_DIRTY_H
/*
 * dirty - which pages of a range have been written since they were last
 * looked at. Internal.
 *
 * The kernel keeps the answer in the page tables: the range is registered
 * with a userfaultfd in asynchronous write-protect mode, the first write to a
 * page lifts its protection without anybody being told, and PAGEMAP_SCAN
 * lists the pages without protection. No signal handler, no thread.
 *
 * Threads: any; a struct has one user at a time. The two descriptors are the
 *          process's, opened once. A child of a fork does not share the
 *          watch: dirty_is_on() is false there.
 * Cost:    a fault at the first write to a page, and one system call a scan,
 *          linear in the page tables of the range.
 * Errors:  dirty_start() is -1 where the kernel has none of it or forbids it.
 *          A scan may fail later: then everything counts as written.
 */
#include <small/util.h>

struct dirty {
	char *start;    /* page-aligned; NULL = not watching */
	size_t size;    /* whole pages */
	unsigned epoch; /* of the process that began to watch */
};

/* As the kernel lays it out. */
struct dirty_range {
	uint64_t start;
	uint64_t end;
	uint64_t categories;
};

/* Watches [start, start + size), whole pages that are mapped, private and
 * writable; all of them are clean then. */
int dirty_start(struct dirty *d, void *start, size_t size)
	SMALL_SYM(dirty_start);
/* Ends the watch; not needed when the range is unmapped. */
void dirty_stop(struct dirty *d) SMALL_SYM(dirty_stop);
bool dirty_is_on(const struct dirty *d) SMALL_SYM(dirty_is_on);
/*
 * Up to n ranges of pages that were written, from *pos on, which moves behind
 * what was looked at: at d->start + d->size all is done. -1: not known.
 */
int dirty_scan(const struct dirty *d, char **pos, struct dirty_range *range,
               int n) SMALL_SYM(dirty_scan);
/* All pages are clean again; -1 when that failed. */
int dirty_clean(const struct dirty *d) SMALL_SYM(dirty_clean);

#endif /* SMALL_DIRTY_H */
