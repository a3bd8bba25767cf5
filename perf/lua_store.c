/* SPDX-License-Identifier: BSD-2-Clause */
/* lua_store - a hash map with chains, and SHA-1 as FIPS 180-4 has it. */
#include "lua_store.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

enum { BUCKETS = 1024, KEY_MAX = 64, VALUE_MAX = 4096 };

struct entry {
	struct entry *next;
	size_t len, size;
	char key[KEY_MAX], value[VALUE_MAX];
};

struct store {
	struct entry *buckets[BUCKETS];
};

static size_t bucket_of(const char *key, size_t len)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)key[i]) * 16777619u;
	return h % BUCKETS;
}

struct store *store_create(void)
{
	struct store *s = perf_malloc(sizeof(*s));

	memset(s, 0, sizeof(*s));
	return s;
}

void store_destroy(struct store *s)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		while (s->buckets[i] != NULL) {
			struct entry *e = s->buckets[i];

			s->buckets[i] = e->next;
			free(e);
		}
	}
	free(s);
}

static struct entry *find(const struct store *s, const char *key, size_t len)
{
	struct entry *e = s->buckets[bucket_of(key, len)];

	while (e != NULL && (e->len != len || memcmp(e->key, key, len) != 0))
		e = e->next;
	return e;
}

const char *store_get(const struct store *s, const char *key, size_t len,
                      size_t *size)
{
	const struct entry *e = find(s, key, len);

	if (e == NULL)
		return NULL;
	*size = e->size;
	return e->value;
}

void store_set(struct store *s, const char *key, size_t len, const char *value,
               size_t size)
{
	struct entry *e = find(s, key, len);

	if (len > KEY_MAX || size > VALUE_MAX) {
		fprintf(stderr, "perf: the store has no room for this\n");
		exit(1);
	}
	if (e == NULL) {
		struct entry **bucket = &s->buckets[bucket_of(key, len)];

		e = perf_malloc(sizeof(*e));
		memcpy(e->key, key, len);
		e->len = len;
		e->next = *bucket;
		*bucket = e;
	}
	memcpy(e->value, value, size);
	e->size = size;
}

static uint32_t rol(uint32_t x, int n)
{
	return x << n | x >> (32 - n);
}

static void sha1_block(uint32_t h[5], const unsigned char *p)
{
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

	for (int i = 0; i < 16; i++, p += 4)
		w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
		       (uint32_t)p[2] << 8 | p[3];
	for (int i = 16; i < 80; i++)
		w[i] = rol(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		uint32_t f =
			i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
			: i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
			: i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
				 : (b ^ c ^ d) + 0xca62c1d6;
		uint32_t next = rol(a, 5) + f + e + w[i];

		e = d;
		d = c;
		c = rol(b, 30);
		b = a;
		a = next;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

void store_sha1(const char *text, size_t size, char out[STORE_SHA_SIZE])
{
	uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
	                 0xc3d2e1f0};
	size_t whole = size / 64 * 64, rest = size - whole, tail;
	unsigned char last[128] = {0};

	for (size_t i = 0; i < whole; i += 64)
		sha1_block(h, (const unsigned char *)text + i);
	memcpy(last, text + whole, rest);
	last[rest] = 0x80;
	tail = rest < 56 ? 64 : 128;
	for (size_t i = 0; i < 8; i++)
		last[tail - 1 - i] =
			(unsigned char)(((uint64_t)size * 8) >> (8 * i));
	for (size_t i = 0; i < tail; i += 64)
		sha1_block(h, last + i);
	for (size_t i = 0; i < STORE_SHA_SIZE; i++)
		out[i] =
			"0123456789abcdef"[h[i / 8] >> (28 - 4 * (i % 8)) & 15];
}
