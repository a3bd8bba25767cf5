/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * snapshot_refused: when a snapshot or a rollback is not to be had, the code
 * says why, and the sandbox goes on; so it does after each failure.
 */
#include "box.h"

static const char prelude[] =
	"shared = {} for i = 1, 20 do shared[i] = 'entry ' .. i end\n"
	"function touch(n) shared[n] = nil return #shared end";

/* --- refusals --- */

static int rc_inside;

static int roll_back_inside(lua_State *L)
{
	rc_inside = sandbox_rollback(sandbox_of(L));
	if (rc_inside == SANDBOX_BUSY)
		rc_inside = sandbox_snapshot(sandbox_of(L), NULL);
	if (rc_inside == SANDBOX_BUSY)
		rc_inside = sandbox_discard(sandbox_of(L));
	return 0;
}

static void refused_while_a_call_is_active(void **state)
{
	static const char *const texts[] = {
		"inside()", "coroutine.wrap(function() inside() end)()",
		"pcall(inside)",
		"coroutine.wrap(function() pcall(inside) end)()",
		"string.gsub('x', 'x', inside)"};
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	assert_int_equal(sandbox_push_function(box.sb, roll_back_inside),
	                 SANDBOX_OK);
	assert_int_equal(sandbox_set_global(box.sb, "inside"), SANDBOX_OK);
	assert_int_equal(sandbox_rollback(box.sb), SANDBOX_MISUSE);
	assert_int_equal(sandbox_snapshot(box.sb, NULL), SANDBOX_OK);
	assert_int_equal(sandbox_snapshot(box.sb, NULL), SANDBOX_MISUSE);
	for (size_t i = 0; i < lengthof(texts); i++) {
		rc_inside = -1;
		box_expect(&box, texts[i], SANDBOX_OK);
		assert_int_equal(rc_inside, SANDBOX_BUSY);
		assert_int_equal(sandbox_rollback(box.sb), SANDBOX_OK);
	}
	rc_inside = -1;
	assert_int_equal(sandbox_protect(box.sb, roll_back_inside, NULL),
	                 SANDBOX_OK);
	assert_int_equal(rc_inside, SANDBOX_BUSY);
	assert_int_equal(sandbox_discard(box.sb), SANDBOX_OK);
	assert_int_equal(sandbox_rollback(box.sb), SANDBOX_MISUSE);
	box_close(&box);
}

static int open_module(lua_State *L)
{
	const char *name = (const char *)lua_touserdata(L, 1);

	lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
	lua_newtable(L);
	lua_setfield(L, -2, name);
	return 0;
}

static int no_end(lua_State *L)
{
	(void)L;
	return 0;
}

static int make_type(lua_State *L)
{
	luaL_newmetatable(L, (const char *)lua_touserdata(L, 1));
	lua_pushcfunction(L, no_end);
	lua_setfield(L, -2, "__gc");
	return 0;
}

static int open_io(lua_State *L)
{
#if BOX_51
	lua_pushcfunction(L, luaopen_io);
	lua_pushliteral(L, LUA_IOLIBNAME);
	lua_call(L, 1, 0);
#else
	luaL_requiref(L, LUA_IOLIBNAME, luaopen_io, 1);
#endif
	return 0;
}

/* cases.md 52 */
static void refused_with_io_or_an_unknown_module(void **state)
{
	static const char *const safe[] = {"known", "known.type", NULL};
	struct sandbox *sb;
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.flags = BOX_FULL});
	assert_int_equal(sandbox_snapshot(box.sb, safe), SANDBOX_FOREIGN);
	box_close(&box);
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	sb = box.sb;
	sandbox_protect(sb, open_module, (void *)(uintptr_t) "known");
	assert_int_equal(sandbox_snapshot(sb, NULL), SANDBOX_FOREIGN);
	assert_non_null(strstr(sandbox_message(sb), "known"));
	assert_int_equal(sandbox_snapshot(sb, safe), SANDBOX_OK);
	sandbox_discard(sb);
	sandbox_protect(sb, make_type, (void *)(uintptr_t) "known.type");
	assert_int_equal(sandbox_snapshot(sb, NULL), SANDBOX_FOREIGN);
	assert_int_equal(sandbox_snapshot(sb, safe), SANDBOX_OK);
	sandbox_discard(sb);
	sandbox_protect(sb, make_type, (void *)(uintptr_t) "other.type");
	assert_int_equal(sandbox_snapshot(sb, safe), SANDBOX_FOREIGN);
	assert_non_null(strstr(sandbox_message(sb), "other.type"));
	box_still_works(&box);
	box_close(&box);
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	assert_int_equal(sandbox_protect(box.sb, open_io, NULL), SANDBOX_OK);
	assert_int_equal(sandbox_snapshot(box.sb, safe), SANDBOX_FOREIGN);
	box_still_works(&box);
	box_close(&box);
}

static void refused_in_other_modes_and_with_the_compiler_on(void **state)
{
	struct box box;

	(void)state;
	for (int mode = LUAMEM_TRACKED; mode <= LUAMEM_NATIVE; mode++) {
		box_open(&box,
		         (struct sandbox_opts){.mode = (enum luamem_mode)mode});
		assert_int_equal(sandbox_snapshot(box.sb, NULL),
		                 SANDBOX_UNSUPPORTED);
		assert_int_equal(sandbox_rollback(box.sb), SANDBOX_MISUSE);
		box_still_works(&box);
		box_close(&box);
	}
	if (!BOX_JIT)
		return;
	box_open(&box, (struct sandbox_opts){.flags = SANDBOX_ALLOW_JIT});
	assert_int_equal(sandbox_snapshot(box.sb, NULL), SANDBOX_UNSUPPORTED);
	box_still_works(&box);
	box_close(&box);
}

/* --- failures of the snapshot --- */

static void each_failure_leaves_the_sandbox_usable(void **state)
{
	size_t n, refused = 1;

	(void)state;
	for (n = 1; n < 1000 && refused != 0; n++) {
		struct box box;
		size_t before;
		int rc;

		box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
		box_expect(&box, prelude, SANDBOX_OK);
		before = quota_used(&box.core.quota);
		fault_set(FAULT_ALL, n, true);
		rc = sandbox_snapshot(box.sb, NULL);
		refused = fault_refused();
		fault_clear();
		assert_true(rc == SANDBOX_OK || rc == SANDBOX_MEM_LIMIT ||
		            rc == SANDBOX_MEM_QUOTA ||
		            rc == SANDBOX_MEM_SYSTEM);
		if (rc != SANDBOX_OK) {
			assert_int_equal(quota_used(&box.core.quota), before);
			assert_int_equal(sandbox_rollback(box.sb),
			                 SANDBOX_MISUSE);
			box_still_works(&box);
			assert_int_equal(sandbox_snapshot(box.sb, NULL),
			                 SANDBOX_OK);
		}
		box_still_works(&box);
		assert_int_equal(sandbox_rollback(box.sb), SANDBOX_OK);
		box_still_works(&box);
		box_close(&box);
	}
	assert_true(n > 2 && n < 1000);
}

static void a_full_quota_is_named(void **state)
{
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	quota_set(&box.core.quota, quota_used(&box.core.quota));
	assert_int_equal(sandbox_snapshot(box.sb, NULL), SANDBOX_MEM_QUOTA);
	quota_set(&box.core.quota, 1024 * BOX_MIB);
	assert_int_equal(sandbox_snapshot(box.sb, NULL), SANDBOX_OK);
	box_close(&box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_while_a_call_is_active),
		cmocka_unit_test(refused_with_io_or_an_unknown_module),
		cmocka_unit_test(
			refused_in_other_modes_and_with_the_compiler_on),
		cmocka_unit_test(each_failure_leaves_the_sandbox_usable),
		cmocka_unit_test(a_full_quota_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
