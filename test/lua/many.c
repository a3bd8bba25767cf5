/* SPDX-License-Identifier: BSD-2-Clause */
/* many: a thousand sandboxes on one quota; ten thousand one after another. */
#include "box.h"

#include <small/track.h>

#include <unistd.h>

#define SANDBOXES 1000

/* Each may have 2 MiB, together 256: the sum is never exceeded, the greedy
 * ones are told so, and the others go on. */
static void sandboxes_share_a_quota(void **state)
{
	size_t count = test_scale(SANDBOXES), total = 256 * BOX_MIB;
	struct sandbox **sb = calloc(count, sizeof(*sb));
	size_t refused = 0, worked = 0;
	struct core core;

	(void)state;
	if (count < SANDBOXES)
		total = small_align(total / SANDBOXES * count, QUOTA_UNIT_SIZE);
	if (total < 4 * BOX_MIB)
		total = 4 * BOX_MIB;
	core_create(&core, total, 65536);
	for (size_t i = 0; i < count; i++) {
		struct sandbox_opts opts = {.cache = &core.cache,
		                            .limit = 2 * BOX_MIB};

		assert_int_equal(sandbox_open(&opts, &sb[i]), SANDBOX_OK);
	}
	for (size_t i = 0; i < count; i++) {
		const char *text =
			i % 4 == 0
				? "keep = {} for i = 1, 1e9 do keep[i] = {i} "
				  "end"
				: "local t = {} for i = 1, 100 do t[i] = i end";
		int rc = sandbox_load(sb[i], text, strlen(text), "=t");

		if (rc == SANDBOX_OK)
			rc = sandbox_call(sb[i], 0, 0);
		assert_true(quota_used(&core.quota) <= total);
		assert_true(rc == SANDBOX_OK || rc == SANDBOX_MEM_LIMIT ||
		            rc == SANDBOX_MEM_QUOTA);
		refused += rc != SANDBOX_OK;
		worked += rc == SANDBOX_OK;
		lua_settop(sandbox_state(sb[i]), 0);
		assert_ptr_equal(sandbox_check(sb[i]), NULL);
	}
	/* the greedy ones failed and nobody else did */
	assert_int_equal(refused, (count + 3) / 4);
	assert_int_equal(worked, count - refused);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(sandbox_close(sb[i]), 0);
	core_destroy(&core);
	free(sb);
}

static size_t rss_pages(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	size_t size = 0, rss = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%zu %zu", &size, &rss), 2);
	fclose(file);
	return rss;
}

static size_t mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	size_t lines = 0;
	int c;

	assert_non_null(file);
	while ((c = getc(file)) != EOF)
		lines += c == '\n';
	fclose(file);
	return lines;
}

/* Neither mappings nor memory nor quota grow with lives lived. */
static void lives_leave_nothing_behind(void **state)
{
	size_t n = test_scale(10000), maps = 0, rss = 0, used = 0;
	struct core core;

	(void)state;
	core_create(&core, SIZE_MAX, 65536);
	for (size_t i = 0; i < n + 50; i++) {
		struct sandbox_opts opts = {
			.cache = &core.cache,
			.flags = BOX_JIT && i % 4 == 0 ? SANDBOX_ALLOW_JIT : 0,
			.limit = i % 4 == 0 ? 0 : BOX_MIB,
			.max_limit = i % 4 == 0 ? 64 * BOX_MIB : 0};
		const char *text =
			"local s = 0 for i = 1, 300 do s = s + i end return s";
		struct sandbox *sb;

		assert_int_equal(sandbox_open(&opts, &sb), SANDBOX_OK);
		assert_int_equal(sandbox_load(sb, text, strlen(text), "=t"),
		                 SANDBOX_OK);
		assert_int_equal(sandbox_call(sb, 0, 1), SANDBOX_OK);
		assert_true(lua_tonumber(sandbox_state(sb), -1) == 45150);
		if (i % 2 == 0)
			sandbox_drop(sb);
		else
			sandbox_close(sb);
		if (i == 49) {
			maps = mappings();
			rss = rss_pages();
			used = quota_used(&core.quota);
		}
	}
	assert_true(mappings() <= maps + 4);
	/* What a debug build knows of blocks is malloc's, and the tools keep
	 * what was freed from reuse. */
	assert_true(TRACK_ENABLED || rss_pages() <= rss + BOX_MIB / 4096);
	assert_true(quota_used(&core.quota) <= used);
	core_destroy(&core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sandboxes_share_a_quota),
		cmocka_unit_test(lives_leave_nothing_behind),
	};

	return cmocka_run_group_tests_name("many", tests, NULL, NULL);
}
