/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lua_batch - what a server that keeps an interpreter a connection does with
 * it: L1, the life cycle and what is done between two scripts; L2, the cache
 * of compiled scripts by their SHA-1; L4, batches of 100 calls against a hash
 * map in C.
 */
#include <stdlib.h>
#include <string.h>

#include "lua_benches.h"
#include "lua_rows.h"
#include "lua_store.h"

static const char nil_script[] = "return nil";
static const char get_script[] = "return call('GET', KEYS[1])";
static const char table_script[] = "return {1, 2, 3, 4, 5}";

static void compile(struct lua_case *c, const char *text)
{
	case_check(c, host_load(&c->host, text, strlen(text), "=script"));
}

/* -- what scripts call --------------------------------------------------------
 */

/* call('GET', key), call('SET', key, value); the store is an upvalue. */
static int call_store(lua_State *L)
{
	struct store *store = lua_touserdata(L, lua_upvalueindex(1));
	const char *what = luaL_checkstring(L, 1), *key, *value;
	size_t len, size;

	key = luaL_checklstring(L, 2, &len);
	if (what[0] == 'S') {
		value = luaL_checklstring(L, 3, &size);
		store_set(store, key, len, value, size);
		return 0;
	}
	value = store_get(store, key, len, &size);
	if (value == NULL)
		return 0;
	lua_pushlstring(L, value, size);
	return 1;
}

static int new_table(lua_State *L, const char *name)
{
	lua_newtable(L);
	if (name != NULL) {
		lua_pushvalue(L, -1);
		lua_setglobal(L, name);
	}
	return luaL_ref(L, LUA_REGISTRYINDEX);
}

static int prepare(lua_State *L)
{
	struct lua_case *c = lua_touserdata(L, 1);

	c->keys = new_table(L, "KEYS");
	c->argv = new_table(L, "ARGV");
	c->cache = new_table(L, NULL);
	lua_pushlightuserdata(L, c->store);
	lua_pushcclosure(L, call_store, 1);
	lua_setglobal(L, "call");
	store_set(c->store, "key:1", 5, "value", 5);
	store_sha1(get_script, sizeof(get_script) - 1, c->sha);
	return 0;
}

/* -- L1 -----------------------------------------------------------------------
 */

/* Another interpreter of the same arm, from nothing to nothing. */
static void op_build(struct lua_case *c, uint64_t i)
{
	struct lua_case other = *c;

	(void)i;
	if (host_open(&other.host, c->arm) != 0)
		exit(1);
	host_libs(&other.host);
	compile(&other, lua_prelude);
	case_check(&other, host_call(&other.host, 0, 0));
	host_close(&other.host);
}

static void op_compile_nil(struct lua_case *c, uint64_t i)
{
	(void)i;
	compile(c, nil_script);
	lua_settop(c->host.L, 0);
}

static void op_compile_record(struct lua_case *c, uint64_t i)
{
	(void)i;
	compile(c, lua_record_script);
	lua_settop(c->host.L, 0);
}

/* Sets n parameters and clears them, as it is done around each script. */
static void set_and_clear(struct lua_case *c, int n)
{
	lua_State *L = c->host.L;

	lua_rawgeti(L, LUA_REGISTRYINDEX, c->argv);
	for (int k = 1; k <= n; k++) {
		lua_pushnumber(L, k);
		lua_rawseti(L, 1, k);
	}
	for (int k = n; k > 0; k--) {
		lua_pushnil(L);
		lua_rawseti(L, 1, k);
	}
	lua_settop(L, 0);
}

static void op_params_1(struct lua_case *c, uint64_t i)
{
	(void)i;
	set_and_clear(c, 1);
}

static void op_params_10(struct lua_case *c, uint64_t i)
{
	(void)i;
	set_and_clear(c, 10);
}

void bench_life(void)
{
	static const struct lua_row rows[] = {
		{"build", op_build, 30, 2, true, false},
		{"compile_nil", op_compile_nil, 2000, 100, true, false},
		{"compile_record", op_compile_record, 50, 12, true, false},
		{"params_1", op_params_1, 20000, 1000, false, false},
		{"params_10", op_params_10, 5000, 500, false, false},
	};

	bench_rows("lua_life", rows, lengthof(rows), prepare);
}

/* -- L2 -----------------------------------------------------------------------
 */

/* The compiled script of that name on the stack, or nil. */
static bool cache_get(struct lua_case *c, const char *sha)
{
	lua_State *L = c->host.L;

	lua_rawgeti(L, LUA_REGISTRYINDEX, c->cache);
	lua_pushlstring(L, sha, STORE_SHA_SIZE);
	lua_rawget(L, -2);
	lua_remove(L, -2);
	return !lua_isnil(L, -1);
}

/* Takes the function on top of the stack, or nil. */
static void cache_set(struct lua_case *c, const char *sha)
{
	lua_State *L = c->host.L;

	lua_rawgeti(L, LUA_REGISTRYINDEX, c->cache);
	lua_pushlstring(L, sha, STORE_SHA_SIZE);
	lua_pushvalue(L, -3);
	lua_rawset(L, -3);
	lua_settop(L, -3);
}

/* As a server does it that was sent the text; the function is on the stack. */
static void get_or_compile(struct lua_case *c, const char *text)
{
	char sha[STORE_SHA_SIZE];

	store_sha1(text, strlen(text), sha);
	if (cache_get(c, sha))
		return;
	lua_settop(c->host.L, 0);
	compile(c, text);
	lua_pushvalue(c->host.L, -1);
	cache_set(c, sha);
}

/* The client sends the name: nothing is hashed. */
static void op_hit(struct lua_case *c, uint64_t i)
{
	(void)i;
	if (!cache_get(c, c->sha)) { /* the first time */
		lua_settop(c->host.L, 0);
		get_or_compile(c, get_script);
	}
	lua_settop(c->host.L, 0);
}

static void op_miss(struct lua_case *c, uint64_t i)
{
	char sha[STORE_SHA_SIZE];

	memcpy(sha, c->sha, sizeof(sha));
	for (size_t k = 0; k < 16; k++, i >>= 4)
		sha[k] = "0123456789abcdef"[i & 15];
	cache_get(c, sha);
	lua_settop(c->host.L, 0);
}

/* Known to the server and not to this interpreter: compiled, and forgotten
 * so that the next time is the same. */
static void op_outside(struct lua_case *c, uint64_t i)
{
	(void)i;
	get_or_compile(c, get_script);
	lua_pushnil(c->host.L);
	cache_set(c, c->sha);
	lua_settop(c->host.L, 0);
}

void bench_cache(void)
{
	static const struct lua_row rows[] = {
		{"hit", op_hit, 3000, 200, false, false},
		{"miss", op_miss, 3000, 200, false, false},
		{"outside", op_outside, 1000, 50, true, false},
	};

	bench_rows("lua_cache", rows, lengthof(rows), prepare);
}

/* -- L4 -----------------------------------------------------------------------
 */

#define BATCH 100

static void set_string(struct lua_case *c, int table, int k, const char *s)
{
	lua_State *L = c->host.L;

	lua_rawgeti(L, LUA_REGISTRYINDEX, table);
	lua_pushstring(L, s);
	lua_rawseti(L, -2, k);
	lua_settop(L, 0);
}

/* load: the text is hashed and compiled, and not known before. */
static void op_load(struct lua_case *c, uint64_t i)
{
	for (int k = 0; k < BATCH; k++)
		op_outside(c, i);
}

static void op_exists_hit(struct lua_case *c, uint64_t i)
{
	for (int k = 0; k < BATCH; k++)
		op_hit(c, i);
}

static void op_exists_miss(struct lua_case *c, uint64_t i)
{
	for (int k = 0; k < BATCH; k++)
		op_miss(c, i * BATCH + (uint64_t)k);
}

static void eval(struct lua_case *c, const char *text)
{
	get_or_compile(c, text);
	case_check(c, host_call(&c->host, 0, 1));
	lua_settop(c->host.L, 0);
}

static void op_eval_nil(struct lua_case *c, uint64_t i)
{
	(void)i;
	for (int k = 0; k < BATCH; k++)
		eval(c, nil_script);
}

/* By the name: no text to hash. */
static void op_evalsha(struct lua_case *c, uint64_t i)
{
	char sha[STORE_SHA_SIZE];

	(void)i;
	get_or_compile(c, nil_script);
	lua_settop(c->host.L, 0);
	store_sha1(nil_script, sizeof(nil_script) - 1, sha);
	for (int k = 0; k < BATCH; k++) {
		cache_get(c, sha);
		case_check(c, host_call(&c->host, 0, 1));
		lua_settop(c->host.L, 0);
	}
}

static void op_get(struct lua_case *c, uint64_t i)
{
	(void)i;
	for (int k = 0; k < BATCH; k++) {
		set_string(c, c->keys, 1, "key:1");
		eval(c, get_script);
	}
}

static void op_record(struct lua_case *c, uint64_t i)
{
	char text[64];

	set_string(c, c->keys, 1, "user:1");
	for (int k = 0; k < BATCH; k++) {
		/* 32 identities, of which 20 are kept */
		snprintf(text, sizeof(text),
		         "6f9619ff-8b86-d011-b42d-00c04fc964%02x", k * 7 % 32);
		set_string(c, c->argv, 1, text);
		snprintf(text, sizeof(text), "%llu",
		         1700000000 + (unsigned long long)i * BATCH +
		                 (unsigned long long)k);
		set_string(c, c->argv, 2, text);
		set_string(c, c->argv, 3, k % 2 == 0 ? "1" : "0");
		eval(c, lua_record_script);
	}
}

static void op_table(struct lua_case *c, uint64_t i)
{
	(void)i;
	for (int k = 0; k < BATCH; k++)
		eval(c, table_script);
}

void bench_batch(void)
{
	static const struct lua_row rows[] = {
		{"load", op_load, 5, 1, true, false},
		{"exists_hit", op_exists_hit, 20, 2, false, false},
		{"exists_miss", op_exists_miss, 20, 2, false, false},
		{"eval_nil", op_eval_nil, 20, 2, true, false},
		{"evalsha", op_evalsha, 40, 4, true, false},
		{"get", op_get, 20, 2, true, false},
		{"record", op_record, 1, 1, true, true},
		{"table", op_table, 20, 2, true, false},
	};

	bench_rows("lua_batch", rows, lengthof(rows), prepare);
}
