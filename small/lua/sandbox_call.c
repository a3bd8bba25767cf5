/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox_call: load and call, and what became of them.
 *
 * Worst case of sandbox_call(): lua_pcall()'s and some fifty instructions;
 * sandbox_stats().mem verifies the memory side, perf's lua_calls the rest.
 */
#include <small/lua/sandbox_internal.h>

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
	if (status == LUA_ERRMEM || sb_has_felt(sb))
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

__attribute__((noinline)) int sb_misuse(struct sandbox *sb)
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
	sb->running = sb->L;
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
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sb->active = true;
	if (sb->instructions != 0)
		sb_begin_count(sb);
	if (sb->timeout_ns != 0)
		ticker_begin(sb->ticker, &sb->run);
	else
		sb->run.count++;
}

static void sb_end(struct sandbox *sb)
{
	sb->active = false;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (sb->timeout_ns != 0)
		ticker_end(sb->ticker, &sb->run);
	if (sb->hooked)
		sb_unhook(sb);
}

/* -- load and call -------------------------------------------------------- */

int sandbox_load(struct sandbox *sb, const char *text, size_t size,
                 const char *chunkname)
{
	int rc, status;

	if ((text == NULL && size > 0) || chunkname == NULL)
		return sb_misuse(sb);
	rc = sb_room(sb);
	if (rc != SANDBOX_OK)
		return rc;
	sb_begin(sb);
	status = sb_load_text(sb->L, text, size, chunkname);
	sb_end(sb);
	if (small_likely(status == SB_STATUS_OK && sb->stop == 0))
		return SANDBOX_OK;
	return sb_failed(sb, status, lua_gettop(sb->L) - 1);
}

/* Room for the results, which may be more than the arguments leave. Failing
 * it, what was to be called is popped and a nil pushed. */
static int sb_call_room(struct sandbox *sb, int base, int nresults)
{
	int rc;

	if (nresults <= SB_FEW_RESULTS)
		return SANDBOX_OK;
	rc = sb_grow_stack(sb, nresults);
	if (rc != SANDBOX_OK) {
		lua_settop(sb->L, base);
		lua_pushnil(sb->L);
	}
	return rc;
}

/* A call with a message handler or an instruction limit, one inside another
 * one of the thread, of any number of results, or a wrong one. */
static __attribute__((noinline)) int sb_call_slow(struct sandbox *sb, int nargs,
                                                  int nresults)
{
	lua_State *L = sb->L;
	int base = lua_gettop(L) - nargs - 1, handler = 0, status, rc;

	if (sb->active || nargs < 0 || base < 0 || nresults < LUA_MULTRET ||
	    nresults > SB_STACK_MAX)
		return sb_misuse(sb);
	rc = sb_call_room(sb, base, nresults);
	if (rc != SANDBOX_OK)
		return rc;
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

/* A warm call that did not simply succeed; status holds sb->hooked. */
static __attribute__((noinline)) int sb_call_ended(struct sandbox *sb,
                                                   unsigned status)
{
	int values;

	if (sb->hooked)
		sb_unhook(sb);
	status &= ~SB_HOOKED;
	values = status == SB_STATUS_OK ? sb->nresults : 1;
	return sb_failed(sb, (int)status, lua_gettop(sb->L) - values);
}

/* More arguments than there are, or fewer than none. */
static __attribute__((noinline)) int sb_call_wrong(struct sandbox *sb,
                                                   bool timed)
{
	if (timed)
		ticker_end_top(sb->ticker);
	sb->active = false;
	if (sb->hooked)
		sb_unhook(sb);
	sb->stop = 0;
	return sb_misuse(sb);
}

/*
 * sb_call_slow() written out for a warm call: no handler, no count, few
 * results, the deadline by plain stores, and sb alone is kept over the calls
 * of Lua. The number of the call stands for what it has felt, see
 * sb_refused().
 */
static inline __attribute__((always_inline)) int
sb_call_warm(struct sandbox *sb, int nargs, int nresults, bool timed)
{
	unsigned status;
	int top;

	if (small_unlikely(sb->active || (unsigned)nresults > SB_FEW_RESULTS))
		return sb_call_slow(sb, nargs, nresults);
	sb->nargs = nargs;
	sb->nresults = nresults;
	sb->active = true;
	if (timed)
		ticker_begin_top(sb->ticker, &sb->run);
	else
		sb->run.count++;
	top = lua_gettop(sb->L);
	if (small_unlikely((unsigned)sb->nargs >= (unsigned)top))
		return sb_call_wrong(sb, timed);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	status = (unsigned)lua_pcall(sb->L, sb->nargs, sb->nresults, 0);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (timed)
		ticker_end_top(sb->ticker);
	sb->active = false;
	status |= sb->hooked;
	if (small_unlikely(status != SB_STATUS_OK))
		return sb_call_ended(sb, status);
	__asm__("" : "+r"(status)); /* SANDBOX_OK: the zero at hand is it */
	return (int)status;
}

/* Without a limit but that of memory. */
static int sb_call_plain(struct sandbox *sb, int nargs, int nresults)
{
	return sb_call_warm(sb, nargs, nresults, false);
}

/* With a time limit; the last one was of another sandbox of the thread, or
 * this one is begun inside it. */
static __attribute__((noinline)) int sb_call_switch(struct sandbox *sb,
                                                    int nargs, int nresults)
{
	if (!ticker_switch(sb->ticker, &sb->run))
		return sb_call_slow(sb, nargs, nresults);
	return sb_call_warm(sb, nargs, nresults, true);
}

static int sb_call_timed(struct sandbox *sb, int nargs, int nresults)
{
	if (small_unlikely(!ticker_is_top(sb->ticker, &sb->run)))
		return sb_call_switch(sb, nargs, nresults);
	return sb_call_warm(sb, nargs, nresults, true);
}

void sb_set_call(struct sandbox *sb)
{
	if (sb->instructions != 0 || (sb->flags & SANDBOX_TRACEBACK) != 0)
		sb->call = sb_call_slow;
	else
		sb->call = sb->timeout_ns != 0 ? sb_call_timed : sb_call_plain;
}

int sandbox_call(struct sandbox *sb, int nargs, int nresults)
{
	return sb->call(sb, nargs, nresults);
}
