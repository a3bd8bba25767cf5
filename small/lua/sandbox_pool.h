/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_SANDBOX_POOL_H
#define SMALL_SANDBOX_POOL_H
/*
 * sandbox_pool - a fresh interpreter for each request at the price of a copy
 * of its heap: a number of sandboxes made from one prelude, handed out,
 * rolled back when they come home.
 *
 *   box   [ready | ready | ready | out | out | (missing)]   at most `count`
 *
 *   sandbox_pool_checkout(pool, &sb);
 *   ... load, push, call: any result, any verdict ...
 *   sandbox_pool_return(pool, sb);
 *
 * Threads: one at a time, that of the slab cache or region in the options. N
 *          workers have N pools over one quota.
 * Cost:    checkout and return: a few loads, and sandbox_rollback(). A
 *          return also looks along those that are out, last taken first.
 * Errors:  an enum sandbox_rc. A sandbox that can not be rolled back is
 *          dropped, never closed, and a later checkout builds it anew.
 *
 * INV(count)  ready <= live <= count
 * INV(ready)  those that wait have their snapshot
 */
#include <small/lua/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque. */
struct sandbox_pool;

struct sandbox_pool_opts {
	struct sandbox_opts sandbox; /* of each; managed mode */
	size_t count;                /* > 0 */
	/* Prepares one: loads, defines, leaves on the stack what each request
	 * shall find there. What it returns other than SANDBOX_OK ends the
	 * build. NULL = nothing to do. */
	int (*prelude)(struct sandbox *sb, void *arg);
	void *arg;
	const char *const *safe; /* as in sandbox_snapshot(); it must live as
	                            long as the pool */
};

struct sandbox_pool_stats {
	size_t ready;     /* wait for a checkout */
	size_t out;       /* checked out */
	size_t missing;   /* dropped and not built again */
	size_t built;     /* so far */
	size_t rollbacks; /* so far */
};

/* Builds all of them; *out is NULL unless SANDBOX_OK: no memory or quota, or
 * what the prelude or its snapshot said. Nothing is left of it then. */
SMALL_API int sandbox_pool_create(const struct sandbox_pool_opts *opts,
                                  struct sandbox_pool **out)
	SMALL_SYM(sandbox_pool_create);
/* Drops them; all have come back, or the process ends with a line. */
SMALL_API void sandbox_pool_destroy(struct sandbox_pool *pool)
	SMALL_SYM(sandbox_pool_destroy);
/* *out is NULL unless SANDBOX_OK; SANDBOX_BUSY when all are out, or what
 * building one anew said. */
SMALL_API int sandbox_pool_checkout(struct sandbox_pool *pool,
                                    struct sandbox **out)
	SMALL_SYM(sandbox_pool_checkout);
/* After any result of any call. SANDBOX_BUSY from inside of a call on it:
 * it is still out then. */
SMALL_API int sandbox_pool_return(struct sandbox_pool *pool, struct sandbox *sb)
	SMALL_SYM(sandbox_pool_return);
SMALL_API void sandbox_pool_stats(const struct sandbox_pool *pool,
                                  struct sandbox_pool_stats *out)
	SMALL_SYM(sandbox_pool_stats);
/* NULL, or the name of the first broken invariant, also of those that wait;
 * linear in their heaps. */
SMALL_API const char *sandbox_pool_check(const struct sandbox_pool *pool)
	SMALL_SYM(sandbox_pool_check);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_SANDBOX_POOL_H */
