/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slab_arena - two lock-free stacks over one side table: `cache` holds the
 * entries with an idle slab, `spare` those without. A map pops the first and
 * pushes the entry to the second; an unmap goes the other way. Entries are
 * numbers, so that nothing a thread reads while it races can be unmapped, and
 * the head's tag changes with every operation.
 *
 * Waste:  16 bytes of table for each idle slab; alignment trims go back to the
 *         OS at once. slab_arena_stats() tells idle and used.
 * Steps:  a retry of a compare-and-swap means that another thread succeeded.
 */
#include <small/slab_arena.h>
#include <small/fault.h>
#include <small/track.h>

/* Idle slabs that the table has room for: 64 GiB of the smallest. Its pages
 * are touched as needed. */
#define TABLE_SIZE ((size_t)1 << 20)
/* Idle slabs kept by default where nothing is preallocated. */
#define RETAIN_SLABS 16

struct slab_arena_entry {
	void *slab;
	uint32_t next; /* index + 1 of the entry below, 0 at the bottom */
};

static void stack_push(struct slab_arena *arena, struct slab_arena_stack *stack,
                       uint32_t item)
{
	uint64_t old = __atomic_load_n(&stack->head, __ATOMIC_RELAXED), head;

	track_before(&arena->table[item - 1]);
	do {
		__atomic_store_n(&arena->table[item - 1].next, (uint32_t)old,
		                 __ATOMIC_RELAXED);
		head = ((old >> 32) + 1) << 32 | item;
	} while (!__atomic_compare_exchange_n(&stack->head, &old, head, true,
	                                      __ATOMIC_RELEASE,
	                                      __ATOMIC_RELAXED));
}

/* 0 when the stack is empty. */
static uint32_t stack_pop(struct slab_arena *arena,
                          struct slab_arena_stack *stack)
{
	uint64_t old = __atomic_load_n(&stack->head, __ATOMIC_ACQUIRE), head;
	uint32_t item, next;

	do {
		item = (uint32_t)old;
		if (item == 0)
			return 0;
		next = __atomic_load_n(&arena->table[item - 1].next,
		                       __ATOMIC_RELAXED);
		head = ((old >> 32) + 1) << 32 | next;
	} while (!__atomic_compare_exchange_n(&stack->head, &old, head, true,
	                                      __ATOMIC_ACQ_REL,
	                                      __ATOMIC_ACQUIRE));
	track_after(&arena->table[item - 1]);
	return item;
}

static size_t count_load(const size_t *count)
{
	return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static void count_add(size_t *count, size_t bytes)
{
	__atomic_add_fetch(count, bytes, __ATOMIC_RELAXED);
}

static void count_sub(size_t *count, size_t bytes)
{
	__atomic_sub_fetch(count, bytes, __ATOMIC_RELAXED);
}

static int mmap_flags(const struct slab_arena *arena)
{
	int flags = arena->flags;

	if ((flags & SLAB_ARENA_FLAG_MARK) == 0)
		return flags | MAP_ANONYMOUS | MAP_NORESERVE;
	if (IS_SLAB_ARENA_FLAG(flags, SLAB_ARENA_SHARED))
		return MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
	return MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
}

static void advise(const struct slab_arena *arena, void *ptr, size_t size)
{
	if (IS_SLAB_ARENA_FLAG(arena->flags, SLAB_ARENA_DONTDUMP))
		madvise(ptr, size, MADV_DONTDUMP);
	if (IS_SLAB_ARENA_FLAG(arena->flags, SLAB_ARENA_HUGEPAGE))
		madvise(ptr, size, MADV_HUGEPAGE);
}

/* size bytes aligned to slab_size; what the alignment costs goes back. */
static void *map_aligned(const struct slab_arena *arena, size_t size, int prot)
{
	size_t align = arena->slab_size, padded, head, tail;
	char *ptr, *aligned;

	if (small_add(size, align, &padded) || fault_hit(FAULT_MMAP))
		return NULL;
	ptr = mmap(NULL, padded, prot, mmap_flags(arena), -1, 0);
	if (ptr == MAP_FAILED)
		return NULL;
	head = (0 - (uintptr_t)ptr) & (align - 1);
	tail = padded - head - size;
	aligned = ptr + head;
	if (head != 0)
		munmap(ptr, head);
	if (tail != 0)
		munmap(aligned + size, tail);
	advise(arena, aligned, size);
	return aligned;
}

/* Puts a charged, counted slab on the idle list; false when it is full. */
static bool idle_push(struct slab_arena *arena, void *slab)
{
	uint32_t item = stack_pop(arena, &arena->spare);

	if (item == 0) {
		size_t fresh =
			__atomic_fetch_add(&arena->fresh, 1, __ATOMIC_RELAXED);

		if (fresh >= arena->table_size) {
			count_sub(&arena->fresh, 1);
			return false;
		}
		item = (uint32_t)fresh + 1;
	}
	arena->table[item - 1].slab = slab;
	stack_push(arena, &arena->cache, item);
	return true;
}

static void *idle_pop(struct slab_arena *arena)
{
	uint32_t item = stack_pop(arena, &arena->cache);
	void *slab;

	if (item == 0)
		return NULL;
	slab = arena->table[item - 1].slab;
	stack_push(arena, &arena->spare, item);
	count_sub(&arena->idle, arena->slab_size);
	return slab;
}

/* Frees the pages of a mapping that the kernel would not take back. */
static void drop_pages(const struct slab_arena *arena, void *ptr, size_t size)
{
	bool shared = (mmap_flags(arena) & MAP_SHARED) != 0;

	madvise(ptr, size, shared ? MADV_REMOVE : MADV_DONTNEED);
}

/* 0 or -1. Within the preallocation the addresses stay ours: others must not
 * map what slab_arena_mprotect() may reach. */
static int unmap(struct slab_arena *arena, void *slab)
{
	size_t size = arena->slab_size;

	if (fault_hit(FAULT_MUNMAP))
		return -1;
	if ((uintptr_t)slab - (uintptr_t)arena->arena >= arena->prealloc)
		return munmap(slab, size);
	return mmap(slab, size, PROT_NONE, mmap_flags(arena) | MAP_FIXED, -1,
	            0) == MAP_FAILED
	               ? -1
	               : 0;
}

/* Gives a slab to the OS and its charge to the quota. The kernel may refuse
 * to split a mapping: the slab then stays idle. */
static bool return_slab(struct slab_arena *arena, void *slab)
{
	track_undefined(slab, arena->slab_size);
	if (unmap(arena, slab) != 0) {
		drop_pages(arena, slab, arena->slab_size);
		count_add(&arena->refused, arena->slab_size);
		count_add(&arena->idle, arena->slab_size);
		if (!idle_push(arena, slab))
			count_sub(&arena->idle, arena->slab_size);
		return false;
	}
	count_sub(&arena->used, arena->slab_size);
	quota_release(arena->quota, arena->slab_size);
	return true;
}

/* Returns idle slabs while more than keep bytes are idle and less than want
 * have been freed. */
static size_t trim(struct slab_arena *arena, size_t keep, size_t want)
{
	size_t freed = 0;

	while (count_load(&arena->idle) > keep && freed < want) {
		void *slab = idle_pop(arena);

		if (slab == NULL || !return_slab(arena, slab))
			break;
		freed += arena->slab_size;
	}
	return freed;
}

static size_t reclaim(struct quota_reclaimer *self, size_t want)
{
	struct slab_arena *arena =
		rlist_entry(self, struct slab_arena, reclaimer);
	struct slab_arena_client *client;
	size_t freed = trim(arena, 0, want);

	if (freed >= want)
		return freed;
	pthread_mutex_lock(&arena->clients_lock);
	rlist_foreach_entry (client, &arena->clients, link)
		client->reclaim(client);
	pthread_mutex_unlock(&arena->clients_lock);
	return freed + trim(arena, 0, want - freed);
}

/* Everything but the memory. */
static int arena_init(struct slab_arena *arena, struct quota *quota,
                      size_t prealloc, size_t slab_size, int flags)
{
	size_t total = quota_total(quota);

	memset(arena, 0, sizeof(*arena));
	if (slab_size > SIZE_MAX / 8)
		return -1;
	arena->slab_size = small_round(slab_size < SLAB_MIN_SIZE ? SLAB_MIN_SIZE
	                                                         : slab_size);
	arena->quota = quota;
	arena->flags = flags;
	if (small_align_up(prealloc < total ? prealloc : total,
	                   arena->slab_size, &arena->prealloc))
		return -1;
	arena->table_size = TABLE_SIZE;
	arena->reclaimer.reclaim = reclaim;
	rlist_create(&arena->clients);
	return 0;
}

static size_t retain_bound(const struct slab_arena *arena, size_t bytes)
{
	size_t most;

	if (!small_mul(arena->table_size, arena->slab_size, &most) &&
	    bytes > most)
		return most;
	return small_align_down(bytes, arena->slab_size);
}

int slab_arena_create(struct slab_arena *arena, struct quota *quota,
                      size_t prealloc, size_t slab_size, int flags)
{
	size_t retain, bytes = TABLE_SIZE * sizeof(struct slab_arena_entry);
	void *table;

	if (arena_init(arena, quota, prealloc, slab_size, flags) != 0 ||
	    fault_hit(FAULT_MMAP))
		return -1;
	table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table == MAP_FAILED)
		return -1;
	if (arena->prealloc != 0) {
		arena->arena = map_aligned(arena, arena->prealloc,
		                           PROT_READ | PROT_WRITE);
		if (arena->arena == NULL) {
			munmap(table, bytes);
			return -1;
		}
	}
	arena->table = table;
	retain = RETAIN_SLABS * arena->slab_size;
	arena->retain = retain_bound(
		arena, retain > arena->prealloc ? retain : arena->prealloc);
	track_atomic(table, bytes);
	track_atomic(&arena->cache, offsetof(struct slab_arena, refused) +
	                                    sizeof(arena->refused) -
	                                    offsetof(struct slab_arena, cache));
	pthread_mutex_init(&arena->clients_lock, NULL);
	quota_add_reclaimer(quota, &arena->reclaimer);
	return 0;
}

void slab_arena_destroy(struct slab_arena *arena)
{
	quota_del_reclaimer(arena->quota, &arena->reclaimer);
	assert(rlist_empty(&arena->clients));
	trim(arena, 0, SIZE_MAX);
	assert(arena->used == 0 && arena->large == 0);
	if (arena->prealloc != 0)
		munmap(arena->arena, arena->prealloc);
	munmap(arena->table, arena->table_size * sizeof(*arena->table));
	pthread_mutex_destroy(&arena->clients_lock);
	memset(arena, 0, sizeof(*arena));
}

/* The next preallocated slab, or one from the OS; the charge is there. */
static void *map_fresh(struct slab_arena *arena)
{
	size_t pos = count_load(&arena->prealloc_pos);

	while (pos < arena->prealloc) {
		if (__atomic_compare_exchange_n(
			    &arena->prealloc_pos, &pos, pos + arena->slab_size,
			    true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return (char *)arena->arena + pos;
	}
	return map_aligned(arena, arena->slab_size, PROT_READ | PROT_WRITE);
}

void *slab_map(struct slab_arena *arena)
{
	void *slab = idle_pop(arena);

	if (slab == NULL) {
		if (quota_use(arena->quota, arena->slab_size) < 0)
			return idle_pop(arena); /* freed meanwhile, or NULL */
		slab = map_fresh(arena);
		if (slab == NULL) {
			quota_release(arena->quota, arena->slab_size);
			return idle_pop(arena);
		}
		count_add(&arena->used, arena->slab_size);
	}
	track_undefined(slab, arena->slab_size);
	return slab;
}

void slab_unmap(struct slab_arena *arena, void *slab)
{
	size_t idle;

	if (slab == NULL)
		return;
	if (small_unlikely(((uintptr_t)slab & (arena->slab_size - 1)) != 0))
		small_panic("slab_unmap", "not a slab of the arena");
	track_noaccess(slab, arena->slab_size);
	idle = __atomic_add_fetch(&arena->idle, arena->slab_size,
	                          __ATOMIC_RELAXED);
	if (idle <= count_load(&arena->retain) && idle_push(arena, slab))
		return;
	count_sub(&arena->idle, arena->slab_size);
	return_slab(arena, slab);
}

void slab_arena_set_retain(struct slab_arena *arena, size_t bytes)
{
	size_t retain = retain_bound(arena, bytes);

	__atomic_store_n(&arena->retain, retain, __ATOMIC_RELAXED);
	trim(arena, retain, SIZE_MAX);
}

size_t slab_arena_trim(struct slab_arena *arena)
{
	return trim(arena, 0, SIZE_MAX);
}

void slab_arena_mprotect(struct slab_arena *arena)
{
	if (arena->arena != NULL)
		mprotect(arena->arena, arena->prealloc, PROT_READ);
}

void slab_arena_stats(const struct slab_arena *arena,
                      struct slab_arena_stats *stats)
{
	stats->used = count_load(&arena->used);
	stats->idle = count_load(&arena->idle);
	stats->large = count_load(&arena->large);
	stats->retain = count_load(&arena->retain);
	stats->prealloc = arena->prealloc;
}

const char *slab_arena_check(const struct slab_arena *arena)
{
	uint32_t item = (uint32_t)arena->cache.head;
	size_t listed = 0;

	if (arena->idle > arena->retain + arena->refused)
		return "idle_retained";
	for (; item != 0 && listed <= arena->idle;
	     item = arena->table[item - 1].next) {
		if (item > arena->table_size)
			return "idle_listed";
		listed += arena->slab_size;
	}
	if (listed != arena->idle)
		return "idle_listed";
	if (arena->idle > arena->used || arena->used % arena->slab_size != 0)
		return "idle_used";
	return NULL;
}

void slab_arena_add_client(struct slab_arena *arena,
                           struct slab_arena_client *client)
{
	pthread_mutex_lock(&arena->clients_lock);
	rlist_add_tail(&arena->clients, &client->link);
	pthread_mutex_unlock(&arena->clients_lock);
}

void slab_arena_del_client(struct slab_arena *arena,
                           struct slab_arena_client *client)
{
	pthread_mutex_lock(&arena->clients_lock);
	rlist_del(&client->link);
	pthread_mutex_unlock(&arena->clients_lock);
}

/* What is committed in one piece is about to be used: the pages are faulted in
 * by one call, where one by one they cost some ten times as much. Above this
 * it may be a reservation, which only its use makes real. */
#define POPULATE_MAX       ((size_t)4 << 20)
#define POPULATE_MAX_FIRST ((size_t)64 << 10)
#ifndef MADV_POPULATE_WRITE /* of Linux 5.14 */
# define MADV_POPULATE_WRITE 23
#endif

/* Refused, or not known to the kernel: they come as they are touched. */
static void populate(char *ptr, size_t size, size_t max)
{
	if (size <= max)
		madvise(ptr, size, MADV_POPULATE_WRITE);
}

void *slab_arena_map_large(struct slab_arena *arena, size_t size,
                           size_t reserve)
{
	bool growable = reserve > size;
	char *ptr;

	if (quota_use(arena->quota, size) < 0)
		return NULL;
	ptr = map_aligned(arena, reserve,
	                  growable ? PROT_NONE : PROT_READ | PROT_WRITE);
	if (ptr != NULL && growable &&
	    (fault_hit(FAULT_COMMIT) ||
	     mprotect(ptr, size, PROT_READ | PROT_WRITE) != 0)) {
		munmap(ptr, reserve);
		ptr = NULL;
	}
	if (ptr == NULL) {
		quota_release(arena->quota, size);
		return NULL;
	}
	if (growable)
		populate(ptr, size, POPULATE_MAX_FIRST);
	count_add(&arena->large, size);
	return ptr;
}

static int commit(struct slab_arena *arena, char *ptr, size_t size)
{
	if (quota_use(arena->quota, size) < 0)
		return -1;
	if (fault_hit(FAULT_COMMIT) ||
	    mprotect(ptr, size, PROT_READ | PROT_WRITE) != 0) {
		quota_release(arena->quota, size);
		return -1;
	}
	populate(ptr, size, POPULATE_MAX);
	count_add(&arena->large, size);
	return 0;
}

int slab_arena_resize_large(struct slab_arena *arena, void *slab,
                            size_t old_size, size_t new_size)
{
	char *ptr = slab;
	size_t size;

	if (new_size == old_size)
		return 0;
	if (new_size > old_size)
		return commit(arena, ptr + old_size, new_size - old_size);
	size = old_size - new_size;
	ptr += new_size;
	track_undefined(ptr, size);
	/* A new mapping in place drops pages and access in one call. Where
	 * the kernel has no room for one more mapping, only the pages go. */
	if (mmap(ptr, size, PROT_NONE, mmap_flags(arena) | MAP_FIXED, -1, 0) ==
	    MAP_FAILED)
		drop_pages(arena, ptr, size);
	else
		advise(arena, ptr, size);
	count_sub(&arena->large, size);
	quota_release(arena->quota, size);
	return 0;
}

void slab_arena_unmap_large(struct slab_arena *arena, void *slab, size_t size,
                            size_t reserve)
{
	track_undefined(slab, size);
	if (fault_hit(FAULT_MUNMAP) || munmap(slab, reserve) != 0)
		drop_pages(arena, slab, size);
	count_sub(&arena->large, size);
	quota_release(arena->quota, size);
}
