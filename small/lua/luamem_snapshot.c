/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * luamem_snapshot: an interpreter's memory and its account, put back in
 * place. The heap is the freelist's; the account is a copy of the struct,
 * less what belongs to the host: the region, the owner, what was taken.
 *
 * Worst case: freelist_rollback()'s and a copy of the struct.
 */
#include <small/lua/luamem_internal.h>

#include <small/freelist_snapshot.h>

/* What stands in the snapshot's extra bytes; the caller's follow. */
#define LUAMEM_SAVED small_align(sizeof(struct luamem), 16)

static bool luamem_is_quiet(const struct luamem *m)
{
	return m->mode == LUAMEM_MANAGED && m->heap != NULL &&
	       !(m->slow & (LUAMEM_SLOW_SECTION | LUAMEM_SLOW_DENY));
}

int luamem_snapshot(struct luamem *m, size_t extra, enum luamem_cause *cause)
{
	enum luamem_cause ignored;
	size_t refusals, size;

	if (cause == NULL)
		cause = &ignored;
	*cause = LUAMEM_NONE;
	if (!luamem_is_quiet(m) || m->overflow != NULL ||
	    luamem_snapshot_extra(m) != NULL)
		return -1;
	refusals = m->quota->refusals;
	*cause = LUAMEM_SYSTEM;
	if (small_add(LUAMEM_SAVED, extra, &size))
		return -1;
	if (freelist_snapshot(m->heap, m->region, size) != 0) {
		if (refusals != m->quota->refusals)
			*cause = LUAMEM_QUOTA;
		return -1;
	}
	*cause = LUAMEM_NONE;
	memcpy(freelist_snapshot_extra(m->heap), m, sizeof(*m));
	return 0;
}

void *luamem_snapshot_extra(const struct luamem *m)
{
	char *saved = NULL;

	if (m->heap != NULL)
		saved = (char *)freelist_snapshot_extra(m->heap);
	return saved != NULL ? saved + LUAMEM_SAVED : NULL;
}

/* What is put back, as it stands first in the struct; the rest is the host's:
 * the region of the heap, the owner. */
#define LUAMEM_BACK offsetof(struct luamem, own)

/* What was taken since is in use now as it was before. */
static void luamem_retake(struct luamem *m, size_t taken)
{
	size_t saved = m->taken;

	m->taken = taken;
	luamem_count(m, saved, taken);
	luamem_limit_heap(m, m->limit);
}

int luamem_rollback(struct luamem *m)
{
	size_t taken = m->taken, pressure_used = m->pressure_used;
	const void *saved =
		m->heap != NULL ? freelist_snapshot_extra(m->heap) : NULL;

	if (saved == NULL || !luamem_is_quiet(m))
		return -1;
	if (small_unlikely(m->overflow != NULL))
		luamem_drop_overflow(m);
	freelist_rollback(m->heap);
	luamem_copy(m, saved, LUAMEM_BACK);
	m->pressure_used = pressure_used;
	if (small_unlikely(m->taken != taken))
		luamem_retake(m, taken);
	if (m->slow & LUAMEM_SLOW_PRESSURE)
		luamem_pressure(m);
	return 0;
}

void luamem_discard(struct luamem *m)
{
	if (m->heap != NULL)
		freelist_discard(m->heap);
}
