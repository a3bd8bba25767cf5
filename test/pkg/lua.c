/* SPDX-License-Identifier: BSD-2-Clause */
/* Lua under a limit, of README.md, as each way in builds it. */
#include <small/region.h>
#include <small/lua/sandbox.h>

#include <stdio.h>
#include <string.h>

static int run(struct slab_cache *cache, const char *script)
{
	/* README: from here */
	struct sandbox_opts opts = {
		.cache = cache, .limit = 2 << 20, .timeout_ns = 1000000000};
	struct sandbox *lua;
	int rc = sandbox_open(&opts, &lua);

	if (rc != SANDBOX_OK)
		return rc;
	rc = sandbox_load(lua, script, strlen(script), "=script");
	if (rc == SANDBOX_OK)
		rc = sandbox_call(lua, 0, 0);
	if (rc != SANDBOX_OK) /* SANDBOX_MEM_LIMIT, SANDBOX_TIMEOUT, ... */
		fprintf(stderr, "%s\n", sandbox_message(lua));
	sandbox_drop(lua); /* constant time, whatever the script built */
	/* README: to here */
	return rc;
}

int main(void)
{
	struct quota quota;
	struct slab_arena arena;
	struct slab_cache cache;
	int good, greedy;

	quota_init(&quota, 64 << 20);
	if (slab_arena_create(&arena, &quota, 0, 1 << 20, SLAB_ARENA_PRIVATE))
		return 1;
	slab_cache_create(&cache, &arena);
	good = run(&cache, "local t = {} for i = 1, 100 do t[i] = i end");
	greedy = run(&cache, "local t = {} for i = 1, 1e9 do t[i] = {} end");
	slab_cache_destroy(&cache);
	slab_arena_destroy(&arena);
	printf("%d %d\n", good, greedy);
	return good == SANDBOX_OK && greedy == SANDBOX_MEM_LIMIT ? 0 : 1;
}
