/* SPDX-License-Identifier: BSD-2-Clause */
/* sandbox: open, load, call, push, close and drop, and their misuse. */
#include "box.h"

static void open_run_close_in_each_mode(void **state)
{
	(void)state;
	for (int mode = LUAMEM_MANAGED; mode <= LUAMEM_NATIVE; mode++) {
		for (int full = 0; full <= 1; full++) {
			struct box box;

			box_open(&box, (struct sandbox_opts){
					       .mode = (enum luamem_mode)mode,
					       .flags = full ? BOX_FULL : 0});
			assert_int_equal(lua_gettop(box.L), 0);
			box_still_works(&box);
			assert_int_equal(box_mem(&box).refused, 0);
			box_close(&box);
		}
	}
}

static void drop_gives_everything_back(void **state)
{
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = 8 * BOX_MIB});
	box_expect(&box, "t = {} for i = 1, 10000 do t[i] = {i} end",
	           SANDBOX_OK);
	sandbox_drop(box.sb);
	box.sb = NULL;
	box_close(&box);
	box_open(&box, (struct sandbox_opts){.mode = LUAMEM_NATIVE});
	box_expect(&box, "t = {} for i = 1, 10000 do t[i] = {i} end",
	           SANDBOX_OK);
	sandbox_drop(box.sb);
	box.sb = NULL;
	box_close(&box);
	sandbox_drop(NULL);
	assert_int_equal(sandbox_close(NULL), 0);
}

static void options_that_make_no_sense_are_misuse(void **state)
{
	struct sandbox_opts bad[] = {
		{.mode = (enum luamem_mode)7},
		{.granule = 12},
		{.limit = 1000000, .reserve = 1000001},
		{.mode = LUAMEM_NATIVE, .reserve = 1},
		{.timeout_ns = BOX_MS, .flags = SANDBOX_NO_SIGNAL},
		{.flags = SANDBOX_ALLOW_JIT, .limit = BOX_MIB},
		{.flags = SANDBOX_ALLOW_JIT, .timeout_ns = BOX_MS},
		{.flags = SANDBOX_ALLOW_JIT, .instructions = 1},
		{.flags = 1u << 31},
	};

	(void)state;
	for (size_t i = 0; i < lengthof(bad); i++) {
		struct box box;

		assert_int_equal(box_try(&box, bad[i]), SANDBOX_MISUSE);
		box_close(&box);
	}
}

static void results_come_back(void **state)
{
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	assert_int_equal(box_run(&box, "return 1, 'two', nil, true", -1),
	                 SANDBOX_OK);
	assert_int_equal(lua_gettop(box.L), 4);
	assert_true(lua_tonumber(box.L, 1) == 1);
	assert_string_equal(lua_tostring(box.L, 2), "two");
	lua_settop(box.L, 0);
	assert_int_equal(box_load(&box, "local a, b = ... return a + b"),
	                 SANDBOX_OK);
	assert_int_equal(sandbox_push_integer(box.sb, 40), SANDBOX_OK);
	assert_int_equal(sandbox_push_number(box.sb, 2), SANDBOX_OK);
	assert_int_equal(sandbox_call(box.sb, 2, 1), SANDBOX_OK);
	assert_true(lua_tonumber(box.L, -1) == 42);
	lua_settop(box.L, 0);
	box_close(&box);
}

static int add_one(lua_State *L)
{
	lua_pushnumber(L, lua_tonumber(L, 1) + 1);
	return 1;
}

static void each_kind_of_value_can_be_pushed(void **state)
{
	struct box box;
	int dummy;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	assert_int_equal(sandbox_push_nil(box.sb), SANDBOX_OK);
	assert_int_equal(sandbox_push_boolean(box.sb, 1), SANDBOX_OK);
	assert_int_equal(sandbox_push_number(box.sb, 2.5), SANDBOX_OK);
	assert_int_equal(sandbox_push_integer(box.sb, -7), SANDBOX_OK);
	assert_int_equal(sandbox_push_string(box.sb, "a\0b", 3), SANDBOX_OK);
	assert_int_equal(sandbox_push_lightuserdata(box.sb, &dummy),
	                 SANDBOX_OK);
	assert_int_equal(sandbox_push_function(box.sb, add_one), SANDBOX_OK);
	assert_true(lua_isnil(box.L, 1));
	assert_true(lua_toboolean(box.L, 2));
	assert_true(lua_tonumber(box.L, 3) == 2.5);
	assert_true(lua_tointeger(box.L, 4) == -7);
	size_t size;
	assert_memory_equal(lua_tolstring(box.L, 5, &size), "a\0b", 3);
	assert_int_equal(size, 3);
	assert_ptr_equal(lua_touserdata(box.L, 6), &dummy);
	assert_int_equal(sandbox_set_global(box.sb, "add_one"), SANDBOX_OK);
	lua_settop(box.L, 0);
	assert_int_equal(box_run(&box, "return add_one(41)", 1), SANDBOX_OK);
	assert_true(lua_tonumber(box.L, 1) == 42);
	lua_settop(box.L, 0);
	assert_int_equal(sandbox_push_global(box.sb, "_VERSION"), SANDBOX_OK);
	assert_string_equal(lua_tostring(box.L, 1), LUA_VERSION);
	assert_int_equal(sandbox_push_function(box.sb, NULL), SANDBOX_MISUSE);
	assert_int_equal(sandbox_push_string(box.sb, "", SIZE_MAX),
	                 SANDBOX_MISUSE);
	static char large[2 * BOX_MIB];
	assert_int_equal(sandbox_push_string(box.sb, large, sizeof(large)),
	                 SANDBOX_MEM_LIMIT);
	assert_int_equal(lua_gettop(box.L), 1);
	lua_settop(box.L, 0);
	box_close(&box);
}

static void the_stack_grows_as_values_are_pushed(void **state)
{
	struct box box;
	int rc = SANDBOX_OK, n;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = 4 * BOX_MIB});
	for (n = 0; rc == SANDBOX_OK && n < 100000; n++)
		rc = sandbox_push_integer(box.sb, n);
	assert_int_equal(rc, SANDBOX_MISUSE);
	assert_true(n > 5000);
	for (int i = 1; i < n; i++)
		assert_true(lua_tointeger(box.L, i) == i - 1);
	lua_settop(box.L, 0);
	box_close(&box);
}

static void references_keep_values(void **state)
{
	struct box box;
	int a, b;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	assert_int_equal(sandbox_ref(box.sb, &a), SANDBOX_MISUSE);
	assert_int_equal(box_load(&box, "return 'first'"), SANDBOX_OK);
	assert_int_equal(sandbox_ref(box.sb, &a), SANDBOX_OK);
	assert_int_equal(sandbox_push_string(box.sb, "second", 6), SANDBOX_OK);
	assert_int_equal(sandbox_ref(box.sb, &b), SANDBOX_OK);
	assert_int_equal(lua_gettop(box.L), 0);
	for (int i = 0; i < 100; i++) {
		sandbox_push_ref(box.sb, a);
		assert_int_equal(sandbox_call(box.sb, 0, 1), SANDBOX_OK);
		assert_string_equal(lua_tostring(box.L, 1), "first");
		sandbox_push_ref(box.sb, b);
		assert_string_equal(lua_tostring(box.L, 2), "second");
		lua_settop(box.L, 0);
	}
	sandbox_unref(box.sb, a);
	sandbox_unref(box.sb, b);
	box_close(&box);
}

/* An error object of any type comes out as it went in. */
static void error_objects_survive(void **state)
{
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	assert_int_equal(box_run(&box, "error({code = 7})", 0), SANDBOX_ERROR);
	assert_true(lua_istable(box.L, 1));
	lua_getfield(box.L, 1, "code");
	assert_true(lua_tonumber(box.L, -1) == 7);
	assert_string_equal(sandbox_message(box.sb),
	                    "(error object is a table value)");
	lua_settop(box.L, 0);
	assert_int_equal(box_run(&box, "error()", 0), SANDBOX_ERROR);
	assert_true(lua_isnil(box.L, 1));
	lua_settop(box.L, 0);
	assert_int_equal(box_run(&box, "error(function() end)", 0),
	                 SANDBOX_ERROR);
	assert_true(lua_isfunction(box.L, 1));
	lua_settop(box.L, 0);
	assert_int_equal(box_run(&box, "error('text', 0)", 0), SANDBOX_ERROR);
	assert_string_equal(sandbox_message(box.sb), "text");
	lua_settop(box.L, 0);
	assert_int_equal(box_run(&box, "local x = nil + 1", 0), SANDBOX_ERROR);
	assert_non_null(strstr(sandbox_message(box.sb), "test:1: attempt"));
	lua_settop(box.L, 0);
	box_close(&box);
}

static void syntax_errors_have_their_code(void **state)
{
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	assert_int_equal(box_load(&box, "for"), SANDBOX_SYNTAX);
	assert_non_null(strstr(sandbox_message(box.sb), "test:1:"));
	assert_int_equal(lua_gettop(box.L), 1);
	lua_settop(box.L, 0);
	assert_int_equal(box_load(&box, LUA_SIGNATURE "rest"), SANDBOX_SYNTAX);
	lua_settop(box.L, 0);
	assert_int_equal(box_load(&box, ""), SANDBOX_OK);
	lua_settop(box.L, 0);
	box_still_works(&box);
	box_close(&box);
}

static void traceback_is_added_when_asked_for(void **state)
{
	struct box box;

	(void)state;
	box_open(&box,
	         (struct sandbox_opts){.flags = BOX_FULL | SANDBOX_TRACEBACK});
	assert_int_equal(
		box_run(&box, "local function f() error('x') end f()", 0),
		SANDBOX_ERROR);
	assert_non_null(strstr(sandbox_message(box.sb), "test:1: x"));
	assert_non_null(strstr(sandbox_message(box.sb), "stack traceback:"));
	assert_int_equal(lua_gettop(box.L), 1);
	lua_settop(box.L, 0);
	box_close(&box);
}

static int nested(lua_State *L)
{
	struct sandbox *sb = sandbox_of(L);

	lua_pushinteger(L, sandbox_load(sb, "", 0, "=x"));
	lua_pushinteger(L, sandbox_call(sb, 0, 0));
	lua_pushinteger(L, sandbox_push_nil(sb));
	lua_pushinteger(L, sandbox_set_timeout(sb, 0));
	lua_pushinteger(L, sandbox_set_instructions(sb, 0));
	lua_pushinteger(L, sandbox_set_thread(sb));
	return 6;
}

static void calls_from_inside_a_call_are_misuse(void **state)
{
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	assert_int_equal(sandbox_call(box.sb, 0, 0), SANDBOX_MISUSE);
	assert_int_equal(sandbox_call(box.sb, -1, 0), SANDBOX_MISUSE);
	assert_int_equal(sandbox_push_function(box.sb, nested), SANDBOX_OK);
	assert_int_equal(sandbox_call(box.sb, 0, 6), SANDBOX_OK);
	for (int i = 1; i <= 6; i++)
		assert_int_equal(lua_tointeger(box.L, i), SANDBOX_MISUSE);
	lua_settop(box.L, 0);
	box_close(&box);
}

static int make_table(lua_State *L)
{
	int *n = lua_touserdata(L, 1);

	lua_newtable(L);
	for (int i = 1; i <= *n; i++) {
		lua_pushinteger(L, i);
		lua_rawseti(L, -2, i);
	}
	return 1;
}

static void arguments_that_make_no_sense_are_misuse(void **state)
{
	struct box box;
	int ref;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	box_calls_wrongly(&box);
	lua_settop(box.L, 0);
	assert_int_equal(sandbox_load(box.sb, NULL, 1, "=x"), SANDBOX_MISUSE);
	assert_int_equal(sandbox_load(box.sb, "", 0, NULL), SANDBOX_MISUSE);
	assert_int_equal(sandbox_protect(box.sb, NULL, NULL), SANDBOX_MISUSE);
	assert_int_equal(sandbox_push_string(box.sb, NULL, 1), SANDBOX_MISUSE);
	assert_int_equal(sandbox_push_global(box.sb, NULL), SANDBOX_MISUSE);
	assert_int_equal(sandbox_newthread(box.sb, NULL), SANDBOX_MISUSE);
	assert_int_equal(sandbox_set_global(box.sb, "empty"), SANDBOX_MISUSE);
	assert_int_equal(sandbox_ref(box.sb, &ref), SANDBOX_MISUSE);
	assert_int_equal(lua_gettop(box.L), 0);
	assert_int_equal(sandbox_push_nil(box.sb), SANDBOX_OK);
	assert_int_equal(sandbox_set_global(box.sb, NULL), SANDBOX_MISUSE);
	assert_int_equal(sandbox_ref(box.sb, NULL), SANDBOX_MISUSE);
	assert_int_equal(sandbox_set_limit(box.sb, 2 * BOX_MIB),
	                 SANDBOX_MISUSE); /* above max_limit */
	assert_int_equal(sandbox_open(NULL, &box.sb), SANDBOX_MISUSE);
	assert_ptr_equal(box.sb, NULL);
	assert_int_equal(sandbox_open(&(struct sandbox_opts){0}, NULL),
	                 SANDBOX_MISUSE);
	box.sb = sandbox_of(box.L);
	box_close(&box);
}

/* As many results as are asked for, also when they are more than a call
 * leaves room for. */
static void any_number_of_results(void **state)
{
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	for (int n = -1; n <= 3000; n = n < 20 ? n + 1 : n * 2) {
		assert_int_equal(box_run(&box, "return 1, 2, 3", n),
		                 SANDBOX_OK);
		assert_int_equal(lua_gettop(box.L), n >= 0 ? n : 3);
		if (n > 3)
			assert_true(lua_isnil(box.L, n));
		lua_settop(box.L, 0);
	}
	/* no memory for them: one value in place of function and arguments */
	assert_int_equal(box_load(&box, "return 1"), SANDBOX_OK);
	fault_set(FAULT_BLOCK, 1, true);
	int rc = sandbox_call(box.sb, 0, 6900);
	fault_clear();
	assert_int_equal(rc, SANDBOX_MEM_SYSTEM);
	assert_int_equal(lua_gettop(box.L), 1);
	lua_settop(box.L, 0);
	box_still_works(&box);
	box_close(&box);
}

static void protect_runs_what_allocates(void **state)
{
	struct box box;
	int n = 100;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = 256 * 1024});
	assert_int_equal(sandbox_protect(box.sb, make_table, &n), SANDBOX_OK);
	lua_rawgeti(box.L, 1, 100);
	assert_int_equal(lua_tointeger(box.L, -1), 100);
	lua_settop(box.L, 0);
	n = 1000000;
	assert_int_equal(sandbox_protect(box.sb, make_table, &n),
	                 SANDBOX_MEM_LIMIT);
	lua_settop(box.L, 0);
	box_still_works(&box);
	box_close(&box);
}

static void names_of_codes(void **state)
{
	(void)state;
	assert_string_equal(sandbox_rc_name(SANDBOX_OK), "ok");
	assert_string_equal(sandbox_rc_name(SANDBOX_MISUSE), "misuse");
	assert_string_equal(sandbox_rc_name(-1), "unknown");
	assert_string_equal(sandbox_rc_name(99), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_run_close_in_each_mode),
		cmocka_unit_test(drop_gives_everything_back),
		cmocka_unit_test(options_that_make_no_sense_are_misuse),
		cmocka_unit_test(results_come_back),
		cmocka_unit_test(each_kind_of_value_can_be_pushed),
		cmocka_unit_test(the_stack_grows_as_values_are_pushed),
		cmocka_unit_test(references_keep_values),
		cmocka_unit_test(error_objects_survive),
		cmocka_unit_test(syntax_errors_have_their_code),
		cmocka_unit_test(traceback_is_added_when_asked_for),
		cmocka_unit_test(calls_from_inside_a_call_are_misuse),
		cmocka_unit_test(arguments_that_make_no_sense_are_misuse),
		cmocka_unit_test(any_number_of_results),
		cmocka_unit_test(protect_runs_what_allocates),
		cmocka_unit_test(names_of_codes),
	};

	return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
