/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_TRACK_H
#define SMALL_TRACK_H
/*
 * track - one vocabulary for the tools that watch memory. Each word becomes
 * ASan poisoning, a Valgrind request, or nothing. Internal: no public header
 * includes it, so what a program was compiled with never decides what the
 * library it links does.
 *
 * TRACK_ENABLED is 1 where the library watches (debug and ASan builds). There
 * the objects keep their inline fast paths shut, so that each call reaches
 * the library and is annotated (see region.h, "stop").
 *
 * Threads: any. Cost: nothing in release. Errors: none.
 */
#include <stddef.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
# define TRACK_ASAN 1
#elif defined(__has_feature)
# if __has_feature(address_sanitizer)
#  define TRACK_ASAN 1
# endif
#endif
#if defined(__SANITIZE_THREAD__)
# define TRACK_TSAN 1
#elif defined(__has_feature)
# if __has_feature(thread_sanitizer)
#  define TRACK_TSAN 1
# endif
#endif
#ifndef TRACK_ASAN
# define TRACK_ASAN 0
#endif
#ifndef TRACK_TSAN
# define TRACK_TSAN 0
#endif
#if !TRACK_ASAN && !TRACK_TSAN && !defined(NDEBUG) && defined(__has_include)
# if __has_include(<valgrind/memcheck.h>) && \
	__has_include(<valgrind/helgrind.h>)
#  define TRACK_VALGRIND 1
# endif
#endif
#ifndef TRACK_VALGRIND
# define TRACK_VALGRIND 0
#endif
#if TRACK_ASAN || !defined(NDEBUG)
# define TRACK_ENABLED 1
#else
# define TRACK_ENABLED 0
#endif

#if TRACK_ASAN
# include <sanitizer/asan_interface.h>
#endif
#if TRACK_VALGRIND
# include <valgrind/memcheck.h>
# include <valgrind/helgrind.h>
#endif

/* [ptr, ptr + size) must not be touched until further notice. */
static inline void track_noaccess(const void *ptr, size_t size)
{
#if TRACK_ASAN
	__asan_poison_memory_region(ptr, size);
#elif TRACK_VALGRIND
	(void)VALGRIND_MAKE_MEM_NOACCESS(ptr, size);
#else
	(void)ptr, (void)size;
#endif
}

/* The range may be written; its contents mean nothing yet. */
static inline void track_undefined(const void *ptr, size_t size)
{
#if TRACK_ASAN
	__asan_unpoison_memory_region(ptr, size);
#elif TRACK_VALGRIND
	(void)VALGRIND_MAKE_MEM_UNDEFINED(ptr, size);
#else
	(void)ptr, (void)size;
#endif
}

/* The range may be read: memory whose contents the library knows. */
static inline void track_defined(const void *ptr, size_t size)
{
#if TRACK_ASAN
	__asan_unpoison_memory_region(ptr, size);
#elif TRACK_VALGRIND
	(void)VALGRIND_MAKE_MEM_DEFINED(ptr, size);
#else
	(void)ptr, (void)size;
#endif
}

/* A pool of blocks, named by its address; blocks are then tracked one by one,
 * so that a block that nobody freed is a leak report with its stack. */
static inline void track_pool_create(const void *pool)
{
#if TRACK_VALGRIND
	VALGRIND_CREATE_MEMPOOL(pool, 0, 0);
#else
	(void)pool;
#endif
}

static inline void track_pool_destroy(const void *pool)
{
#if TRACK_VALGRIND
	VALGRIND_DESTROY_MEMPOOL(pool);
#else
	(void)pool;
#endif
}

static inline void track_alloc(const void *pool, const void *ptr, size_t size)
{
#if TRACK_VALGRIND
	VALGRIND_MEMPOOL_ALLOC(pool, ptr, size);
#else
	(void)pool;
	track_undefined(ptr, size);
#endif
}

static inline void track_free(const void *pool, const void *ptr, size_t size)
{
#if TRACK_VALGRIND
	(void)size;
	VALGRIND_MEMPOOL_FREE(pool, ptr);
#else
	(void)pool;
	track_noaccess(ptr, size);
#endif
}

/* A word that is only ever read and written by __atomic builtins: helgrind
 * and drd can not see those and would report them as races. drd's request is
 * given by number, as its header and helgrind's exclude each other. */
static inline void track_atomic(const void *ptr, size_t size)
{
#if TRACK_VALGRIND
	VALGRIND_HG_DISABLE_CHECKING(ptr, size);
	VALGRIND_DO_CLIENT_REQUEST_STMT(VG_USERREQ_TOOL_BASE('D', 'R') + 2, ptr,
	                                size, 0, 0, 0);
#else
	(void)ptr, (void)size;
#endif
}

/* Order made by an __atomic release (before) and acquire (after) on `sync`,
 * for helgrind and drd: what came before is seen after. */
static inline void track_before(const void *sync)
{
#if TRACK_VALGRIND
	ANNOTATE_HAPPENS_BEFORE(sync);
#else
	(void)sync;
#endif
}

static inline void track_after(const void *sync)
{
#if TRACK_VALGRIND
	ANNOTATE_HAPPENS_AFTER(sync);
#else
	(void)sync;
#endif
}

/* Fills freed bytes so that a stale read is seen; debug and ASan builds. */
static inline void track_fill(void *ptr, int byte, size_t size)
{
#if TRACK_ENABLED
	memset(ptr, byte, size);
#else
	(void)ptr, (void)byte, (void)size;
#endif
}

#endif /* SMALL_TRACK_H */
