/* SPDX-License-Identifier: BSD-2-Clause */
/* membarrier - membarrier(2), and what stands in for it. */
#include <small/membarrier.h>
#include <small/track.h>

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(SYS_membarrier) && !TRACK_ENABLED && !TRACK_TSAN
# define HAS_MEMBARRIER 1
#else
# define HAS_MEMBARRIER 0
#endif

/* Store buffers drain within a microsecond, so this is ample. */
#define DRAIN_NS 10000000L

#if HAS_MEMBARRIER
/* The kernel's numbers: musl-gcc is not given linux/membarrier.h. */
enum {
	cmd_private_expedited = 1 << 3,
	cmd_register_private_expedited = 1 << 4,
};

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

	/* Registering again would cost a grace period. */
	if (known == 0) {
		known = 2;
		if (membarrier_call(cmd_register_private_expedited) &&
		    membarrier_call(cmd_private_expedited))
			known = 1;
		__atomic_store_n(&works, known, __ATOMIC_RELAXED);
	}
	return known == 1;
#else
	return false;
#endif
}

bool membarrier_try(void)
{
#if HAS_MEMBARRIER
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return membarrier_call(cmd_private_expedited);
#else
	return false;
#endif
}

void membarrier_drain(void)
{
	struct timespec drain = {0, DRAIN_NS};

	while (nanosleep(&drain, &drain) != 0 && errno == EINTR)
		continue;
}

void membarrier_all(void)
{
	if (membarrier_init() && !membarrier_try())
		membarrier_drain();
}
