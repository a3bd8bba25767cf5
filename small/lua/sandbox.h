/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_SANDBOX_H
#define SMALL_SANDBOX_H
/*
 * sandbox - a Lua interpreter that can not hurt its host: hard limits on
 * memory, time and instructions, no call that can abort, O(1) drop.
 *
 *   struct sandbox_opts opts = {.cache = &cache, .limit = 2 << 20,
 *                               .timeout_ns = 100000000};
 *   struct sandbox *sb;
 *   if (sandbox_open(&opts, &sb) == SANDBOX_OK &&
 *       sandbox_load(sb, text, size, "=name") == SANDBOX_OK)
 *           rc = sandbox_call(sb, 0, 0);
 *
 * The same header for Lua 5.1, 5.3, 5.4 and LuaJIT; link the library that
 * was built for yours. It includes no Lua header: struct lua_State is what
 * lua.h calls lua_State.
 *
 * The result of a call is the sandbox's verdict: once a limit ended a run,
 * nothing the script does (pcall, coroutines, message handlers) makes it come
 * out as anything else, and the script runs no further. After any result the
 * interpreter can be used again; what the script had already done to the
 * host's objects and to its own globals stays done.
 *
 * By default the script sees a whitelist: no file, process, bytecode, debug
 * or foreign-function access, no finalizers (see SANDBOX_ALLOW_* for what
 * each opening costs). What no limit reaches: one call of string.find, match,
 * gmatch or gsub can take exponential time; the C stack; memory that C
 * modules take from malloc and do not luamem_take().
 *
 * Host calls that can raise a Lua error (lua_newtable, lua_pushstring,
 * lua_getglobal ...) abort the process at the limit when they run outside of
 * a protected call: run them inside sandbox_protect(). Safe outside are those
 * that allocate nothing: lua_pushnumber, lua_rawgeti, lua_settop, lua_to...
 *
 * Threads: one owner thread at a time, handed over by sandbox_set_thread().
 *          The time limit uses one ticker thread a process and a real-time
 *          signal sent to the owner's thread, see ticker.h. Call nothing of
 *          a sandbox from inside a call of the same sandbox, but for
 *          sandbox_interrupt(), sandbox_of() and sandbox_stats().
 * Cost:    sandbox_call() is one lua_pcall() plus about 35 instructions, with
 *          a time limit or without.
 *          open and close are the interpreter's; drop is O(1) in managed mode.
 * Errors:  an enum sandbox_rc; sandbox_message() says it in words.
 */
#include <small/lua/luamem.h>

struct lua_State;

#ifdef __cplusplus
extern "C" {
#endif

/* Fixed values: they may be stored and sent. */
enum sandbox_rc {
	SANDBOX_OK = 0,
	SANDBOX_ERROR = 1,        /* the script raised an error */
	SANDBOX_SYNTAX = 2,       /* it does not compile, or is bytecode */
	SANDBOX_MEM_LIMIT = 3,    /* its own limit */
	SANDBOX_MEM_QUOTA = 4,    /* the quota it shares */
	SANDBOX_MEM_SYSTEM = 5,   /* the operating system */
	SANDBOX_TIMEOUT = 6,      /* the time limit, or sandbox_interrupt() */
	SANDBOX_INSTRUCTIONS = 7, /* the instruction limit */
	SANDBOX_MISUSE = 8,       /* arguments or state do not allow it */
	/* of snapshot and rollback: */
	SANDBOX_BUSY = 9,        /* a call or a coroutine is running */
	SANDBOX_FOREIGN = 10,    /* more is open than can be put back */
	SANDBOX_UNSUPPORTED = 11 /* not managed mode, or the JIT is on */
};

/* What is opened beyond the whitelist, and which promise that weakens. */
enum sandbox_flags {
	/* everything that the stand-alone `lua` opens: the script reaches
	 * files, processes, os.exit, C modules and (debug) the inside of any
	 * function; debug.sethook can switch off a limit */
	SANDBOX_ALLOW_STDLIB = 1,
	/* load and loadstring take bytecode: crafted bytecode crashes the
	 * process */
	SANDBOX_ALLOW_BYTECODE = 2,
	/* setmetatable takes __gc: finalizers run with hooks off, so one that
	 * loops stalls the host, also in sandbox_close() */
	SANDBOX_ALLOW_GC = 4,
	/* pcall catches memory errors as it does in stock Lua: the run goes
	 * on, as often as the script likes */
	SANDBOX_CATCH_MEMORY = 8,
	/* LuaJIT: compile to machine code. Traces see neither time nor
	 * instruction limits and are no memory of the interpreter: refused
	 * together with any limit */
	SANDBOX_ALLOW_JIT = 16,
	/* errors carry a stack traceback, as the stand-alone `lua` prints */
	SANDBOX_TRACEBACK = 32,
	/* the host calls sandbox_interrupt() by itself: no ticker thread, no
	 * signal; timeout_ns must be 0 */
	SANDBOX_NO_SIGNAL = 64
};

/* Zero is a default for every field but cache or region. */
struct sandbox_opts {
	enum luamem_mode mode;
	size_t limit; /* as in struct luamem_opts, all seven */
	size_t reserve;
	size_t max_limit;
	size_t granule;
	struct region *region;
	struct slab_cache *cache;
	struct quota_lessor *lessor;
	uint64_t timeout_ns;   /* wall time of one call; 0 = none */
	uint64_t instructions; /* of one call over all its coroutines, counted
	                          in steps of at most 1000; 0 = none */
	unsigned flags;        /* enum sandbox_flags */
};

struct sandbox_stats {
	struct luamem_stats mem;
	uint64_t instructions; /* charged to the last call, when limited */
	uint64_t calls;        /* sandbox_call() and sandbox_load(), so far */
};

/* Opaque. */
struct sandbox;

/* A new interpreter with its libraries; *out is NULL unless SANDBOX_OK. */
SMALL_API int sandbox_open(const struct sandbox_opts *opts,
                           struct sandbox **out) SMALL_SYM(sandbox_open);
/* lua_close(), finalizers included, then gives the memory back. Returns the
 * bytes that were still in use in between: 0, but for C modules that leak. */
SMALL_API size_t sandbox_close(struct sandbox *sb) SMALL_SYM(sandbox_close);
/* Forgets the interpreter without walking it: no finalizer runs, no file is
 * closed. O(1) in managed mode, see luamem_drop(); in others as
 * sandbox_close(). */
SMALL_API void sandbox_drop(struct sandbox *sb) SMALL_SYM(sandbox_drop);

/* The main thread; its stack is empty after open. */
SMALL_API struct lua_State *sandbox_state(struct sandbox *sb)
	SMALL_SYM(sandbox_state);
/* The sandbox that a state runs in, for C functions called by a script. */
SMALL_API struct sandbox *sandbox_of(struct lua_State *L) SMALL_SYM(sandbox_of);

/* Compiles text and pushes the function; on failure pushes the message.
 * chunkname as in lua_load: "=name" or "@file". */
SMALL_API int sandbox_load(struct sandbox *sb, const char *text, size_t size,
                           const char *chunkname) SMALL_SYM(sandbox_load);
/*
 * lua_pcall: takes nargs arguments and the function below them, pushes
 * nresults results (-1: all). On failure pushes one value instead: the error
 * object, whatever its type. Up to 4 results go the shortest way. A misuse
 * leaves the stack as it was.
 */
SMALL_API int sandbox_call(struct sandbox *sb, int nargs, int nresults)
	SMALL_SYM(sandbox_call);
/*
 * Runs fn(L) with ud as a light userdata at index 1, under protection and
 * under the memory limit but no time limit; what it returns is pushed. For
 * whatever else a host wants to do with the state.
 */
SMALL_API int sandbox_protect(struct sandbox *sb, int (*fn)(struct lua_State *),
                              void *ud) SMALL_SYM(sandbox_protect);
/* The last failure in words; lives until the next call on sb. */
SMALL_API const char *sandbox_message(struct sandbox *sb)
	SMALL_SYM(sandbox_message);
/* "ok", "runtime error", ... */
SMALL_API const char *sandbox_rc_name(int rc) SMALL_SYM(sandbox_rc_name);

/* Push one value, protected; a failure pushes nothing. */
SMALL_API int sandbox_push_nil(struct sandbox *sb) SMALL_SYM(sandbox_push_nil);
SMALL_API int sandbox_push_boolean(struct sandbox *sb, int value)
	SMALL_SYM(sandbox_push_boolean);
SMALL_API int sandbox_push_number(struct sandbox *sb, double value)
	SMALL_SYM(sandbox_push_number);
SMALL_API int sandbox_push_integer(struct sandbox *sb, int64_t value)
	SMALL_SYM(sandbox_push_integer);
SMALL_API int sandbox_push_string(struct sandbox *sb, const char *s,
                                  size_t size) SMALL_SYM(sandbox_push_string);
SMALL_API int sandbox_push_lightuserdata(struct sandbox *sb, void *ptr)
	SMALL_SYM(sandbox_push_lightuserdata);
SMALL_API int sandbox_push_function(struct sandbox *sb,
                                    int (*fn)(struct lua_State *))
	SMALL_SYM(sandbox_push_function);
SMALL_API int sandbox_push_global(struct sandbox *sb, const char *name)
	SMALL_SYM(sandbox_push_global);
/* Pops a value into a global; it is popped on failure too. */
SMALL_API int sandbox_set_global(struct sandbox *sb, const char *name)
	SMALL_SYM(sandbox_set_global);
/* Pushes a new coroutine and stores it. */
SMALL_API int sandbox_newthread(struct sandbox *sb, struct lua_State **out)
	SMALL_SYM(sandbox_newthread);

/* Pops a value and keeps it under a number > 0 in *ref. push_ref allocates
 * nothing unless the stack has to grow (16 values need not); unref can not
 * fail. */
SMALL_API int sandbox_ref(struct sandbox *sb, int *ref) SMALL_SYM(sandbox_ref);
SMALL_API int sandbox_push_ref(struct sandbox *sb, int ref)
	SMALL_SYM(sandbox_push_ref);
SMALL_API void sandbox_unref(struct sandbox *sb, int ref)
	SMALL_SYM(sandbox_unref);

/* Between calls. The memory limit also inside of one, by the host's C
 * functions. */
SMALL_API int sandbox_set_limit(struct sandbox *sb, size_t limit)
	SMALL_SYM(sandbox_set_limit);
SMALL_API int sandbox_set_timeout(struct sandbox *sb, uint64_t ns)
	SMALL_SYM(sandbox_set_timeout);
SMALL_API int sandbox_set_instructions(struct sandbox *sb, uint64_t n)
	SMALL_SYM(sandbox_set_instructions);
/* Hands the sandbox to the calling thread. */
SMALL_API int sandbox_set_thread(struct sandbox *sb)
	SMALL_SYM(sandbox_set_thread);

/*
 * Remembers the interpreter as it is, garbage collected, so that a rollback
 * makes it what it is now, in place: a new interpreter with its prelude run
 * costs what copying its heap costs. Between calls. Its memory is charged to
 * the quota, and stays until discard, drop or close; one at a time.
 *
 * What is put back: everything in the heap (globals, metatables, upvalues,
 * registry, stack, coroutines, the collector's state and settings, hooks, the
 * seeds of hashes and of math.random), limits, statistics
 * and message. What is not: anything outside, so a state with io, package or
 * a C module is refused (SANDBOX_FOREIGN), but for modules that `safe`, a
 * list that ends with NULL, names: by their names in package.loaded, and the
 * names of their types that have a finalizer. A module is safe when it keeps
 * nothing outside of the heap: objects made since the snapshot are forgotten,
 * not finalized, those ended since are back. Threads, owner and memory that
 * luamem_take() charged stay as they are.
 *
 * Values on the stack, pointers to strings and refs from before the snapshot
 * are good after a rollback; those made since are not.
 */
SMALL_API int sandbox_snapshot(struct sandbox *sb, const char *const *safe)
	SMALL_SYM(sandbox_snapshot);
/* Between calls, any number of times. Fails only with SANDBOX_BUSY, or
 * SANDBOX_MISUSE without a snapshot; changes nothing then. A coroutine that
 * the host resumes by itself must not be what calls it. */
SMALL_API int sandbox_rollback(struct sandbox *sb) SMALL_SYM(sandbox_rollback);
/* Gives the snapshot's memory back; SANDBOX_BUSY inside of a call. */
SMALL_API int sandbox_discard(struct sandbox *sb) SMALL_SYM(sandbox_discard);

/* Ends the running call as SANDBOX_TIMEOUT; nothing without one. For a signal
 * handler on the owner's thread, or a C function that the script called. */
SMALL_API void sandbox_interrupt(struct sandbox *sb)
	SMALL_SYM(sandbox_interrupt);

SMALL_API void sandbox_stats(const struct sandbox *sb,
                             struct sandbox_stats *out)
	SMALL_SYM(sandbox_stats);
/* The allocator, for luamem_take() and its kin. */
SMALL_API struct luamem *sandbox_mem(struct sandbox *sb) SMALL_SYM(sandbox_mem);

/* NULL, or the name of the first broken invariant: of luamem, or "idle"
 * (a hook, a verdict or a deadline outlived its call). */
SMALL_API const char *sandbox_check(const struct sandbox *sb)
	SMALL_SYM(sandbox_check);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* SMALL_SANDBOX_H */
