/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_snapshot - a copy of what a piece has touched, put back by one of
 * two ways. A small one is copied whole. Of a large one the kernel tells the
 * pages that were written since (dirty.h) and those are copied; a page once
 * written is copied each time from then on, which is cheaper than to have it
 * watched again as long as it is written in most rounds.
 *
 * Worst case: pages that fell idle are copied until that has cost IDLE_FACTOR
 * times the faults of the pages watched, so that in the long run faults are at
 * most a tenth more than copying everything would take.
 * freelist_snapshot_stats() tells: copied, watched.
 */
#include <small/freelist_snapshot.h>
#include <small/dirty.h>
#include <small/freelist_shadow.h>
#include <small/track_state.h>

#include <time.h>

/* One rollback in so many compares before it copies, and so knows which of
 * the pages are idle; it takes about as long. */
#define SAMPLE 16
/* See above. */
#define IDLE_FACTOR 10
/* With so much of it written (5 of 8) all is copied, unwatched: page by page
 * costs more than twice as much. */
#define MANY_OF 5
#define MANY    8
/* Ranges of pages asked for at once: 1.5 KiB of stack. */
#define RANGES 64
/* A fault that took longer was not a fault but another process. */
#define FAULT_NS_MAX 100000
/* Bytes copied to learn what a page costs. */
#define PROBE ((size_t)256 * 1024)

enum { SNAPSHOT_MAGIC = 0x5aab5a09 };

struct freelist_snapshot {
	struct freelist *f;
	struct region *region; /* this block is from there */
	struct freelist_extent extent;
	char *low;   /* a copy of [0, low) */
	char *high;  /* a copy of [high, end) */
	char *state; /* of the tools */
	size_t size; /* of this block */
	size_t extra;
	struct dirty dirty;
	uint64_t copy_ns;  /* of PROBE bytes */
	uint64_t fault_ns; /* of a first write */
	uint64_t idle_ns;  /* spent on idle pages since they were watched */
	size_t idle;       /* pages that the last rollback found so */
	size_t written;    /* bytes that the last rollback knew of or feared */
	bool is_large;     /* worth watching, where that can be had */
	size_t rollbacks, copied, watched;
	uint32_t magic;
};

/* What is copied: all but the hole. */
static size_t extent_size(const struct freelist_extent *extent)
{
	return extent->low + (extent->end - extent->high);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* --- the tools --- */

static void save_state(struct freelist_snapshot *s)
{
	char *base = (char *)s->f;
	const struct freelist_extent *e = &s->extent;

	track_save(s->state, base, e->low);
	track_save(s->state + track_state_size(e->low), base + e->high,
	           e->end - e->high);
}

static void open_extent(struct freelist *f, const struct freelist_extent *e)
{
	track_defined(f, e->low);
	track_defined((char *)f + e->high, e->end - e->high);
}

static void restore_state(struct freelist_snapshot *s)
{
	char *base = (char *)s->f;
	const struct freelist_extent *e = &s->extent;

	track_noaccess(base + e->low, e->high - e->low);
	track_restore(s->state, base, e->low);
	track_restore(s->state + track_state_size(e->low), base + e->high,
	              e->end - e->high);
}

/* --- the snapshot --- */

/* The bytes that it takes; true when there is no such size. */
static bool plan(struct freelist_snapshot *s)
{
	size_t head = small_align(sizeof(*s), 64), size;
	size_t low = small_align(s->extent.low, 64);
	size_t high = s->extent.end - s->extent.high;

	if (small_add(head, s->extra, &size) ||
	    small_align_up(size, 64, &size) ||
	    small_add(size, low + small_align(high, 64), &size) ||
	    small_add(size,
	              track_state_size(s->extent.low) + track_state_size(high),
	              &s->size))
		return true;
	return s->size > PTRDIFF_MAX;
}

/* Where its parts are, once it has a place. */
static void place(struct freelist_snapshot *s)
{
	size_t head = small_align(sizeof(*s), 64);

	s->low = (char *)s + head + small_align(s->extra, 64);
	s->high = s->low + small_align(s->extent.low, 64);
	s->state = s->high + small_align(s->extent.end - s->extent.high, 64);
}

static void copy_out(struct freelist_snapshot *s)
{
	const struct freelist_extent *e = &s->extent;
	char *base = (char *)s->f;

	memcpy(s->low, base, e->low);
	memcpy(s->high, base + e->high, e->end - e->high);
}

/* Learns what a copy and a fault cost on this machine; the first page is
 * written by each rollback, so that it can as well be written now. */
static void measure(struct freelist_snapshot *s)
{
	size_t probe = s->extent.low < PROBE ? s->extent.low : PROBE;
	volatile size_t *word = (volatile size_t *)&s->f->refused;
	uint64_t start = now_ns();

	memcpy(s->low, s->f, probe);
	s->copy_ns = (now_ns() - start) * PROBE / probe + 1;
	start = now_ns();
	/* cppcheck-suppress selfAssignment */
	*word = *word;
	s->fault_ns = now_ns() - start;
	if (s->fault_ns > FAULT_NS_MAX)
		s->fault_ns = FAULT_NS_MAX;
}

/* Other processes may write to the piece, which ours is not told. */
static bool is_shared(const struct freelist *f)
{
	int flags = f->region->cache->arena->flags;

	if ((flags & SLAB_ARENA_FLAG_MARK) == 0)
		return (flags & MAP_SHARED) != 0;
	return IS_SLAB_ARENA_FLAG(flags, SLAB_ARENA_SHARED);
}

static void watch(struct freelist_snapshot *s)
{
	size_t page = small_getpagesize();
	uintptr_t start = small_align_down((uintptr_t)s->f, page);
	uintptr_t end = small_align((uintptr_t)s->f + s->extent.end, page);

	s->is_large = s->f->region != NULL && !is_shared(s->f) &&
	              extent_size(&s->extent) > FREELIST_SNAPSHOT_COPY &&
	              dirty_start(&s->dirty, (void *)start, end - start) == 0;
	if (!s->is_large)
		return;
	s->watched++;
	measure(s);
}

/* Is this rollback one that compares? */
static bool is_sample(const struct freelist_snapshot *s)
{
	return s->is_large && s->rollbacks % SAMPLE == 0;
}

int freelist_snapshot(struct freelist *f, struct region *region, size_t extra)
{
	struct freelist_snapshot want = {.f = f, .extra = extra}, *s;

	freelist_owner(f, "freelist_snapshot");
	want.region = region != NULL ? region : f->region;
	freelist_extent(f, &want.extent);
	if (f->snapshot != NULL || want.region == NULL || plan(&want))
		return -1;
	s = region_growable(want.region, want.size, want.size);
	if (s == NULL)
		return -1;
	track_undefined(s, want.size);
	want.magic = SNAPSHOT_MAGIC;
	*s = want;
	place(s);
	f->snapshot = s;
	f->held = f->region != NULL ? f->end : 0;
	freelist_shadow_save(f);
	save_state(s);
	open_extent(f, &s->extent);
	copy_out(s);
	watch(s);
	restore_state(s);
	return 0;
}

void *freelist_snapshot_extra(const struct freelist *f)
{
	if (f->snapshot == NULL)
		return NULL;
	return (char *)f->snapshot + small_align(sizeof(*f->snapshot), 64);
}

/* --- back --- */

/* Copies what of [from, to), offsets in the piece, lies in the part of it
 * that starts at `part` and is `size` long. */
static size_t copy_part(struct freelist_snapshot *s, size_t from, size_t to,
                        size_t part, size_t size, const char *saved)
{
	from = from > part ? from : part;
	to = to < part + size ? to : part + size;
	if (from >= to)
		return 0;
	memcpy((char *)s->f + from, saved + (from - part), to - from);
	return to - from;
}

static size_t copy_back(struct freelist_snapshot *s, size_t from, size_t to)
{
	const struct freelist_extent *e = &s->extent;

	return copy_part(s, from, to, 0, e->low, s->low) +
	       copy_part(s, from, to, e->high, e->end - e->high, s->high);
}

/* Is the whole page at this offset as it was? */
static bool is_idle(const struct freelist_snapshot *s, size_t from, size_t page)
{
	const struct freelist_extent *e = &s->extent;
	const char *now = (const char *)s->f + from;

	if (from + page <= e->low)
		return memcmp(now, s->low + from, page) == 0;
	if (from >= e->high && from + page <= e->end)
		return memcmp(now, s->high + (from - e->high), page) == 0;
	return false;
}

/* The same page by page, leaving those that are idle. */
static size_t compare_back(struct freelist_snapshot *s, size_t from, size_t to)
{
	size_t page = small_getpagesize(), base = (uintptr_t)s->f, copied = 0;

	while (from < to) {
		size_t next = small_align_down(base + from, page) + page - base;

		next = next < to ? next : to;
		if (is_idle(s, from, next - from))
			s->idle++;
		else
			copied += copy_back(s, from, next);
		from = next;
	}
	return copied;
}

static size_t put_back(struct freelist_snapshot *s, size_t from, size_t to)
{
	return is_sample(s) ? compare_back(s, from, to)
	                    : copy_back(s, from, to);
}

/* Puts back what was written; false when that is not known. */
static bool put_written(struct freelist_snapshot *s)
{
	struct dirty_range range[RANGES];
	char *pos = s->dirty.start, *end = pos + s->dirty.size;
	size_t base = (uintptr_t)s->f;

	while (pos < end) {
		int n = dirty_scan(&s->dirty, &pos, range, RANGES);

		if (n < 0)
			return false;
		for (int i = 0; i < n; i++) {
			/* The first page begins before the piece. */
			size_t from = range[i].start < base
			                      ? 0
			                      : (size_t)range[i].start - base;
			size_t to = (size_t)range[i].end - base;

			s->copied += put_back(s, from, to);
		}
	}
	return true;
}

/* Watches everything (again) when copying idle pages has become too dear. */
static void reconsider(struct freelist_snapshot *s)
{
	size_t page = small_getpagesize();
	uint64_t page_ns = s->copy_ns / (PROBE / page) + 1;

	s->idle_ns += s->idle * SAMPLE * page_ns;
	if (s->idle_ns < IDLE_FACTOR * s->fault_ns * (s->written / page + 1))
		return;
	s->idle_ns = 0;
	if (!dirty_is_on(&s->dirty))
		watch(s);
	else if (dirty_clean(&s->dirty) == 0)
		s->watched++;
}

/* The whole, or what is known to be written while that is a small part. */
static void put_all(struct freelist_snapshot *s)
{
	size_t size = extent_size(&s->extent);

	s->copied = s->idle = 0;
	if (!dirty_is_on(&s->dirty) || !put_written(s)) {
		s->copied += put_back(s, 0, s->extent.end);
		s->written = size;
	} else {
		s->written = s->copied + s->idle * small_getpagesize();
		if (s->written / MANY_OF > size / MANY)
			dirty_stop(&s->dirty);
	}
	if (is_sample(s))
		reconsider(s);
}

/* Pages that were committed since go back. Giving back can not fail. */
static void give_up_growth(const struct freelist_snapshot *s)
{
	struct freelist *f = s->f;

	if (f->region == NULL || f->end <= f->held)
		return;
	region_resize_growable(f->region, f, s->extent.end);
	f->end = f->held;
}

int freelist_rollback(struct freelist *f)
{
	struct freelist_snapshot *s = f->snapshot;
	uintptr_t owner = f->owner;

	freelist_owner(f, "freelist_rollback");
	if (s == NULL)
		return -1;
	give_up_growth(s);
	open_extent(f, &s->extent);
	s->rollbacks++;
	put_all(s);
	f->owner = owner;
	freelist_shadow_load(f);
	restore_state(s);
	return 0;
}

/* --- its end --- */

void freelist_snapshot_drop(struct freelist *f)
{
	struct freelist_snapshot *s = f->snapshot;

	if (s == NULL)
		return;
	f->snapshot = NULL;
	f->held = 0;
	s->magic = 0;
	region_drop_growable(s->region, s);
}

void freelist_discard(struct freelist *f)
{
	freelist_owner(f, "freelist_discard");
	if (f->snapshot == NULL)
		return;
	dirty_stop(&f->snapshot->dirty);
	freelist_snapshot_drop(f);
	freelist_give_back(f);
}

void freelist_snapshot_stats(const struct freelist *f,
                             struct freelist_snapshot_stats *stats)
{
	const struct freelist_snapshot *s = f->snapshot;

	memset(stats, 0, sizeof(*stats));
	if (s == NULL)
		return;
	stats->size = extent_size(&s->extent);
	stats->charged =
		small_align(s->size + rslab_sizeof(), small_getpagesize());
	stats->rollbacks = s->rollbacks;
	stats->copied = s->copied;
	stats->watched = s->watched;
}

const char *freelist_snapshot_check(const struct freelist *f)
{
	const struct freelist_snapshot *s = f->snapshot;

	if (f->held > f->end || (s == NULL && f->held != 0))
		return "held";
	if (s == NULL)
		return NULL;
	if (s->magic != SNAPSHOT_MAGIC || s->f != f ||
	    s->extent.low > s->extent.high || s->extent.high > s->extent.end ||
	    extent_size(&s->extent) > s->size)
		return "snapshot";
	return NULL;
}
