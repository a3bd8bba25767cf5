/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dirty - userfaultfd in asynchronous write-protect mode, and PAGEMAP_SCAN.
 *
 * The kernel's words are spelled out here: headers older than Linux 6.7 have
 * them not, and a program built there may run on a newer kernel.
 */
#include <small/dirty.h>
#include <small/fault.h>
#include <small/track.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- of linux/userfaultfd.h and linux/fs.h --- */

struct uffd_api {
	uint64_t api, features, ioctls;
};

struct uffd_range {
	uint64_t start, len;
};

struct uffd_register {
	struct uffd_range range;
	uint64_t mode, ioctls;
};

struct scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask;
	uint64_t return_mask;
};

#define UFFD_VERSION         ((uint64_t)0xAA)
#define UFFD_USER_ONLY       1u
#define UFFD_WP_ASYNC        ((uint64_t)1 << 15)
#define UFFD_MODE_WP         ((uint64_t)2)
#define UFFD_IOC_API         _IOWR(0xAA, 0x3F, struct uffd_api)
#define UFFD_IOC_REGISTER    _IOWR(0xAA, 0x00, struct uffd_register)
#define UFFD_IOC_UNREGISTER  _IOR(0xAA, 0x01, struct uffd_range)
#define SCAN_IOC             _IOWR('f', 16, struct scan_arg)
#define SCAN_WP_MATCHING     ((uint64_t)1)
#define SCAN_CHECK_WP_ASYNC  ((uint64_t)2)
#define SCAN_PAGE_IS_WRITTEN ((uint64_t)2)

/* --- the process's two descriptors --- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int uffd = -1, pagemap = -1;
/* Moves with each fork, in the child. */
static unsigned epoch;

/* As ioctl(), whose request is an int in one C library and not in another. */
static int control(int fd, unsigned long request, void *arg)
{
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

/* The descriptors still belong to the parent's memory. */
static void after_fork(void)
{
	epoch++;
	uffd = pagemap = -1;
}

static void open_all(void)
{
	struct uffd_api api = {.api = UFFD_VERSION, .features = UFFD_WP_ASYNC};

#ifdef SYS_userfaultfd
	uffd = (int)syscall(SYS_userfaultfd,
	                    O_CLOEXEC | O_NONBLOCK | UFFD_USER_ONLY);
#endif
	if (uffd >= 0 && control(uffd, UFFD_IOC_API, &api) == 0)
		pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap >= 0 && pthread_atfork(NULL, NULL, after_fork) == 0)
		return;
	if (uffd >= 0)
		close(uffd);
	if (pagemap >= 0)
		close(pagemap);
	uffd = pagemap = -1;
}

/* valgrind knows neither the call nor that it fills memory. */
static bool is_emulated(void)
{
#if TRACK_VALGRIND
	return RUNNING_ON_VALGRIND != 0;
#else
	return false;
#endif
}

bool dirty_is_on(const struct dirty *d)
{
	return d->start != NULL && d->epoch == epoch;
}

/* --- one range --- */

static int scan(const struct dirty *d, struct scan_arg *arg)
{
	int n;

	if (!dirty_is_on(d))
		return -1;
	arg->size = sizeof(*arg);
	arg->flags |= SCAN_CHECK_WP_ASYNC;
	arg->category_mask = SCAN_PAGE_IS_WRITTEN;
	arg->return_mask = SCAN_PAGE_IS_WRITTEN;
	do
		n = control(pagemap, SCAN_IOC, arg);
	while (n < 0 && errno == EINTR);
	return n;
}

int dirty_clean(const struct dirty *d)
{
	uintptr_t start = (uintptr_t)d->start;
	struct scan_arg arg = {.flags = SCAN_WP_MATCHING,
	                       .start = start,
	                       .end = start + d->size};

	return scan(d, &arg) < 0 ? -1 : 0;
}

int dirty_scan(const struct dirty *d, char **pos, struct dirty_range *range,
               int n)
{
	uintptr_t start = (uintptr_t)*pos, end = (uintptr_t)d->start + d->size;
	struct scan_arg arg = {.start = start,
	                       .end = end,
	                       .vec = (uintptr_t)range,
	                       .vec_len = (uint64_t)n};

	n = scan(d, &arg);
	if (n >= 0)
		*pos += (uintptr_t)arg.walk_end - start;
	return n;
}

int dirty_start(struct dirty *d, void *start, size_t size)
{
	struct uffd_register reg = {.range = {(uintptr_t)start, size},
	                            .mode = UFFD_MODE_WP};

	memset(d, 0, sizeof(*d));
	if (is_emulated() || fault_hit(FAULT_WATCH))
		return -1;
	pthread_once(&once, open_all);
	if (pagemap < 0 || control(uffd, UFFD_IOC_REGISTER, &reg) != 0)
		return -1;
	d->start = start;
	d->size = size;
	d->epoch = epoch;
	if (dirty_clean(d) == 0)
		return 0;
	dirty_stop(d);
	return -1;
}

void dirty_stop(struct dirty *d)
{
	struct uffd_range range = {(uintptr_t)d->start, d->size};

	if (dirty_is_on(d))
		control(uffd, UFFD_IOC_UNREGISTER, &range);
	d->start = NULL;
}
