/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_FREELIST_SHADOW_H
#define SMALL_FREELIST_SHADOW_H
/*
 * freelist_shadow - debug builds remember the size of each block in use,
 * outside the piece and its limit, so that any wrong size or pointer aborts
 * with the name of the call. Internal; nothing is left of it in release.
 *
 * The control block points to the shadow in every build, so its layout does
 * not depend on one. A piece that is dropped with its region does not say so:
 * its shadow goes when the next piece is created over the same address. What
 * puts an old state of a piece back in place (a rollback) should do the same
 * to the shadow (save, load); where it does not, that is seen by a count
 * of changes, and blocks that the shadow does not know pass from then on.
 *
 * Threads: those of the piece; the list of shadows has a lock.
 * Cost:    a table of 16 bytes a block, at most half full; O(1).
 * Errors:  without memory for it nothing is checked.
 */
#include <small/freelist_impl.h>

#ifndef NDEBUG

/* A new piece of `bytes`, from f on; of a reset one: all blocks are gone. */
void freelist_shadow_open(struct freelist *f, size_t bytes)
	SMALL_SYM(freelist_shadow_open);
void freelist_shadow_close(struct freelist *f) SMALL_SYM(freelist_shadow_close);
void freelist_shadow_clear(struct freelist *f) SMALL_SYM(freelist_shadow_clear);
/* Aborts unless a block of exactly that size is in use at ptr. */
void freelist_shadow_expect(const struct freelist *f, const void *ptr,
                            size_t size, const char *call)
	SMALL_SYM(freelist_shadow_expect);
/* A block is in use from now on, or is not any more; NULL is nothing. */
void freelist_shadow_add(struct freelist *f, const void *ptr, size_t size)
	SMALL_SYM(freelist_shadow_add);
void freelist_shadow_del(struct freelist *f, const void *ptr)
	SMALL_SYM(freelist_shadow_del);
/* At the entry of each call: forgets everything after a rollback. */
void freelist_shadow_sync(const struct freelist *f)
	SMALL_SYM(freelist_shadow_sync);
/* Is it of this state of the piece, and do the sizes sum up to this? */
bool freelist_shadow_sums(const struct freelist *f, size_t used)
	SMALL_SYM(freelist_shadow_sums);
/* Remembers the shadow as it is, one state at a time; brings it back (without
 * one, unknown blocks pass from now on). */
void freelist_shadow_save(const struct freelist *f)
	SMALL_SYM(freelist_shadow_save);
void freelist_shadow_load(struct freelist *f) SMALL_SYM(freelist_shadow_load);

#else /* NDEBUG */

static inline void freelist_shadow_open(struct freelist *f, size_t bytes)
{
	(void)f, (void)bytes;
}

static inline void freelist_shadow_close(struct freelist *f)
{
	(void)f;
}

static inline void freelist_shadow_clear(struct freelist *f)
{
	(void)f;
}

static inline void freelist_shadow_expect(const struct freelist *f,
                                          const void *ptr, size_t size,
                                          const char *call)
{
	(void)f, (void)ptr, (void)size, (void)call;
}

static inline void freelist_shadow_add(struct freelist *f, const void *ptr,
                                       size_t size)
{
	(void)f, (void)ptr, (void)size;
}

static inline void freelist_shadow_del(struct freelist *f, const void *ptr)
{
	(void)f, (void)ptr;
}

static inline bool freelist_shadow_sums(const struct freelist *f, size_t used)
{
	return (void)f, (void)used, true;
}

static inline void freelist_shadow_save(const struct freelist *f)
{
	(void)f;
}

static inline void freelist_shadow_load(struct freelist *f)
{
	(void)f;
}

#endif /* NDEBUG */

#endif /* SMALL_FREELIST_SHADOW_H */
