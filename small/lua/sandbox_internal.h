/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_SANDBOX_INTERNAL_H
#define SMALL_SANDBOX_INTERNAL_H
/*
 * sandbox_internal - what the sandbox_*.c share. Compiled once per Lua; which
 * one, its headers say. Internal: it is not installed.
 *
 * How a run ends. Something (deadline, count, memory) sets `stop`. The hook
 * on the running thread, or one of our functions, turns it into a verdict
 * and calls sb_stop(), which raises an error that reaches no message handler.
 * Each of our functions that catches errors asks sb_caught(), which raises
 * again. sandbox_call() reads the verdict.
 *
 * Threads, Cost, Errors: as sandbox.h says.
 */
#include <stdio.h>

#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

#include <small/lua/sandbox.h>
#include <small/lua/ticker.h>

#ifdef LUA_LJDIR /* in LuaJIT's luaconf.h */
# include <luajit.h>
# define SB_JIT 1
#else
# define SB_JIT 0
#endif
#define SB_51 (LUA_VERSION_NUM == 501) /* LuaJIT too */
#define SB_53 (LUA_VERSION_NUM == 503)
#define SB_54 (LUA_VERSION_NUM == 504)
/* Lua collects garbage and retries before it reports that memory is out. */
#define SB_EMERGENCY_GC (!SB_51)

#if SB_51
# define SB_STATUS_OK 0
#else
# define SB_STATUS_OK LUA_OK
#endif

/* Instructions between two looks at the limit; also what a resume costs. */
#define SB_STEP 1000

/* Values a host may have on the main thread's stack. */
#define SB_STACK_MAX 7000
/* Results for which there is room without a look: a C function's frame has
 * LUA_MINSTACK slots, of which sb_room() leaves as many. */
#define SB_FEW_RESULTS 4

/* Above the status codes of Lua, so that one look sees both. */
#define SB_HOOKED 256u

/* Why a run has to end, before there is a verdict. */
enum { SB_STOP_TIME = 1, SB_STOP_VERDICT = 2 };

/* Functions of the stock libraries that ours end in. */
enum sb_stock {
	SB_STOCK_SETMETATABLE,
	SB_STOCK_COLLECTGARBAGE,
	SB_STOCK_CO_CLOSE,
	SB_STOCK_INSERT,
	SB_STOCK_REMOVE,
	SB_STOCK_MOVE,
	SB_STOCK_SORT,
	SB_STOCK_TRACEBACK,
	SB_STOCK_MAX
};

/* The first line of it is what a warm call looks at. */
/* The stock math.random draws from the C library; see sandbox_random.c. */
#define SB_OWN_RANDOM   ((SB_51 && !SB_JIT) || SB_53)
#define SB_RANDOM_WORDS 31

struct sb_random {
	uint32_t word[SB_RANDOM_WORDS];
	unsigned at; /* the next to change */
};

struct sandbox {
	struct ticker_call run; /* run.count: calls begun, never put back */
	int (*call)(struct sandbox *sb, int nargs, int nresults);
	lua_State *L;
	struct ticker_thread *ticker; /* NULL = no time limit possible */
	bool active;                  /* a call is running */
	int nargs, nresults;          /* of a warm call */
	unsigned hooked;      /* SB_HOOKED: the main thread's hook may be set */
	lua_State *running;   /* the thread that runs; PUC: where hooks go;
	                         between calls it is L */
	unsigned stop;        /* SB_STOP_*; the signal handler sets bits */
	int verdict;          /* enum sandbox_rc, valid with SB_STOP_VERDICT */
	uint64_t uncounted;   /* calls begun and put back by rollbacks */
	uint64_t calls_saved; /* calls at the snapshot */
	uint64_t felt_in;     /* the call that `felt` is of */
	size_t felt;          /* luamem_felt() before its first refusal */
	size_t pressed_at;    /* used, when the collector was last made due */
	uint64_t left;        /* instructions, when limited */
	uint64_t timeout_ns, instructions;
	unsigned flags;
	int step;        /* instructions per count hook */
	int protect_ref; /* sb_trampoline in the registry */
	int slot_ref;    /* a slot for one value on its way */
	int wrap_ref;    /* 5.3: makes message handlers that know of stop */
	int handler_ref; /* of sandbox_call(), with SANDBOX_TRACEBACK */
	bool collecting; /* after a memory failure */
	bool leaked;     /* the state must not be closed any more */
	lua_CFunction stock[SB_STOCK_MAX];
	const char *message; /* the last failure, in `text` or constant */
	char text[128];
#if SB_OWN_RANDOM
	struct sb_random random;
#endif
	struct luamem mem;
};

/* Shared words. */
static inline struct sandbox *sb_of(lua_State *L)
{
	void *ud;

	lua_getallocf(L, &ud);
	return (struct sandbox *)((char *)ud - offsetof(struct sandbox, mem));
}

static inline bool sb_stopped(const struct sandbox *sb)
{
	return __atomic_load_n(&sb->stop, __ATOMIC_RELAXED) != 0;
}

/* From here on what is refused counts. */
static inline void sb_feel_nothing(struct sandbox *sb)
{
	sb->felt_in = sb->run.count;
	sb->felt = luamem_felt(&sb->mem);
}

/* Whether a refusal was not made good since. A warm call does not say when it
 * begins: its first refusal does, see sb_refused(). */
static inline bool sb_has_felt(const struct sandbox *sb)
{
	return sb->felt_in == sb->run.count && luamem_felt(&sb->mem) > sb->felt;
}

/* sandbox_time.c: hooks, limits, and the end of a run */
void sb_hook(lua_State *L, lua_Debug *ar) SMALL_SYM(sb_hook);
/* Makes thread L meet the hook at its next instruction. */
void sb_arm(lua_State *L) SMALL_SYM(sb_arm);
/* L is about to run under the instruction limit, or to be left alone. */
void sb_enter_thread(struct sandbox *sb, lua_State *L)
	SMALL_SYM(sb_enter_thread);
/* Counts a step of instructions; true when none is left. */
bool sb_charge(struct sandbox *sb) SMALL_SYM(sb_charge);
void sb_set_verdict(struct sandbox *sb, int rc) SMALL_SYM(sb_set_verdict);
/* Ends the run from inside it. */
int sb_stop(lua_State *L) SMALL_SYM(sb_stop) __attribute__((noreturn));
/* Something caught status on L inside a run, where luamem_felt() had been
 * `felt` before: raises when the run is over. */
void sb_caught(lua_State *L, int status, size_t felt) SMALL_SYM(sb_caught);
/* For long loops in C: raises when the run is over. */
static inline void sb_poll(lua_State *L)
{
	struct sandbox *sb = sb_of(L);

	if (small_unlikely(sb->active && sb_stopped(sb)))
		sb_stop(L);
}
void sb_begin_count(struct sandbox *sb) SMALL_SYM(sb_begin_count);
void sb_unhook(struct sandbox *sb) SMALL_SYM(sb_unhook);
/* In a signal handler on the owner's thread. */
void sb_expired(void *arg) SMALL_SYM(sb_expired);
void sb_refused(void *arg) SMALL_SYM(sb_refused);
size_t sb_mark(void *arg, size_t used) SMALL_SYM(sb_mark);
void sb_set_mark(struct sandbox *sb) SMALL_SYM(sb_set_mark);

/* sandbox_libs.c: opens libraries, called with protection. */
void sb_open_libs(lua_State *L, struct sandbox *sb) SMALL_SYM(sb_open_libs);

/* Our functions, one table a library, NULL-terminated. */
extern const luaL_Reg sb_base_funcs[] SMALL_SYM(sb_base_funcs);
extern const luaL_Reg sb_load_funcs[] SMALL_SYM(sb_load_funcs);
extern const luaL_Reg sb_co_funcs[] SMALL_SYM(sb_co_funcs);
extern const luaL_Reg sb_math_funcs[] SMALL_SYM(sb_math_funcs);
extern const luaL_Reg sb_string_funcs[] SMALL_SYM(sb_string_funcs);
extern const luaL_Reg sb_table_funcs[] SMALL_SYM(sb_table_funcs);

#if SB_OWN_RANDOM
/* sandbox_random.c */
void sb_random_seed(struct sb_random *r, unsigned seed)
	SMALL_SYM(sb_random_seed);
#endif

/* sandbox_load.c: lua_load() of text; may be called without protection. */
int sb_load_text(lua_State *L, const char *text, size_t size, const char *name)
	SMALL_SYM(sb_load_text);

/* sandbox_call.c */
/* Chooses how calls are made; after each change of a limit. */
void sb_set_call(struct sandbox *sb) SMALL_SYM(sb_set_call);
void sb_set_message(struct sandbox *sb, int rc) SMALL_SYM(sb_set_message);
int sb_misuse(struct sandbox *sb) SMALL_SYM(sb_misuse);
/* The end of a run that did not simply succeed; base values remain below the
 * one error value. */
int sb_failed(struct sandbox *sb, int status, int base) SMALL_SYM(sb_failed);

/* sandbox_host.c */
int sb_trampoline(lua_State *L) SMALL_SYM(sb_trampoline);
/* Makes room for n values; a failure leaves the stack as it was. */
int sb_grow_stack(struct sandbox *sb, int n) SMALL_SYM(sb_grow_stack);
/* Room on the host's stack for one more value and a protected call. */
int sb_room(struct sandbox *sb) SMALL_SYM(sb_room);

/* sandbox_handler.c: message handlers, and LuaJIT's modes. */
void sb_make_handlers(lua_State *L, struct sandbox *sb)
	SMALL_SYM(sb_make_handlers);
/* 5.3: a function that wraps message handlers, into wrap_ref. */
void sb_make_wrapper(lua_State *L, struct sandbox *sb)
	SMALL_SYM(sb_make_wrapper);
/* Puts the handler of a call at an index and returns it. */
int sb_push_handler(struct sandbox *sb, int index) SMALL_SYM(sb_push_handler);
void sb_jit_mode(struct sandbox *sb) SMALL_SYM(sb_jit_mode);
void sb_jit_flush(struct sandbox *sb) SMALL_SYM(sb_jit_flush);

/* Of the last refusal, as a result code. */
int sb_memory_rc(const struct sandbox *sb) SMALL_SYM(sb_memory_rc);

#endif /* SMALL_SANDBOX_INTERNAL_H */
