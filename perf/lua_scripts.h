/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_LUA_SCRIPTS_H
#define PERF_LUA_SCRIPTS_H
/*
 * lua_scripts - whole programs for L5. Each is called with one number, its
 * size: 1 is about a millisecond.
 *
 * Threads, Cost, Errors: constant data.
 */
#include <stddef.h>

struct lua_script {
	const char *name;
	const char *text;
	int size; /* of a timed run */
};

extern const struct lua_script lua_scripts[];
extern const size_t lua_scripts_count;

#endif /* PERF_LUA_SCRIPTS_H */
