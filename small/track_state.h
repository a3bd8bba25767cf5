/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_TRACK_STATE_H
#define SMALL_TRACK_STATE_H
/*
 * track_state - what the tools know about a range (track.h), saved and put
 * back: which bytes may be touched, and under memcheck which have a value.
 * Internal. Ranges are multiples of 8 bytes, and aligned to 8.
 *
 * Threads: as the range. Errors: none.
 * Cost:    nothing in release. ASan: its shadow, an eighth of the range, is
 *          copied. memcheck: a request a word when saving, a run of words
 *          when restoring.
 */
#include <small/track.h>

#include <stdbool.h>
#include <stdint.h>

#if TRACK_ASAN
# include <sanitizer/asan_interface.h>
void __asan_get_shadow_mapping(size_t *scale, size_t *offset);

static inline size_t track_state_size(size_t size)
{
	return size / 8;
}

static inline uint8_t *track_shadow(const void *ptr)
{
	size_t scale, offset;

	__asan_get_shadow_mapping(&scale, &offset);
	return (uint8_t *)(((uintptr_t)ptr >> scale) + offset);
}

/* The shadow has none of its own, so no instrumented copy can be used. */
static __attribute__((no_sanitize("address"))) inline void
track_copy(volatile uint8_t *to, const volatile uint8_t *from, size_t size)
{
	for (size_t i = 0; i < size; i++)
		to[i] = from[i];
}

static inline void track_save(void *state, const void *ptr, size_t size)
{
	track_copy((uint8_t *)state, track_shadow(ptr), size / 8);
}

static inline void track_restore(const void *state, const void *ptr,
                                 size_t size)
{
	track_copy(track_shadow(ptr), (const uint8_t *)state, size / 8);
}

#elif TRACK_VALGRIND
/* A byte of flags a word, one bit a byte that may be touched; behind them the
 * validity of each byte. */
static inline size_t track_state_size(size_t size)
{
	return RUNNING_ON_VALGRIND ? size / 8 + size : 0;
}

/* Of one word, its validity bits into v. */
static inline uint8_t track_word(const char *word, uint8_t v[8])
{
	uint8_t mask = 0;

	if (VALGRIND_GET_VBITS(word, v, 8) == 1)
		return 0xff;
	for (int i = 0; i < 8; i++)
		if (VALGRIND_GET_VBITS(word + i, v + i, 1) == 1)
			mask |= (uint8_t)(1 << i);
	return mask;
}

static inline void track_save(void *state, const void *ptr, size_t size)
{
	uint8_t *mask = (uint8_t *)state, *v = mask + size / 8;
	const char *word = (const char *)ptr;

	if (!RUNNING_ON_VALGRIND)
		return;
	for (size_t i = 0; i < size / 8; i++)
		mask[i] = track_word(word + i * 8, v + i * 8);
}

static inline void track_restore_word(char *word, uint8_t mask,
                                      const uint8_t *v)
{
	for (int i = 0; i < 8; i++) {
		if ((mask >> i & 1) == 0)
			continue;
		(void)VALGRIND_MAKE_MEM_UNDEFINED(word + i, 1);
		(void)VALGRIND_SET_VBITS(word + i, v + i, 1);
	}
}

static inline void track_restore(const void *state, void *ptr, size_t size)
{
	const uint8_t *mask = (const uint8_t *)state, *v = mask + size / 8;
	char *word = (char *)ptr;
	size_t n;

	if (!RUNNING_ON_VALGRIND)
		return;
	(void)VALGRIND_MAKE_MEM_NOACCESS(ptr, size);
	for (size_t i = 0; i < size / 8; i += n) {
		for (n = 0; i + n < size / 8 && mask[i + n] == 0xff; n++)
			continue;
		if (n > 0) {
			(void)VALGRIND_MAKE_MEM_UNDEFINED(word + i * 8, n * 8);
			(void)VALGRIND_SET_VBITS(word + i * 8, v + i * 8,
			                         n * 8);
		} else {
			track_restore_word(word + i * 8, mask[i], v + i * 8);
			n = 1;
		}
	}
}

#else
static inline size_t track_state_size(size_t size)
{
	(void)size;
	return 0;
}

static inline void track_save(void *state, const void *ptr, size_t size)
{
	(void)state, (void)ptr, (void)size;
}

static inline void track_restore(const void *state, void *ptr, size_t size)
{
	(void)state, (void)ptr, (void)size;
}
#endif

#endif /* SMALL_TRACK_STATE_H */
