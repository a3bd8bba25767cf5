/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_MEMBARRIER_H
#define SMALL_MEMBARRIER_H
/*
 * membarrier - a barrier whose whole cost is on one side. An owner stores a
 * flag and loads another word with nothing but the compiler held back; a rare
 * visitor stores that word, calls membarrier_all() and loads the flag. One of
 * the two sees the other. Internal.
 *
 * Threads: any.
 * Cost:    one system call of 1 to 20 us for the visitor.
 * Errors:  where the kernel has no membarrier(2), under TSan and in debug
 *          builds (helgrind can not follow it) membarrier_init() says false:
 *          owners then take the visitor's lock instead.
 */
#include <stdbool.h>

#include <small/util.h>

/* Whether owners may rely on membarrier_all(); the first call registers the
 * process with the kernel. */
bool membarrier_init(void) SMALL_SYM(membarrier_init);

/* True: every other thread has executed a full barrier. False: the system
 * refuses, or refuses by now (a filter of system calls that came late). */
bool membarrier_try(void) SMALL_SYM(membarrier_try);

/* Waits until what other threads stored before the call is seen by all. */
void membarrier_drain(void) SMALL_SYM(membarrier_drain);

/* The one or the other; nothing where membarrier_init() says false. */
void membarrier_all(void) SMALL_SYM(membarrier_all);

#endif /* SMALL_MEMBARRIER_H */
