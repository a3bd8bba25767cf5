/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox_pool: interpreters that are ready before anybody asks. Each is
 * built once, runs the host's prelude, and is remembered by a snapshot; what
 * comes back is rolled back. One that can not be (the host discarded its
 * snapshot, or a call still runs on it) is dropped, and built anew by the
 * next checkout that finds nothing ready: never closed, as closing walks what
 * a script left.
 *
 * Worst case: checkout with a place to fill is a build; else it and return
 * are a few loads and sandbox_rollback(). sandbox_pool_stats() tells: built.
 */
#include <small/lua/sandbox_internal.h>
#include <small/lua/sandbox_pool.h>

struct sandbox_pool {
	struct sandbox_pool_opts opts;
	struct sandbox **box; /* [0, ready) wait, [ready, live) are out */
	size_t ready, live;
	size_t built, rollbacks;
};

/* One that waits; *out is NULL unless SANDBOX_OK. */
static int pool_build(struct sandbox_pool *pool, struct sandbox **out)
{
	const struct sandbox_pool_opts *o = &pool->opts;
	int rc = sandbox_open(&o->sandbox, out);

	if (rc != SANDBOX_OK)
		return rc;
	if (o->prelude != NULL)
		rc = o->prelude(*out, o->arg);
	if (rc == SANDBOX_OK)
		rc = sandbox_snapshot(*out, o->safe);
	if (rc == SANDBOX_OK) {
		pool->built++;
		return SANDBOX_OK;
	}
	sandbox_drop(*out);
	*out = NULL;
	return rc;
}

static int pool_fill(struct sandbox_pool *pool)
{
	int rc = SANDBOX_OK;

	while (rc == SANDBOX_OK && pool->live < pool->opts.count) {
		rc = pool_build(pool, &pool->box[pool->ready]);
		if (rc == SANDBOX_OK)
			pool->ready = ++pool->live;
	}
	return rc;
}

int sandbox_pool_create(const struct sandbox_pool_opts *opts,
                        struct sandbox_pool **out)
{
	struct sandbox_pool *pool;
	int rc;

	*out = NULL;
	if (opts->count == 0 || opts->sandbox.mode != LUAMEM_MANAGED)
		return SANDBOX_MISUSE;
	pool = (struct sandbox_pool *)calloc(1, sizeof(*pool));
	if (pool == NULL)
		return SANDBOX_MEM_SYSTEM;
	pool->opts = *opts;
	pool->box = (struct sandbox **)calloc(opts->count, sizeof(void *));
	if (pool->box == NULL) {
		free(pool);
		return SANDBOX_MEM_SYSTEM;
	}
	rc = pool_fill(pool);
	if (rc != SANDBOX_OK) {
		sandbox_pool_destroy(pool);
		return rc;
	}
	*out = pool;
	return SANDBOX_OK;
}

void sandbox_pool_destroy(struct sandbox_pool *pool)
{
	if (pool == NULL)
		return;
	if (pool->ready != pool->live)
		small_panic("sandbox_pool_destroy", "a sandbox is out");
	while (pool->live > 0)
		sandbox_drop(pool->box[--pool->live]);
	free(pool->box);
	free(pool);
}

/* A place whose sandbox was dropped: it is built and goes out at once, in the
 * first place of those that are out. */
static int pool_rebuild(struct sandbox_pool *pool, struct sandbox **out)
{
	int rc;

	*out = NULL;
	if (pool->live == pool->opts.count)
		return SANDBOX_BUSY;
	rc = pool_build(pool, out);
	if (rc == SANDBOX_OK)
		pool->box[pool->live++] = *out;
	return rc;
}

int sandbox_pool_checkout(struct sandbox_pool *pool, struct sandbox **out)
{
	if (small_unlikely(pool->ready == 0))
		return pool_rebuild(pool, out);
	*out = pool->box[--pool->ready];
	return SANDBOX_OK;
}

/* The place of a sandbox among those that are out: usually the first, as the
 * last one taken comes back first. */
static size_t pool_find(const struct sandbox_pool *pool,
                        const struct sandbox *sb)
{
	size_t i = pool->ready;

	while (i < pool->live && pool->box[i] != sb)
		i++;
	if (small_unlikely(i == pool->live))
		small_panic("sandbox_pool_return", "not a sandbox of the pool");
	return i;
}

int sandbox_pool_return(struct sandbox_pool *pool, struct sandbox *sb)
{
	size_t at = pool_find(pool, sb);
	int rc = sandbox_rollback(sb);

	if (small_unlikely(rc == SANDBOX_BUSY))
		return rc;
	if (small_unlikely(rc != SANDBOX_OK)) {
		sandbox_drop(sb);
		pool->box[at] = pool->box[--pool->live];
		return SANDBOX_OK;
	}
	pool->rollbacks++;
	pool->box[at] = pool->box[pool->ready];
	pool->box[pool->ready++] = sb;
	return SANDBOX_OK;
}

void sandbox_pool_stats(const struct sandbox_pool *pool,
                        struct sandbox_pool_stats *out)
{
	out->ready = pool->ready;
	out->out = pool->live - pool->ready;
	out->missing = pool->opts.count - pool->live;
	out->built = pool->built;
	out->rollbacks = pool->rollbacks;
}

const char *sandbox_pool_check(const struct sandbox_pool *pool)
{
	const char *broken = NULL;

	if (pool->ready > pool->live || pool->live > pool->opts.count)
		return "count";
	for (size_t i = 0; i < pool->ready && broken == NULL; i++) {
		if (luamem_snapshot_extra(&pool->box[i]->mem) == NULL)
			return "ready";
		broken = sandbox_check(pool->box[i]);
	}
	return broken;
}
