/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_SLAB_ARENA_H
#define SMALL_SLAB_ARENA_H
/*
 * slab_arena - equal, size-aligned slabs of memory from the OS, shared by all
 * threads of a process and charged to a quota.
 *
 * Idle slabs wait on a lock-free list, at most `retain` bytes of them; the
 * rest goes back to the OS and to the quota. Retained slabs stay charged and
 * are given up before any thread's charge on the same quota is refused.
 *
 * The list's links live in a side table that is never unmapped while the
 * arena lives, so that no thread ever reads a slab that another one may have
 * returned to the OS; the head is a 32-bit index and a 32-bit tag in one word
 * (a pop is fooled only if 2^32 others happen inside it).
 *
 * Threads: create, destroy and set_retain by one thread; all else by any.
 * Cost:    slab_map and slab_unmap of an idle slab: two short
 *          compare-and-swap loops each, no system call, no lock.
 * Errors:  NULL or -1 when the quota or the OS refuses; the arena and the
 *          quota are then as before. Slabs are not zeroed.
 *
 * INV(idle_retained)  idle <= retain + refused (a slab that the OS refused to
 *                     unmap gives its pages and stays idle and charged)
 * INV(idle_listed)    the list holds idle / slab_size entries
 * INV(idle_used)      idle <= used, both whole slabs
 */
#include <small/quota.h>
#include <small/rlist.h>
#include <small/util.h>

#include <pthread.h>
#include <sys/mman.h>

#define SLAB_MIN_SIZE   ((size_t)(USHRT_MAX + 1))
#define SMALL_UNLIMITED SIZE_MAX

/* A flag of ours is told from a raw MAP_* word by its mark. */
#define SLAB_ARENA_FLAG_MARK ((int)0x80000000)
#define SLAB_ARENA_FLAG(n)   (SLAB_ARENA_FLAG_MARK | (n))
#define IS_SLAB_ARENA_FLAG(flags, flag) \
 (((flags) & (flag)) == (flag) && ((flags)&SLAB_ARENA_FLAG_MARK) != 0)
/* Exactly one of private and shared; the others are added with |. */
#define SLAB_ARENA_PRIVATE SLAB_ARENA_FLAG(1 << 0)
#define SLAB_ARENA_SHARED  SLAB_ARENA_FLAG(1 << 1)
/* Keep the slabs out of core dumps (MADV_DONTDUMP). */
#define SLAB_ARENA_DONTDUMP SLAB_ARENA_FLAG(1 << 2)
/* Ask for transparent huge pages (MADV_HUGEPAGE). */
#define SLAB_ARENA_HUGEPAGE SLAB_ARENA_FLAG(1 << 3)

#ifdef __cplusplus
extern "C" {
#endif

/* A stack of table entries: low half index + 1 (0 = empty), high half tag. */
struct slab_arena_stack {
	uint64_t head;
	char pad[SMALL_CACHE_LINE - sizeof(uint64_t)];
};

struct slab_arena_entry; /* one place of the side table */

/* Whoever keeps free memory of the arena that a thread under pressure may
 * take: a slab_cache. reclaim() is called from any thread, with the clients'
 * lock held, and hands whole free slabs to slab_unmap(). */
struct slab_arena_client {
	void (*reclaim)(struct slab_arena_client *self);
	struct rlist link;
};

struct slab_arena {
	void *arena;      /* the preallocated mapping, NULL when none */
	size_t prealloc;  /* its size in bytes */
	size_t slab_size; /* bytes of a slab, a power of two */
	struct quota *quota;
	int flags;     /* as given to create */
	size_t retain; /* idle bytes kept mapped, at most */
	struct slab_arena_entry *table;
	size_t table_size; /* entries */
	struct quota_reclaimer reclaimer;
	pthread_mutex_t clients_lock;
	struct rlist clients;
	/* What threads write, each group on a line of its own. */
	struct slab_arena_stack cache; /* entries that hold an idle slab */
	struct slab_arena_stack spare; /* entries that hold none */
	size_t used;         /* bytes of slabs taken and not returned to the OS,
	                        idle ones included */
	size_t idle;         /* of these, bytes that are idle */
	size_t large;        /* bytes of slabs above slab_size, charged */
	size_t prealloc_pos; /* bytes of the preallocation handed out once */
	size_t fresh;        /* table entries in use at least once */
	size_t refused;      /* bytes that the OS refused to unmap so far */
};

/* Bytes, each field untorn; together consistent only while no other thread
 * uses the arena: used == idle + what slab_map handed out. */
struct slab_arena_stats {
	size_t used;
	size_t idle;
	size_t large;
	size_t retain;
	size_t prealloc;
};

/*
 * slab_size is rounded up to a power of two >= SLAB_MIN_SIZE and refused above
 * SIZE_MAX / 8. prealloc bytes, rounded up to whole slabs and cut to
 * the quota's total, are mapped at once and charged slab by slab when first
 * used. flags: SLAB_ARENA_* or a raw MAP_PRIVATE / MAP_SHARED. The default
 * retain bound is the larger of prealloc and 16 slabs. 0 or -1.
 */
SMALL_API int slab_arena_create(struct slab_arena *arena, struct quota *quota,
                                size_t prealloc, size_t slab_size, int flags)
	SMALL_SYM(slab_arena_create);

/* Every slab is back and every cache destroyed; all charges are returned. */
SMALL_API void slab_arena_destroy(struct slab_arena *arena)
	SMALL_SYM(slab_arena_destroy);

/* One slab of slab_size bytes aligned to slab_size, or NULL. */
SMALL_API void *slab_map(struct slab_arena *arena) SMALL_SYM(slab_map);

/* Gives back what slab_map returned; NULL is ignored. Never fails; an address
 * that is not aligned like a slab aborts with a line. */
SMALL_API void slab_unmap(struct slab_arena *arena, void *slab)
	SMALL_SYM(slab_unmap);

/* Bounds idle slabs to `bytes`, rounded down to whole slabs and capped at
 * 2^20 of them; what is idle above goes back now. */
SMALL_API void slab_arena_set_retain(struct slab_arena *arena, size_t bytes)
	SMALL_SYM(slab_arena_set_retain);

/* Returns every idle slab to the OS and the quota; the bytes freed. */
SMALL_API size_t slab_arena_trim(struct slab_arena *arena)
	SMALL_SYM(slab_arena_trim);

/* Makes the preallocated part read-only: finds stray writes. */
SMALL_API void slab_arena_mprotect(struct slab_arena *arena)
	SMALL_SYM(slab_arena_mprotect);

SMALL_API void slab_arena_stats(const struct slab_arena *arena,
                                struct slab_arena_stats *stats)
	SMALL_SYM(slab_arena_stats);

/* NULL or the name of the first broken invariant; no other thread may be
 * using the arena. */
SMALL_API const char *slab_arena_check(const struct slab_arena *arena)
	SMALL_SYM(slab_arena_check);

void slab_arena_add_client(struct slab_arena *arena,
                           struct slab_arena_client *client)
	SMALL_SYM(slab_arena_add_client);
void slab_arena_del_client(struct slab_arena *arena,
                           struct slab_arena_client *client)
	SMALL_SYM(slab_arena_del_client);

/*
 * Slabs above slab_size, straight from the OS and aligned to slab_size. Of
 * `reserve` bytes of address space the first `size` are readable and charged;
 * both are multiples of the page size. slab_cache is the user of these.
 */
void *slab_arena_map_large(struct slab_arena *arena, size_t size,
                           size_t reserve) SMALL_SYM(slab_arena_map_large);
/* Commits or returns the pages between old_size and new_size. Growing may
 * fail with -1 and then changes nothing; shrinking can not. */
int slab_arena_resize_large(struct slab_arena *arena, void *slab,
                            size_t old_size, size_t new_size)
	SMALL_SYM(slab_arena_resize_large);
void slab_arena_unmap_large(struct slab_arena *arena, void *slab, size_t size,
                            size_t reserve) SMALL_SYM(slab_arena_unmap_large);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_SLAB_ARENA_H */
