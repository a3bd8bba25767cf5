/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMALL_RLIST_H
#define SMALL_RLIST_H
/*
 * rlist - a circular doubly linked list. The head and every link are the same
 * struct; an empty head points at itself.
 *
 * Threads: none; the caller serialises.
 * Cost:    every call is O(1) but the foreach loops and rlist_empty's callers.
 * Errors:  none.
 *
 * INV(ring): x->next->prev == x and x->prev->next == x for each link x.
 */
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rlist {
	struct rlist *prev;
	struct rlist *next;
};

#define RLIST_HEAD_INITIALIZER(name) \
 {                                   \
  &(name), &(name)                   \
 }
#define RLIST_LINK_INITIALIZER \
 {                             \
  0, 0                         \
 }
#define RLIST_HEAD(name) struct rlist name = RLIST_HEAD_INITIALIZER(name)

static inline void rlist_create(struct rlist *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool rlist_empty(const struct rlist *head)
{
	return head->next == head;
}

static inline struct rlist *rlist_first(const struct rlist *head)
{
	return head->next;
}

static inline struct rlist *rlist_last(const struct rlist *head)
{
	return head->prev;
}

static inline struct rlist *rlist_next(const struct rlist *item)
{
	return item->next;
}

static inline struct rlist *rlist_prev(const struct rlist *item)
{
	return item->prev;
}

/* A placeholder that is empty whenever it is asked, for "no list yet". */
static inline struct rlist *rlist_nil(void)
{
	static struct rlist nil = RLIST_HEAD_INITIALIZER(nil);

	return &nil;
}

static inline void rlist_link_(struct rlist *item, struct rlist *before,
                               struct rlist *after)
{
#ifdef __clang_analyzer__
	if (before == NULL || after == NULL) /* links of a ring never are */
		__builtin_unreachable();
#endif
	item->prev = before;
	item->next = after;
	before->next = item;
	after->prev = item;
}

/* Adds item as the first one. */
static inline void rlist_add(struct rlist *head, struct rlist *item)
{
	rlist_link_(item, head, head->next);
}

/* Adds item as the last one. */
static inline void rlist_add_tail(struct rlist *head, struct rlist *item)
{
	rlist_link_(item, head->prev, head);
}

/* Takes item out; it is an empty list of its own afterwards. */
static inline void rlist_del(struct rlist *item)
{
	item->prev->next = item->next;
	item->next->prev = item->prev;
	rlist_create(item);
}

/* Takes the first item out and returns it. The list is not empty. */
static inline struct rlist *rlist_shift(struct rlist *head)
{
	struct rlist *item = head->next;

	rlist_del(item);
	return item;
}

/* Takes the last item out and returns it. The list is not empty. */
static inline struct rlist *rlist_shift_tail(struct rlist *head)
{
	struct rlist *item = head->prev;

	rlist_del(item);
	return item;
}

/* Moves item, which is on some list, to the front of `to`. */
static inline void rlist_move(struct rlist *to, struct rlist *item)
{
	rlist_del(item);
	rlist_add(to, item);
}

static inline void rlist_move_tail(struct rlist *to, struct rlist *item)
{
	rlist_del(item);
	rlist_add_tail(to, item);
}

/* Exchanges the items of two lists; either may be empty. */
static inline void rlist_swap(struct rlist *a, struct rlist *b)
{
	struct rlist tmp = *a;

	if (b->next == b) {
		rlist_create(a);
	} else {
		*a = *b;
		a->next->prev = a;
		a->prev->next = a;
	}
	if (tmp.next == a) {
		rlist_create(b);
	} else {
		*b = tmp;
		b->next->prev = b;
		b->prev->next = b;
	}
}

/* Moves all items of `from` to the front of `to`, in order. */
static inline void rlist_splice(struct rlist *to, struct rlist *from)
{
	if (rlist_empty(from))
		return;
	from->prev->next = to->next;
	to->next->prev = from->prev;
	from->next->prev = to;
	to->next = from->next;
	rlist_create(from);
}

/* Moves all items of `from` to the end of `to`, in order. */
static inline void rlist_splice_tail(struct rlist *to, struct rlist *from)
{
	if (rlist_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	rlist_create(from);
}

/* Moves the items of `from` that stand before `item` to `to`, whose old
 * contents are forgotten. item may be the head of `from`: all are moved. */
static inline void rlist_cut_before(struct rlist *to, struct rlist *from,
                                    struct rlist *item)
{
	if (from->next == item) {
		rlist_create(to);
		return;
	}
	to->next = from->next;
	to->prev = item->prev;
	to->next->prev = to;
	to->prev->next = to;
	from->next = item;
	item->prev = from;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

/* The struct that holds `item` as `member`. */
#define rlist_entry(item, type, member) \
 ((type *)(void *)((char *)(item)-offsetof(type, member)))
#define rlist_first_entry(head, type, member) \
 rlist_entry((head)->next, type, member)
#define rlist_last_entry(head, type, member) \
 rlist_entry((head)->prev, type, member)

/* Entry versions need the entry's type; __typeof__ serves C and C++ alike. */
#define rlist_next_entry(entry, member) \
 rlist_entry((entry)->member.next, __typeof__(*(entry)), member)
#define rlist_prev_entry(entry, member) \
 rlist_entry((entry)->member.prev, __typeof__(*(entry)), member)
/* The previous entry, or NULL when entry is the first one. */
#define rlist_prev_entry_safe(entry, head, member) \
 ((entry)->member.prev == (head) ? NULL : rlist_prev_entry(entry, member))

#define rlist_add_entry(head, entry, member) rlist_add(head, &(entry)->member)
#define rlist_add_tail_entry(head, entry, member) \
 rlist_add_tail(head, &(entry)->member)
#define rlist_del_entry(entry, member) rlist_del(&(entry)->member)
#define rlist_shift_entry(head, type, member) \
 rlist_entry(rlist_shift(head), type, member)
#define rlist_shift_tail_entry(head, type, member) \
 rlist_entry(rlist_shift_tail(head), type, member)
#define rlist_move_entry(to, entry, member) rlist_move(to, &(entry)->member)
#define rlist_move_tail_entry(to, entry, member) \
 rlist_move_tail(to, &(entry)->member)
/* True when the loop variable of a foreach_entry ran off the list. */
#define rlist_entry_is_head(entry, head, member) (&(entry)->member == (head))

#define rlist_foreach(item, head) \
 for ((item) = (head)->next; (item) != (head); (item) = (item)->next)
#define rlist_foreach_reverse(item, head) \
 for ((item) = (head)->prev; (item) != (head); (item) = (item)->prev)
/* tmp keeps the next item, so that the body may take item out. */
#define rlist_foreach_safe(item, head, tmp)                                 \
 for ((item) = (head)->next; (item) != (head) && ((tmp) = (item)->next, 1); \
      (item) = (tmp))

#define rlist_foreach_entry(entry, head, member)                         \
 for ((entry) = rlist_entry((head)->next, __typeof__(*(entry)), member); \
      &(entry)->member != (head); (entry) = rlist_next_entry(entry, member))
#define rlist_foreach_entry_reverse(entry, head, member)                 \
 for ((entry) = rlist_entry((head)->prev, __typeof__(*(entry)), member); \
      &(entry)->member != (head); (entry) = rlist_prev_entry(entry, member))
#define rlist_foreach_entry_safe(entry, head, member, tmp)               \
 for ((entry) = rlist_entry((head)->next, __typeof__(*(entry)), member); \
      &(entry)->member != (head) &&                                      \
      ((tmp) = rlist_next_entry(entry, member), 1);                      \
      (entry) = (tmp))
#define rlist_foreach_entry_safe_reverse(entry, head, member, tmp)       \
 for ((entry) = rlist_entry((head)->prev, __typeof__(*(entry)), member); \
      &(entry)->member != (head) &&                                      \
      ((tmp) = rlist_prev_entry(entry, member), 1);                      \
      (entry) = (tmp))

#endif /* SMALL_RLIST_H */
