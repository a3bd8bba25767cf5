/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * small-lua: runs a Lua script inside a sandbox, as the stand-alone `lua`
 * would run it, under the limits of the command line. Compiled once per Lua.
 *
 * Exit status: 0, or 1 script error, 2 usage, 3 memory, 4 time or
 * instructions. Messages have the form of lua's own.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

#include <small/lua/sandbox.h>
#include <small/quota_lessor.h>

#define EXIT_SCRIPT 1
#define EXIT_USAGE  2
#define EXIT_MEMORY 3
#define EXIT_TIME   4

#if LUA_VERSION_NUM == 501
# define LUA_SHORT "5.1"
#elif LUA_VERSION_NUM == 503
# define LUA_SHORT "5.3"
#else
# define LUA_SHORT "5.4"
#endif
#ifdef LUA_LJDIR
# define COMMAND     "small-luajit"
# define HAS_JIT     1
# define VERSION_SAY "LuaJIT 2.1, Lua 5.1"
#else
# define COMMAND     "small-lua" LUA_SHORT
# define HAS_JIT     0
# define VERSION_SAY LUA_VERSION
#endif

enum stats_form { STATS_NONE, STATS_TEXT, STATS_JSON };

/* How far the command is, for the watchdog. */
enum stage { STAGE_RUNS, STAGE_SAID, STAGE_DONE };

struct command {
	const char *progname;
	struct sandbox_opts opts;
	const char *limit_text; /* as given, for messages */
	enum stats_form stats;
	int argc; /* of the command line */
	char **argv;
	int script; /* index of the script's name, argc = none */
	struct sandbox *sb;
	size_t collections;
	struct sandbox_stats last; /* before close */
	size_t leaked;             /* bytes in use after it */
	int stage;                 /* enum stage, the watchdog reads it */
};

static struct command command;
static struct quota quota;
static struct slab_arena arena;
static struct slab_cache cache;
static struct quota_lessor lessor;

static const char usage_text[] =
	"usage: %s [options] [script [args]]\n"
	"  --limit SIZE      memory limit, overhead included: 2M, 64K, ...\n"
	"  --reserve SIZE    memory charged at once\n"
	"  --mode MODE       managed (default), tracked or native\n"
	"  --timeout TIME    1s, 100ms, ... of wall time\n"
	"  --instructions N  limit of virtual machine instructions\n"
	"  --safe            only the sandbox's whitelist of libraries\n"
	"  --stats[=json]    print memory statistics on stderr\n"
	"  --version, --help\n"
	"Without a script, or for '-', standard input is read.\n";

static void say(const char *format, const char *a, const char *b)
{
	fflush(stdout);
	fprintf(stderr, "%s: ", command.progname);
	fprintf(stderr, format, a, b);
	fputc('\n', stderr);
	fflush(stderr);
}

static __attribute__((noreturn)) void bad_usage(const char *format,
                                                const char *a, const char *b)
{
	say(format, a, b);
	exit(EXIT_USAGE);
}

/* -- the command line ---------------------------------------------------- */

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{"", 1}, {"K", 1024}, {"M", 1 << 20}, {"G", 1 << 30}, {NULL, 0}};
static const struct unit time_units[] = {{"s", 1000000000}, {"ms", 1000000},
                                         {"us", 1000},      {"ns", 1},
                                         {"", 1000000000},  {NULL, 0}};
static const struct unit plain_units[] = {{"", 1}, {NULL, 0}};

/* A number > 0 and one of the units; exits when it is anything else. */
static uint64_t parse(const char *option, const char *text,
                      const struct unit *units, const char *form)
{
	unsigned long long n;
	uint64_t value;
	char *end;

	if (*text < '0' || *text > '9')
		goto bad;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno != 0 || n == 0)
		goto bad;
	for (; units->name != NULL; units++) {
		if (strcmp(end, units->name) == 0 &&
		    !__builtin_mul_overflow((uint64_t)n, units->factor,
		                            &value) &&
		    value <= INT64_MAX)
			return value;
	}
bad:
	say("'%s' is not good for %s", text, option);
	bad_usage("%s takes %s", option, form);
}

static enum luamem_mode parse_mode(const char *text)
{
	if (strcmp(text, "managed") == 0)
		return LUAMEM_MANAGED;
	if (strcmp(text, "tracked") == 0)
		return LUAMEM_TRACKED;
	if (strcmp(text, "native") == 0)
		return LUAMEM_NATIVE;
	bad_usage("'%s' is not good for --mode: managed, tracked, native%s",
	          text, "");
}

static const char size_form[] = "a number of bytes above 0, or with K, M, G";

static void set_value(const char *option, const char *text)
{
	struct sandbox_opts *opts = &command.opts;

	if (strcmp(option, "--limit") == 0) {
		opts->limit = parse(option, text, size_units, size_form);
		command.limit_text = text;
	} else if (strcmp(option, "--reserve") == 0) {
		opts->reserve = parse(option, text, size_units, size_form);
	} else if (strcmp(option, "--mode") == 0) {
		opts->mode = parse_mode(text);
	} else if (strcmp(option, "--timeout") == 0) {
		opts->timeout_ns = parse(option, text, time_units,
		                         "a time such as 1s, 100ms, 50us");
	} else {
		opts->instructions =
			parse(option, text, plain_units, "a number above 0");
	}
}

static bool takes_value(const char *option)
{
	static const char *const names[] = {"--limit", "--reserve", "--mode",
	                                    "--timeout", "--instructions"};

	for (size_t i = 0; i < lengthof(names); i++) {
		if (strcmp(option, names[i]) == 0)
			return true;
	}
	return false;
}

/* An option without a value; false when there is no such one. */
static bool set_flag(const char *option)
{
	if (strcmp(option, "--safe") == 0) {
		command.opts.flags = SANDBOX_TRACEBACK;
	} else if (strcmp(option, "--stats") == 0) {
		command.stats = STATS_TEXT;
	} else if (strcmp(option, "--stats=json") == 0) {
		command.stats = STATS_JSON;
	} else if (strcmp(option, "--help") == 0) {
		printf(usage_text, command.progname);
		exit(0);
	} else if (strcmp(option, "--version") == 0) {
		printf("%s (%s)\n", COMMAND, VERSION_SAY);
		exit(0);
	} else {
		return false;
	}
	return true;
}

/* "--name=value" or "--name value"; the number of arguments used. */
static int set_option(char *const *argv)
{
	char name[32];
	const char *value = strchr(argv[0], '=');
	size_t len =
		value != NULL ? (size_t)(value - argv[0]) : strlen(argv[0]);

	if (set_flag(argv[0]))
		return 1;
	if (len >= sizeof(name))
		bad_usage("no option '%s'%s (try --help)", argv[0], "");
	memcpy(name, argv[0], len);
	name[len] = '\0';
	if (!takes_value(name))
		bad_usage("no option '%s'%s (try --help)", argv[0], "");
	if (value != NULL) {
		set_value(name, value + 1);
		return 1;
	}
	if (argv[1] == NULL)
		bad_usage("%s needs a value%s", name, "");
	set_value(name, argv[1]);
	return 2;
}

static void parse_command_line(int argc, char **argv)
{
	int i = 1;

	command.opts.flags = SANDBOX_TRACEBACK | SANDBOX_ALLOW_STDLIB |
	                     SANDBOX_ALLOW_BYTECODE | SANDBOX_ALLOW_GC;
	while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0') {
		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		i += set_option(&argv[i]);
	}
	command.argc = argc;
	command.argv = argv;
	command.script = i;
	if (i == argc && isatty(STDIN_FILENO)) {
		fprintf(stderr, usage_text, command.progname);
		exit(EXIT_USAGE);
	}
}

static void check_options(void)
{
	struct sandbox_opts *opts = &command.opts;

	if (opts->reserve != 0 && opts->mode != LUAMEM_MANAGED)
		bad_usage("--reserve needs --mode managed%s%s", "", "");
	if (opts->reserve > opts->limit && opts->limit != 0)
		bad_usage("--reserve is above --limit%s%s", "", "");
	if (opts->limit != 0 && opts->mode == LUAMEM_NATIVE)
		bad_usage("--limit needs --mode managed or tracked%s%s", "",
		          "");
	if (HAS_JIT && opts->limit == 0 && opts->timeout_ns == 0 &&
	    opts->instructions == 0)
		opts->flags |= SANDBOX_ALLOW_JIT;
}

/* -- statistics ----------------------------------------------------------- */

static void print_stats(void)
{
	static const char *const forms[] = {
		"used=%zu peak=%zu limit=%zu refused=%zu recovered=%zu "
		"collections=%zu leaked=%zu\n",
		"{\"used\":%zu,\"peak\":%zu,\"limit\":%zu,\"refused\":%zu,"
		"\"recovered\":%zu,\"collections\":%zu,\"leaked\":%zu}\n"};
	const struct luamem_stats *m = &command.last.mem;

	if (command.stats == STATS_NONE)
		return;
	if (command.sb != NULL) /* the script called os.exit() */
		sandbox_stats(command.sb, &command.last);
	fflush(stdout);
	fprintf(stderr, forms[command.stats == STATS_JSON], m->used, m->peak,
	        m->limit, m->refused, m->recovered, command.collections,
	        command.leaked);
}

static void close_sandbox(void)
{
	sandbox_stats(command.sb, &command.last);
	command.leaked = sandbox_close(command.sb);
	command.sb = NULL;
}

/* A userdata that nobody holds dies in each collection, and is reborn. */
static int count_collection(lua_State *L)
{
	command.collections++;
	lua_newuserdata(L, 1);
	lua_getmetatable(L, 1);
	lua_setmetatable(L, -2);
	return 0;
}

static void count_collections(lua_State *L)
{
	lua_newuserdata(L, 1);
	lua_createtable(L, 0, 1);
	lua_pushcfunction(L, count_collection);
	lua_setfield(L, -2, "__gc");
	lua_setmetatable(L, -2);
	lua_pop(L, 1);
}

/* -- the watchdog ---------------------------------------------------------- */

/* Ends the process a little before twice the limit, whatever runs. */
static void *watch(void *arg)
{
	uint64_t ns = command.opts.timeout_ns / 10 * 19;
	struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000),
	                      .tv_nsec = (long)(ns % 1000000000)};
	char text[128];
	int n, stage;

	(void)arg;
	nanosleep(&ts, NULL);
	stage = __atomic_load_n(&command.stage, __ATOMIC_ACQUIRE);
	if (stage == STAGE_DONE)
		return NULL; /* in exit() */
	if (stage == STAGE_SAID)
		_exit(EXIT_TIME); /* hangs in a finalizer */
	if (ftrylockfile(stdout) == 0)
		fflush_unlocked(stdout);
	n = snprintf(text, sizeof(text),
	             "%s: time limit of %" PRIu64 " ms exceeded\n",
	             command.progname, command.opts.timeout_ns / 1000000);
	if (write(STDERR_FILENO, text, (size_t)n) < 0)
		_exit(EXIT_TIME);
	_exit(EXIT_TIME);
}

static void start_watchdog(void)
{
	pthread_t thread;

	if (command.opts.timeout_ns == 0)
		return;
	if (pthread_create(&thread, NULL, watch, NULL) != 0)
		bad_usage("no thread for the watchdog%s%s", "", "");
	pthread_detach(thread);
}

/* -- the script ------------------------------------------------------------ */

static void make_arg_table(lua_State *L)
{
	int script = command.script < command.argc ? command.script : 0;

	lua_createtable(L, command.argc - script, script + 1);
	for (int i = 0; i < command.argc; i++) {
		lua_pushstring(L, command.argv[i]);
		lua_rawseti(L, -2, i - script);
	}
	lua_setglobal(L, "arg");
}

static int load_file(lua_State *L, const char *name)
{
#if LUA_VERSION_NUM == 501 && !HAS_JIT
	return luaL_loadfile(L, name);
#else
	bool any = (command.opts.flags & SANDBOX_ALLOW_BYTECODE) != 0;

	return luaL_loadfilex(L, name, any ? NULL : "t");
#endif
}

/* 5.1's loader has no mode; the sandbox takes text only. */
static bool is_bytecode_file(const char *name)
{
	FILE *file = name != NULL ? fopen(name, "rb") : NULL;
	int c;

	if (file == NULL)
		return false;
	c = getc(file);
	fclose(file);
	return c == LUA_SIGNATURE[0];
}

/* Returns the script as a function, and its arguments. */
static int prepare(lua_State *L)
{
	const char *name = NULL;
	int i = command.script;

	if (command.stats != STATS_NONE)
		count_collections(L);
	make_arg_table(L);
	if (i < command.argc && strcmp(command.argv[i], "-") != 0)
		name = command.argv[i];
	if (LUA_VERSION_NUM == 501 && !HAS_JIT && is_bytecode_file(name) &&
	    !(command.opts.flags & SANDBOX_ALLOW_BYTECODE))
		return luaL_error(L, "%s: bytecode is not allowed", name);
	if (load_file(L, name) != 0)
		return lua_error(L);
	luaL_checkstack(L, command.argc, "too many arguments to script");
	for (i++; i < command.argc; i++)
		lua_pushstring(L, command.argv[i]);
	return lua_gettop(L) - 1; /* not the light userdata */
}

static int run_script(void)
{
	int rc = sandbox_protect(command.sb, prepare, NULL);
	int nargs = command.argc - command.script - 1;

	if (rc != SANDBOX_OK)
		return rc;
	return sandbox_call(command.sb, nargs > 0 ? nargs : 0, 0);
}

static int exit_status(int rc)
{
	switch (rc) {
	case SANDBOX_OK:
		return 0;
	case SANDBOX_MEM_LIMIT:
	case SANDBOX_MEM_QUOTA:
	case SANDBOX_MEM_SYSTEM:
		return EXIT_MEMORY;
	case SANDBOX_TIMEOUT:
	case SANDBOX_INSTRUCTIONS:
		return EXIT_TIME;
	case SANDBOX_MISUSE:
		return EXIT_USAGE;
	default:
		return EXIT_SCRIPT;
	}
}

static void open_memory(void)
{
	struct sandbox_opts *opts = &command.opts;

	quota_init(&quota, QUOTA_MAX);
	if (slab_arena_create(&arena, &quota, 0, (size_t)4 << 20,
	                      SLAB_ARENA_PRIVATE) != 0) {
		say("not enough memory%s%s", "", "");
		exit(EXIT_MEMORY);
	}
	slab_cache_create(&cache, &arena);
	if (opts->mode == LUAMEM_MANAGED)
		opts->cache = &cache;
	if (opts->mode == LUAMEM_TRACKED &&
	    quota_lessor_create(&lessor, &quota) == 0)
		opts->lessor = &lessor;
}

static void close_memory(void)
{
	if (command.opts.lessor != NULL)
		quota_lessor_destroy(&lessor);
	slab_cache_destroy(&cache);
	slab_arena_destroy(&arena);
}

static void open_sandbox(void)
{
	int rc = sandbox_open(&command.opts, &command.sb);

	if (rc == SANDBOX_OK)
		return;
	if (exit_status(rc) == EXIT_MEMORY)
		say("not enough memory for the interpreter itself%s%s",
		    command.limit_text != NULL ? " within --limit " : "",
		    command.limit_text != NULL ? command.limit_text : "");
	else
		say("can not open the interpreter: %s%s", sandbox_rc_name(rc),
		    "");
	exit(exit_status(rc));
}

int main(int argc, char **argv)
{
	int rc, status;

	command.progname = argc > 0 && argv[0][0] != '\0' ? argv[0] : COMMAND;
	parse_command_line(argc, argv);
	check_options();
	open_memory();
	open_sandbox();
	atexit(print_stats); /* a script may call os.exit() */
	start_watchdog();
	rc = run_script();
	status = exit_status(rc);
	if (rc != SANDBOX_OK)
		say("%s%s", sandbox_message(command.sb), "");
	if (status == EXIT_TIME)
		__atomic_store_n(&command.stage, STAGE_SAID, __ATOMIC_RELEASE);
	close_sandbox();
	close_memory();
	__atomic_store_n(&command.stage, STAGE_DONE, __ATOMIC_RELEASE);
	return status;
}
