/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_LUAMEM_INTERNAL_H
#define SMALL_LUAMEM_INTERNAL_H
/*
 * luamem_internal - what luamem.c (accounting) and luamem_modes.c (where the
 * bytes come from) share. Internal: it is not installed.
 *
 * Threads, Cost, Errors: as luamem.h says.
 */
#include <small/freelist.h>
#include <small/lua/luamem.h>

/* Why a call has to take the general way. */
enum {
	LUAMEM_SLOW_MODE = 1,      /* not managed */
	LUAMEM_SLOW_WANT = 2,      /* the last refusal may yet be recovered */
	LUAMEM_SLOW_SECTION = 4,   /* inside an infallible section */
	LUAMEM_SLOW_PRESSURE = 8,  /* somebody wants to hear of changes */
	LUAMEM_SLOW_DENY = 16,     /* each growth fails and is not counted */
	LUAMEM_SLOW_OVERFLOW = 32, /* there are two pieces */
	LUAMEM_SLOW_MARK = 64      /* used is above the mark */
};

/* Large enough that a callback a batch costs nothing beside the allocations
 * of the batch. */
#define LUAMEM_PRESSURE_BATCH ((size_t)64 * 1024)

void luamem_count(struct luamem *m, size_t osize, size_t nsize)
	SMALL_SYM(luamem_count);
void *luamem_refuse(struct luamem *m, void *ptr, size_t osize, size_t nsize,
                    enum luamem_cause cause) SMALL_SYM(luamem_refuse);

void luamem_free(struct luamem *m, void *ptr, size_t osize)
	SMALL_SYM(luamem_free);

/* A growth in the overflow; NULL only when more is asked for than was said. */
void *luamem_overflow_alloc(struct luamem *m, void *ptr, size_t osize,
                            size_t nsize) SMALL_SYM(luamem_overflow_alloc);
/* A block of it was freed. */
void luamem_overflow_freed(struct luamem *m) SMALL_SYM(luamem_overflow_freed);

/* Tells the host of a change that is worth a batch. */
void luamem_pressure(struct luamem *m) SMALL_SYM(luamem_pressure);
/* The overflow goes, with what is in it. */
void luamem_drop_overflow(struct luamem *m) SMALL_SYM(luamem_drop_overflow);
/* What is used outside of the heap leaves it so much less. */
int luamem_limit_heap(struct luamem *m, size_t limit)
	SMALL_SYM(luamem_limit_heap);

/* tracked and native */
void *luamem_malloc_grow(struct luamem *m, void *ptr, size_t osize,
                         size_t nsize, enum luamem_cause *cause)
	SMALL_SYM(luamem_malloc_grow);
void *luamem_malloc_shrink(struct luamem *m, void *ptr, size_t osize,
                           size_t nsize) SMALL_SYM(luamem_malloc_shrink);
void luamem_malloc_free(struct luamem *m, void *ptr, size_t osize)
	SMALL_SYM(luamem_malloc_free);

enum luamem_cause luamem_heap_cause(const struct luamem *m)
	SMALL_SYM(luamem_heap_cause);
size_t luamem_total(const struct luamem *m) SMALL_SYM(luamem_total);
size_t luamem_overflow(const struct luamem *m) SMALL_SYM(luamem_overflow);
void luamem_set_thread_heap(struct luamem *m) SMALL_SYM(luamem_set_thread_heap);
const char *luamem_check_heap(const struct luamem *m)
	SMALL_SYM(luamem_check_heap);

/* The C library's memcpy: of a constant size the compiler makes `rep movs`,
 * which takes as long to start as some hundred bytes take to copy. */
static inline void luamem_copy(void *to, const void *from, size_t size)
{
	__asm__("" : "+r"(size));
	memcpy(to, from, size);
}

static inline bool luamem_in_overflow(const struct luamem *m, const void *ptr)
{
	return small_unlikely(m->overflow_buf != NULL) &&
	       (uintptr_t)ptr - (uintptr_t)m->overflow_buf < m->overflow_size;
}

#endif /* SMALL_LUAMEM_INTERNAL_H */
