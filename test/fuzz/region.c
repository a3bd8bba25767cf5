/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region - bytes as steps of the model: each eight of them are one step on
 * two regions, their cache and its arena. Built with clang and
 * -fsanitize=fuzzer it is a libFuzzer target; otherwise replay.c runs it on
 * the corpus.
 */
#include "../model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct world world;

/* Two bytes of mantissa under four bits of exponent: small ones in detail,
 * large ones up to some slabs, and the ends of size_t. */
static size_t read_size(const uint8_t *data)
{
	size_t n = (size_t)data[0] | (size_t)data[1] << 8;

	if (data[2] >= 0xfc)
		return SIZE_MAX - n % 128;
	return (n << (data[2] & 3)) + 1;
}

static bool has_alignment(enum model_op op)
{
	return op == OP_ALIGNED || op == OP_ALIGNED_RESERVE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	world_create(&world, 24 * SLAB_MIN_SIZE, SLAB_MIN_SIZE);
	for (; size >= 8; data += 8, size -= 8) {
		enum model_op op = (enum model_op)(data[0] % OP_COUNT);
		size_t n = read_size(data + 2), m = data[5];

		if (op == OP_GROWABLE)
			n = data[6] < 80 ? 0 : n % (1 << 18);
		if (op == OP_RETAIN || op == OP_ARENA_RETAIN ||
		    op == OP_GARBAGE_CAP)
			n <<= 3;
		world_step(&world, op, data[1], n,
		           has_alignment(op) ? m % 13 : m);
		if (data[7] % 4 == 0)
			world_check(&world);
	}
	world_destroy(&world);
	return 0;
}
