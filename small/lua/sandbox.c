/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox: open and close, load and call, and the calls that a host makes on
 * the state, each of them protected.
 *
 * Worst case of sandbox_call(): lua_pcall()'s and some twenty instructions;
 * sandbox_stats().mem verifies the memory side, perf's lua_calls the rest.
 */
#include <small/lua/sandbox_internal.h>

/* What lua_newstate of LuaJIT asks for at most, in sum: measured, and half of
 * it more. Of the others each failure is clean. */
#define SB_NEWSTATE_BYTES ((size_t)24 * 1024)

#define SB_ALL_FLAGS (2 * SANDBOX_NO_SIGNAL - 1)

static const char *const sb_rc_names[] = {
	"ok",           "runtime error", "syntax error",   "memory limit",
	"memory quota", "out of memory", "time limit",     "instruction limit",
	"misuse",       "busy",          "foreign module", "unsupported"};

const char *sandbox_rc_name(int rc)
{
	if (rc < 0 || rc >= (int)lengthof(sb_rc_names))
		return "unknown";
	return sb_rc_names[rc];
}

int sb_memory_rc(const struct sandbox *sb)
{
	switch (sb->mem.cause) {
	case LUAMEM_QUOTA:
		return SANDBOX_MEM_QUOTA;
	case LUAMEM_SYSTEM:
		return SANDBOX_MEM_SYSTEM;
	default:
		return SANDBOX_MEM_LIMIT;
	}
}

/* -- results ------------------------------------------------------------ */

static int sb_result(struct sandbox *sb, int status)
{
	if (sb->stop & SB_STOP_VERDICT)
		return sb->verdict;
	if (sb->stop & SB_STOP_TIME && status != SB_STATUS_OK)
		return SANDBOX_TIMEOUT;
	if (status == SB_STATUS_OK)
		return SANDBOX_OK;
	if (status == LUA_ERRMEM || luamem_felt(&sb->mem) > sb->felt)
		return sb_memory_rc(sb);
	return status == LUA_ERRSYNTAX ? SANDBOX_SYNTAX : SANDBOX_ERROR;
}

/* The message of a failure whose value is on top of the stack. */
void sb_set_message(struct sandbox *sb, int rc)
{
	lua_State *L = sb->L;

	switch (rc) {
	case SANDBOX_ERROR:
	case SANDBOX_SYNTAX:
		if (lua_type(L, -1) == LUA_TSTRING) {
			sb->message = lua_tostring(L, -1);
			return;
		}
		snprintf(sb->text, sizeof(sb->text),
		         "(error object is a %s value)",
		         lua_typename(L, lua_type(L, -1)));
		break;
	case SANDBOX_TIMEOUT:
		snprintf(sb->text, sizeof(sb->text),
		         "time limit of %" PRIu64 " ms exceeded",
		         sb->timeout_ns / 1000000);
		break;
	case SANDBOX_INSTRUCTIONS:
		snprintf(sb->text, sizeof(sb->text),
		         "limit of %" PRIu64 " instructions exceeded",
		         sb->instructions);
		break;
	case SANDBOX_MISUSE:
		snprintf(sb->text, sizeof(sb->text), "misuse");
		break;
	default:
		snprintf(sb->text, sizeof(sb->text), "not enough memory");
	}
	sb->message = sb->text;
}

int sb_misuse(struct sandbox *sb)
{
	sb_set_message(sb, SANDBOX_MISUSE);
	return SANDBOX_MISUSE;
}

const char *sandbox_message(struct sandbox *sb)
{
	return sb->message;
}

static int sb_do_collect(lua_State *L)
{
	lua_gc(L, LUA_GCCOLLECT, 0);
	return 0;
}

/* Where Lua does not collect before it says that memory is out, its garbage
 * would be in the way of the next call. */
static void sb_collect(struct sandbox *sb)
{
	sb->collecting = true;
	if (sandbox_protect(sb, sb_do_collect, NULL) != SANDBOX_OK)
		lua_pop(sb->L, 1); /* a finalizer's error */
	sb->collecting = false;
}

/* The end of a run that did not simply succeed; base is what has to remain
 * on the stack below the one error value. */
int sb_failed(struct sandbox *sb, int status, int base)
{
	int rc = sb_result(sb, status);

	luamem_deny(&sb->mem, false);
	sb->stop = 0;
	sb->verdict = SANDBOX_OK;
	if (rc == SANDBOX_OK)
		return SANDBOX_OK; /* ended in time after all */
	if (status == SB_STATUS_OK) {
		lua_settop(sb->L, base); /* results of an overdue run */
		lua_pushnil(sb->L);
	}
	if (!SB_EMERGENCY_GC && !sb->collecting && rc >= SANDBOX_MEM_LIMIT &&
	    rc <= SANDBOX_MEM_SYSTEM)
		sb_collect(sb);
	sb_set_message(sb, rc);
	return rc;
}

static void sb_begin(struct sandbox *sb)
{
	sb->felt = luamem_felt(&sb->mem);
	sb->running = sb->L;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sb->active = true;
	if (sb->instructions != 0)
		sb_begin_count(sb);
	if (sb->timeout_ns != 0)
		ticker_begin(sb->ticker, &sb->deadline, sb->timeout_ns);
}

static void sb_end(struct sandbox *sb)
{
	sb->active = false;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (sb->timeout_ns != 0)
		ticker_end(sb->ticker);
	if (sb->hooked)
		sb_unhook(sb);
}

/* -- load and call -------------------------------------------------------- */

int sandbox_load(struct sandbox *sb, const char *text, size_t size,
                 const char *chunkname)
{
	int rc = sb_room(sb), status;

	if (rc != SANDBOX_OK)
		return rc;
	sb_begin(sb);
	status = sb_load_text(sb->L, text, size, chunkname);
	sb_end(sb);
	if (small_likely(status == SB_STATUS_OK && sb->stop == 0))
		return SANDBOX_OK;
	return sb_failed(sb, status, lua_gettop(sb->L) - 1);
}

/* A call with a message handler or an instruction limit, or a wrong one. */
static __attribute__((noinline)) int sb_call_slow(struct sandbox *sb, int nargs,
                                                  int nresults)
{
	lua_State *L = sb->L;
	int base = lua_gettop(L) - nargs - 1, handler = 0, status;

	if (sb->active || nargs < 0 || base < 0)
		return sb_misuse(sb);
	if (sb->flags & SANDBOX_TRACEBACK)
		handler = sb_push_handler(sb, base + 1);
	sb_begin(sb);
	status = lua_pcall(L, nargs, nresults, handler);
	sb_end(sb);
	if (handler != 0)
		lua_remove(L, handler);
	if (small_likely(status == SB_STATUS_OK && sb->stop == 0))
		return SANDBOX_OK;
	return sb_failed(sb, status, base);
}

/* The short way is sb_call_slow() written out for a warm call: no handler, no
 * count, and the deadline by plain stores. */
int sandbox_call(struct sandbox *sb, int nargs, int nresults)
{
	lua_State *L = sb->L;
	int base = lua_gettop(L) - nargs - 1, status;

	sb->calls++;
	if (small_unlikely(sb->special || sb->active || (nargs | base) < 0))
		return sb_call_slow(sb, nargs, nresults);
	sb->felt = luamem_felt(&sb->mem);
	sb->running = L;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sb->active = true;
	if (sb->timeout_ns != 0)
		ticker_begin(sb->ticker, &sb->deadline, sb->timeout_ns);
	status = lua_pcall(L, nargs, nresults, 0);
	sb->active = false;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (sb->timeout_ns != 0)
		ticker_end(sb->ticker);
	if (small_likely(status == SB_STATUS_OK && !sb->hooked))
		return SANDBOX_OK;
	if (sb->hooked)
		sb_unhook(sb);
	return sb_failed(sb, status, base);
}

/* -- open and close -------------------------------------------------------- */

static int sb_panic(lua_State *L)
{
	(void)L;
	small_panic("sandbox", "a Lua error outside of a protected call");
	return 0;
}

/* Messages that Lua makes outside of protection: once they exist, making
 * them allocates nothing. */
static void sb_anchor_messages(lua_State *L)
{
	static const char *const messages[] = {
		"error in error handling",
#if SB_51
		"C stack overflow",
		"cannot resume non-suspended coroutine",
#endif
	};

	for (size_t i = 0; i < lengthof(messages); i++) {
		lua_pushstring(L, messages[i]);
		luaL_ref(L, LUA_REGISTRYINDEX);
	}
}

static int sb_build(lua_State *L)
{
	struct sandbox *sb = sb_of(L);

	lua_settop(L, 0);
	sb_open_libs(L, sb);
	sb_anchor_messages(L);
#if SB_51 /* there a function is an allocation */
	lua_pushcfunction(L, sb_trampoline);
	sb->protect_ref = luaL_ref(L, LUA_REGISTRYINDEX);
#endif
	lua_pushboolean(L, 0);
	sb->slot_ref = luaL_ref(L, LUA_REGISTRYINDEX);
	sb_make_handlers(L, sb);
	return 0;
}

/* Before the trampoline exists. */
static int sb_protect_build(lua_State *L)
{
#if SB_51
	return lua_cpcall(L, sb_build, NULL);
#else
	lua_pushcfunction(L, sb_build);
	return lua_pcall(L, 0, 0, 0);
#endif
}

static lua_State *sb_newstate(struct sandbox *sb)
{
	lua_State *L;

	if (!SB_JIT)
		return lua_newstate(luamem_alloc, &sb->mem);
	/* LuaJIT's does not survive each of its failures */
	if (luamem_enter_infallible(&sb->mem, SB_NEWSTATE_BYTES) != 0)
		return NULL;
	L = lua_newstate(luamem_alloc, &sb->mem);
	if (luamem_exit_infallible(&sb->mem) != 0)
		return NULL; /* over the limit: forgotten, not closed */
	return L;
}

static int sb_open_state(struct sandbox *sb)
{
	int status;

	sb->L = sb_newstate(sb);
	if (sb->L == NULL)
		return sb_memory_rc(sb);
	lua_atpanic(sb->L, sb_panic);
	status = sb_protect_build(sb->L);
	if (status != SB_STATUS_OK) {
		int rc = sb_memory_rc(sb);

		if (!sb->leaked)
			lua_close(sb->L);
		return rc;
	}
	sb_jit_mode(sb);
	if (SB_51)
		luamem_set_refusal_cb(&sb->mem, sb_refused, sb);
	sb_set_mark(sb);
	return SANDBOX_OK;
}

static bool sb_opts_ok(const struct sandbox_opts *o)
{
	bool limited =
		o->timeout_ns != 0 || o->instructions != 0 || o->limit != 0;

	if (o->flags & ~(unsigned)SB_ALL_FLAGS)
		return false;
	if ((o->flags & SANDBOX_ALLOW_JIT) && (limited || !SB_JIT))
		return false;
	if ((o->flags & SANDBOX_NO_SIGNAL) && o->timeout_ns != 0)
		return false;
	return true;
}

static int sb_open_mem(struct sandbox *sb, const struct sandbox_opts *o)
{
	struct luamem_opts opts = {.mode = o->mode,
	                           .limit = o->limit,
	                           .reserve = o->reserve,
	                           .max_limit = o->max_limit,
	                           .granule = o->granule,
	                           .region = o->region,
	                           .cache = o->cache,
	                           .lessor = o->lessor};
	enum luamem_cause cause;

	if (luamem_create(&sb->mem, &opts, &cause) == 0)
		return SANDBOX_OK;
	if (cause == LUAMEM_NONE)
		return SANDBOX_MISUSE;
	sb->mem.cause = cause;
	return sb_memory_rc(sb);
}

int sandbox_open(const struct sandbox_opts *opts, struct sandbox **out)
{
	struct sandbox *sb;
	int rc;

	*out = NULL;
	if (!sb_opts_ok(opts))
		return SANDBOX_MISUSE;
	sb = (struct sandbox *)calloc(1, sizeof(*sb));
	if (sb == NULL)
		return SANDBOX_MEM_SYSTEM;
	sb->flags = opts->flags;
	sb->message = "";
	rc = sb_open_mem(sb, opts);
	if (rc != SANDBOX_OK) {
		free(sb);
		return rc;
	}
	rc = sb_open_state(sb);
	if (rc == SANDBOX_OK) {
		sandbox_set_instructions(sb, opts->instructions);
		rc = sandbox_set_timeout(sb, opts->timeout_ns);
		if (rc != SANDBOX_OK)
			lua_close(sb->L);
	}
	if (rc != SANDBOX_OK) {
		luamem_destroy(&sb->mem);
		free(sb);
		return rc;
	}
	*out = sb;
	return SANDBOX_OK;
}

size_t sandbox_close(struct sandbox *sb)
{
	size_t used;

	if (sb == NULL)
		return 0;
	if (sb->active)
		small_panic("sandbox_close", "a call is running");
	lua_close(sb->L);
	used = luamem_used(&sb->mem);
	luamem_destroy(&sb->mem);
	free(sb);
	return used;
}

void sandbox_drop(struct sandbox *sb)
{
	if (sb == NULL)
		return;
	if (sb->active)
		small_panic("sandbox_drop", "a call is running");
	if (sb->mem.mode != LUAMEM_MANAGED) {
		sandbox_close(sb);
		return;
	}
	sb_jit_flush(sb);
	luamem_drop(&sb->mem);
	free(sb);
}

/* -- the rest ---------------------------------------------------------------
 */

lua_State *sandbox_state(struct sandbox *sb)
{
	return sb->L;
}

struct sandbox *sandbox_of(lua_State *L)
{
	return sb_of(L);
}

struct luamem *sandbox_mem(struct sandbox *sb)
{
	return &sb->mem;
}

int sandbox_set_limit(struct sandbox *sb, size_t limit)
{
	if (limit != 0 && (sb->flags & SANDBOX_ALLOW_JIT))
		return sb_misuse(sb);
	if (luamem_set_limit(&sb->mem, limit) != 0)
		return sb_misuse(sb);
	sb_set_mark(sb);
	return SANDBOX_OK;
}

int sandbox_set_timeout(struct sandbox *sb, uint64_t ns)
{
	if (sb->active)
		return sb_misuse(sb);
	if (ns != 0 && (sb->flags & (SANDBOX_NO_SIGNAL | SANDBOX_ALLOW_JIT)))
		return sb_misuse(sb);
	if (ns != 0 && sb->ticker == NULL) {
		sb->ticker = ticker_start();
		if (sb->ticker == NULL)
			return SANDBOX_MEM_SYSTEM;
	}
	sb->deadline.expired = sb_expired;
	sb->deadline.arg = sb;
	sb->timeout_ns = ns;
	return SANDBOX_OK;
}

int sandbox_set_instructions(struct sandbox *sb, uint64_t n)
{
	if (sb->active || (n != 0 && (sb->flags & SANDBOX_ALLOW_JIT)))
		return sb_misuse(sb);
	sb->instructions = n;
	sb->special = n != 0 || (sb->flags & SANDBOX_TRACEBACK) != 0;
	return SANDBOX_OK;
}

int sandbox_set_thread(struct sandbox *sb)
{
	struct ticker_thread *ticker = sb->ticker;

	if (sb->active)
		return sb_misuse(sb);
	if (ticker != NULL) {
		ticker = ticker_start();
		if (ticker == NULL)
			return SANDBOX_MEM_SYSTEM;
	}
	sb->ticker = ticker;
	luamem_set_thread(&sb->mem);
	return SANDBOX_OK;
}

void sandbox_stats(const struct sandbox *sb, struct sandbox_stats *out)
{
	luamem_stats(&sb->mem, &out->mem);
	out->instructions =
		sb->instructions != 0 ? sb->instructions - sb->left : 0;
	out->calls = sb->calls;
}

const char *sandbox_check(const struct sandbox *sb)
{
	if (!sb->active &&
	    (sb->stop != 0 || sb->hooked || sb->verdict != SANDBOX_OK))
		return "idle";
	if (!sb->active && lua_gethook(sb->L) == sb_hook)
		return "idle";
	return luamem_check(&sb->mem);
}
