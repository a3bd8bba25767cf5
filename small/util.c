/* SPDX-License-Identifier: BSD-2-Clause */
/* util - the few words of util.h that need a body of their own. */
#include <small/util.h>
#include <small/fault.h>
#include <small/track.h>

#include <stdio.h>
#include <unistd.h>

static size_t page_size;

size_t small_getpagesize(void)
{
	size_t size = fault_pagesize();

	if (small_unlikely(size != 0))
		return size;
	size = __atomic_load_n(&page_size, __ATOMIC_RELAXED);
	if (small_unlikely(size == 0)) {
		size = (size_t)sysconf(_SC_PAGESIZE);
		track_atomic(&page_size, sizeof(page_size));
		__atomic_store_n(&page_size, size, __ATOMIC_RELAXED);
	}
	return size;
}

void *small_xmalloc(size_t size)
{
	void *ptr = malloc(size);

	if (ptr == NULL)
		small_panic("small_xmalloc", "out of memory");
	return ptr;
}

/* Its address differs between any two threads that live at the same time. */
static __thread char thread_mark;

uintptr_t small_thread_id(void)
{
	return (uintptr_t)&thread_mark;
}

void small_panic(const char *call, const char *what)
{
	fprintf(stderr, "small: %s: %s\n", call, what);
	fflush(stderr);
	abort();
}
