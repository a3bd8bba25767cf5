/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_LUAMEM_H
#define SMALL_LUAMEM_H
/*
 * luamem - memory for a Lua interpreter: the lua_Alloc function, its limit
 * and its accounting. Needs no Lua header.
 *
 *   struct luamem mem;
 *   luamem_create(&mem, &opts);
 *   lua_State *L = lua_newstate(luamem_alloc, &mem);
 *
 * Modes. managed: one growable piece of a region holds the whole interpreter;
 * the limit includes every byte of the allocator's own overhead and dropping
 * is O(1). tracked: malloc, each byte leased from a quota_lessor; what malloc
 * itself adds is unseen. native: malloc and counters.
 *
 * What the interpreter is promised, by the letter of lua_Alloc's contract and
 * where some adapter breaks it: with ptr == NULL osize is a type tag, never a
 * size; (NULL, any, 0) does nothing; a free never fails, nor does a shrink or
 * an equal size, also over a lowered limit; counters change after success
 * only; a refused growth leaves the old block as it was. Nothing is printed,
 * thrown, or narrowed.
 *
 * A refusal is counted as recovered when the next growth asked for is the
 * same (ptr, osize, nsize) and succeeds: the interpreter collected its
 * garbage and tried again. Refusals minus recoveries are what a script felt.
 *
 * Threads: one owner at a time, checked in debug builds; hand over with
 *          luamem_set_thread().
 * Cost:    managed: the freelist's call and about 12 instructions more.
 *          tracked, native: malloc's call and about 20.
 * Errors:  luamem_alloc() returns NULL when the limit, the quota or the
 *          system refuses (luamem_stats.cause says which); the calls that
 *          return int give -1 then, with nothing changed.
 *
 * INV(mode)      the heap exists if and only if the mode is managed
 * INV(room)      used() <= peak, and room >= 0
 * INV(refused)   refused == the sum over causes, recovered <= refused
 * INV(overflow)  a block in the overflow exists only beside its buffer
 * INV(heap)      freelist_check() of the heap and of the overflow is NULL
 */
#include <small/util.h>
#include <small/region.h>

struct freelist;
struct quota;
struct quota_lessor;

#ifdef __cplusplus
extern "C" {
#endif

enum luamem_mode { LUAMEM_MANAGED = 0, LUAMEM_TRACKED = 1, LUAMEM_NATIVE = 2 };

/* Why a request was refused. */
enum luamem_cause {
	LUAMEM_NONE = 0,
	LUAMEM_LIMIT = 1,  /* the limit of this interpreter */
	LUAMEM_QUOTA = 2,  /* the quota it shares with others */
	LUAMEM_SYSTEM = 3, /* the operating system, or no such size exists */
	LUAMEM_CAUSES = 4
};

/* Zero is a fine default for all but region or cache (managed). */
struct luamem_opts {
	enum luamem_mode mode;
	size_t limit;     /* bytes; 0 = none (managed: the reservation's end) */
	size_t reserve;   /* managed: charged at once; 0 = as it grows */
	size_t max_limit; /* managed: the most that set_limit may ask for;
	                     0 = limit, or 64 GiB when there is none */
	size_t granule;   /* managed: 8 or 16; 0 = 8, Lua's own alignment */
	struct region *region;       /* managed: the piece comes from here; */
	struct slab_cache *cache;    /* or from a region of its own in here */
	struct quota_lessor *lessor; /* tracked; NULL = the limit only */
};

/* Bytes, and times something happened. */
struct luamem_stats {
	size_t used;      /* asked for and not given back, taken included */
	size_t peak;      /* the most that used has been since create or
	                     luamem_reset_stats() */
	size_t limit;     /* as set; 0 = none */
	size_t total;     /* held: managed, pages of the piece; else used */
	size_t taken;     /* of used, what luamem_take() charged */
	size_t overflow;  /* of used, what lies over the limit by an
	                     infallible section */
	size_t refused;   /* growths answered with NULL */
	size_t recovered; /* of these, followed by the same one granted */
	size_t by_cause[LUAMEM_CAUSES]; /* refused, apart */
	size_t first_refused;           /* size of the first, 0 = none */
	size_t largest_refused;         /* size of the largest */
	enum luamem_cause cause;        /* of the last, LUAMEM_NONE = none */
};

/*
 * Told of change in batches: delta is what used has grown (> 0) or shrunk
 * (< 0) since the last call. It runs inside the allocator: it must not enter
 * the interpreter that allocates, but may count, wake, or signal.
 */
typedef void (*luamem_pressure_f)(void *arg, ptrdiff_t delta);

/* Called by each change that leaves used above the mark; same conditions.
 * Returns the next mark; one below used calls again at once. */
typedef size_t (*luamem_mark_f)(void *arg, size_t used);

/* Called after each refusal is counted, before it is answered; same
 * conditions. */
typedef void (*luamem_refusal_f)(void *arg);

struct luamem {
	ptrdiff_t room;        /* line - used: falls below 0 when used passes
	                          the line */
	size_t line;           /* min(peak, mark): the next used of interest */
	struct freelist *heap; /* managed; else NULL */
	unsigned slow; /* LUAMEM_SLOW_* bits: why the short way is shut */
	enum luamem_mode mode;
	size_t limit;
	size_t max_limit; /* 0 = any */
	size_t peak;
	size_t mark; /* SIZE_MAX = none */
	luamem_mark_f on_mark;
	void *mark_arg;
	luamem_refusal_f on_refusal;
	void *refusal_arg;
	luamem_pressure_f on_pressure;
	void *pressure_arg;
	size_t pressure_batch;
	size_t pressure_used; /* used at the last call of on_pressure */
	size_t taken;
	size_t base; /* managed: used() of the heap when created */
	/* the last refusal, while it can still be recovered */
	void *want_ptr;
	size_t want_osize, want_nsize;
	size_t refused, recovered, first_refused, largest_refused;
	size_t by_cause[LUAMEM_CAUSES];
	enum luamem_cause cause;
	struct freelist *overflow; /* tracked, native: blocks of infallible
	                              sections */
	char *overflow_buf;
	size_t overflow_size;
	size_t overflow_charged; /* leased for overflow_buf */
	struct quota_lessor *lessor;
	struct quota *quota;   /* what take() charges in managed mode */
	struct region *region; /* managed: own or the caller's */
	struct region own;
	uintptr_t owner;
};

/* 0, or -1: no such options, or limit, quota or system refuse. *m is then
 * as it was, and *cause (if not NULL) says why; LUAMEM_NONE = the options. */
SMALL_API int luamem_create(struct luamem *m, const struct luamem_opts *opts,
                            enum luamem_cause *cause) SMALL_SYM(luamem_create);

/*
 * Gives everything back; the interpreter must be closed or is forgotten with
 * it. Managed: nothing is walked, its pages are unmapped. Tracked and native
 * can not know blocks that were not freed: those leak, and used() tells; the
 * quota gets their leases back.
 */
SMALL_API void luamem_destroy(struct luamem *m) SMALL_SYM(luamem_destroy);

/* The same, but a heap in a region of its own becomes garbage of the cache,
 * in constant time: it goes back, with its charge, with the next slow paths
 * of the cache, with slab_cache_trim(), or when anybody needs it. */
SMALL_API void luamem_drop(struct luamem *m) SMALL_SYM(luamem_drop);

/* The lua_Alloc function; ud is a struct luamem. */
SMALL_API void *luamem_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
	SMALL_SYM(luamem_alloc);

/*
 * Moves the limit, in both directions, at any time; 0 = none. Below used it
 * only stops growth until use is under it. -1: above max_limit.
 */
SMALL_API int luamem_set_limit(struct luamem *m, size_t limit)
	SMALL_SYM(luamem_set_limit);

/*
 * From here to exit_infallible() growths of `bytes` in sum (each rounded up
 * to 16) can not fail. What the limit has no room for is reserved and charged
 * first: -1 if that is refused, and nothing has changed. Sections do not
 * nest.
 */
SMALL_API int luamem_enter_infallible(struct luamem *m, size_t bytes)
	SMALL_SYM(luamem_enter_infallible);
/* Ends it; unused overflow is given back. Returns how much of it is in use:
 * growth is refused until use is under the limit again. */
SMALL_API size_t luamem_exit_infallible(struct luamem *m)
	SMALL_SYM(luamem_exit_infallible);

/* Charges memory that a C module gets elsewhere, as if the script had asked
 * for it; -1: refused. */
SMALL_API int luamem_take(struct luamem *m, size_t bytes)
	SMALL_SYM(luamem_take);
/* Takes that back; bytes are of luamem_take(). */
SMALL_API void luamem_give(struct luamem *m, size_t bytes)
	SMALL_SYM(luamem_give);

/*
 * Remembers the interpreter's memory as it is, and `extra` bytes of the
 * caller's beside it; see freelist_snapshot.h. Managed mode, between runs.
 * -1, and nothing changed: *cause says which of quota and system refused, or
 * LUAMEM_NONE: another mode, an open section or its overflow, a snapshot that
 * exists.
 */
SMALL_API int luamem_snapshot(struct luamem *m, size_t extra,
                              enum luamem_cause *cause)
	SMALL_SYM(luamem_snapshot);
/* The caller's bytes; NULL without a snapshot. */
SMALL_API void *luamem_snapshot_extra(const struct luamem *m)
	SMALL_SYM(luamem_snapshot_extra);
/*
 * Puts heap, limit, statistics, mark and callbacks back. What stays is the
 * host's: the owner thread, and what luamem_take() charged, as no rollback
 * frees it. -1: no snapshot, or a section is open.
 */
SMALL_API int luamem_rollback(struct luamem *m) SMALL_SYM(luamem_rollback);
SMALL_API void luamem_discard(struct luamem *m) SMALL_SYM(luamem_discard);

/* NULL = none; batch 0 = 64 KiB. */
SMALL_API void luamem_set_pressure_cb(struct luamem *m, luamem_pressure_f cb,
                                      void *arg, size_t batch)
	SMALL_SYM(luamem_set_pressure_cb);
/* For an interpreter without emergency collection: called when used passes
 * the mark, and again when it passes the mark that the call returned. */
SMALL_API void luamem_set_mark(struct luamem *m, size_t mark, luamem_mark_f cb,
                               void *arg) SMALL_SYM(luamem_set_mark);
SMALL_API void luamem_set_refusal_cb(struct luamem *m, luamem_refusal_f cb,
                                     void *arg)
	SMALL_SYM(luamem_set_refusal_cb);
/* While on, each growth outside an infallible section fails at once and is
 * not counted as a refusal. */
SMALL_API void luamem_deny(struct luamem *m, bool on) SMALL_SYM(luamem_deny);

/* Hands the interpreter's memory to the calling thread. */
SMALL_API void luamem_set_thread(struct luamem *m) SMALL_SYM(luamem_set_thread);

SMALL_API void luamem_stats(const struct luamem *m, struct luamem_stats *out)
	SMALL_SYM(luamem_stats);
/* A new run: peak = used, refusals and recoveries are forgotten. */
SMALL_API void luamem_reset_stats(struct luamem *m)
	SMALL_SYM(luamem_reset_stats);

/* Bytes asked for and not given back. */
static inline size_t luamem_used(const struct luamem *m)
{
	return m->line - (size_t)m->room;
}

/* Refusals that no recovery followed: they grow when a script felt one. */
static inline size_t luamem_felt(const struct luamem *m)
{
	return m->refused - m->recovered;
}

/* NULL, or the name of the first broken invariant. */
SMALL_API const char *luamem_check(const struct luamem *m)
	SMALL_SYM(luamem_check);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_LUAMEM_H */
