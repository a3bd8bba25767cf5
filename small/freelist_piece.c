/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_piece - the piece of memory under a freelist: its life, its
 * limit, its pages, the table that describes its blocks.
 *
 * Pages are committed an eighth of the piece at a time, at least
 * COMMIT_MIN: system calls are logarithmic in the size. When that much is
 * refused, half of it is tried, down to what is needed.
 *
 */
#include <small/freelist_index.h>
#include <small/freelist_shadow.h>

/* The first pages, and the least that is added: four common pages. */
#define COMMIT_MIN ((size_t)16 * 1024)
/* With less than this part of the piece free nothing waits and the best fit
 * is taken: that is where another block more or less is decided. */
#define TIGHT_PART 6
/* Below this, a reservation is not halved any more but refused. */
#define RESERVE_MIN ((size_t)1024 * 1024)

/* --- pages --- */

static struct quota *quota_of(const struct freelist *f)
{
	return f->region->cache->arena->quota;
}

/* The end of the piece so that it is whole pages, not above the limit. */
static uint32_t page_end(const struct freelist *f, size_t end)
{
	size_t bytes =
		small_align((end << f->shift) + f->head, small_getpagesize());

	end = (bytes - f->head) >> f->shift;
	return (uint32_t)(end < f->lim ? end : f->lim);
}

static int resize(struct freelist *f, uint32_t end)
{
	size_t refusals = quota_of(f)->refusals;

	if (region_resize_growable(f->region, f, (size_t)end << f->shift) !=
	    0) {
		f->why = refusals != quota_of(f)->refusals ? FREELIST_QUOTA
		                                           : FREELIST_SYSTEM;
		return -1;
	}
	if (end > f->end)
		track_noaccess(at(f, f->end), (size_t)(end - f->end)
		                                      << f->shift);
	f->end = end;
	return 0;
}

/* At least need granules; need <= lim. */
int freelist_commit(struct freelist *f, size_t need)
{
	size_t more = f->end / 8, least = COMMIT_MIN >> f->shift;

	if (need <= f->end)
		return 0;
	if (f->region == NULL) {
		f->why = FREELIST_LIMIT;
		return -1;
	}
	for (more = more > least ? more : least;; more /= 2) {
		size_t want = f->end + more;
		uint32_t end = page_end(f, want > need ? want : need);

		if (resize(f, end) == 0)
			return 0;
		if (want <= need)
			return -1;
	}
}

size_t freelist_fresh_room(const struct freelist *f)
{
	size_t moved = 0, here = f->cover < f->lim ? f->cover : f->lim;

	if (f->low >= f->lim)
		return 0;
	here = here > f->low ? here - f->low : 0;
	if (f->cover < f->lim)
		moved = f->low + freelist_table_granules(f, f->lim);
	moved = moved != 0 && moved < f->lim ? f->lim - moved : 0;
	return here > moved ? here : moved;
}

uint32_t freelist_fresh(struct freelist *f, size_t n)
{
	uint32_t g;

	if (n > freelist_fresh_room(f)) {
		f->why = FREELIST_LIMIT;
		return NIL;
	}
	if (f->low + n > f->cover && freelist_table_grow(f, n) != 0)
		return NIL;
	if (freelist_commit(f, f->low + n) != 0)
		return NIL;
	g = (uint32_t)f->low;
	freelist_raise_low(f, f->low + n);
	return g;
}

/* --- limit --- */

/* What may wait from now on. */
static void set_bound(struct freelist *f)
{
	int64_t max = f->cap != 0 ? f->cap : NIL;

	max = f->is_tight || !can_wait(f) ? 0 : max;
	f->defer_room += max - f->defer_max;
	f->defer_max = max;
}

void freelist_set_quick(struct freelist *f, bool is_open)
{
	is_open = is_open && f->cap != NIL;
	f->quick16 = is_open && f->shift == 4 ? f->quick_max : 0;
	f->quick8 = is_open && f->shift == 3 ? f->quick_max - 1u : 0;
	set_bound(f);
	if (f->defer_room < 0)
		freelist_flush(f, SIZE_MAX);
}

void freelist_adapt(struct freelist *f)
{
	size_t rest = f->lim - granules_in_use(f);
	bool is_tight = rest * TIGHT_PART <= f->lim;

	if (small_unlikely(is_tight != f->is_tight)) {
		f->is_tight = is_tight;
		set_bound(f);
	}
	if (small_unlikely(f->defer_room < 0))
		freelist_flush(f, FLUSH_OVER);
}

void freelist_give_back(struct freelist *f)
{
	uint32_t least = (uint32_t)(f->low > f->lim ? f->low : f->lim);

	if (least < f->held)
		least = f->held;
	if (least < f->end && f->region == NULL)
		f->end = least;
	else if (least < f->end)
		resize(f, least);
}

/* The free block, or the table, at the end of the piece goes. */
static bool trim(struct freelist *f)
{
	uint32_t low = (uint32_t)f->low, m;

	if (bit_test(f, low - 1)) {
		m = size_before(f, low);
		freelist_remove(f, low - m, m);
		set_low(f, low - m);
		return true;
	}
	return low > f->lim && f->table + f->table_size == low &&
	       freelist_table_lower(f);
}

void freelist_retreat(struct freelist *f)
{
	while (trim(f))
		continue;
	freelist_give_back(f);
	if (f->low <= f->lim) {
		f->is_squeezed = 0;
		freelist_set_quick(f, true);
	}
}

/* Granules of a piece of so many bytes. */
static uint32_t granules_within(const struct freelist *f, size_t bytes)
{
	bytes = bytes > f->head ? (bytes - f->head) >> f->shift : 0;
	return (uint32_t)(bytes < FREELIST_GRANULES_MAX
	                          ? bytes
	                          : FREELIST_GRANULES_MAX);
}

int freelist_set_limit(struct freelist *f, size_t limit)
{
	if (limit == 0)
		limit = f->max_limit;
	if (limit > f->max_limit)
		return -1;
	f->limit = limit;
	f->lim = granules_within(f, limit);
	f->none = NIL;
	if (f->region == NULL)
		f->end = (uint32_t)(f->low > f->lim ? f->low : f->lim);
	if (f->low > f->lim && !f->is_squeezed) {
		freelist_set_quick(f, false);
		freelist_return_bump(f);
		f->is_squeezed = 1;
	}
	if (f->is_squeezed)
		freelist_retreat(f);
	else
		freelist_give_back(f);
	return 0;
}

int freelist_reserve(struct freelist *f, size_t size)
{
	uint32_t end = granules_within(f, size < f->limit ? size : f->limit);

	if (end <= f->end || f->region == NULL)
		return 0;
	return resize(f, end);
}

/* --- life --- */

/* An empty piece: the table right behind the control block. Words below the
 * first block are never looked at, and stay as they are. */
static void lay_out(struct freelist *f, uint32_t cover)
{
	uint32_t first = granule_first(f);

	memset(f->quick, 0xff, (f->quick_max + (size_t)1) * 4);
	freelist_table_init(f, first, cover);
	f->cleared = (first + f->table_size - 1) / 64;
	f->first = first + f->table_size;
	freelist_raise_low(f, f->first);
	f->indexed = 0;
	f->bump = 0;
	f->bump_end = 0;
	f->cursor = 1;
	f->none = NIL;
	f->cause = FREELIST_NONE;
	f->is_tight = 0;
	f->defer_room = 0;
	f->defer_max = 0;
	track_noaccess(at(f, f->low), (f->end - f->low) << f->shift);
}

/* What the options come to, in bytes; false when they make no sense. */
static bool read_opts(const struct freelist_opts *opts, size_t head,
                      struct freelist *f)
{
	size_t granule = opts->granule != 0 ? opts->granule : 16, most;

	if (granule != 8 && granule != 16)
		return false;
	f->shift = granule == 8 ? 3 : 4;
	f->head = (uint8_t)head;
	f->cap = opts->cap == FREELIST_CAP_NONE ? NIL
	         : opts->cap >= NIL             ? 0
	                                        : (uint32_t)opts->cap;
	most = (FREELIST_GRANULES_MAX << f->shift) + head;
	f->max_limit = opts->max_limit != 0 ? opts->max_limit : opts->limit;
	if (f->max_limit == 0)
		f->max_limit = most;
	f->limit = opts->limit != 0 ? opts->limit : f->max_limit;
	f->quick_max = QUICK_MAX;
	if (f->limit <= QUICK_TINY_SIZE)
		f->quick_max = QUICK_TINY;
	else if (f->limit >
	         (granule == 8 ? QUICK_WIDE_8_SIZE : QUICK_WIDE_16_SIZE))
		f->quick_max = QUICK_WIDE;
	return f->limit <= f->max_limit && f->max_limit <= most &&
	       opts->reserve <= f->limit;
}

/* Granules that a piece needs to hold one block. */
static size_t least_granules(const struct freelist *f, uint32_t cover)
{
	return granule_first(f) + freelist_table_granules(f, cover) +
	       (size_t)granules_min(f);
}

/* Fills the control block in; its place and end are known. */
static struct freelist *start(void *base, const struct freelist *plan,
                              uint32_t cover)
{
	struct freelist *f = base;

	track_undefined(f, (size_t)granule_first(plan) << plan->shift);
	*f = *plan;
	f->magic = FREELIST_MAGIC;
	f->owner = small_thread_id();
	lay_out(f, cover);
	freelist_set_quick(f, true);
	freelist_shadow_open(f, f->max_limit - f->head);
	return f;
}

struct freelist *freelist_create_in(void *buf, size_t size,
                                    const struct freelist_opts *opts)
{
	struct freelist plan = {0};
	struct freelist_opts o = {0};
	size_t head = (0 - (uintptr_t)buf) & 15;

	if (opts != NULL)
		o = *opts;
	o.max_limit = size;
	o.reserve = 0;
	if (buf == NULL || o.limit > size || !read_opts(&o, head, &plan))
		return NULL;
	plan.lim = granules_within(&plan, plan.limit);
	plan.end = plan.lim;
	uint32_t cover = granules_within(&plan, size);

	if (cover == 0 || least_granules(&plan, cover) > plan.lim)
		return NULL;
	return start((char *)buf + head, &plan, cover);
}

/* A range for max bytes of which *end granules, or less if so many are not
 * granted but at least `least`, are committed. */
static void *get_piece(struct freelist *plan, size_t max, size_t least)
{
	size_t end = plan->end, refusals;
	void *base;

	for (;; end /= 2) {
		end = end > least ? end : least;
		refusals = quota_of(plan)->refusals;
		plan->end = page_end(plan, end);
		base = region_growable(plan->region,
		                       (size_t)plan->end << plan->shift, max);
		if (base != NULL || end == least ||
		    refusals == quota_of(plan)->refusals)
			return base;
	}
}

struct freelist *freelist_create(struct region *region,
                                 const struct freelist_opts *opts)
{
	struct freelist plan = {0};
	struct freelist_opts o = {0};
	size_t first, max, least;
	uint32_t cover;
	void *base;

	if (opts != NULL)
		o = *opts;
	if (!read_opts(&o, rslab_sizeof(), &plan))
		return NULL;
	plan.region = region;
	plan.lim = granules_within(&plan, plan.limit);
	cover = (uint32_t)(FREELIST_COVER_MIN >> plan.shift);
	cover = cover < plan.lim ? cover : plan.lim;
	least = cover == 0 ? SIZE_MAX : least_granules(&plan, cover);
	if (least > plan.lim)
		return NULL;
	first = granules_within(&plan, COMMIT_MIN);
	if (o.reserve != 0)
		first = least = granules_within(&plan, o.reserve) > least
		                        ? granules_within(&plan, o.reserve)
		                        : least;
	for (max = plan.max_limit;; max /= 2) {
		plan.end = (uint32_t)(first > least ? first : least);
		base = get_piece(&plan, max - plan.head, least);
		if (base != NULL)
			break;
		if (o.limit != 0 || o.max_limit != 0 || max < RESERVE_MIN)
			return NULL;
		/* Without a limit, a smaller range will do as well. */
		plan.max_limit = plan.limit = max / 2;
		plan.lim = granules_within(&plan, plan.limit);
	}
	return start(base, &plan, cover);
}

void freelist_destroy(struct freelist *f)
{
	struct region *region = f->region;

	freelist_snapshot_drop(f);
	track_undefined(f, (size_t)f->end << f->shift);
	freelist_shadow_close(f);
	f->magic = 0;
	if (region != NULL)
		region_drop_growable(region, f);
}

void freelist_reset(struct freelist *f)
{
	f->peak_room = (int64_t)f->peak;
	lay_out(f, f->cover);
	f->is_squeezed = f->low > f->lim;
	freelist_set_quick(f, !f->is_squeezed);
	freelist_give_back(f);
	freelist_shadow_clear(f);
}

void freelist_set_thread(struct freelist *f)
{
	f->owner = small_thread_id();
}
