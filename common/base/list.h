/* SPDX-License-Identifier: Apache-2.0
 *
 * Intrusive doubly linked list. A node can be removed without a reference to its list. The owner of
 * the containing struct owns the node; the list owns nothing. The list is not thread-safe; callers
 * must serialize access.
 */
#ifndef RLB_BASE_LIST_H
#define RLB_BASE_LIST_H

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

/* False for a node that was never linked, zeroed, or has left. For a head: whether it has members.
 */
static inline bool list_linked(const struct list *node)
{
    return node->next != NULL && node->next != node;
}

static inline bool list_empty(const struct list *head)
{
    return !list_linked(head);
}

static inline void list_insert_before(struct list *at, struct list *node)
{
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

/* Harmless for a node that is in no list. */
static inline void list_remove(struct list *node)
{
    if (!list_linked(node))
        return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* NODE, which is in a list, this or another, becomes the last of HEAD's. */
static inline void list_move_back(struct list *head, struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_insert_before(head, node);
}

/* The first node, unlinked, or NULL. */
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

/* Move all members of FROM, in order, to the end of TO; FROM is empty then. */
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

#define list_entry(node, type, member) container_of(node, type, member)
#define list_first(head, type, member) list_entry((head)->next, type, member)
/* IT is a struct list *. The _safe form allows IT to leave (and be freed) in the body. */
#define list_for_each(it, head) for ((it) = (head)->next; (it) != (head); (it) = (it)->next)
#define list_for_each_safe(it, tmp, head)                                                          \
    for ((it) = (head)->next, (tmp) = (it)->next; (it) != (head); (it) = (tmp), (tmp) = (it)->next)
/* The same over the structs in the list: P points to each one, and its node is MEMBER. P must not
 * leave the list in the body. */
#define list_for_each_entry(p, head, member)                                                       \
    for ((p) = list_entry((head)->next, __typeof__(*(p)), member); &(p)->member != (head);         \
         (p) = list_entry((p)->member.next, __typeof__(*(p)), member))
/* The same, but P may leave (and be freed) in the body. NEXT is another pointer of P's type. */
#define list_for_each_entry_safe(p, next, head, member)                                            \
    for ((p) = list_entry((head)->next, __typeof__(*(p)), member),                                 \
        (next) = list_entry((p)->member.next, __typeof__(*(p)), member);                           \
         &(p)->member != (head);                                                                   \
         (p) = (next), (next) = list_entry((p)->member.next, __typeof__(*(p)), member))

static inline size_t list_length(const struct list *head)
{
    const struct list *it;
    size_t n = 0;

    list_for_each (it, head)
        ++n;
    return n;
}

#endif
