/* SPDX-License-Identifier: BSD-2-Clause */
/* membarrier - membarrier(2), and what stands in for it. */
#include <small/membarrier.h>
#include <small/track.h>

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(SYS_membarrier) && !TRACK_ENABLED && !TRACK_TSAN
# include <linux/membarrier.h>
# define HAS_MEMBARRIER 1
#else
# define HAS_MEMBARRIER 0
#endif

/* Where the call worked once and is refused later (a system call filter that
 * came late): store buffers drain within a microsecond, so this is ample. */
#define DRAIN_NS 10000000L

#if HAS_MEMBARRIER
static bool membarrier_call(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) == 0;
}
#endif

bool membarrier_init(void)
{
#if HAS_MEMBARRIER
	static int works; /* 0 = not asked yet, 1 = yes, 2 = no */
	int known = __atomic_load_n(&works, __ATOMIC_RELAXED);

	if (known == 0) {
		known = 2;
		if (membarrier_call(
			    MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
		    membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
			known = 1;
		__atomic_store_n(&works, known, __ATOMIC_RELAXED);
	}
	return known == 1;
#else
	return false;
#endif
}

void membarrier_all(void)
{
#if HAS_MEMBARRIER
	struct timespec drain = {0, DRAIN_NS};

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		return;
	while (nanosleep(&drain, &drain) != 0 && errno == EINTR)
		continue;
#endif
}
