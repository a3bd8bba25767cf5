/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_LUA_STORE_H
#define PERF_LUA_STORE_H
/*
 * lua_store - a small hash map in C, what scripts read and write (L4); and
 * SHA-1, by which servers name scripts.
 *
 * Threads: one. Cost: a look-up is a short chain. Errors: a value that is too
 * long, or no memory, exits 1.
 */
#include <stddef.h>

#define STORE_SHA_SIZE 40

struct store;

struct store *store_create(void);
void store_destroy(struct store *s);
/* NULL: no such key. Lives until the next set of it. */
const char *store_get(const struct store *s, const char *key, size_t len,
                      size_t *size);
void store_set(struct store *s, const char *key, size_t len, const char *value,
               size_t size);

/* 40 lower-case hexadecimal digits, no zero behind. */
void store_sha1(const char *text, size_t size, char out[STORE_SHA_SIZE]);

#endif /* PERF_LUA_STORE_H */
