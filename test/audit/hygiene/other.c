/* SPDX-License-Identifier: BSD-2-Clause */
#include "other.h"

int other_calls;

int region_free(int n)
{
	return n + 1;
}

int slab_get(int n)
{
	return n + 2;
}

int mempool_alloc(int n)
{
	return n + 3;
}

int quota_use(int n)
{
	return n + 4;
}
