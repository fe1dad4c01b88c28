/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries are found by key in a map, and the least of them is the root of a binary heap: with
 * weights, a sum may leap over many others, so the paper's list of buckets would not be O(1). An
 * entry's memory for its key stays with it when the key is replaced, and only grows.
 */
#include "common/core/counter_top.h"

#include <stdlib.h>

#include "common/base/map.h"
#include "common/core/counter.h"

struct entry {
    struct map_node node;
    char *key;
    size_t room; /* of key */
    size_t at;   /* where in the heap */
    uint64_t waited_us, over_us, waits;
};

struct counter_top {
    struct map map;
    struct entry *entries;
    struct entry **heap; /* none has more than its children, at 2i+1 and 2i+2 */
    size_t count, max;
    uint64_t total_us;
};

struct counter_top *counter_top_create(size_t entries)
{
    struct counter_top *top = xcalloc(1, sizeof(*top));

    ASSERT(entries >= 1);
    top->max = entries;
    top->entries = xcalloc(entries, sizeof(*top->entries));
    top->heap = xcalloc(entries, sizeof(struct entry *));
    return top;
}

void counter_top_destroy(struct counter_top *top)
{
    if (top == NULL)
        return;
    map_clear(&top->map);
    for (size_t i = 0; i < top->max; ++i)
        free(top->entries[i].key);
    free(top->entries);
    free(top->heap);
    free(top);
}

static void place(struct counter_top *top, struct entry *e, size_t at)
{
    top->heap[at] = e;
    e->at = at;
}

static void move_up(struct counter_top *top, struct entry *e)
{
    size_t at = e->at;

    while (at > 0 && top->heap[(at - 1) / 2]->waited_us > e->waited_us) {
        place(top, top->heap[(at - 1) / 2], at);
        at = (at - 1) / 2;
    }
    place(top, e, at);
}

static void move_down(struct counter_top *top, struct entry *e)
{
    size_t at = e->at;

    for (size_t child = 0; (child = 2 * at + 1) < top->count; at = child) {
        if (child + 1 < top->count && top->heap[child + 1]->waited_us < top->heap[child]->waited_us)
            ++child;
        if (top->heap[child]->waited_us >= e->waited_us)
            break;
        place(top, top->heap[child], at);
    }
    place(top, e, at);
}

static void set_key(struct counter_top *top, struct entry *e, struct slice key)
{
    if (e->key == NULL || key.len > e->room) {
        e->key = xrealloc(e->key, key.len + 1); /* an empty one has memory, too */
        e->room = key.len;
    }
    memcpy(e->key, key.p, key.len);
    map_add(&top->map, &e->node, e->key, key.len);
}

static struct entry *new_entry(struct counter_top *top)
{
    struct entry *e = &top->entries[top->count];

    e->waited_us = 0;
    e->over_us = 0;
    place(top, e, top->count++);
    move_up(top, e);
    return e;
}

/* The one with the least makes room; its sum is what the new one's may be too large by. */
static struct entry *replaced_entry(struct counter_top *top)
{
    struct entry *e = top->heap[0];

    map_remove(&top->map, &e->node);
    e->over_us = e->waited_us;
    return e;
}

void counter_top_add(struct counter_top *top, struct slice key, uint64_t waited_us)
{
    if (waited_us == 0)
        return;
    if (key.len > COUNTER_NAME_MAX)
        key.len = COUNTER_NAME_MAX;
    if (key.p == NULL)
        key.p = "";
    struct entry *e = map_entry(map_find(&top->map, key.p, key.len), struct entry, node);

    if (e == NULL) {
        e = top->count < top->max ? new_entry(top) : replaced_entry(top);
        e->waits = 0;
        set_key(top, e, key);
    }
    e->waited_us += waited_us;
    ++e->waits;
    top->total_us += waited_us;
    move_down(top, e);
}

void counter_top_clear(struct counter_top *top)
{
    map_clear(&top->map);
    top->count = 0;
    top->total_us = 0;
}

uint64_t counter_top_total_us(const struct counter_top *top)
{
    return top->total_us;
}

/* The most first; of equals, the one that is surer. */
static int compare_rows(const void *a, const void *b)
{
    const struct counter_top_row *x = a;
    const struct counter_top_row *y = b;

    if (x->waited_us != y->waited_us)
        return x->waited_us < y->waited_us ? 1 : -1;
    return (x->over_us > y->over_us) - (x->over_us < y->over_us);
}

size_t counter_top_read(const struct counter_top *top, struct counter_top_row *rows, size_t n)
{
    struct counter_top_row *all = xcalloc(top->max, sizeof(*all));

    for (size_t i = 0; i < top->count; ++i) {
        const struct entry *e = &top->entries[i];

        all[i] = (struct counter_top_row){.key = map_key(&e->node),
                                          .waited_us = e->waited_us,
                                          .over_us = e->over_us,
                                          .waits = e->waits};
    }
    qsort(all, top->count, sizeof(*all), compare_rows);
    if (n > top->count)
        n = top->count;
    if (n != 0)
        memcpy(rows, all, n * sizeof(*rows));
    free(all);
    return n;
}

void counter_top_check(const struct counter_top *top)
{
    uint64_t sum_us = 0;

    ASSERT(top->count <= top->max);
    ASSERT(map_count(&top->map) == top->count);
    for (size_t i = 0; i < top->count; ++i) {
        const struct entry *e = top->heap[i];

        ASSERT(e->at == i);
        ASSERT(i == 0 || top->heap[(i - 1) / 2]->waited_us <= e->waited_us);
        ASSERT(e->over_us < e->waited_us);
        ASSERT(e->waits >= 1);
        sum_us += e->waited_us;
    }
    /* Each addition is in exactly one sum, what was replaced included. */
    ASSERT(sum_us == top->total_us);
}
