/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_LUA_BENCHES_H
#define PERF_LUA_BENCHES_H
/*
 * lua_benches - what the files of the Lua group give to its list, lua.c.
 *
 * Threads: one. Cost: as measured. Errors: what can not go on exits 1.
 */
struct lua_script;

/* lua_batch.c: L1, L2, L4 */
void bench_life(void);
void bench_cache(void);
void bench_batch(void);
/* lua_calls.c: L3 */
void bench_calls(void);

/* lua_snapshot.c, lua_pool.c: L6 */
void bench_rollback(void);
void bench_drop(void);
void bench_pool(void);

/* lua_limits.c: the smallest limits of state and libraries; */
void bench_min_limit(void);
/* of a script at a size, over the smallest of an ideal allocator. */
double min_limit_ratio(const struct lua_script *s, int size);

#endif /* PERF_LUA_BENCHES_H */
