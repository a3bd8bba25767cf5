/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_STAGE_H
#define PERF_STAGE_H
/*
 * stage - a quota without a limit, an arena and a cache: what an arm of ours
 * stands on.
 *
 * Threads: one. Errors: open exits 1, there is nothing to measure then.
 */
#include "perf.h"

#include <small/slab_cache.h>

/* The slab size that servers of this kind use, and that R3 asks for. */
#define STAGE_SLAB ((size_t)4 * 1024 * 1024)

struct stage {
	struct quota quota;
	struct slab_arena arena;
	struct slab_cache cache;
};

void stage_open(struct stage *stage, size_t slab_size);
void stage_close(struct stage *stage);

size_t stage_garbage(const struct stage *stage);
/* Puts quota_kib and garbage_kib. */
void stage_put(const struct stage *stage);

/* The benches of the region group, a file each. */
void bench_reset(void);
void bench_request(void);
void bench_collapse(void);
void bench_drain(void);

#endif /* PERF_STAGE_H */
