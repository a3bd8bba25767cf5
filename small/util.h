/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_UTIL_H
#define SMALL_UTIL_H
/*
 * util - words that every other header uses: link names, branch hints,
 * alignment, arithmetic that reports overflow, the page size, a thread's id.
 *
 * Threads: everything here may be called from any thread.
 * Cost:    a few instructions; small_getpagesize() is one load once warm.
 * Errors:  small_add/mul/align_up return true on overflow and then leave
 *          *out untouched; small_xmalloc aborts when malloc fails.
 */
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/*
 * Source names are short, link names carry a prefix, so that a program may
 * hold this library and another one that defines region_free(). Every
 * function with external linkage is declared with one of the two:
 *
 *   SMALL_API int quota_set(...) SMALL_SYM(quota_set);    exported
 *   int region_grow(...) SMALL_SYM(region_grow);          between our files
 */
#define SMALL_SYM(name) __asm__("small_" #name)
#define SMALL_API       __attribute__((visibility("default")))

#define small_likely(x)   __builtin_expect(!!(x), 1)
#define small_unlikely(x) __builtin_expect(!!(x), 0)
#ifdef __cplusplus
# define SMALL_STATIC_ASSERT(cond, msg) static_assert(cond, msg)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
# define SMALL_STATIC_ASSERT(cond, msg) _Static_assert(cond, msg)
#else
# define SMALL_STATIC_ASSERT(cond, msg) extern int small_static_assert_unused
#endif

#ifndef lengthof
# define lengthof(array) (sizeof(array) / sizeof((array)[0]))
#endif

/* Bytes of a processor cache line: what one thread stores to is kept apart
 * by this much from what another one reads. */
#define SMALL_CACHE_LINE 64

#ifdef __cplusplus
extern "C" {
#endif

/* Overflow is reported, never wrapped: true means that *out is unchanged. */
static inline bool small_add(size_t a, size_t b, size_t *out)
{
	size_t sum;

	if (small_unlikely(__builtin_add_overflow(a, b, &sum)))
		return true;
	*out = sum;
	return false;
}

static inline bool small_mul(size_t a, size_t b, size_t *out)
{
	size_t product;

	if (small_unlikely(__builtin_mul_overflow(a, b, &product)))
		return true;
	*out = product;
	return false;
}

/* align is a power of two. */
static inline bool small_align_up(size_t size, size_t align, size_t *out)
{
	if (small_unlikely(size > SIZE_MAX - (align - 1)))
		return true;
	*out = (size + (align - 1)) & ~(align - 1);
	return false;
}

static inline bool small_is_pow2(size_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

/* The next multiple of align, a power of two; wraps near SIZE_MAX, so sizes
 * that come from a caller go through small_align_up() instead. */
static inline size_t small_align(size_t size, size_t align)
{
	return (size + (align - 1)) & ~(align - 1);
}

static inline size_t small_align_down(size_t size, size_t align)
{
	return size & ~(align - 1);
}

/* floor(log2(n)); n > 0. */
static inline size_t small_lb(size_t n)
{
	return sizeof(unsigned long long) * CHAR_BIT - 1 -
	       (size_t)__builtin_clzll((unsigned long long)n);
}

/* The smallest power of two that is not below n; 0 when there is none. */
static inline size_t small_round(size_t n)
{
	if (n <= 1)
		return 1;
	if (n > SIZE_MAX / 2 + 1)
		return 0;
	return (size_t)2 << small_lb(n - 1);
}

/* The page size of the machine that runs the program, in bytes. */
SMALL_API size_t small_getpagesize(void) SMALL_SYM(getpagesize);

/* malloc for set-up code that can not go on without the memory: prints one
 * line and aborts when it fails. Never used by the allocators. */
SMALL_API void *small_xmalloc(size_t size) SMALL_SYM(xmalloc);

/* A number that no other live thread has; never 0. */
SMALL_API uintptr_t small_thread_id(void) SMALL_SYM(thread_id);

/*
 * Misuse that is detected in every build: one line on stderr that names the
 * call, then abort(). Example: small_panic("mempool_free", "double free").
 */
SMALL_API void small_panic(const char *call, const char *what) SMALL_SYM(panic)
	__attribute__((noreturn, cold));

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_UTIL_H */
