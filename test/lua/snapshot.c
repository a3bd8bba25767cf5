/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * snapshot: whatever a run did to the interpreter, the one after a rollback
 * answers as the first; also after runs that ended badly.
 */
#include "box.h"

#define ROUNDS 20000

/* Counts what it finds changed: 0 in a fresh interpreter, and changes it. */
static const char prelude[] =
	"local hidden = 0\n"
	"local kept = coroutine.wrap(function()\n"
	"  local n = 0 while true do coroutine.yield(n) n = n + 1 end end)\n"
	"shared = {list = {}}\n"
	"for i = 1, 20 do shared.list[i] = 'entry ' .. i end\n"
	"function touch(n)\n"
	"  local found = hidden hidden = hidden + 1\n"
	"  found = found + kept()\n"
	"  if extra ~= nil then found = found + 1 end\n"
	"  extra = {n}\n"
	"  if ('x').mark then found = found + 1 end\n"
	"  getmetatable('').__index.mark = function() return n end\n"
	"  if getmetatable('').__call then found = found + 1 end\n"
	"  getmetatable('').__call = function(s) return #s end\n"
	"  if math.huge ~= 1 / 0 then found = found + 1 end\n"
	"  math.huge = n\n"
	"  if #shared.list ~= 20 or shared.list[3] ~= 'entry 3' then\n"
	"    found = found + 1 end\n"
	"  shared.list[3] = nil shared.list[#shared.list + 1] = n\n"
	"  if getmetatable(shared) then found = found + 1 end\n"
	"  setmetatable(shared, {__index = _G})\n"
	"  string.format = nil pairs = nil\n"
	"  return found\n"
	"end\n";

/* The interpreter as a host would prepare it, with values on the stack. */
static void prepare(struct box *box, struct sandbox_opts opts)
{
	box_open(box, opts);
	box_expect(box, prelude, SANDBOX_OK);
	assert_int_equal(sandbox_push_global(box->sb, "touch"), SANDBOX_OK);
	assert_int_equal(sandbox_push_string(box->sb, "below", 5), SANDBOX_OK);
	assert_int_equal(sandbox_snapshot(box->sb, NULL), SANDBOX_OK);
}

/* The result of one run. */
static int touched(struct box *box, int n)
{
	int found;

	lua_pushvalue(box->L, 1);
	lua_pushinteger(box->L, n);
	assert_int_equal(sandbox_call(box->sb, 1, 1), SANDBOX_OK);
	found = (int)lua_tointeger(box->L, -1);
	lua_pop(box->L, 1);
	return found;
}

static void back(struct box *box)
{
	assert_int_equal(sandbox_rollback(box->sb), SANDBOX_OK);
	assert_int_equal(lua_gettop(box->L), 2);
	assert_string_equal(lua_tostring(box->L, 2), "below");
}

static void a_run_leaves_no_trace(void **state)
{
	size_t rounds = test_scale(ROUNDS);
	struct box box;

	(void)state;
	prepare(&box, (struct sandbox_opts){.limit = BOX_MIB});
	assert_int_equal(touched(&box, 1), 0);
	assert_true(touched(&box, 2) > 7); /* the test sees what it changes */
	for (size_t i = 0; i < rounds; i++) {
		back(&box);
		assert_int_equal(touched(&box, (int)i), 0);
	}
	assert_ptr_equal(sandbox_check(box.sb), NULL);
	back(&box);
	box_close(&box);
}

/* --- the state of the interpreter that no table shows --- */

static void hook(lua_State *L, lua_Debug *ar)
{
	(void)L, (void)ar;
}

/* Registry, hook, collector: what only a host reaches. */
static int disturb(lua_State *L)
{
	lua_pushliteral(L, "left behind");
	lua_setfield(L, LUA_REGISTRYINDEX, "test.left");
	lua_sethook(L, hook, LUA_MASKLINE, 0);
	lua_gc(L, LUA_GCSTOP, 0);
	lua_gc(L, LUA_GCSETPAUSE, 999);
	lua_gc(L, LUA_GCSETSTEPMUL, 777);
#if BOX_54
	lua_gc(L, LUA_GCGEN, 33, 44);
#endif
	lua_newtable(L);
	lua_setfield(L, LUA_REGISTRYINDEX, "test.table");
	return 0;
}

struct settings {
	int pause, stepmul, running, generational;
	size_t count;
	int hooked, left; /* no padding: compared as bytes */
};

static struct settings settings_of(struct box *box)
{
	struct settings s = {0};
	lua_State *L = box->L;

	s.count = (size_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024 +
	          (size_t)lua_gc(L, LUA_GCCOUNTB, 0);
	s.pause = lua_gc(L, LUA_GCSETPAUSE, 200);
	s.stepmul = lua_gc(L, LUA_GCSETSTEPMUL, 200);
	lua_gc(L, LUA_GCSETPAUSE, s.pause);
	lua_gc(L, LUA_GCSETSTEPMUL, s.stepmul);
#if !BOX_51 || BOX_JIT
	s.running = lua_gc(L, LUA_GCISRUNNING, 0);
#endif
#if BOX_54
	s.generational = lua_gc(L, LUA_GCINC, 0, 0, 0);
	if (s.generational == LUA_GCGEN)
		lua_gc(L, LUA_GCGEN, 0, 0);
#endif
	s.hooked = lua_gethook(L) != NULL;
	lua_getfield(L, LUA_REGISTRYINDEX, "test.left");
	s.left = !lua_isnil(L, -1);
	lua_pop(L, 1);
	return s;
}

static void registry_hook_and_collector_are_put_back(void **state)
{
	size_t rounds = test_scale(2000);
	struct settings first, disturbed, now;
	struct box box;

	(void)state;
	prepare(&box, (struct sandbox_opts){.limit = BOX_MIB});
	back(&box);
	first = settings_of(&box);
	for (size_t i = 0; i < rounds; i++) {
		assert_int_equal(sandbox_protect(box.sb, disturb, NULL),
		                 SANDBOX_OK);
		disturbed = settings_of(&box);
		assert_true(disturbed.hooked && disturbed.left);
		assert_true(disturbed.pause != first.pause);
		back(&box);
		now = settings_of(&box);
		assert_memory_equal(&now, &first, sizeof(now));
	}
	back(&box);
	box_close(&box);
}

/* A loop that allocates the same sees the collector do the same. */
static void the_collector_goes_on_from_where_it_was(void **state)
{
	const char *churn = "local n = 0 for i = 1, 3000 do local t = {i} "
			    "n = n + collectgarbage('count') end return n";
	struct box box;
	double first = 0;

	(void)state;
	prepare(&box, (struct sandbox_opts){.limit = BOX_MIB});
	for (int i = 0; i < 20; i++) {
		assert_int_equal(box_run(&box, churn, 1), SANDBOX_OK);
		if (i == 0)
			first = lua_tonumber(box.L, -1);
		assert_true(lua_tonumber(box.L, -1) == first);
		back(&box);
	}
	box_close(&box);
}

/* The order of a table's keys follows the seed of the hashes. */
static void hashes_and_random_numbers_repeat(void **state)
{
	const char *text = "local s = '' for i = 1, 40 do _G['k' .. i] = i end "
			   "for k in pairs(_G) do s = s .. k end "
			   "for i = 1, 5 do s = s .. math.random(1e6) end "
			   "return s";
	const char *seeded = "math.randomseed(7) local s = '' "
			     "for i = 1, 5 do s = s .. ' ' .. math.random(1e6) "
			     "end return s";
	struct box box;
	char first[2][2048];

	(void)state;
	prepare(&box, (struct sandbox_opts){.limit = BOX_MIB});
	for (int i = 0; i < 20; i++) {
		for (int j = 0; j < 2; j++) {
			const char *run = j == 0 ? text : seeded;

			assert_int_equal(box_run(&box, run, 1), SANDBOX_OK);
			if (i == 0)
				snprintf(first[j], sizeof(first[j]), "%s",
				         lua_tostring(box.L, -1));
			assert_string_equal(lua_tostring(box.L, -1), first[j]);
			back(&box);
		}
	}
	box_close(&box);
}

/* Neither the host nor another sandbox draws from the same numbers. */
static void random_numbers_are_the_sandboxes_own(void **state)
{
	const char *seed = "math.randomseed(3) return math.random(1000000)";
	const char *next = "return math.random(1000000)";
	struct box box[2];
	lua_Number first = 0;

	(void)state;
	for (int i = 0; i < 2; i++)
		box_open(&box[i], (struct sandbox_opts){.limit = BOX_MIB});
	for (int i = 0; i < 3; i++) {
		assert_int_equal(box_run(&box[0], seed, 0), SANDBOX_OK);
		if (i > 0)
			srand(9);
		if (i > 1)
			box_expect(&box[1], "math.randomseed(8)", SANDBOX_OK);
		assert_int_equal(box_run(&box[0], next, 1), SANDBOX_OK);
		if (i == 0)
			first = lua_tonumber(box[0].L, -1);
		assert_true(lua_tonumber(box[0].L, -1) == first);
		lua_settop(box[0].L, 0);
	}
	for (int i = 0; i < 2; i++)
		box_close(&box[i]);
}

/* A coroutine from before is where it was; so is one that had ended. */
static void coroutines_are_where_they_were(void **state)
{
	size_t rounds = test_scale(ROUNDS) / 10;
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	box_expect(&box,
	           "co = coroutine.create(function(a) for i = 1, 3 do "
	           "a = a + coroutine.yield(a) end error('end') end)\n"
	           "coroutine.resume(co, 5)\n"
	           "function go() local ok, v = coroutine.resume(co, 10)\n"
	           "  return coroutine.status(co) .. tostring(v) end",
	           SANDBOX_OK);
	assert_int_equal(sandbox_snapshot(box.sb, NULL), SANDBOX_OK);
	for (size_t i = 0; i <= rounds; i++) {
		assert_int_equal(box_run(&box, "return go()", 1), SANDBOX_OK);
		assert_string_equal(lua_tostring(box.L, -1), "suspended15");
		box_expect(&box, "go() go() go() go()", SANDBOX_OK);
		assert_int_equal(sandbox_rollback(box.sb), SANDBOX_OK);
		assert_int_equal(lua_gettop(box.L), 0);
	}
	box_close(&box);
}

/* --- runs that end badly --- */

struct bad {
	const char *text;
	int rc;
	size_t rounds;
};

static void after_any_ending_the_next_run_is_the_first(void **state)
{
	const struct bad bad[] = {
		{"local t = {} for i = 1, 1e9 do t[i] = {i} end",
	         SANDBOX_MEM_LIMIT, test_scale(200)},
		{"local s = 'x' while true do s = s .. s end",
	         SANDBOX_MEM_LIMIT, test_scale(500)},
		{"error({})", SANDBOX_ERROR, test_scale(ROUNDS)},
		{"local x = nil x.y = coroutine.wrap(error)", SANDBOX_ERROR,
	         test_scale(ROUNDS)},
		{"while true do end", SANDBOX_INSTRUCTIONS, test_scale(200)},
		{"coroutine.wrap(function() while true do end end)()",
	         SANDBOX_INSTRUCTIONS, test_scale(200)},
	};

	(void)state;
	for (size_t k = 0; k < lengthof(bad); k++) {
		struct box box;
		size_t total;

		prepare(&box, (struct sandbox_opts){.limit = BOX_MIB,
		                                    .instructions = 2000000});
		total = quota_used(&box.core.quota);
		for (size_t i = 0; i < bad[k].rounds; i++) {
			assert_int_equal(touched(&box, 1), 0);
			assert_int_equal(box_run(&box, bad[k].text, 0),
			                 bad[k].rc);
			back(&box);
			assert_int_equal(quota_used(&box.core.quota), total);
			assert_int_equal(box_mem(&box).refused, 0);
		}
		assert_int_equal(touched(&box, 1), 0);
		back(&box);
		box_close(&box);
	}
}

/* --- limits, commit, statistics --- */

static void limits_and_statistics_are_put_back(void **state)
{
	struct sandbox_stats first, now;
	struct box box;
	size_t quota;

	(void)state;
	memset(&first, 0, sizeof(first)); /* what pads it, too */
	memset(&now, 0, sizeof(now));
	prepare(&box, (struct sandbox_opts){.limit = 4 * BOX_MIB,
	                                    .max_limit = 16 * BOX_MIB,
	                                    .instructions = 1000000000});
	sandbox_stats(box.sb, &first);
	quota = quota_used(&box.core.quota);
	for (int i = 0; i < 10; i++) {
		sandbox_set_limit(box.sb, i % 2 == 0 ? 16 * BOX_MIB : 1);
		sandbox_set_instructions(box.sb, i % 3 == 0 ? 0 : 5000000000);
		if (i % 2 == 0)
			box_expect(&box,
			           "keep = {} for i = 1, 60000 do keep[i] = {i}"
			           " end",
			           SANDBOX_OK);
		back(&box);
		sandbox_stats(box.sb, &now);
		assert_memory_equal(&now.mem, &first.mem, sizeof(now.mem));
		assert_int_equal(now.calls, first.calls);
		assert_int_equal(quota_used(&box.core.quota), quota);
		assert_ptr_equal(sandbox_check(box.sb), NULL);
	}
	box_close(&box);
}

/* What a host charged by itself is its own affair. */
static void what_was_taken_stays_taken(void **state)
{
	struct luamem *mem;
	struct box box;
	size_t used;

	(void)state;
	prepare(&box, (struct sandbox_opts){.limit = BOX_MIB});
	mem = sandbox_mem(box.sb);
	used = luamem_used(mem);
	assert_int_equal(luamem_take(mem, 10000), 0);
	back(&box);
	assert_int_equal(luamem_used(mem), used + 10000);
	assert_ptr_equal(sandbox_check(box.sb), NULL);
	luamem_give(mem, 10000);
	assert_int_equal(luamem_used(mem), used);
	back(&box);
	box_close(&box);
}

/* A large heap takes the way by pages. */
static void a_heap_of_some_mib_is_put_back(void **state)
{
	size_t rounds = test_scale(200);
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = 16 * BOX_MIB});
	box_expect(&box,
	           "t = {} for i = 1, 20000 do t[i] = {i, tostring(i)} end\n"
	           "function sum() local n = 0 for i = 1, #t do "
	           "n = n + t[i][1] + #t[i][2] end return n end",
	           SANDBOX_OK);
	assert_int_equal(sandbox_snapshot(box.sb, NULL), SANDBOX_OK);
	for (size_t i = 0; i < rounds; i++) {
		assert_int_equal(box_run(&box, "return sum()", 1), SANDBOX_OK);
		assert_int_equal(lua_tointeger(box.L, -1), 200098894);
		box_expect(&box,
		           "for i = 1, #t, 37 do t[i][1] = 'x' t[i][2] = {} "
		           "end t[5] = nil collectgarbage()",
		           SANDBOX_OK);
		assert_int_equal(sandbox_rollback(box.sb), SANDBOX_OK);
		assert_int_equal(lua_gettop(box.L), 0);
	}
	box_close(&box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_leaves_no_trace),
		cmocka_unit_test(registry_hook_and_collector_are_put_back),
		cmocka_unit_test(the_collector_goes_on_from_where_it_was),
		cmocka_unit_test(hashes_and_random_numbers_repeat),
		cmocka_unit_test(random_numbers_are_the_sandboxes_own),
		cmocka_unit_test(coroutines_are_where_they_were),
		cmocka_unit_test(after_any_ending_the_next_run_is_the_first),
		cmocka_unit_test(limits_and_statistics_are_put_back),
		cmocka_unit_test(what_was_taken_stays_taken),
		cmocka_unit_test(a_heap_of_some_mib_is_put_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
