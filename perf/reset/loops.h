/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loops - the three ways to run requests, compiled into each strategy's file
 * from what stands before this line there: SELF, its type; take(self, size),
 * an allocation; end(self), what a server calls when a request is over.
 * So no arm pays for a call that a program would not make.
 */
static void *one_alloc(void *self, size_t size)
{
	return take(self, size);
}

static void one_end(void *self)
{
	end(self);
}

static void run(void **selves, size_t regions, const struct load *load,
                size_t n)
{
	for (size_t i = 0, k = 0; i < n; i++) {
		const uint32_t *s = load->sizes[i & (load->count - 1)];
		SELF *self = selves[k];

		for (size_t j = 0; j < REQUEST_PIECES; j++)
			strategy_touch(take(self, s[j]));
		end(self);
		k = k + 1 < regions ? k + 1 : 0;
	}
}

static void run_timed(void **selves, size_t regions, const struct load *load,
                      size_t n, uint32_t *ns)
{
	for (size_t i = 0, k = 0; i < n; i++) {
		const uint32_t *s = load->sizes[i & (load->count - 1)];
		SELF *self = selves[k];
		uint64_t start = perf_now_ns();

		for (size_t j = 0; j < REQUEST_PIECES; j++)
			strategy_touch(take(self, s[j]));
		end(self);
		ns[i] = strategy_ns(start);
		k = k + 1 < regions ? k + 1 : 0;
	}
}

static void run_pieces(void **selves, size_t regions, const struct load *load,
                       size_t n, uint32_t *ns)
{
	for (size_t i = 0, k = 0; i < n; i++) {
		const uint32_t *s = load->sizes[i & (load->count - 1)];
		SELF *self = selves[k];

		for (size_t j = 0; j < REQUEST_PIECES; j++) {
			uint64_t start = perf_now_ns();
			void *ptr = take(self, s[j]);

			*ns++ = strategy_ns(start);
			strategy_touch(ptr);
		}
		end(self);
		k = k + 1 < regions ? k + 1 : 0;
	}
}

/* What this file fills in of a struct strategy. */
/* clang-format off */
#define STRATEGY_LOOPS               \
	.alloc = one_alloc,          \
	.end = one_end,              \
	.run = run,                  \
	.time = run_timed,           \
	.time_pieces = run_pieces
/* clang-format on */
