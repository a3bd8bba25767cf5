/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freelist - bytes as steps: the first one is the setting, then each four
 * are one call on one of sixteen blocks of a buffer. Contents, sums and
 * invariants are compared after each.
 */
#include <small/freelist.h>

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BLOCKS = 16, BUFFER = 24 * 1024 };

struct block {
	unsigned char *ptr;
	size_t size;
};

static _Alignas(16) char buffer[BUFFER];

static void require(bool is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "fuzz freelist: %s\n", what);
	abort();
}

static void put_content(struct block *b, size_t k)
{
	memset(b->ptr, (int)(k + 1), b->size);
}

static void see_content(const struct block *b, size_t k, size_t size)
{
	for (size_t i = 0; i < size; i++)
		require(b->ptr[i] == k + 1, "contents");
}

static void step(struct freelist *f, struct block *b, size_t k, size_t size,
                 unsigned op)
{
	unsigned char *ptr;

	if (b->ptr == NULL) {
		b->ptr = freelist_alloc(f, size);
		b->size = size;
		if (b->ptr != NULL)
			put_content(b, k);
		return;
	}
	see_content(b, k, b->size);
	if (op % 2 == 0) {
		freelist_free(f, b->ptr, b->size);
		b->ptr = NULL;
		return;
	}
	ptr = freelist_realloc(f, b->ptr, b->size, size);
	require(ptr == b->ptr || size > b->size, "a shrink moved");
	if (ptr == NULL)
		return;
	b->ptr = ptr;
	see_content(b, k, size < b->size ? size : b->size);
	b->size = size;
	put_content(b, k);
}

static void see_sums(const struct freelist *f, const struct block *block)
{
	struct freelist_stats st;
	size_t used = 0;

	for (size_t k = 0; k < BLOCKS; k++)
		used += block[k].ptr != NULL ? block[k].size : 0;
	freelist_stats(f, &st);
	require(st.used == used, "used");
	require(st.used + st.free + st.overhead == st.total, "sum");
	require(freelist_check(f) == NULL, "an invariant");
}

static void special(struct freelist *f, struct block *block, unsigned arg)
{
	if (arg % 4 == 0) {
		freelist_reset(f);
		memset(block, 0, BLOCKS * sizeof(*block));
	} else if (arg % 4 == 1) {
		freelist_largest_free(f);
	} else {
		freelist_set_limit(f, arg * (BUFFER / 256));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t caps[] = {0, FREELIST_CAP_NONE, 1, 40};
	struct freelist_opts opts = {.granule = 8};
	struct block block[BLOCKS] = {{NULL, 0}};
	struct freelist *f;

	if (size == 0)
		return 0;
	opts.granule <<= data[0] & 1;
	opts.cap = caps[data[0] >> 1 & 3];
	f = freelist_create_in(buffer, 2048 + (data[0] >> 3) * 700u, &opts);
	require(f != NULL, "create");
	for (data++, size--; size >= 4; data += 4, size -= 4) {
		size_t k = data[0] % BLOCKS;
		size_t n = ((size_t)data[1] | (size_t)data[2] << 8) >>
		           (data[0] >> 4);

		if (data[3] == 0xff)
			special(f, block, data[1]);
		else
			step(f, &block[k], k, n + 1, data[3]);
		see_sums(f, block);
	}
	freelist_destroy(f);
	return 0;
}
