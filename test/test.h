/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_H
#define TEST_H
/*
 * test - what every test binary starts with: cmocka and the words it needs,
 * the scale of long loops, a seeded generator that can be replayed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include <small/fault.h>
#include <small/util.h>

/* n times SMALL_TEST_SCALE (a number or a fraction such as 1/20), at least
 * one: loops are written for a release build and scaled down elsewhere. The
 * build gives the default: 1 in release, 1/20 in the others. */
static inline size_t test_scale(size_t n)
{
	const char *env = getenv("SMALL_TEST_SCALE");
	double scale = 1, over = 1;

	if (env == NULL || *env == '\0')
		env = SMALL_TEST_SCALE;
	if (sscanf(env, "%lf/%lf", &scale, &over) < 1)
		scale = 1;
	scale = (double)n * scale / over;
	return scale < 1 ? 1 : (size_t)scale;
}

/* The seed of this run: SMALL_TEST_SEED or the clock; printed either way. */
static inline uint64_t test_seed(const char *name)
{
	const char *env = getenv("SMALL_TEST_SEED");
	uint64_t seed = env != NULL ? strtoull(env, NULL, 0)
	                            : (uint64_t)time(NULL) * 2654435761u;

	printf("%s: SMALL_TEST_SEED=%llu\n", name, (unsigned long long)seed);
	fflush(stdout);
	return seed;
}

/* xorshift64*: small, fast, the same everywhere. *state is never 0. */
static inline uint64_t test_random(uint64_t *state)
{
	uint64_t x = *state != 0 ? *state : 88172645463325252u;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 2685821657736338717u;
}

#endif /* TEST_H */
