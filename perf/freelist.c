/* SPDX-License-Identifier: BSD-2-Clause */
/* freelist - time and instructions of one step, beside other allocators. */
#include "freelist_load.h"
#include "foreign.h"

#include <small/freelist_impl.h>

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

/* --- density --- */

struct held {
	struct load_block *block;
	size_t count, payload;
};

static bool hold(struct held *h, struct freelist *f, size_t size)
{
	void *ptr = freelist_alloc(f, size);

	if (ptr == NULL)
		return false;
	h->block[h->count].ptr = ptr;
	h->block[h->count++].size = size;
	h->payload += size;
	return true;
}

static void let_go(struct held *h, struct freelist *f, size_t i)
{
	h->payload -= h->block[i].size;
	freelist_free(f, h->block[i].ptr, h->block[i].size);
	h->block[i] = h->block[--h->count];
}

/* Percent of the limit that is payload when a request is refused first, and
 * on average of a long time at the limit. */
static void density(enum load_mix mix, size_t limit, size_t granule,
                    uint64_t seed, double *first, double *steady)
{
	struct freelist_opts opts = {.limit = limit, .granule = granule};
	struct held h = {perf_malloc(limit / 16 * sizeof(*h.block)), 0, 0};
	const size_t steps = 200000;
	struct load_piece p;
	double sum = 0;

	load_open(&p, &opts);
	while (hold(&h, p.f, load_size(mix, &seed)))
		continue;
	*first = 100.0 * (double)h.payload / (double)limit;
	for (size_t i = 0; i < steps; i++) {
		let_go(&h, p.f, perf_uniform(&seed, 0, h.count - 1));
		for (int k = 0; k < 3; k++)
			if (!hold(&h, p.f, load_size(mix, &seed)))
				break;
		sum += (double)h.payload;
	}
	*steady = 100.0 * sum / (double)steps / (double)limit;
	load_close(&p);
	free(h.block);
}

/* One seed's luck is up to two percent in 64 KiB: the mean of eight. */
static void density_record(enum load_mix mix, size_t kib, size_t granule)
{
	double first = 0, steady = 0;
	const int seeds = 8;

	for (int i = 0; i < seeds; i++) {
		double a, b;

		density(mix, kib << 10, granule, perf.seed + (uint64_t)i, &a,
		        &b);
		first += a / seeds;
		steady += b / seeds;
	}
	perf_begin("freelist_density", "arena=%zuKiB mix=%s granule=%zu", kib,
	           mix == LOAD_LUA ? "lua" : "uniform", granule);
	perf_put(" first_failure_pct=%.2f steady_pct=%.2f", first, steady);
	perf_end();
}

static void bench_density(void)
{
	static const size_t arenas[] = {64, 256, 1024};

	for (int mix = LOAD_UNIFORM; mix <= LOAD_LUA; mix++)
		for (size_t granule = 16; granule >= 8; granule /= 2)
			for (size_t i = 0; i < lengthof(arenas); i++)
				density_record((enum load_mix)mix, arenas[i],
				               granule);
}

/* --- the smallest arena --- */

static bool runs_without_refusal(size_t kib, uint64_t seed)
{
	struct freelist_opts opts = {.limit = kib << 10};
	struct load *l = load_create(LOAD_UNIFORM, seed);
	struct load_piece p;
	bool is_served;

	load_open(&p, &opts);
	is_served = load_fill(l, p.f) == 0;
	for (size_t i = 0; is_served && i < 2000000; i++) {
		struct load_block *b =
			&l->block[perf_uniform(&seed, 0, LOAD_SLOTS - 1)];

		freelist_free(p.f, b->ptr, b->size);
		b->size = load_size(LOAD_UNIFORM, &seed);
		b->ptr = freelist_alloc(p.f, b->size);
		is_served = b->ptr != NULL;
	}
	load_close(&p);
	free(l);
	return is_served;
}

static void bench_zero_failure(void)
{
	size_t worst = 0;

	for (uint64_t seed = 1; seed <= 5; seed++) {
		size_t kib = 540;

		while (!runs_without_refusal(kib, seed))
			kib += 4;
		worst = kib > worst ? kib : worst;
	}
	perf_begin("freelist_zero_failure", "mix=uniform");
	perf_put(" kib=%zu", worst);
	perf_end();
}

static const struct perf_bench benches[] = {
	{"freelist_pair", bench_pair, false},
	{"freelist_density", bench_density, true},
	{"freelist_zero_failure", bench_zero_failure, true},
};

int main(int argc, char **argv)
{
	return perf_main(argc, argv, benches, lengthof(benches));
}
