/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox_load: text becomes a function, for the host and for scripts. Text
 * is handed to the compiler in pieces, so that a deadline ends the compiling
 * of a long one. Bytecode is refused here, before the loader sees it: by the
 * mode where Lua has one (so that the message is its own), by the first byte
 * in 5.1.
 */
#include <small/lua/sandbox_internal.h>

/* Compiles in well under a tick. */
#define SB_PIECE ((size_t)16 * 1024)
/* Where the reader keeps the current piece of a function's text. */
#define SB_PIECE_SLOT 5

struct sb_reader {
	const char *text; /* a string's */
	size_t left;
	bool bytecode; /* allowed */
	bool first;    /* nothing was read yet */
	char mode[8];  /* what the loader looks at after the first piece */
};

static bool sb_is_bytecode(const char *piece)
{
	return *piece == LUA_SIGNATURE[0];
}

/* The first piece decides: the script's mode without what is not allowed. */
static void sb_look(lua_State *L, struct sb_reader *r, const char *piece)
{
	r->first = false;
	if (r->bytecode || !sb_is_bytecode(piece))
		return;
#if SB_51 && !SB_JIT
	lua_pushliteral(L, "attempt to load a binary chunk (mode is 't')");
	lua_error(L);
#else
	(void)L;
	r->mode[0] = strchr(r->mode, 't') != NULL ? 't' : '\0';
	r->mode[1] = '\0';
#endif
}

static const char *sb_read_string(lua_State *L, void *ud, size_t *size)
{
	struct sb_reader *r = (struct sb_reader *)ud;
	const char *piece = r->text;

	sb_poll(L);
	*size = r->left < SB_PIECE ? r->left : SB_PIECE;
	if (*size == 0)
		return NULL;
	if (r->first)
		sb_look(L, r, piece);
	r->text += *size;
	r->left -= *size;
	return piece;
}

static const char *sb_read_function(lua_State *L, void *ud, size_t *size)
{
	struct sb_reader *r = (struct sb_reader *)ud;
	const char *piece;

	sb_poll(L);
	luaL_checkstack(L, 2, "too many nested functions");
	lua_pushvalue(L, 1);
	lua_call(L, 0, 1);
	if (lua_isnil(L, -1)) {
		lua_pop(L, 1);
		*size = 0;
		return NULL;
	}
	if (!lua_isstring(L, -1))
		luaL_error(L, "reader function must return a string");
	lua_replace(L, SB_PIECE_SLOT);
	piece = lua_tolstring(L, SB_PIECE_SLOT, size);
	if (r->first && *size > 0)
		sb_look(L, r, piece);
	return piece;
}

static int sb_lua_load(lua_State *L, lua_Reader read, struct sb_reader *r,
                       const char *chunkname)
{
#if SB_JIT
	return lua_loadx(L, read, r, chunkname, r->mode);
#elif SB_51
	return lua_load(L, read, r, chunkname);
#else
	return lua_load(L, read, r, chunkname, r->mode);
#endif
}

/* What the stock function does with the result; env is an index or 0. */
static int sb_loaded(lua_State *L, int status, int env, size_t felt)
{
	if (small_unlikely(status != SB_STATUS_OK)) {
		sb_caught(L, status, felt);
		lua_pushnil(L);
		lua_insert(L, -2);
		return 2;
	}
	if (env != 0) {
		lua_pushvalue(L, env);
#if SB_51
		lua_setfenv(L, -2);
#else
		if (!lua_setupvalue(L, -2, 1))
			lua_pop(L, 1);
#endif
	}
	return 1;
}

static void sb_reader_init(lua_State *L, struct sb_reader *r, const char *mode)
{
	memset(r, 0, sizeof(*r));
	r->first = true;
	r->bytecode = (sb_of(L)->flags & SANDBOX_ALLOW_BYTECODE) != 0;
	snprintf(r->mode, sizeof(r->mode), "%s", mode);
}

#if SB_51 && !SB_JIT
static int sb_loadstring(lua_State *L)
{
	size_t felt = luamem_felt(&sb_of(L)->mem);
	struct sb_reader r;
	const char *name;

	sb_reader_init(L, &r, "bt");
	r.text = luaL_checklstring(L, 1, &r.left);
	name = luaL_optstring(L, 2, r.text);
	return sb_loaded(L, sb_lua_load(L, sb_read_string, &r, name), 0, felt);
}

static int sb_load(lua_State *L)
{
	size_t felt = luamem_felt(&sb_of(L)->mem);
	const char *name = luaL_optstring(L, 2, "=(load)");
	struct sb_reader r;

	luaL_checktype(L, 1, LUA_TFUNCTION);
	sb_reader_init(L, &r, "bt");
	lua_settop(L, SB_PIECE_SLOT);
	return sb_loaded(L, sb_lua_load(L, sb_read_function, &r, name), 0,
	                 felt);
}

const luaL_Reg sb_load_funcs[] = {
	{"load", sb_load}, {"loadstring", sb_loadstring}, {NULL, NULL}};
#else
static int sb_load(lua_State *L)
{
	size_t felt = luamem_felt(&sb_of(L)->mem);
	const char *mode = luaL_optstring(L, 3, "bt"), *name;
	int env = SB_JIT ? (lua_istable(L, 4) ? 4 : 0)
	                 : (!lua_isnone(L, 4) ? 4 : 0);
	lua_Reader read = sb_read_string;
	struct sb_reader r;

	sb_reader_init(L, &r, mode);
	r.text = lua_tolstring(L, 1, &r.left);
	if (r.text != NULL) {
		name = luaL_optstring(L, 2, r.text);
	} else {
		name = luaL_optstring(L, 2, "=(load)");
		luaL_checktype(L, 1, LUA_TFUNCTION);
		lua_settop(L, SB_PIECE_SLOT);
		read = sb_read_function;
	}
	return sb_loaded(L, sb_lua_load(L, read, &r, name), env, felt);
}

const luaL_Reg sb_load_funcs[] = {{"load", sb_load},
# if SB_JIT
                                  {"loadstring", sb_load},
# endif
                                  {NULL, NULL}};
#endif

int sb_load_text(lua_State *L, const char *text, size_t size, const char *name)
{
	struct sb_reader r;
	int status;

	sb_reader_init(L, &r, "bt");
	r.text = text;
	r.left = size;
	status = sb_lua_load(L, sb_read_string, &r, name);
#if SB_51 && !SB_JIT
	/* what the reader raised */
	if (status == LUA_ERRRUN && size > 0 && sb_is_bytecode(text))
		status = LUA_ERRSYNTAX;
#endif
	return status;
}
