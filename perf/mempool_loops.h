/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mempool_loops - the loops of one arm; included once an arm, with
 *
 *   ARM(loop)                          the names of its functions
 *   ALLOC(b, ptr) and RELEASE(b, ptr)  its two calls, as statements
 */

static void ARM(pair)(struct perf_arm *arm, uint64_t ops)
{
	struct pool_bench *b = arm->self;

	for (uint64_t i = 0; i < ops; i++) {
		void *ptr;

		ALLOC(b, ptr);
		slots[i % POOL_BATCH] = ptr;
		RELEASE(b, slots[i % POOL_BATCH]);
	}
}

static void ARM(two)(struct perf_arm *arm, uint64_t ops)
{
	struct pool_bench *b = arm->self;

	for (uint64_t i = 0; i < ops; i += 2) {
		void *ptr;

		ALLOC(b, ptr);
		slots[i % POOL_BATCH] = ptr;
		ALLOC(b, ptr);
		slots[i % POOL_BATCH + 1] = ptr;
		RELEASE(b, slots[i % POOL_BATCH]);
		RELEASE(b, slots[i % POOL_BATCH + 1]);
	}
}

static void ARM(lifo)(struct perf_arm *arm, uint64_t ops)
{
	struct pool_bench *b = arm->self;

	for (uint64_t done = 0; done < ops; done += POOL_BATCH) {
		void *ptr;

		for (size_t i = 0; i < POOL_BATCH; i++) {
			ALLOC(b, ptr);
			slots[i] = ptr;
		}
		for (size_t i = POOL_BATCH; i-- > 0;)
			RELEASE(b, slots[i]);
	}
}

static void ARM(random)(struct perf_arm *arm, uint64_t ops)
{
	struct pool_bench *b = arm->self;

	for (uint64_t done = 0; done < ops; done += POOL_BATCH) {
		void *ptr;

		for (size_t i = 0; i < POOL_BATCH; i++) {
			ALLOC(b, ptr);
			slots[i] = ptr;
		}
		for (size_t i = 0; i < POOL_BATCH; i++)
			RELEASE(b, slots[order[i]]);
	}
}
