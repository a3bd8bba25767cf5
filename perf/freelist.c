/* SPDX-License-Identifier: BSD-2-Clause */
/* freelist - time and instructions of one step, beside other allocators. */
#include "freelist_load.h"
#include "foreign.h"

#include <stdlib.h>
#include <string.h>

/* What one row of freelist_pair is. */
struct pair_row {
	const char *name;
	enum load_mix mix;
	size_t limit;
	size_t cap;
	size_t granule;
};

static const struct pair_row rows[] = {
	{"mix=uniform live=roomy cap=default granule=16", LOAD_UNIFORM,
         (size_t)32 << 20, 0, 16},
	{"mix=uniform live=51 cap=default granule=16", LOAD_UNIFORM,
         (size_t)1 << 20, 0, 16},
	{"mix=uniform live=74 cap=default granule=16", LOAD_UNIFORM,
         (size_t)704 << 10, 0, 16},
	{"mix=uniform live=51 cap=0 granule=16", LOAD_UNIFORM, (size_t)1 << 20,
         FREELIST_CAP_NONE, 16},
	{"mix=lua live=roomy cap=default granule=16", LOAD_LUA,
         (size_t)32 << 20, 0, 16},
	{"mix=uniform live=roomy cap=default granule=8", LOAD_UNIFORM,
         (size_t)32 << 20, 0, 8},
	{"mix=lua live=roomy cap=default granule=8", LOAD_LUA, (size_t)32 << 20,
         0, 8},
};

struct pair_arm {
	const struct pair_row *row;
	const struct perf_allocator *peer; /* NULL: ours */
	struct load *load;
	struct load_piece piece;
};

static int ours_open(struct perf_arm *arm)
{
	struct pair_arm *self = arm->self;
	struct freelist_opts opts = {.limit = self->row->limit,
	                             .granule = self->row->granule,
	                             .cap = self->row->cap};

	self->load = load_create(self->row->mix, perf.seed);
	load_open(&self->piece, &opts);
	return load_fill(self->load, self->piece.f);
}

static void ours_close(struct perf_arm *arm)
{
	struct pair_arm *self = arm->self;

	load_close(&self->piece);
	free(self->load);
}

/* A refusal ends the program: freeing NULL with a size is misuse. */
static void ours_uniform(struct perf_arm *arm, uint64_t ops)
{
	struct pair_arm *self = arm->self;
	struct freelist *f = self->piece.f;
	struct load *l = self->load;
	const struct load_op *op = l->op + l->next, *end = l->op + LOAD_OPS;

	for (; ops > 0; ops--) {
		struct load_block *b = &l->block[op->slot];
		size_t size = op->size;

		freelist_free(f, b->ptr, b->size);
		b->size = size;
		b->ptr = freelist_alloc(f, size);
		if (++op == end)
			op = l->op;
	}
	l->next = (size_t)(op - l->op);
}

static void ours_lua(struct perf_arm *arm, uint64_t ops)
{
	struct pair_arm *self = arm->self;
	struct freelist *f = self->piece.f;
	struct load *l = self->load;
	const struct load_op *op = l->op + l->next, *end = l->op + LOAD_OPS;

	for (; ops > 0; ops--) {
		struct load_block *b = &l->block[op->slot];
		size_t size = op->size;

		if (op->is_resize) {
			b->ptr = freelist_realloc(f, b->ptr, b->size, size);
		} else {
			freelist_free(f, b->ptr, b->size);
			b->ptr = freelist_alloc(f, size);
		}
		b->size = size;
		if (++op == end)
			op = l->op;
	}
	l->next = (size_t)(op - l->op);
}

static int peer_open(struct perf_arm *arm)
{
	struct pair_arm *self = arm->self;

	if (self->peer == NULL)
		return -1;
	self->load = load_create(self->row->mix, perf.seed);
	for (size_t i = 0; i < LOAD_SLOTS; i++) {
		struct load_block *b = &self->load->block[i];

		b->size = load_size(self->row->mix, &self->load->random);
		b->ptr = self->peer->alloc(b->size);
	}
	return 0;
}

static void peer_close(struct perf_arm *arm)
{
	struct pair_arm *self = arm->self;

	for (size_t i = 0; i < LOAD_SLOTS; i++)
		self->peer->release(self->load->block[i].ptr);
	free(self->load);
}

static void peer_loop(struct perf_arm *arm, uint64_t ops)
{
	struct pair_arm *self = arm->self;
	const struct perf_allocator *peer = self->peer;
	struct load *l = self->load;
	const struct load_op *op = l->op + l->next, *end = l->op + LOAD_OPS;

	for (; ops > 0; ops--) {
		struct load_block *b = &l->block[op->slot];
		size_t size = op->size;

		if (op->is_resize) {
			b->ptr = peer->resize(b->ptr, size);
		} else {
			peer->release(b->ptr);
			b->ptr = peer->alloc(size);
		}
		b->size = size;
		if (++op == end)
			op = l->op;
	}
	l->next = (size_t)(op - l->op);
}

/* The loop that all arms share, with nothing in it. */
static void floor_loop(struct perf_arm *arm, uint64_t ops)
{
	struct pair_arm *self = arm->self;
	struct load *l = self->load;
	const struct load_op *op = l->op + l->next, *end = l->op + LOAD_OPS;

	for (; ops > 0; ops--) {
		struct load_block *b = &l->block[op->slot];

		perf_keep(b->ptr);
		b->size = op->size;
		if (++op == end)
			op = l->op;
	}
	l->next = (size_t)(op - l->op);
}

static int floor_open(struct perf_arm *arm)
{
	struct pair_arm *self = arm->self;

	self->load = load_create(self->row->mix, perf.seed);
	return 0;
}

static void floor_close(struct perf_arm *arm)
{
	struct pair_arm *self = arm->self;

	free(self->load);
}

static const char *const peers[] = {"malloc", "jemalloc", "mimalloc"};

static void pair_arms(const struct pair_row *row, struct perf_arm *arms,
                      struct pair_arm *selves)
{
	size_t n = 2 + lengthof(peers);

	memset(arms, 0, n * sizeof(*arms));
	memset(selves, 0, n * sizeof(*selves));
	for (size_t i = 0; i < n; i++) {
		struct perf_arm *arm = &arms[i];

		selves[i].row = row;
		arm->self = &selves[i];
		arm->ops = perf_pick(50000, 200000, 2000000);
		arm->count = perf_pick(20000, 100000, 500000);
		arm->is_gate = i < 2;
		perf_key(arm, "%s arm=%s", row->name,
		         i == 0   ? "freelist"
		         : i == 1 ? "floor"
		                  : peers[i - 2]);
		arm->open = i == 0   ? ours_open
		            : i == 1 ? floor_open
		                     : peer_open;
		arm->close = i == 0   ? ours_close
		             : i == 1 ? floor_close
		                      : peer_close;
		arm->loop = peer_loop;
		if (i >= 2)
			selves[i].peer = perf_foreign(peers[i - 2]);
	}
	arms[0].loop = row->mix == LOAD_LUA ? ours_lua : ours_uniform;
	arms[1].loop = floor_loop;
	arms[1].is_floor = true;
}

static void bench_pair(void)
{
	for (size_t i = 0; i < lengthof(rows); i++) {
		struct perf_arm arms[2 + lengthof(peers)];
		struct pair_arm selves[2 + lengthof(peers)];

		pair_arms(&rows[i], arms, selves);
		perf_compare("freelist_pair", arms, lengthof(arms));
	}
}

static const struct perf_bench benches[] = {
	{"freelist_pair", bench_pair, false},
	{"freelist_density", bench_density, true},
	{"freelist_zero_failure", bench_zero_failure, true},
	{"freelist_steps", bench_steps, true},
	{"freelist_latency", bench_latency, true},
};

int main(int argc, char **argv)
{
	return perf_main(argc, argv, benches, lengthof(benches));
}
