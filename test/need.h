/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_NEED_H
#define TEST_NEED_H
/*
 * need - an assertion that also works outside the thread that runs a test,
 * and in a fuzzer: the line on stderr, then abort().
 */
#include <stdio.h>
#include <stdlib.h>

#define need(cond)                                                     \
 ((cond) ? (void)0                                                     \
	 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond), \
	    abort()))

/* broken is what an x_check() returned. */
static inline void need_null(const char *broken)
{
	if (broken == NULL)
		return;
	fprintf(stderr, "broken invariant: %s\n", broken);
	abort();
}

#endif /* TEST_NEED_H */
