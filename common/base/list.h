/* SPDX-License-Identifier: Apache-2.0
 *
 * Intrusive doubly linked list. A node can be removed without a reference to its list. The owner of
 * the containing struct owns the node; the list owns nothing. The list is not thread-safe; callers
 * must serialize access.
 */
#pragma once

#include "common/base/base.h"

/* A list head is a node too; an unlinked node points to itself (or is all zero: see list_linked).
 */
struct list {
    struct list *next;
    struct list *prev;
};

#define LIST_INIT(head)                                                                            \
    {                                                                                              \
        &(head), &(head)                                                                           \
    }

static inline void list_init(struct list *node)
{
    node->next = node;
    node->prev = node;
}

/* Returns false for a node that is zeroed, was never linked, or was removed. For a head: whether
 * the list has members. */
static inline bool list_linked(const struct list *node)
{
    return node->next != NULL && node->next != node;
}

static inline bool list_empty(const struct list *head)
{
    return !list_linked(head);
}

/* NODE must not be in a list: both lists would be destroyed. Builds with sanitizers check this. */
static inline void list_insert_before(struct list *at, struct list *node)
{
#ifdef RLB_CHECKED
    ASSERT(!list_linked(node));
#endif
    node->prev = at->prev;
    node->next = at;
    at->prev->next = node;
    at->prev = node;
}

static inline void list_push_back(struct list *head, struct list *node)
{
    list_insert_before(head, node);
}

static inline void list_push_front(struct list *head, struct list *node)
{
    list_insert_before(head->next, node);
}

/* Removes NODE from its list. No effect if it is in no list. */
static inline void list_remove(struct list *node)
{
    if (!list_linked(node))
        return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* Moves NODE, which may be in this or another list, to the end of HEAD. */
static inline void list_move_back(struct list *head, struct list *node)
{
    list_remove(node);
    list_push_back(head, node);
}

/* Removes and returns the first node, or returns NULL if the list is empty. */
static inline struct list *list_pop_front(struct list *head)
{
    struct list *node = head->next;

    if (!list_linked(head))
        return NULL;
    head->next = node->next;
    node->next->prev = head;
    list_init(node);
    return node;
}

/* Moves all members of FROM, in order, to the end of TO. FROM is empty afterwards. */
static inline void list_splice_back(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

/* Initializes TO with all members of FROM, in order. FROM is empty afterwards. */
static inline void list_take(struct list *to, struct list *from)
{
    list_init(to);
    list_splice_back(to, from);
}

#define list_entry(node, type, member) container_of(node, type, member)
#define list_first(head, type, member) list_entry((head)->next, type, member)
/* Removes and returns the first struct, or returns NULL if the list is empty. */
#define list_pop_entry(head, type, member)                                                         \
    ({                                                                                             \
        struct list *list_popped_ = list_pop_front(head);                                          \
        list_popped_ != NULL ? list_entry(list_popped_, type, member) : NULL;                      \
    })
/* IT is a struct list *. In the _safe form, the body may remove (and free) IT. */
#define list_for_each(it, head) for ((it) = (head)->next; (it) != (head); (it) = (it)->next)
#define list_for_each_safe(it, tmp, head)                                                          \
    for ((it) = (head)->next, (tmp) = (it)->next; (it) != (head); (it) = (tmp), (tmp) = (it)->next)
/*
 * The same for the structs in the list: P points to each of them, and MEMBER is its node. In the
 * _safe form, the body may remove (and free) P. The head is never converted to a struct, because
 * the result could lack the alignment of its type.
 */
#define LIST_PASTE_(name, line) name##line
#define LIST_NAME_(name, line) LIST_PASTE_(name, line) /* loops may be nested */
#define LIST_AT_ LIST_NAME_(list_at_, __LINE__)
#define LIST_NEXT_ LIST_NAME_(list_next_, __LINE__)
#define list_for_each_entry(p, head, member)                                                       \
    for (struct list *LIST_AT_ = (head)->next;                                                     \
         LIST_AT_ != (head) && ((p) = list_entry(LIST_AT_, __typeof__(*(p)), member), true);       \
         LIST_AT_ = LIST_AT_->next)
#define list_for_each_entry_safe(p, head, member)                                                  \
    for (struct list *LIST_AT_ = (head)->next, *LIST_NEXT_ = LIST_AT_->next;                       \
         LIST_AT_ != (head) && ((p) = list_entry(LIST_AT_, __typeof__(*(p)), member), true);       \
         LIST_AT_ = LIST_NEXT_, LIST_NEXT_ = LIST_AT_->next)

static inline size_t list_length(const struct list *head)
{
    const struct list *it;
    size_t n = 0;

    list_for_each (it, head)
        ++n;
    return n;
}
