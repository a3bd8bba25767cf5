/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_FREELIST_SNAPSHOT_H
#define SMALL_FREELIST_SNAPSHOT_H
/*
 * freelist_snapshot - puts a freelist back to how it was, in place: every
 * block at its address with its contents, and the allocator's own state,
 * limits and statistics with it. Pointers inside the piece stay valid, so
 * what lives there (an interpreter) goes on from where it was.
 *
 *   piece      [0 ..... low)  never touched  [high ... end)   at snapshot
 *   snapshot   [0 ..... low)[high ... end)[extra]             one mapping
 *
 * A freelist has at most one snapshot at a time; it can be rolled back to any
 * number of times. What is copied is what was touched, not the arena.
 * Up to FREELIST_SNAPSHOT_COPY bytes a rollback copies everything; above that
 * only the pages that were written since, where the kernel can tell (Linux
 * 6.7, x86-64, userfaultfd permitted): the first write to a page after the
 * snapshot costs a page fault, later ones cost nothing, as a page that was
 * written once counts as written. Pages that have fallen idle are watched
 * again when copying them has cost ten times what watching costs.
 *
 * Threads: those of the freelist. After a fork the child copies everything,
 *          and so does everybody in an arena of shared memory.
 * Cost:    snapshot and rollback are linear in the bytes touched at the time
 *          of the snapshot (rollback: in those written since, see above).
 *          Pages committed after the snapshot are given back by a rollback,
 *          which is a system call: freelist_reserve() before the snapshot
 *          what a round needs.
 * Errors:  freelist_snapshot() returns -1 and changes nothing when quota or
 *          system refuse, there is a snapshot already, or a piece in a buffer
 *          came without a region. rollback and discard can not fail: pages
 *          that the snapshot needs are kept, and charged, also under a
 *          lowered limit, until it is discarded.
 * Not put back: what lies outside the piece; the owner thread.
 *
 * INV(held)      the pages that the snapshot covers are committed
 * INV(snapshot)  it is the piece's own and its extents fit its size
 */
#include <small/freelist.h>

/* Bytes up to which everything is copied: below it a system call and a fault
 * or two cost more (256 KiB are copied in 3 us, a query takes 2). */
#define FREELIST_SNAPSHOT_COPY ((size_t)512 * 1024)

#ifdef __cplusplus
extern "C" {
#endif

struct freelist_snapshot_stats {
	size_t size;      /* bytes of the piece that it holds */
	size_t charged;   /* what it costs the quota, in whole pages */
	size_t rollbacks; /* so far */
	size_t copied;    /* bytes put back by the last rollback */
	size_t watched;   /* times that pages were watched (anew); 0: each
	                     rollback copies everything */
};

/*
 * Remembers f as it is, in memory of `region` (NULL: of the region that the
 * piece is from; needed when the piece is a buffer), and `extra` bytes of the
 * caller's beside it. The memory is dropped with that region: discard before
 * it, unless the piece goes with it.
 */
SMALL_API int freelist_snapshot(struct freelist *f, struct region *region,
                                size_t extra) SMALL_SYM(freelist_snapshot);
/* The caller's bytes, 16-aligned; no rollback changes them. NULL without a
 * snapshot. */
SMALL_API void *freelist_snapshot_extra(const struct freelist *f)
	SMALL_SYM(freelist_snapshot_extra);
/* Puts f back; -1 when there is no snapshot. */
SMALL_API int freelist_rollback(struct freelist *f)
	SMALL_SYM(freelist_rollback);
/* Gives the snapshot's memory back; f stays as it is. Nothing without one. */
SMALL_API void freelist_discard(struct freelist *f) SMALL_SYM(freelist_discard);
/* All zero without a snapshot. */
SMALL_API void freelist_snapshot_stats(const struct freelist *f,
                                       struct freelist_snapshot_stats *stats)
	SMALL_SYM(freelist_snapshot_stats);
/* NULL or the name of the first broken invariant. */
SMALL_API const char *freelist_snapshot_check(const struct freelist *f)
	SMALL_SYM(freelist_snapshot_check);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_FREELIST_SNAPSHOT_H */
