/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox_snapshot: the whole interpreter, put back in place. All that Lua
 * knows lies in its heap, at the same addresses before and after; what we
 * know of it lies in struct sandbox and is copied beside. What neither holds
 * (open files, memory and globals of C modules) is why a state that has more
 * than the default set is refused.
 *
 * Worst case: luamem_rollback()'s and a copy of the struct; snapshot collects
 * all garbage first, as each rollback copies what is there.
 */
#include <small/lua/luamem_internal.h>
#include <small/lua/sandbox_internal.h>

/* What of struct sandbox is put back: `run` is the ticker's too, and goes on;
 * the allocator's part is luamem's. */
#define SB_SAVED_FROM offsetof(struct sandbox, call)
#define SB_SAVED      (offsetof(struct sandbox, mem) - SB_SAVED_FROM)

static int sb_refuse(struct sandbox *sb, int rc, const char *why)
{
	sb->message = why;
	return rc;
}

static int sb_busy(struct sandbox *sb)
{
	return sb_refuse(sb, SANDBOX_BUSY, "a call or a coroutine is running");
}

/* Something runs on the main thread, or waits there for a coroutine. */
static bool sb_is_busy(const struct sandbox *sb)
{
	lua_Debug ar;

	return sb->active || lua_getstack(sb->L, 0, &ar) != 0;
}

/* -- what is open ----------------------------------------------------------
 */

/* Libraries of the default set, as they stand in the table of modules. */
static const char *const sb_own_libs[] = {
	"_G", "coroutine", "table", "string", "math", "utf8", "os", NULL};

struct sb_search {
	const char *const *safe; /* the host's, or NULL */
	char name[64];           /* what was found, cut */
};

static bool sb_is_listed(const char *const *list, const char *name)
{
	for (; list != NULL && *list != NULL; list++)
		if (strcmp(*list, name) == 0)
			return true;
	return false;
}

/* True for the key below the value on top, which is no name of ours. */
static bool sb_is_foreign(lua_State *L, struct sb_search *search,
                          const char *const *own)
{
	const char *name;

	if (lua_type(L, -2) != LUA_TSTRING)
		return false;
	name = lua_tostring(L, -2);
	if (sb_is_listed(own, name) || sb_is_listed(search->safe, name))
		return false;
	snprintf(search->name, sizeof(search->name), "%s", name);
	return true;
}

/* A type of userdata that somebody wants to hear the end of. */
static bool sb_has_finalizer(lua_State *L)
{
	bool found;

	if (!lua_istable(L, -1))
		return false;
	lua_pushliteral(L, "__gc");
	lua_rawget(L, -2);
	found = !lua_isnil(L, -1);
	lua_pop(L, 1);
	return found;
}

/* A module that is neither of the default set nor listed. */
static bool sb_find_module(lua_State *L, struct sb_search *search)
{
	lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
	if (!lua_istable(L, -1))
		return false;
	lua_pushnil(L);
	while (lua_next(L, -2)) {
		if (sb_is_foreign(L, search, sb_own_libs))
			return true;
		lua_pop(L, 1);
	}
	return false;
}

static bool sb_find_type(lua_State *L, struct sb_search *search)
{
	lua_pushnil(L);
	while (lua_next(L, LUA_REGISTRYINDEX)) {
		if (sb_has_finalizer(L) && sb_is_foreign(L, search, NULL))
			return true;
		lua_pop(L, 1);
	}
	return false;
}

static int sb_do_search(lua_State *L)
{
	struct sb_search *search = (struct sb_search *)lua_touserdata(L, 1);

	if (!sb_find_module(L, search))
		sb_find_type(L, search);
	return 0;
}

static int sb_look_for_modules(struct sandbox *sb, const char *const *safe)
{
	struct sb_search search = {.safe = safe};
	int rc;

	if (sb->flags & SANDBOX_ALLOW_STDLIB)
		return sb_refuse(sb, SANDBOX_FOREIGN,
		                 "the io and package libraries are open");
	rc = sandbox_protect(sb, sb_do_search, &search);
	if (rc != SANDBOX_OK) {
		lua_pop(sb->L, 1);
		return rc;
	}
	if (search.name[0] == '\0')
		return SANDBOX_OK;
	snprintf(sb->text, sizeof(sb->text), "module %s is open", search.name);
	return sb_refuse(sb, SANDBOX_FOREIGN, sb->text);
}

/* -- snapshot --------------------------------------------------------------
 */

static int sb_can_snapshot(struct sandbox *sb, const char *const *safe)
{
	if (sb->mem.mode != LUAMEM_MANAGED)
		return sb_refuse(sb, SANDBOX_UNSUPPORTED,
		                 "a snapshot needs managed mode");
	if (sb->flags & SANDBOX_ALLOW_JIT)
		return sb_refuse(sb, SANDBOX_UNSUPPORTED,
		                 "a snapshot needs the compiler off");
	if (sb_is_busy(sb))
		return sb_busy(sb);
	if (luamem_snapshot_extra(&sb->mem) != NULL)
		return sb_misuse(sb);
	return sb_look_for_modules(sb, safe);
}

static int sb_do_collect(lua_State *L)
{
	lua_gc(L, LUA_GCCOLLECT, 0);
	return 0;
}

int sandbox_snapshot(struct sandbox *sb, const char *const *safe)
{
	enum luamem_cause cause;
	int rc = sb_can_snapshot(sb, safe);

	if (rc != SANDBOX_OK)
		return rc;
	if (sandbox_protect(sb, sb_do_collect, NULL) != SANDBOX_OK)
		lua_pop(sb->L, 1); /* a finalizer's error, or no memory */
	sb->message = "";
	if (luamem_snapshot(&sb->mem, SB_SAVED, &cause) != 0) {
		if (cause == LUAMEM_NONE)
			return sb_misuse(sb);
		sb_set_message(sb, SANDBOX_MEM_QUOTA);
		return cause == LUAMEM_QUOTA ? SANDBOX_MEM_QUOTA
		                             : SANDBOX_MEM_SYSTEM;
	}
	sb->calls_saved = sb->run.count - sb->uncounted;
	memcpy(luamem_snapshot_extra(&sb->mem), (char *)sb + SB_SAVED_FROM,
	       SB_SAVED);
	return SANDBOX_OK;
}

/* -- back ------------------------------------------------------------------
 */

/* The ticker goes on with what it watches: its part is not put back but set
 * anew where it differs. */
static void sb_restore(struct sandbox *sb)
{
	struct ticker_thread *ticker = sb->ticker;
	uint64_t timeout_ns = sb->timeout_ns, saved;

	luamem_copy((char *)sb + SB_SAVED_FROM, luamem_snapshot_extra(&sb->mem),
	            SB_SAVED);
	sb->uncounted = sb->run.count - sb->calls_saved;
	sb->ticker = ticker;
	saved = sb->timeout_ns;
	sb->timeout_ns = timeout_ns;
	if (saved != timeout_ns)
		sandbox_set_timeout(sb, saved);
}

int sandbox_rollback(struct sandbox *sb)
{
	if (small_unlikely(sb_is_busy(sb)))
		return sb_busy(sb);
	if (small_unlikely(luamem_rollback(&sb->mem) != 0))
		return sb_misuse(sb);
	sb_restore(sb);
	return SANDBOX_OK;
}

int sandbox_discard(struct sandbox *sb)
{
	if (sb_is_busy(sb))
		return sb_busy(sb);
	luamem_discard(&sb->mem);
	return SANDBOX_OK;
}
