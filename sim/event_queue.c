/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap.
 */
#include "sim/event_queue.h"

#include <stdlib.h>

void event_queue_fini(struct event_queue *q)
{
    free(q->heap);
    *q = (struct event_queue){0};
}

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void event_queue_add(struct event_queue *q, uint64_t at_ns, void *what, uint64_t value)
{
    enum { FIRST_ROOM = 64 };
    struct event e = {.at_ns = at_ns, .order = q->next_order++, .what = what, .value = value};

    if (q->n == q->room) {
        q->room = q->room != 0 ? q->room * 2 : FIRST_ROOM;
        q->heap = xrealloc(q->heap, q->room * sizeof(q->heap[0]));
    }
    size_t i = q->n++;
    while (i != 0 && is_before(&e, &q->heap[(i - 1) / 2])) {
        q->heap[i] = q->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->heap[i] = e;
}

const struct event *event_queue_peek(const struct event_queue *q)
{
    return q->n != 0 ? &q->heap[0] : NULL;
}

struct event event_queue_take(struct event_queue *q)
{
    ASSERT(q->n != 0);
    struct event first = q->heap[0];
    struct event last = q->heap[--q->n];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= q->n)
            break;
        if (child + 1 < q->n && is_before(&q->heap[child + 1], &q->heap[child]))
            ++child;
        if (!is_before(&q->heap[child], &last))
            break;
        q->heap[i] = q->heap[child];
        i = child;
    }
    if (q->n != 0)
        q->heap[i] = last;
    return first;
}
