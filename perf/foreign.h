/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_FOREIGN_H
#define PERF_FOREIGN_H
/*
 * foreign - other people's allocators as arms: found at run time, never
 * linked. "malloc" is the C library's and always there.
 *
 * Threads: the main thread. Errors: NULL when the machine has no such
 * library; the arm is then left out.
 */
#include <stddef.h>

struct perf_allocator {
	const char *name;
	void *(*alloc)(size_t size);
	void *(*resize)(void *ptr, size_t size); /* as realloc */
	void (*release)(void *ptr);
};

/* "malloc", "jemalloc", "mimalloc", "tcmalloc". */
const struct perf_allocator *perf_foreign(const char *name);

#endif /* PERF_FOREIGN_H */
