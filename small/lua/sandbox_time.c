/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox_time: how a run is limited in time and instructions, and how it is
 * ended so that no script can tell it to go on.
 *
 * The error that ends a run must not reach a script's message handler: that
 * runs with hooks off when the error comes from a hook. A memory error calls
 * no handler, so one is raised: in 5.4 by its message, in 5.1 and LuaJIT by
 * a denied allocation. 5.3 would collect the whole heap first; there each
 * handler is wrapped (see sandbox_base.c) and an ordinary error is raised.
 *
 * Worst case: the hook comes with the next instruction of the interpreter
 * after the signal; what runs in C until then is not interrupted.
 */
#include <small/lua/sandbox_internal.h>

void sb_set_verdict(struct sandbox *sb, int rc)
{
	if (sb->stop & SB_STOP_VERDICT)
		return; /* the first one counts */
	sb->verdict = rc;
	__atomic_fetch_or(&sb->stop, SB_STOP_VERDICT, __ATOMIC_RELAXED);
}

void sb_arm(lua_State *L)
{
	lua_sethook(L, sb_hook, LUA_MASKCOUNT | LUA_MASKCALL, 1);
}

#if SB_54
static void sb_raise(lua_State *L)
{
	lua_pushliteral(L, "not enough memory"); /* Lua's own string: exists */
	lua_error(L);
}
#elif SB_51
static void sb_raise(lua_State *L)
{
	luamem_deny(&sb_of(L)->mem, true);
	lua_newuserdata(L, 1);
}
#else
static void sb_raise(lua_State *L)
{
	lua_pushliteral(L, "not enough memory");
	lua_error(L);
}
#endif

int sb_stop(lua_State *L)
{
	struct sandbox *sb = sb_of(L);

	sb_set_verdict(sb, SANDBOX_TIMEOUT);
	sb->hooked = SB_HOOKED;
	/* who catches this error all the same meets the hook again */
	sb_arm(L);
	sb_raise(L);
	abort();
}

void sb_caught(lua_State *L, int status, size_t felt)
{
	struct sandbox *sb = sb_of(L);

	luamem_deny(&sb->mem, false);
	if (!sb->active)
		return;
	sb->running = L;
	if (!(sb->flags & SANDBOX_CATCH_MEMORY) &&
	    (status == LUA_ERRMEM || luamem_felt(&sb->mem) > felt))
		sb_set_verdict(sb, sb_memory_rc(sb));
	if (sb_stopped(sb))
		sb_stop(L);
}

bool sb_charge(struct sandbox *sb)
{
	if (sb->left <= (uint64_t)sb->step) {
		sb->left = 0;
		return true;
	}
	sb->left -= (uint64_t)sb->step;
	return false;
}

/* LuaJIT: the memory error of a refusal was caught, as the run goes on. */
static bool sb_swallowed(const struct sandbox *sb)
{
	return SB_JIT && !(sb->flags & SANDBOX_CATCH_MEMORY) && sb_has_felt(sb);
}

/* After each refusal, inside the allocator. */
void sb_refused(void *arg)
{
	struct sandbox *sb = (struct sandbox *)arg;

	if (sb->felt_in != sb->run.count) { /* the first of this call */
		sb->felt_in = sb->run.count;
		sb->felt = luamem_felt(&sb->mem) - 1;
	}
	if (!SB_EMERGENCY_GC) /* does not try again: nothing is a recovery */
		sb->mem.want_nsize = 0;
	if (SB_JIT && sb->active && !(sb->flags & SANDBOX_CATCH_MEMORY)) {
		sb->hooked = SB_HOOKED;
		sb_arm(sb->L);
	}
}

void sb_hook(lua_State *L, lua_Debug *ar)
{
	struct sandbox *sb = sb_of(L);

	luamem_deny(&sb->mem, false);
	if (!sb->active) {
		lua_sethook(L, NULL, 0, 0);
		return;
	}
	if (sb_swallowed(sb))
		sb_set_verdict(sb, sb_memory_rc(sb));
	if (!sb_stopped(sb) && ar->event == LUA_HOOKCOUNT &&
	    sb->instructions != 0 && sb_charge(sb))
		sb_set_verdict(sb, SANDBOX_INSTRUCTIONS);
	if (sb_stopped(sb))
		sb_stop(L);
}

void sb_enter_thread(struct sandbox *sb, lua_State *L)
{
	if (sb_stopped(sb))
		sb_arm(L);
	else if (sb->instructions != 0)
		lua_sethook(L, sb_hook, LUA_MASKCOUNT, sb->step);
	else if (lua_gethook(L) == sb_hook)
		lua_sethook(L, NULL, 0, 0); /* left from an earlier run */
}

/* In the ticker's signal handler, or the host's. */
void sb_expired(void *arg)
{
	struct sandbox *sb = (struct sandbox *)arg;

	if (!sb->active)
		return;
	__atomic_fetch_or(&sb->stop, SB_STOP_TIME, __ATOMIC_RELAXED);
	sb->hooked = SB_HOOKED;
	sb_arm(SB_JIT ? sb->L : sb->running);
}

void sandbox_interrupt(struct sandbox *sb)
{
	sb_expired(sb);
}

void sb_begin_count(struct sandbox *sb)
{
	uint64_t step = sb->instructions / 10;

	sb->left = sb->instructions;
	sb->step = step < 1 ? 1 : step > SB_STEP ? SB_STEP : (int)step;
	sb->hooked = SB_HOOKED;
	lua_sethook(sb->L, sb_hook, LUA_MASKCOUNT, sb->step);
}

void sb_unhook(struct sandbox *sb)
{
	lua_sethook(sb->L, NULL, 0, 0);
	sb->hooked = 0;
}

/*
 * 5.1 and LuaJIT do not collect when memory is out, and by default start a
 * cycle when the heap has doubled, which a limit may not leave room for. So
 * above 5/8 of the limit each 1/64 of it makes the collector due at once:
 * LUA_GCRESTART moves its threshold there and does nothing else. The step
 * multiplier lets a cycle end within a tenth of the heap.
 */
#define SB_PRESSED_STEPMUL 1000

static size_t sb_soft_mark(const struct sandbox *sb)
{
	return sb->mem.limit / 8 * 5;
}

size_t sb_mark(void *arg, size_t used)
{
	struct sandbox *sb = (struct sandbox *)arg;
	size_t step = sb->mem.limit / 64;

	if (used < sb->pressed_at || used - sb->pressed_at >= step) {
		sb->pressed_at = used;
		lua_gc(sb->L, LUA_GCSETSTEPMUL, SB_PRESSED_STEPMUL);
		lua_gc(sb->L, LUA_GCRESTART, 0);
	}
	return sb_soft_mark(sb);
}

void sb_set_mark(struct sandbox *sb)
{
	if (SB_EMERGENCY_GC || sb->mem.limit == 0)
		luamem_set_mark(&sb->mem, SIZE_MAX, NULL, NULL);
	else
		luamem_set_mark(&sb->mem, sb_soft_mark(sb), sb_mark, sb);
}
