// SPDX-License-Identifier: BSD-2-Clause
// The side that uses the other library: 0 when each call reached it.
#include "other.h"

int theirs()
{
	{
		RegionGuard guard(5);
	}
	return other_calls == 5 && region_free(0) == 1 && slab_get(0) == 2 &&
	                       mempool_alloc(0) == 3 && quota_use(0) == 4
	               ? 0
	               : 1;
}
