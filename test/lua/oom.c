/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * oom: memory that runs out anywhere. Each growth of opening, compiling,
 * running and closing is refused once, and from then on: the result is a
 * memory error or nothing, never the panic function, nothing is leaked, and
 * the state works afterwards.
 */
#include "box.h"

#include <fcntl.h>
#include <unistd.h>

/* At most some 3,000 allocations each. */
static const char *const scripts[] = {
	"local t = {} for i = 1, 300 do t[i] = function() return i end end "
	"local s = 0 for i = 1, 300 do s = s + t[i]() end assert(s == 45150)",
	"local s = 0 for i = 1, 40 do "
	"local co = coroutine.wrap(function(a) "
	"for j = 1, 3 do a = coroutine.yield(a + j) end return 0 end) "
	"s = s + co(i) + co(1) + co(2) end assert(s > 0)",
	"local s = '' for i = 1, 200 do s = s .. i .. ',' end "
	"assert(#s == 692)",
	"local t = {} for i = 1, 400 do t['k' .. i] = i end "
	"for i = 1, 400 do t[i] = i end assert(t.k400 == 400)",
	"local t = {} for i = 1, 300 do t[i] = (i * 7919) % 301 .. '' end "
	"table.sort(t) assert(t[1] <= t[300])",
	"local s = ('hello world '):rep(30):gsub('%w+', function(w) "
	"return w:upper() .. #w end) assert(#s == 420)",
	"local function f(n) if n == 0 then return 0 end "
	"return 1 + f(n - 1) end assert(f(1000) == 1000)",
	"local load = loadstring or load for i = 1, 20 do "
	"local f = assert(load('local a = ' .. i .. ' return a * 2')) "
	"assert(f() == 2 * i) end",
	"local t = setmetatable({}, {__index = function(t, k) "
	"return k .. k end, __concat = function(a, b) return 'cat' end}) "
	"for i = 1, 100 do assert(t['x' .. i]) end assert(t .. t == 'cat')",
	"for i = 1, 50 do local ok, e = pcall(error, {i}) "
	"assert(not ok and e[1] == i) end "
	"for i = 1, 20 do local ok, e = xpcall(function() error('x' .. i) "
	"end, function(m) return m .. '!' end) assert(e:find('!')) end",
	"local t = {} for i = 1, 100 do t[#t + 1] = string.format('%d %s %g', "
	"i, 'x', i / 3) end assert(#table.concat(t, '|') > 500)",
	"local co = coroutine.create(function(...) "
	"local t = {coroutine.yield(...)} error('in co' .. #t) end) "
	"local a = {} for i = 1, 60 do a[i] = i end "
	"local unpack = table.unpack or unpack "
	"coroutine.resume(co, unpack(a)) "
	"local ok, e = coroutine.resume(co, unpack(a)) assert(not ok)",
};

/* These need more than the whitelist. */
static const char *const full_scripts[] = {
	"package.preload.m = function() return {x = ('y'):rep(100)} end "
	"assert(#require('m').x == 100)",
	"local gc = newproxy and function(f) local p = newproxy(true) "
	"getmetatable(p).__gc = f end or function(f) "
	"setmetatable({}, {__gc = f}) end "
	"for i = 1, 20 do gc(function() local t = {} "
	"for j = 1, 10 do t[j] = {} end end) end collectgarbage()",
	"local gc = newproxy and function(f) local p = newproxy(true) "
	"getmetatable(p).__gc = f end or function(f) "
	"setmetatable({}, {__gc = f}) end "
	/* Up to 5.3 a step of the collector raises their errors anywhere. */
	"collectgarbage('stop') "
	"for i = 1, 20 do gc(function() local t = {i, {}} "
	"error('in finalizer ' .. i) end) end "
	"for i = 1, 25 do pcall(collectgarbage) end collectgarbage('restart')",
	"local f = assert(io.open('/dev/null')) f:read('*a') f:close() "
	"local t = os.date('*t', 0) assert(t.year)",
};

/*
 * LuaJIT frees a closure whose upvalues it could not allocate with a size
 * that is 8 bytes an upvalue too small: those bytes stay in the piece until
 * it is dropped. A debug build of the library ends the process for that, so
 * there what makes closures runs over malloc.
 */
#define LOST (BOX_JIT ? 64 : 0)
#ifdef NDEBUG
# define SIZES_LIE 0
#else
# define SIZES_LIE BOX_JIT
#endif

static bool is_memory(int rc)
{
	return rc >= SANDBOX_MEM_LIMIT && rc <= SANDBOX_MEM_SYSTEM;
}

/* One whole life with faults set at n; false when none was hit. */
static bool live(const struct sandbox_opts *opts, const char *script, size_t n,
                 bool from_then_on)
{
	struct box box;
	bool hit;
	int rc;

	fault_set(FAULT_BLOCK, n, from_then_on);
	rc = box_try(&box, *opts);
	if (rc == SANDBOX_OK)
		rc = box_run(&box, script, 0);
	hit = fault_refused() > 0;
	fault_clear();
	if (rc != SANDBOX_OK && !is_memory(rc)) {
		print_message("n=%zu %s: %s\n%s\n", n, sandbox_rc_name(rc),
		              box.sb != NULL ? sandbox_message(box.sb) : "",
		              script);
		assert_true(is_memory(rc));
	}
	if (box.sb != NULL) {
		lua_settop(box.L, 0);
		/* finalizers that are still to come may raise errors */
		box_expect(&box,
		           "for i = 1, 25 do pcall(collectgarbage) end "
		           "pcall(collectgarbage, 'restart')",
		           SANDBOX_OK);
		box_still_works(&box);
		box.lost = rc != SANDBOX_OK ? LOST : 0;
	}
	box_close(&box);
	return hit;
}

/* Growths of a life without faults. */
static size_t count_growths(const struct sandbox_opts *opts, const char *script)
{
	size_t n;

	assert_false(live(opts, script, SIZE_MAX, false));
	fault_set(FAULT_BLOCK, SIZE_MAX, false);
	struct box box;
	assert_int_equal(box_try(&box, *opts), SANDBOX_OK);
	assert_int_equal(box_run(&box, script, 0), SANDBOX_OK);
	box_close(&box);
	n = fault_seen();
	fault_clear();
	return n;
}

/* Every n at scale 1; else every step-th from a random one. */
static void sweep(const struct sandbox_opts *opts, const char *script)
{
	static uint64_t seed;
	size_t n = count_growths(opts, script);
	size_t step = n / test_scale(n);

	if (seed == 0)
		seed = test_seed("sweep");
	for (int on = 0; on <= 1; on++) {
		size_t i = test_random(&seed) % step + 1;

		for (; i <= n; i += step)
			live(opts, script, i, on == 1);
	}
}

static void each_growth_refused_in_the_whitelist(void **state)
{
	struct sandbox_opts opts = {.limit = 4 * BOX_MIB};

	(void)state;
	if (SIZES_LIE)
		opts = (struct sandbox_opts){.mode = LUAMEM_NATIVE};
	for (size_t i = 0; i < lengthof(scripts); i++)
		sweep(&opts, scripts[i]);
}

static void each_growth_refused_with_all_libraries(void **state)
{
	struct sandbox_opts opts = {.limit = 4 * BOX_MIB, .flags = BOX_FULL};

	(void)state;
	if (SIZES_LIE) {
		opts.mode = LUAMEM_NATIVE;
		opts.limit = 0;
	}
	for (size_t i = 0; i < lengthof(full_scripts); i++)
		sweep(&opts, full_scripts[i]);
}

static void each_growth_refused_over_malloc(void **state)
{
	struct sandbox_opts opts = {.mode = LUAMEM_NATIVE};

	(void)state;
	sweep(&opts, scripts[1]);
	sweep(&opts, scripts[7]);
}

static int returns_nothing(lua_State *L)
{
	(void)L;
	return 0;
}

/* The host's own calls near the limit. */
static void host_calls_fail_cleanly(void **state)
{
	struct box box;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	for (size_t n = 1; n < 12; n++) {
		lua_State *co;
		int ref, rc[6];

		fault_set(FAULT_BLOCK, n, true);
		rc[0] = sandbox_newthread(box.sb, &co);
		assert_true((rc[0] == SANDBOX_OK) == (co != NULL));
		rc[1] = sandbox_push_string(box.sb, "some new string", 15);
		rc[2] = sandbox_push_function(box.sb, returns_nothing);
		rc[3] = rc[2] == SANDBOX_OK ? sandbox_ref(box.sb, &ref) : 0;
		rc[4] = sandbox_push_global(box.sb, "a name not seen before");
		rc[5] = box_load(&box, "return 1, 'a', {2}");
		fault_clear();
		for (int i = 0; i < 6; i++)
			assert_true(rc[i] == SANDBOX_OK || is_memory(rc[i]));
		lua_settop(box.L, 0);
		box_still_works(&box);
	}
	box_close(&box);
}

/* The stack has to grow for arguments when nothing is left. */
static void stack_growth_fails_cleanly(void **state)
{
	struct box box;
	int rc = SANDBOX_OK;

	(void)state;
	box_open(&box, (struct sandbox_opts){.limit = BOX_MIB});
	fault_set(FAULT_BLOCK, 1, true);
	for (int i = 0; i < 1000 && rc == SANDBOX_OK; i++)
		rc = sandbox_push_integer(box.sb, i);
	fault_clear();
	assert_true(is_memory(rc));
	lua_settop(box.L, 0);
	box_still_works(&box);
	box_close(&box);
}

/* Every limit from 1 KiB up: a state that works, or a memory code. */
static void each_limit_opens_or_is_refused(void **state)
{
	size_t step = 4096 / test_scale(128);
	bool opened = false;

	(void)state;
	for (int full = 0; full <= 1; full++) {
		for (size_t limit = 1024; limit < 96 * 1024;
		     limit += step < 32 ? 32 : step) {
			struct box box;
			int rc = box_try(&box,
			                 (struct sandbox_opts){
						 .limit = limit,
						 .flags = full ? BOX_FULL : 0});
			assert_true(rc == SANDBOX_OK ||
			            rc == SANDBOX_MEM_LIMIT);
			opened |= rc == SANDBOX_OK;
			box_close(&box);
		}
	}
	assert_true(opened);
}

/* State and libraries fit in 1.10 x what they ask for in sum, as a study
 * listed it, whatever is in use over the limit counted. */
static void state_and_libraries_fit_in_little(void **state)
{
	static const size_t listed = BOX_JIT  ? 35912
	                             : BOX_51 ? 26760
	                             : BOX_53 ? 22504
	                                      : 20568;
	struct core core;
	struct luamem_stats stats;
	struct luamem mem;
	lua_State *L;

	(void)state;
	core_create(&core, SIZE_MAX, 65536);
	struct luamem_opts opts = {.cache = &core.cache,
	                           .limit = listed / 100 * 110};
	assert_int_equal(luamem_create(&mem, &opts, NULL), 0);
	/* where a refusal here is not survived it is to show, not to crash */
	if (BOX_51)
		assert_int_equal(luamem_enter_infallible(&mem, 65536), 0);
	L = lua_newstate(luamem_alloc, &mem);
	assert_non_null(L);
	luaL_openlibs(L);
	if (BOX_51)
		assert_int_equal(luamem_exit_infallible(&mem), 0);
	luamem_stats(&mem, &stats);
	assert_int_equal(luamem_felt(&mem), 0);
	assert_int_equal(stats.overflow, 0);
	lua_close(L);
	luamem_destroy(&mem);
	core_destroy(&core);
}

/* 5.1 closes the host's stdin when opening io fails inside. */
static void standard_files_stay_open(void **state)
{
	struct sandbox_opts opts = {.limit = BOX_MIB, .flags = BOX_FULL};
	size_t n = count_growths(&opts, "return 1");

	(void)state;
	for (size_t i = 1; i <= n; i++) {
		live(&opts, "return 1", i, false);
		live(&opts, "return 1", i, true);
		for (int fd = 0; fd <= 2; fd++)
			assert_true(fcntl(fd, F_GETFD) >= 0);
	}
	for (size_t limit = 2048; limit < 64 * 1024; limit += 128) {
		struct box box;

		opts.limit = limit;
		box_try(&box, opts);
		box_close(&box);
		for (int fd = 0; fd <= 2; fd++)
			assert_true(fcntl(fd, F_GETFD) >= 0);
	}
}

/* A finalizer that takes all there is while the state closes at its limit. */
static void finalizer_without_bound_at_close(void **state)
{
	struct box box;

	(void)state;
	box_open(&box,
	         (struct sandbox_opts){.limit = BOX_MIB, .flags = BOX_FULL});
	box_run(&box,
	        "local gc = function() local t = {} "
	        "while true do t[#t + 1] = {} end end "
	        "if newproxy then p = newproxy(true) getmetatable(p).__gc = gc "
	        "else p = setmetatable({}, {__gc = gc}) end "
	        "fill = {} while true do fill[#fill + 1] = {} end",
	        0);
	lua_settop(box.L, 0);
	assert_true(box_mem(&box).refused > 0);
	box_close(&box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_growth_refused_in_the_whitelist),
		cmocka_unit_test(each_growth_refused_with_all_libraries),
		cmocka_unit_test(each_growth_refused_over_malloc),
		cmocka_unit_test(host_calls_fail_cleanly),
		cmocka_unit_test(stack_growth_fails_cleanly),
		cmocka_unit_test(each_limit_opens_or_is_refused),
		cmocka_unit_test(state_and_libraries_fit_in_little),
		cmocka_unit_test(standard_files_stay_open),
		cmocka_unit_test(finalizer_without_bound_at_close),
	};

	return cmocka_run_group_tests_name("oom", tests, NULL, NULL);
}
