/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_LUA_CALLS_H
#define PERF_LUA_CALLS_H
/*
 * lua_calls - L3, part of the group lua.
 *
 * Threads: the main thread. Errors: an arm that can not open is left out.
 */
struct slab_cache;

void bench_calls(struct slab_cache *cache);

#endif /* PERF_LUA_CALLS_H */
