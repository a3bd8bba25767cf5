/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_FAULT_H
#define SMALL_FAULT_H
/*
 * fault - lets a test refuse the n-th acquisition of the library, once or
 * from then on. Internal: it is not installed. The state lives in the static
 * library that the tests link (SMALL_FAULT defined); in what ships,
 * every word here is a constant and the compiler drops the branch.
 *
 * Threads: fault_set() and fault_clear() while no other thread allocates;
 *          the counting itself is atomic.
 * Cost:    nothing in what ships.
 * Errors:  none.
 */
#include <stdbool.h>
#include <stddef.h>

#include <small/util.h>

/* What can be refused. One bit each, so that a test may refuse several. */
enum fault_point {
	FAULT_MMAP = 1,    /* address space from the OS */
	FAULT_COMMIT = 2,  /* pages of a growable slab */
	FAULT_QUOTA = 4,   /* quota_use, before it takes anything */
	FAULT_SLAB = 8,    /* slab_get of any kind */
	FAULT_LESSOR = 16, /* quota_lease */
	FAULT_BLOCK = 32,  /* a block of a freelist or of luamem's malloc */
	FAULT_ALL = 63,
	/* Not acquisitions, and no call fails by them: munmap, which may have
	 * to split a mapping. */
	FAULT_MUNMAP = 64,
	/* The kernel tells which pages were written, see dirty.h. Likewise. */
	FAULT_WATCH = 128
};

#ifdef SMALL_FAULT
/* True when this acquisition has to fail. */
bool fault_hit(enum fault_point point) SMALL_SYM(fault_hit);
/* Refuse acquisition number n (from 1) of the kinds in mask; later ones too
 * when from_then_on. */
void fault_set(unsigned mask, size_t n, bool from_then_on) SMALL_SYM(fault_set);
void fault_clear(void) SMALL_SYM(fault_clear);
/* Acquisitions of the masked kinds seen, and refused, since fault_set(). */
size_t fault_seen(void) SMALL_SYM(fault_seen);
size_t fault_refused(void) SMALL_SYM(fault_refused);
/* Another page size than the machine's, a multiple of it; 0 = the real one.
 * Set before the first object is created; SMALL_TEST_PAGESIZE in the
 * environment sets it for a whole run. */
void fault_set_pagesize(size_t size) SMALL_SYM(fault_set_pagesize);
size_t fault_pagesize(void) SMALL_SYM(fault_pagesize);
#else
# define fault_hit(point) false
# define fault_pagesize() ((size_t)0)
#endif

#endif /* SMALL_FAULT_H */
