/* SPDX-License-Identifier: BSD-2-Clause */
/* lua_hosts - opens and closes interpreters as each arm does it. */
#include "lua_hosts.h"

#include <stdlib.h>

#include <small/quota_lessor.h>
#if HOST_JIT
# include <luajit.h>
#endif

#include "foreign.h"

/* Of tracked, managed_limit and the sandboxes: well above what is needed, so
 * that what is measured is the cost of having a limit. */
#define LIMIT ((size_t)32 << 20)
/* Never reached. */
#define TIMEOUT_NS ((uint64_t)10000000000)

static struct quota quota;
static struct slab_arena arena;
static struct slab_cache cache;
static struct quota_lessor lessor;

int hosts_create(void)
{
	quota_init(&quota, QUOTA_MAX);
	if (slab_arena_create(&arena, &quota, 0, (size_t)4 << 20,
	                      SLAB_ARENA_PRIVATE) != 0 ||
	    quota_lessor_create(&lessor, &quota) != 0)
		return -1;
	slab_cache_create(&cache, &arena);
	return 0;
}

struct slab_cache *hosts_cache(void)
{
	return &cache;
}

static const struct {
	const char *name;
	bool is_default; /* measured without --full */
} arms[HOST_ARMS] = {
	[HOST_STOCK] = {"stock", true},
	[HOST_NATIVE] = {"native", true},
	[HOST_TRACKED] = {"tracked", false},
	[HOST_MANAGED] = {"managed", false},
	[HOST_MANAGED_LIMIT] = {"managed_limit", true},
	[HOST_JEMALLOC] = {"jemalloc", false},
	[HOST_MIMALLOC] = {"mimalloc", true},
	[HOST_RAW] = {"raw", true},
	[HOST_SANDBOX] = {"sandbox", true},
	[HOST_ARMED] = {"sandbox", true},
};

const char *host_name(enum host_arm arm)
{
	return arms[arm].name;
}

static bool is_foreign(enum host_arm arm)
{
	return arm == HOST_JEMALLOC || arm == HOST_MIMALLOC;
}

bool host_is_here(enum host_arm arm)
{
	if (!arms[arm].is_default && perf.level != PERF_FULL)
		return false;
	return !is_foreign(arm) || perf_foreign(arms[arm].name) != NULL;
}

bool host_is_gate(enum host_arm arm)
{
	return arm == HOST_STOCK || arm == HOST_MANAGED_LIMIT ||
	       arm >= HOST_RAW;
}

static void *foreign_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
	const struct perf_allocator *a = ud;

	(void)osize;
	if (nsize == 0) {
		a->release(ptr);
		return NULL;
	}
	return ptr == NULL ? a->alloc(nsize) : a->resize(ptr, nsize);
}

static lua_State *open_foreign(enum host_arm arm)
{
	const struct perf_allocator *a = perf_foreign(arms[arm].name);

	if (a == NULL)
		return NULL;
	return lua_newstate(foreign_alloc, (void *)(uintptr_t)a);
}

static lua_State *open_small(struct host *h)
{
	static const struct luamem_opts opts[] = {
		[HOST_NATIVE] = {.mode = LUAMEM_NATIVE},
		[HOST_TRACKED] = {.mode = LUAMEM_TRACKED,
	                          .limit = LIMIT,
	                          .lessor = &lessor},
		[HOST_MANAGED] = {.cache = &cache},
		[HOST_MANAGED_LIMIT] = {.cache = &cache, .limit = LIMIT},
	};

	if (luamem_create(&h->mem, &opts[h->arm], NULL) != 0)
		return NULL;
	return lua_newstate(luamem_alloc, &h->mem);
}

static lua_State *open_sandbox(struct host *h)
{
	struct sandbox_opts opts = {
		.cache = &cache,
		.limit = LIMIT,
		.timeout_ns = h->arm == HOST_ARMED ? TIMEOUT_NS : 0};

	if (sandbox_open(&opts, &h->sb) != SANDBOX_OK)
		return NULL;
	return sandbox_state(h->sb);
}

int host_open(struct host *h, enum host_arm arm)
{
	h->arm = arm;
	h->sb = NULL;
	if (arm == HOST_STOCK)
		h->L = luaL_newstate();
	else if (is_foreign(arm))
		h->L = open_foreign(arm);
	else if (arm < HOST_ALLOCATORS)
		h->L = open_small(h);
	else
		h->L = open_sandbox(h);
	return h->L != NULL ? 0 : -1;
}

void host_libs(struct host *h)
{
	if (h->arm >= HOST_ALLOCATORS)
		return;
	luaL_openlibs(h->L);
#if HOST_JIT
	luaJIT_setmode(h->L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
#endif
}

void host_close(struct host *h)
{
	if (h->arm >= HOST_ALLOCATORS) {
		sandbox_close(h->sb);
		return;
	}
	lua_close(h->L);
	if (h->arm != HOST_STOCK && !is_foreign(h->arm))
		luamem_destroy(&h->mem);
}

void host_setup(struct host *h, lua_CFunction fn, void *ud)
{
	int failed;

	if (h->sb != NULL) {
		failed = sandbox_protect(h->sb, fn, ud);
	} else {
		lua_pushcfunction(h->L, fn);
		lua_pushlightuserdata(h->L, ud);
		failed = lua_pcall(h->L, 1, 0, 0);
	}
	if (failed != 0) {
		fprintf(stderr, "perf: %s: %s\n", arms[h->arm].name,
		        lua_tostring(h->L, -1));
		exit(1);
	}
	lua_settop(h->L, 0);
}

int host_load(struct host *h, const char *text, size_t size, const char *name)
{
	if (h->arm >= HOST_SANDBOX)
		return sandbox_load(h->sb, text, size, name);
	return luaL_loadbuffer(h->L, text, size, name);
}

/* An allocator around another one. */
struct counter {
	lua_Alloc alloc;
	void *ud;
	size_t growths;
};

static void *count_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
	struct counter *c = ud;

	c->growths += nsize > (ptr != NULL ? osize : 0);
	return c->alloc(c->ud, ptr, osize, nsize);
}

double host_growths(lua_State *L, struct perf_arm *arm, uint64_t ops)
{
	struct counter c = {.growths = 0};

	c.alloc = lua_getallocf(L, &c.ud);
	lua_setallocf(L, count_alloc, &c);
	arm->loop(arm, ops);
	lua_setallocf(L, c.alloc, c.ud);
	return (double)c.growths / (double)ops;
}
