/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox: open and close, and what can be set and asked in between. The
 * calls that a host makes on the state are in sandbox_call.c and
 * sandbox_host.c.
 */
#include <small/lua/sandbox_internal.h>

#include <small/track.h>

/* What lua_newstate of LuaJIT asks for at most, in sum: measured, and half of
 * it more. Of the others each failure is clean. */
#define SB_NEWSTATE_BYTES ((size_t)24 * 1024)

#define SB_ALL_FLAGS (2 * SANDBOX_NO_SIGNAL - 1)

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

	sb->L = sb->running = sb_newstate(sb);
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

/* What is left when the interpreter is closed or forgotten. */
static void sb_forget(struct sandbox *sb)
{
	if (sb->ticker != NULL)
		ticker_forget(&sb->run);
}

static void sb_destroy(struct sandbox *sb)
{
	sb_forget(sb);
	luamem_destroy(&sb->mem);
	free(sb);
}

/*
 * Structs of dropped sandboxes wait for the next open, which takes one and
 * frees the others: free() in a drop would be most of its time, for what it
 * finds of malloc's is in no cache. Pushed one by one, taken all at once.
 */
static struct sandbox *sb_spares;

static struct sandbox **sb_next_spare(struct sandbox *sb)
{
	return (struct sandbox **)(void *)sb;
}

static void sb_put_spare(struct sandbox *sb)
{
	struct sandbox *top = __atomic_load_n(&sb_spares, __ATOMIC_RELAXED);

	track_before(&sb_spares);
	do
		*sb_next_spare(sb) = top;
	while (!__atomic_compare_exchange_n(&sb_spares, &top, sb, true,
	                                    __ATOMIC_RELEASE,
	                                    __ATOMIC_RELAXED));
}

static struct sandbox *sb_new(void)
{
	struct sandbox *sb =
		__atomic_exchange_n(&sb_spares, NULL, __ATOMIC_ACQUIRE);
	struct sandbox *more, *next;

	track_after(&sb_spares);
	if (sb == NULL)
		return (struct sandbox *)calloc(1, sizeof(*sb));
	for (more = *sb_next_spare(sb); more != NULL; more = next) {
		next = *sb_next_spare(more);
		free(more);
	}
	memset(sb, 0, sizeof(*sb));
	return sb;
}

int sandbox_open(const struct sandbox_opts *opts, struct sandbox **out)
{
	struct sandbox *sb;
	int rc;

	if (out == NULL)
		return SANDBOX_MISUSE;
	*out = NULL;
	if (opts == NULL || !sb_opts_ok(opts))
		return SANDBOX_MISUSE;
	sb = sb_new();
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
		sb_destroy(sb);
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
	sb_destroy(sb);
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
	sb_forget(sb);
	luamem_drop(&sb->mem);
	sb_put_spare(sb);
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
	if (ns == 0 && sb->ticker != NULL)
		ticker_forget(&sb->run);
	sb->run.expired = sb_expired;
	sb->run.arg = sb;
	__atomic_store_n(&sb->run.ns, ns, __ATOMIC_RELAXED);
	sb->timeout_ns = ns;
	sb_set_call(sb);
	return SANDBOX_OK;
}

int sandbox_set_instructions(struct sandbox *sb, uint64_t n)
{
	if (sb->active || (n != 0 && (sb->flags & SANDBOX_ALLOW_JIT)))
		return sb_misuse(sb);
	sb->instructions = n;
	sb_set_call(sb);
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
	if (ticker != sb->ticker)
		ticker_forget(&sb->run);
	sb->ticker = ticker;
	luamem_set_thread(&sb->mem);
	return SANDBOX_OK;
}

void sandbox_stats(const struct sandbox *sb, struct sandbox_stats *out)
{
	luamem_stats(&sb->mem, &out->mem);
	out->instructions =
		sb->instructions != 0 ? sb->instructions - sb->left : 0;
	out->calls = sb->run.count - sb->uncounted;
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
