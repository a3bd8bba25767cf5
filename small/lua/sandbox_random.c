/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox_random: math.random and math.randomseed of 5.1 and 5.3, whose stock
 * ones draw from the C library's one generator: what one script seeds, another
 * script and the host would see, and no rollback could put back. The state
 * here is the sandbox's. Numbers, messages and the sequence of each seed are
 * those of the stock functions over glibc's random(), an additive feedback of
 * 31 words (x[i] = x[i - 3] + x[i - 31], the low bit dropped).
 */
#include <small/lua/sandbox_internal.h>

#if SB_OWN_RANDOM

/* Numbers are drawn and dropped so often after seeding: glibc's choice. */
# define SB_RANDOM_SKIP (10 * SB_RANDOM_WORDS)
# define SB_RANDOM_LAG  3
# define SB_RANDOM_MAX  2147483647

static int32_t sb_random_next(struct sb_random *r)
{
	unsigned front = r->at, rear = front + SB_RANDOM_WORDS - SB_RANDOM_LAG;
	uint32_t x;

	if (rear >= SB_RANDOM_WORDS)
		rear -= SB_RANDOM_WORDS;
	x = r->word[front] += r->word[rear];
	r->at = front + 1 < SB_RANDOM_WORDS ? front + 1 : 0;
	return (int32_t)(x >> 1);
}

/* The minimal standard generator fills the words, by Schrage's method. */
void sb_random_seed(struct sb_random *r, unsigned seed)
{
	int32_t word = seed != 0 ? (int32_t)seed : 1;

	for (int i = 0; i < SB_RANDOM_WORDS; i++) {
		r->word[i] = (uint32_t)word;
		word = 16807 * (word % 127773) - 2836 * (word / 127773);
		if (word < 0)
			word += SB_RANDOM_MAX;
	}
	r->at = SB_RANDOM_LAG;
	for (int i = 0; i < SB_RANDOM_SKIP; i++)
		sb_random_next(r);
}

# if SB_51
/* floor() of what an int holds, without a mathematics library to link. */
static double sb_floor(double x)
{
	double whole = (double)(int64_t)x;

	return whole > x ? whole - 1 : whole;
}

static int sb_random(lua_State *L)
{
	int32_t drawn = sb_random_next(&sb_of(L)->random);
	lua_Number r = (lua_Number)(drawn % SB_RANDOM_MAX) / SB_RANDOM_MAX;
	int low = 1, up;

	switch (lua_gettop(L)) {
	case 0:
		lua_pushnumber(L, r);
		return 1;
	case 1:
		up = luaL_checkint(L, 1);
		luaL_argcheck(L, low <= up, 1, "interval is empty");
		break;
	case 2:
		low = luaL_checkint(L, 1);
		up = luaL_checkint(L, 2);
		luaL_argcheck(L, low <= up, 2, "interval is empty");
		break;
	default:
		return luaL_error(L, "wrong number of arguments");
	}
	/* stock computes the width in an int, which wraps */
	lua_pushnumber(
		L, sb_floor(r * (int)((unsigned)up - (unsigned)low + 1)) + low);
	return 1;
}

static int sb_randomseed(lua_State *L)
{
	sb_random_seed(&sb_of(L)->random, (unsigned)luaL_checkint(L, 1));
	return 0;
}
# else
static int sb_random(lua_State *L)
{
	int32_t drawn = sb_random_next(&sb_of(L)->random);
	double r = drawn * (1.0 / (SB_RANDOM_MAX + 1.0));
	lua_Integer low = 1, up;

	switch (lua_gettop(L)) {
	case 0:
		lua_pushnumber(L, (lua_Number)r);
		return 1;
	case 1:
		up = luaL_checkinteger(L, 1);
		break;
	case 2:
		low = luaL_checkinteger(L, 1);
		up = luaL_checkinteger(L, 2);
		break;
	default:
		return luaL_error(L, "wrong number of arguments");
	}
	luaL_argcheck(L, low <= up, 1, "interval is empty");
	luaL_argcheck(L, low >= 0 || up <= LUA_MAXINTEGER + low, 1,
	              "interval too large");
	r *= (double)(up - low) + 1.0;
	lua_pushinteger(L, (lua_Integer)r + low);
	return 1;
}

static int sb_randomseed(lua_State *L)
{
	struct sb_random *r = &sb_of(L)->random;

	sb_random_seed(r, (unsigned)(lua_Integer)luaL_checknumber(L, 1));
	sb_random_next(r);
	return 0;
}
# endif

const luaL_Reg sb_math_funcs[] = {
	{"random", sb_random}, {"randomseed", sb_randomseed}, {NULL, NULL}};
#else
const luaL_Reg sb_math_funcs[] = {{NULL, NULL}};
#endif
