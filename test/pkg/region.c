/* SPDX-License-Identifier: BSD-2-Clause */
/* The region of README.md, as each way in builds it. */
#include <small/region.h>

#include <stdio.h>

int main(void)
{
	char line[1000];
	/* README: from here */
	struct quota quota;
	struct slab_arena arena;
	struct slab_cache cache;
	struct region region;

	quota_init(&quota, 64 << 20); /* never more than this, in bytes */
	if (slab_arena_create(&arena, &quota, 0, 1 << 20, SLAB_ARENA_PRIVATE))
		return 1;
	slab_cache_create(&cache, &arena); /* one a thread */
	region_create(&region, &cache);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		char *reply = region_alloc(&region, sizeof(line) + 8);

		if (reply == NULL)
			break; /* the quota is used up */
		sprintf(reply, "hello, %s", line);
		fputs(reply, stdout);
		region_reset(&region); /* constant time, used() is 0 */
	}
	region_destroy(&region);
	slab_cache_destroy(&cache);
	slab_arena_destroy(&arena);
	/* README: to here */
	return quota_used(&quota) == 0 ? 0 : 1;
}
