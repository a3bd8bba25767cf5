/* SPDX-License-Identifier: BSD-2-Clause */
/* fault - the counters behind fault.h; compiled for the tests only. */
#include <small/fault.h>

#include <stdlib.h>

static struct {
	unsigned mask;
	bool from_then_on;
	size_t n;
	size_t seen;
	size_t refused;
	size_t pagesize;
} fault;

bool fault_hit(enum fault_point point)
{
	size_t seen;

	if ((__atomic_load_n(&fault.mask, __ATOMIC_RELAXED) & point) == 0)
		return false;
	seen = __atomic_add_fetch(&fault.seen, 1, __ATOMIC_RELAXED);
	if (seen != fault.n && !(seen > fault.n && fault.from_then_on))
		return false;
	__atomic_add_fetch(&fault.refused, 1, __ATOMIC_RELAXED);
	return true;
}

void fault_set(unsigned mask, size_t n, bool from_then_on)
{
	fault.n = n;
	fault.from_then_on = from_then_on;
	fault.seen = fault.refused = 0;
	__atomic_store_n(&fault.mask, mask, __ATOMIC_RELAXED);
}

void fault_clear(void)
{
	__atomic_store_n(&fault.mask, 0, __ATOMIC_RELAXED);
}

size_t fault_seen(void)
{
	return __atomic_load_n(&fault.seen, __ATOMIC_RELAXED);
}

size_t fault_refused(void)
{
	return __atomic_load_n(&fault.refused, __ATOMIC_RELAXED);
}

void fault_set_pagesize(size_t size)
{
	fault.pagesize = size;
}

size_t fault_pagesize(void)
{
	return fault.pagesize;
}

/* So that every test binary can be run with another page size. */
__attribute__((constructor)) static void fault_pagesize_from_env(void)
{
	const char *env = getenv("SMALL_TEST_PAGESIZE");

	if (env != NULL)
		fault.pagesize = strtoul(env, NULL, 0);
}
