/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox_host: what a host does to the state between calls, each of it
 * through one function in the registry that runs under protection. A value
 * that is to be popped waits in a registry slot that exists since open.
 */
#include <small/lua/sandbox_internal.h>

/* Free slots that a protected call of ours needs on the host's stack. */
#define SB_STACK_SLOTS 3

struct sb_job {
	int (*fn)(lua_State *L);
	void *ud;
};

int sb_trampoline(lua_State *L)
{
	struct sb_job job = *(struct sb_job *)lua_touserdata(L, 1);

	lua_settop(L, 0);
	lua_pushlightuserdata(L, job.ud);
	return job.fn(L);
}

/* With nargs values on top as arguments behind ud. Results are pushed; on
 * failure the error value is. No limit but the memory's. */
static int sb_protect(struct sandbox *sb, int (*fn)(lua_State *), void *ud,
                      int nresults)
{
	struct sb_job job = {fn, ud};
	lua_State *L = sb->L;
	int status;

	if (sb->active)
		return sb_misuse(sb);
	sb_feel_nothing(sb);
#if SB_51
	lua_rawgeti(L, LUA_REGISTRYINDEX, sb->protect_ref);
#else
	lua_pushcfunction(L, sb_trampoline);
#endif
	lua_pushlightuserdata(L, &job);
	status = lua_pcall(L, 1, nresults, 0);
	if (small_likely(status == SB_STATUS_OK))
		return SANDBOX_OK;
	return sb_failed(sb, status, 0);
}

int sandbox_protect(struct sandbox *sb, int (*fn)(lua_State *), void *ud)
{
	if (fn == NULL)
		return sb_misuse(sb);
	return sb_protect(sb, fn, ud, LUA_MULTRET);
}

/* As sb_protect() for calls that promise to push nothing when they fail. */
static int sb_protect_quiet(struct sandbox *sb, int (*fn)(lua_State *),
                            void *ud, int nresults)
{
	int rc = sb_protect(sb, fn, ud, nresults);

	if (rc != SANDBOX_OK && rc != SANDBOX_MISUSE)
		lua_pop(sb->L, 1);
	return rc;
}

/* What is pushed or popped by the calls below. */
struct sb_value {
	int type;
	double number;
	int64_t integer;
	const char *s;
	size_t size;
	void *ptr;
	int (*fn)(lua_State *);
	int flag; /* the boolean; of a number: it is an integer */
};

static int sb_do_push(lua_State *L)
{
	const struct sb_value *v =
		(const struct sb_value *)lua_touserdata(L, 1);

	switch (v->type) {
	case LUA_TBOOLEAN:
		lua_pushboolean(L, v->flag);
		break;
	case LUA_TNUMBER:
		if (v->flag)
			lua_pushinteger(L, (lua_Integer)v->integer);
		else
			lua_pushnumber(L, v->number);
		break;
	case LUA_TSTRING:
		lua_pushlstring(L, v->s, v->size);
		break;
	case LUA_TLIGHTUSERDATA:
		lua_pushlightuserdata(L, v->ptr);
		break;
	case LUA_TFUNCTION:
		lua_pushcfunction(L, v->fn);
		break;
	default:
		lua_pushnil(L);
	}
	return 1;
}

#if SB_51
static int sb_do_checkstack(lua_State *L)
{
	luaL_checkstack(L, *(int *)lua_touserdata(L, 1), "sandbox");
	return 0;
}

int sb_grow_stack(struct sandbox *sb, int n)
{
	return sb_protect_quiet(sb, sb_do_checkstack, &n, 0);
}
#else
int sb_grow_stack(struct sandbox *sb, int n)
{
	if (lua_checkstack(sb->L, n))
		return SANDBOX_OK;
	sb_set_message(sb, SANDBOX_MEM_LIMIT);
	return sb_memory_rc(sb);
}
#endif

/*
 * Room for one more value and a protected call: a C function's frame has
 * LUA_MINSTACK slots, beyond that the stack has to grow.
 */
int sb_room(struct sandbox *sb)
{
	int top = lua_gettop(sb->L);

	if (sb->active)
		return sb_misuse(sb);
	if (top < LUA_MINSTACK - SB_STACK_SLOTS - 1)
		return SANDBOX_OK;
	if (top > SB_STACK_MAX)
		return sb_misuse(sb);
	return sb_grow_stack(sb, LUA_MINSTACK);
}

static int sb_push(struct sandbox *sb, struct sb_value *v)
{
	int rc = sb_room(sb);

	if (rc != SANDBOX_OK)
		return rc;
	return sb_protect_quiet(sb, sb_do_push, v, 1);
}

int sandbox_push_nil(struct sandbox *sb)
{
	struct sb_value v = {.type = LUA_TNIL};

	return sb_push(sb, &v);
}

int sandbox_push_boolean(struct sandbox *sb, int value)
{
	struct sb_value v = {.type = LUA_TBOOLEAN, .flag = value};

	return sb_push(sb, &v);
}

int sandbox_push_number(struct sandbox *sb, double value)
{
	struct sb_value v = {.type = LUA_TNUMBER, .number = value};

	return sb_push(sb, &v);
}

int sandbox_push_integer(struct sandbox *sb, int64_t value)
{
	struct sb_value v = {.type = LUA_TNUMBER, .flag = 1, .integer = value};

	return sb_push(sb, &v);
}

int sandbox_push_string(struct sandbox *sb, const char *str, size_t size)
{
	struct sb_value v = {.type = LUA_TSTRING, .s = str, .size = size};

	int rc;

	if (size > PTRDIFF_MAX || (str == NULL && size > 0))
		return sb_misuse(sb);
	rc = sb_push(sb, &v);
	if (rc == SANDBOX_ERROR) /* Lua has no string of that size */
		rc = SANDBOX_MEM_SYSTEM;
	return rc;
}

int sandbox_push_lightuserdata(struct sandbox *sb, void *ptr)
{
	struct sb_value v = {.type = LUA_TLIGHTUSERDATA, .ptr = ptr};

	return sb_push(sb, &v);
}

int sandbox_push_function(struct sandbox *sb, int (*fn)(lua_State *))
{
	struct sb_value v = {.type = LUA_TFUNCTION, .fn = fn};

	if (fn == NULL)
		return sb_misuse(sb);
	return sb_push(sb, &v);
}

static int sb_do_get_global(lua_State *L)
{
	lua_getglobal(L, (const char *)lua_touserdata(L, 1));
	return 1;
}

int sandbox_push_global(struct sandbox *sb, const char *name)
{
	int rc = name != NULL ? sb_room(sb) : sb_misuse(sb);

	if (rc != SANDBOX_OK)
		return rc;
	return sb_protect_quiet(sb, sb_do_get_global, (void *)(uintptr_t)name,
	                        1);
}

/* The value to pop waits in the registry, where no allocation is needed to
 * put it: the slot exists since open. */
static bool sb_park_value(struct sandbox *sb)
{
	if (sb->active || lua_gettop(sb->L) == 0)
		return false;
	lua_rawseti(sb->L, LUA_REGISTRYINDEX, sb->slot_ref);
	return true;
}

static void sb_clear_slot(struct sandbox *sb)
{
	lua_pushboolean(sb->L, 0); /* not nil: the slot has to stay */
	lua_rawseti(sb->L, LUA_REGISTRYINDEX, sb->slot_ref);
}

static int sb_do_set_global(lua_State *L)
{
	const char *name = (const char *)lua_touserdata(L, 1);

	lua_rawgeti(L, LUA_REGISTRYINDEX, sb_of(L)->slot_ref);
	lua_setglobal(L, name);
	return 0;
}

int sandbox_set_global(struct sandbox *sb, const char *name)
{
	int rc;

	if (name == NULL || !sb_park_value(sb))
		return sb_misuse(sb);
	rc = sb_protect_quiet(sb, sb_do_set_global, (void *)(uintptr_t)name, 0);
	sb_clear_slot(sb);
	return rc;
}

static int sb_do_ref(lua_State *L)
{
	int *ref = (int *)lua_touserdata(L, 1);

	lua_rawgeti(L, LUA_REGISTRYINDEX, sb_of(L)->slot_ref);
	*ref = luaL_ref(L, LUA_REGISTRYINDEX);
	return 0;
}

int sandbox_ref(struct sandbox *sb, int *ref)
{
	int rc;

	if (ref == NULL || !sb_park_value(sb))
		return sb_misuse(sb);
	rc = sb_protect_quiet(sb, sb_do_ref, ref, 0);
	sb_clear_slot(sb);
	return rc;
}

int sandbox_push_ref(struct sandbox *sb, int ref)
{
	int rc = sb_room(sb);

	if (rc == SANDBOX_OK)
		lua_rawgeti(sb->L, LUA_REGISTRYINDEX, ref);
	return rc;
}

void sandbox_unref(struct sandbox *sb, int ref)
{
	luaL_unref(sb->L, LUA_REGISTRYINDEX, ref);
}

static int sb_do_newthread(lua_State *L)
{
	lua_State **out = (lua_State **)lua_touserdata(L, 1);

	*out = lua_newthread(L);
	return 1;
}

int sandbox_newthread(struct sandbox *sb, lua_State **out)
{
	int rc = out != NULL ? sb_room(sb) : sb_misuse(sb);

	if (out != NULL)
		*out = NULL;
	if (rc != SANDBOX_OK)
		return rc;
	return sb_protect_quiet(sb, sb_do_newthread, out, 1);
}
