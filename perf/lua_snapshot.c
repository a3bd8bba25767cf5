/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lua_snapshot - L6: what it costs to have a fresh interpreter.
 *
 * lua_rollback: a heap of some size, a part of its pages written, put back:
 * by sandbox_rollback(), by a copy of the whole, by a MAP_PRIVATE mapping of
 * a file in memory whose pages are dropped. ns_op is without the writes
 * themselves, which are timed on memory of which nobody keeps a copy. The
 * written pages are the same each time (pages=same: one script over and
 * over), or the next ones of a shuffled order (pages=fresh).
 * lua_drop: forgetting against closing.
 */
#define _GNU_SOURCE /* memfd_create */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <small/freelist_snapshot.h>
#include <small/lua/sandbox.h>
#include <small/util.h>

#include "lua_benches.h"
#include "lua_rows.h"

/* Undone before anything is timed, so that each way has settled. */
#define WARM_UP 16
/* A round is as many operations as take this long. */
#define ROUND_NS ((uint64_t)2000000)
/* A userdata that fills a page but for its header and its neighbours'. */
#define BLOCK ((size_t)3900)

enum { OURS, COPY, COW, BARE, WAYS };

/* One way to put memory back, over memory of the same size. */
struct way {
	char *base;
	char *saved; /* COPY */
	int file;    /* COW */
	uint64_t ops;
	double ns[PERF_ROUNDS_MAX];
};

struct heap {
	const char *name;
	size_t target; /* bytes in use, 0: what state and prelude take */
	struct sandbox *sb;
	size_t size;    /* from the base of the piece, what was touched */
	uint32_t *spot; /* offsets to write at, a page or so apart; shuffled */
	size_t spots;
	size_t next; /* spot, when they are fresh */
	struct way way[WAYS];
};

static void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "perf: lua_snapshot: %s failed\n", what);
	exit(1);
}

static int run_prelude(struct sandbox *sb)
{
	int rc = sandbox_load(sb, lua_prelude, strlen(lua_prelude), "=prelude");

	return rc == SANDBOX_OK ? sandbox_call(sb, 0, 0) : rc;
}

/* --- the heap ------------------------------------------------------------ */

static char *heap_base(const struct heap *h)
{
	return (char *)sandbox_mem(h->sb)->heap;
}

/* Blocks that may be written without harm to the interpreter. */
static int add_blocks(lua_State *L)
{
	struct heap *h = lua_touserdata(L, 1);
	const struct luamem *mem = sandbox_mem(h->sb);

	lua_newtable(L);
	for (int i = 1; luamem_used(mem) + BLOCK < h->target; i++) {
		char *block = lua_newuserdata(L, BLOCK);

		memset(block, i, BLOCK);
		h->spot[h->spots++] = (uint32_t)(block - heap_base(h));
		lua_rawseti(L, -2, i);
	}
	lua_setfield(L, LUA_REGISTRYINDEX, "blocks");
	return 0;
}

static void shuffle(struct heap *h)
{
	uint64_t random = perf.seed;

	for (size_t i = h->spots; i > 1; i--) {
		size_t j = perf_uniform(&random, 0, i - 1);
		uint32_t spot = h->spot[i - 1];

		h->spot[i - 1] = h->spot[j];
		h->spot[j] = spot;
	}
}

static void heap_open(struct heap *h)
{
	struct sandbox_opts opts = {.cache = hosts_cache(),
	                            .limit = (size_t)64 << 20};
	size_t page = small_getpagesize();
	struct freelist_extent extent;

	must(sandbox_open(&opts, &h->sb) != SANDBOX_OK, "open");
	must(run_prelude(h->sb) != SANDBOX_OK, "prelude");
	h->spot = perf_malloc((h->target / BLOCK + 64) * sizeof(*h->spot));
	h->spots = h->next = 0;
	if (h->target != 0)
		must(sandbox_protect(h->sb, add_blocks, h) != SANDBOX_OK,
		     "blocks");
	must(sandbox_snapshot(h->sb, NULL) != SANDBOX_OK, "snapshot");
	freelist_extent(sandbox_mem(h->sb)->heap, &extent);
	h->size = extent.low + (extent.end - extent.high);
	/* a small heap: what it has there is written back as it was */
	for (size_t at = page; h->target == 0 && at < extent.low; at += page)
		h->spot[h->spots++] = (uint32_t)at;
	shuffle(h);
}

static void heap_close(struct heap *h)
{
	sandbox_drop(h->sb);
	free(h->spot);
}

/* --- the ways ------------------------------------------------------------ */

/* The memory that a way without an interpreter works on: as long as the
 * offsets of ours are. */
static size_t span(const struct heap *h)
{
	struct freelist_extent extent;

	freelist_extent(sandbox_mem(h->sb)->heap, &extent);
	return extent.end;
}

static char *map(size_t size, int file)
{
	int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
	char *base = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, file, 0);

	must(base == MAP_FAILED, "mmap");
	return base;
}

static void ways_open(struct heap *h)
{
	size_t size = span(h);

	memset(h->way, 0, sizeof(h->way));
	h->way[OURS].base = heap_base(h);
	h->way[BARE].base = map(size, -1);
	h->way[COPY].base = map(size, -1);
	h->way[COPY].saved = map(size, -1);
	h->way[COW].file = memfd_create("perf", MFD_CLOEXEC);
	must(h->way[COW].file < 0, "memfd_create");
	must(ftruncate(h->way[COW].file, (off_t)size) != 0, "ftruncate");
	h->way[COW].base = map(size, h->way[COW].file);
	memset(h->way[BARE].base, 1, size);
	memset(h->way[COPY].base, 1, size);
	memset(h->way[COPY].saved, 1, size);
	must(pwrite(h->way[COW].file, h->way[COPY].saved, size, 0) !=
	             (ssize_t)size,
	     "pwrite");
}

static void ways_close(struct heap *h)
{
	size_t size = span(h);

	munmap(h->way[BARE].base, size);
	munmap(h->way[COPY].base, size);
	munmap(h->way[COPY].saved, size);
	munmap(h->way[COW].base, size);
	close(h->way[COW].file);
}

static void undo(struct heap *h, int k)
{
	const struct way *way = &h->way[k];

	switch (k) {
	case OURS:
		must(sandbox_rollback(h->sb) != SANDBOX_OK, "rollback");
		break;
	case COPY:
		memcpy(way->base, way->saved, h->size);
		break;
	case COW:
		madvise(way->base, h->size, MADV_DONTNEED);
		break;
	default:
		break;
	}
	perf_keep(way->base);
}

/* Writes to n pages: another value where the place is nobody's. */
static void touch(struct heap *h, int k, size_t n, bool is_fresh)
{
	char *base = h->way[k].base;
	size_t at = is_fresh ? h->next : 0;
	char change = h->target != 0 ? 1 : 0;

	for (size_t i = 0; i < n; i++) {
		volatile char *spot = base + h->spot[at];

		*spot = (char)(*spot ^ change);
		at = at + 1 < h->spots ? at + 1 : 0;
	}
	h->next = at;
}

static uint64_t time_ops(struct heap *h, int k, size_t n, bool is_fresh,
                         uint64_t ops)
{
	uint64_t start = perf_now_ns();

	for (uint64_t i = 0; i < ops; i++) {
		touch(h, k, n, is_fresh);
		undo(h, k);
	}
	return perf_now_ns() - start;
}

/* Warms up, and says how many operations make a round. */
static void settle(struct heap *h, int k, size_t n, bool is_fresh)
{
	uint64_t ns = time_ops(h, k, n, is_fresh, WARM_UP) / WARM_UP + 1;

	h->way[k].ops = ROUND_NS / ns + 1;
}

/* Of a way, without the writes. */
static struct perf_spread net(struct heap *h, int k)
{
	double bare[PERF_ROUNDS_MAX], ns[PERF_ROUNDS_MAX];
	struct perf_spread writes, all;

	memcpy(bare, h->way[BARE].ns, sizeof(bare));
	memcpy(ns, h->way[k].ns, sizeof(ns));
	writes = perf_spread(bare, perf.rounds);
	all = perf_spread(ns, perf.rounds);
	all.median -= writes.median;
	all.min -= writes.min;
	return all;
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

/* --- a whole build ------------------------------------------------------- */

static uint64_t build_ns(void)
{
	uint64_t start = perf_now_ns();
	lua_State *L = luaL_newstate();

	must(L == NULL, "newstate");
	luaL_openlibs(L);
	must(luaL_loadbuffer(L, lua_prelude, strlen(lua_prelude), "=prelude"),
	     "prelude");
	must(lua_pcall(L, 0, 0, 0), "prelude");
	lua_close(L);
	return perf_now_ns() - start;
}

static double median_build(void)
{
	double ns[PERF_ROUNDS_MAX];

	for (size_t i = 0; i < PERF_ROUNDS_MAX; i++)
		ns[i] = (double)build_ns();
	return perf_spread(ns, PERF_ROUNDS_MAX).median;
}

/* --- lua_rollback -------------------------------------------------------- */

static void put_rollback(struct heap *h, int percent, bool is_fresh)
{
	struct perf_spread ours = net(h, OURS), copy = net(h, COPY),
			   cow = net(h, COW);
	double build = median_build();
	struct freelist_snapshot_stats stats;

	freelist_snapshot_stats(sandbox_mem(h->sb)->heap, &stats);
	perf_begin("lua_rollback", "lua=%s heap=%s touched=%d%% pages=%s",
	           HOST_LUA, h->name, percent, is_fresh ? "fresh" : "same");
	perf_put(
		"ns_op=%.0f ns_min=%.0f copy_ns=%.0f cow_ns=%.0f build_ns=%.0f",
		ours.median, ours.min, copy.median, cow.median, build);
	perf_put(" ratio_build=%.4f ratio_best_plain=%.3f ratio_min=%.3f",
	         ours.median / build,
	         ours.median / least(copy.median, cow.median),
	         ours.min / least(copy.min, cow.min));
	perf_put(" heap_kib=%zu copied_kib=%zu charged_kib=%zu",
	         stats.size / 1024, stats.copied / 1024, stats.charged / 1024);
	perf_end();
}

static void measure_rollback(struct heap *h, int percent, bool is_fresh)
{
	size_t n = h->spots * (size_t)percent / 100;

	n = n > 0 ? n : 1;
	ways_open(h);
	for (int k = 0; k < WAYS; k++)
		settle(h, k, n, is_fresh);
	for (size_t round = 0; round < perf.rounds; round++) {
		for (int k = 0; k < WAYS; k++) {
			struct way *way = &h->way[k];

			way->ns[round] =
				(double)time_ops(h, k, n, is_fresh, way->ops) /
				(double)way->ops;
		}
	}
	put_rollback(h, percent, is_fresh);
	ways_close(h);
}

void bench_rollback(void)
{
	static const int percents[] = {1, 10, 50};
	static const struct heap heaps[] = {
		{.name = "30KiB"},
		{.name = "256KiB", .target = (size_t)256 << 10},
		{.name = "1MiB", .target = (size_t)1 << 20},
		{.name = "16MiB", .target = (size_t)16 << 20},
	};

	for (size_t i = 0; i < lengthof(heaps); i++) {
		for (size_t j = 0; j < 2 * lengthof(percents); j++) {
			struct heap h = heaps[i];

			/* default: the rows of the gate */
			if (j % 2 == 1 && perf.level != PERF_FULL)
				continue;
			heap_open(&h);
			measure_rollback(&h, percents[j / 2], j % 2 == 1);
			heap_close(&h);
		}
	}
}

/* --- lua_drop ------------------------------------------------------------ */

static struct sandbox *tables_open(unsigned n)
{
	struct sandbox_opts opts = {.cache = hosts_cache()};
	struct sandbox *sb;
	char text[128];

	snprintf(text, sizeof(text),
	         "keep = {} for i = 1, %u do keep[i] = {} end", n);
	must(sandbox_open(&opts, &sb) != SANDBOX_OK, "open");
	must(sandbox_load(sb, text, strlen(text), "=tables") != SANDBOX_OK ||
	             sandbox_call(sb, 0, 0) != SANDBOX_OK,
	     "tables");
	return sb;
}

enum { CLOSE, DROP_COLD, DROP_WARM, ENDS };

/* Cold: right after the script, which has left nothing of ours in a cache.
 * Warm: another one was dropped just before. */
static double end_ns(unsigned n, int end)
{
	struct sandbox *other = tables_open(1), *sb = tables_open(n);
	uint64_t start;

	if (end == DROP_WARM)
		sandbox_drop(other);
	start = perf_now_ns();
	if (end == CLOSE)
		sandbox_close(sb);
	else
		sandbox_drop(sb);
	start = perf_now_ns() - start;
	if (end != DROP_WARM)
		sandbox_drop(other);
	return (double)start;
}

static void put_drop(unsigned n, double ns[ENDS][PERF_ROUNDS_MAX])
{
	static const char *const states[ENDS] = {NULL, "cold", "warm"};
	double close = perf_spread(ns[CLOSE], perf.rounds).median;

	for (int end = DROP_COLD; end < ENDS; end++) {
		struct perf_spread drop = perf_spread(ns[end], perf.rounds);

		perf_begin("lua_drop", "lua=%s tables=%u state=%s", HOST_LUA, n,
		           states[end]);
		perf_put("ns_op=%.0f ns_min=%.0f ns_max=%.0f close_ns=%.0f",
		         drop.median, drop.min, drop.max, close);
		perf_end();
	}
}

void bench_drop(void)
{
	static const unsigned tables[] = {1000, 1000000};
	static double ns[2][ENDS][PERF_ROUNDS_MAX];

	for (size_t round = 0; round < perf.rounds; round++)
		for (int i = 0; i < 2 * ENDS; i++)
			ns[i / ENDS][i % ENDS][round] =
				end_ns(tables[i / ENDS], i % ENDS);
	for (int i = 0; i < 2; i++)
		put_drop(tables[i], ns[i]);
}
