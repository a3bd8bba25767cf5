/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERF_LUA_ROWS_H
#define PERF_LUA_ROWS_H
/*
 * lua_rows - a table of operations on a warm interpreter, each compared over
 * all arms. The same loop for all of them: one indirect call an operation.
 *
 * Threads: one. Cost: as measured. Errors: an operation that fails exits 1.
 */
#include "lua_hosts.h"

struct lua_case;

struct lua_row {
	const char *name;
	/* the i-th operation; leaves the stack empty */
	void (*op)(struct lua_case *c, uint64_t i);
	uint64_t ops, count; /* of a timed round, and counted */
	bool calls;          /* of the sandbox too: it is an arm */
	bool is_long;        /* counted with --ir or --full only */
};

/* One arm of one row. */
struct lua_case {
	const struct lua_row *row;
	enum host_arm arm;
	struct host host;
	struct store *store;
	int keys, argv, cache; /* references to tables of the state */
	char sha[40];          /* the name of a script that is cached */
};

/* prepare is called once a case, with it as a light userdata. */
void bench_rows(const char *bench, const struct lua_row *rows, size_t count,
                lua_CFunction prepare);

/* Exits 1 with the message on the stack when failed. */
void case_check(struct lua_case *c, int failed);

/* The script of bench.md L1 and L4: finds, counts and rewrites a record. */
extern const char lua_record_script[];
/* What a sandbox's host runs first, about 3 KB. */
extern const char lua_prelude[];

#endif /* PERF_LUA_ROWS_H */
