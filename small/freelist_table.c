/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist_table - what describes the blocks of a freelist: class bits, the
 * bitmap, the heads of the lists; in the piece like everything else.
 *
 * The table of a growing piece describes up to twice the granules there are.
 * When low passes that, one of twice the size is laid out at low, the old one
 * is copied and becomes a free block. Words of the bitmap are cleared when
 * low reaches them, so that create and reset are O(1).
 */
#include <small/freelist_index.h>

/* Of the bitmap: granule `cover` has a bit, and bits_at() reads on. */
#define MAP_WORDS(cover) ((cover) / 64 + (size_t)2)

static size_t class_words(uint32_t cover)
{
	return (freelist_class_count(cover) + 63u) / 64;
}

static size_t table_bytes(uint32_t cover)
{
	return class_words(cover) * 8 + MAP_WORDS(cover) * 8 +
	       freelist_class_count(cover) * (size_t)4;
}

uint32_t freelist_table_granules(const struct freelist *f, uint32_t cover)
{
	return (uint32_t)(small_align(table_bytes(cover), 16) >> f->shift);
}

static void clear_words(struct freelist *f, uint32_t from, uint32_t to)
{
	memset(f->bitmap + from, 0, (size_t)(to - from) * 8);
	f->steps += (to - from) / 16;
}

/* The bit at low itself is looked at, too. */
void freelist_raise_low(struct freelist *f, size_t low)
{
	uint32_t words = (uint32_t)(low / 64 + 1);

	if (words > f->cleared) {
		clear_words(f, f->cleared, words);
		f->cleared = words;
	}
	set_low(f, low);
}

void freelist_table_init(struct freelist *f, uint32_t table, uint32_t cover)
{
	char *base = at(f, table);

	f->table = table;
	f->table_size = freelist_table_granules(f, cover);
	track_undefined(base, (size_t)f->table_size << f->shift);
	f->cover = cover;
	f->class_max = (uint16_t)freelist_class_count(cover);
	f->classes = (uint64_t *)(void *)base;
	f->bitmap = f->classes + class_words(cover);
	f->heads = (uint32_t *)(f->bitmap + MAP_WORDS(cover));
	memset(f->classes, 0, class_words(cover) * 8);
	memset(f->heads, 0xff, f->class_max * sizeof(*f->heads));
}

/* A table for at least twice what there will be. */
static uint32_t wanted_cover(const struct freelist *f, size_t n)
{
	size_t cover = 2 * (f->low + n), least = FREELIST_COVER_MIN >> f->shift;

	cover = cover > least ? cover : least;
	return (uint32_t)(cover < f->lim ? cover : f->lim);
}

static void copy_table(struct freelist *f, const struct freelist *old)
{
	uint32_t first = old->first;

	memcpy(f->classes, old->classes, class_words(old->cover) * 8);
	memcpy(f->heads, old->heads, old->class_max * sizeof(*f->heads));
	memcpy(f->bitmap, old->bitmap, old->cleared * (size_t)8);
	f->steps += old->cleared / 16;
	/* The old table's own granules are looked at from now on; the words
	 * before it never were. */
	clear_words(f, 0, (first - 1) / 64);
	f->first = granule_first(f);
}

int freelist_table_grow(struct freelist *f, size_t n)
{
	uint32_t cover = wanted_cover(f, n),
		 m = freelist_table_granules(f, cover);
	struct freelist old = *f;

	if (f->low + m + n > f->lim) {
		f->why = FREELIST_LIMIT;
		return -1;
	}
	if (freelist_commit(f, f->low + m + n) != 0)
		return -1;
	old.end = f->end;
	freelist_table_init(f, (uint32_t)f->low, cover);
	copy_table(f, &old);
	freelist_raise_low(f, f->low + m);
	track_noaccess(at(f, old.table), (size_t)old.table_size << f->shift);
	freelist_merge(f, old.table, old.table_size);
	return 0;
}

/* Over the limit, with the table at the end: into a free block. Of the
 * granules that it describes, those from here on are not used any more. */
bool freelist_table_lower(struct freelist *f)
{
	uint32_t cover = f->table > f->lim ? f->table : f->lim, g, size;
	uint32_t m = freelist_table_granules(f, cover);
	struct freelist old = *f;

	g = m < f->table_size ? freelist_take(f, m, false, &size) : NIL;
	if (g == NIL)
		return false;
	old.indexed = f->indexed;
	old.class_max = (uint16_t)freelist_class_count(cover);
	old.cover = cover;
	old.cleared = (uint32_t)(old.table / 64 + 1);
	freelist_table_init(f, g, cover);
	copy_table(f, &old);
	f->cleared = old.cleared;
	set_low(f, old.table);
	track_noaccess(at(f, old.table), (size_t)old.table_size << f->shift);
	if (size > m)
		freelist_insert(f, g + m, size - m);
	return true;
}
