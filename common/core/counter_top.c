/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries are found by the hash of their key, and the least of them is the root of a binary heap:
 * with weights, a sum may leap over many others, so the paper's list of buckets would not be O(1).
 * The number of entries is fixed, so all memory but that of keys is allocated at creation. The
 * memory of an entry's key stays with it when the key is replaced, and only grows.
 */
#include "common/core/counter_top.h"

#include <stdlib.h>

#include "common/base/map.h"
#include "common/core/counter.h"

struct entry {
    struct entry *next; /* of those with the same bucket */
    uint64_t hash;      /* of the key */
    char *key;
    size_t len, room; /* of key */
    size_t at;        /* where in the heap */
    uint64_t waited_us, over_us, waits;
};

struct counter_top {
    struct entry *entries;
    struct entry **buckets; /* as many as there can be entries */
    struct entry **heap;    /* none has more than its children, at 2i+1 and 2i+2 */
    size_t count, max;
    uint64_t total_us;
};

struct counter_top *counter_top_create(size_t entries)
{
    struct counter_top *top = xcalloc(1, sizeof(*top));

    ASSERT(entries >= 1);
    top->max = entries;
    top->entries = xcalloc(entries, sizeof(*top->entries));
    top->buckets = xcalloc(entries, sizeof(struct entry *));
    top->heap = xcalloc(entries, sizeof(struct entry *));
    return top;
}

void counter_top_destroy(struct counter_top *top)
{
    if (top == NULL)
        return;
    for (size_t i = 0; i < top->max; ++i)
        free(top->entries[i].key);
    free(top->entries);
    free(top->buckets);
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

static struct entry **bucket_of(const struct counter_top *top, uint64_t hash)
{
    return &top->buckets[hash % top->max];
}

static struct entry *find(const struct counter_top *top, struct slice key, uint64_t hash)
{
    struct entry *e = *bucket_of(top, hash);

    while (e != NULL &&
           (e->hash != hash || e->len != key.len || memcmp(e->key, key.p, key.len) != 0))
        e = e->next;
    return e;
}

/* False: out of memory. */
static bool has_room(struct entry *e, size_t len)
{
    if (e->key != NULL && len <= e->room)
        return true;
    char *p = realloc(e->key, len + 1); /* an empty one has memory, too */
    if (p == NULL)
        return false;
    e->key = p;
    e->room = len;
    return true;
}

static void set_key(struct counter_top *top, struct entry *e, struct slice key, uint64_t hash)
{
    struct entry **bucket = bucket_of(top, hash);

    memcpy(e->key, key.p, key.len);
    e->len = key.len;
    e->hash = hash;
    e->next = *bucket;
    *bucket = e;
}

static void forget_key(struct counter_top *top, const struct entry *e)
{
    struct entry **link = bucket_of(top, e->hash);

    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
}

/* An entry for KEY, which has none. NULL: out of memory. */
static struct entry *add_entry(struct counter_top *top, struct slice key, uint64_t hash)
{
    bool full = top->count == top->max;
    struct entry *e = full ? top->heap[0] : &top->entries[top->count];

    if (!has_room(e, key.len))
        return NULL;
    if (full) {
        /* The one with the least makes room; its sum is what the new one's may be too large by. */
        forget_key(top, e);
        e->over_us = e->waited_us;
    } else {
        e->waited_us = 0;
        e->over_us = 0;
        place(top, e, top->count++);
        move_up(top, e);
    }
    e->waits = 0;
    set_key(top, e, key, hash);
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
    uint64_t hash = map_hash(key.p, key.len);
    struct entry *e = find(top, key, hash);

    if (e == NULL)
        e = add_entry(top, key, hash);
    if (e == NULL)
        return;
    e->waited_us += waited_us;
    ++e->waits;
    top->total_us += waited_us;
    move_down(top, e);
}

void counter_top_clear(struct counter_top *top)
{
    memset(top->buckets, 0, top->max * sizeof(struct entry *));
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

        all[i] = (struct counter_top_row){.key = {e->key, e->len},
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
    for (size_t i = 0; i < top->count; ++i) {
        const struct entry *e = top->heap[i];

        ASSERT(e->at == i);
        ASSERT(find(top, (struct slice){e->key, e->len}, e->hash) == e);
        ASSERT(i == 0 || top->heap[(i - 1) / 2]->waited_us <= e->waited_us);
        ASSERT(e->over_us < e->waited_us);
        ASSERT(e->waits >= 1);
        sum_us += e->waited_us;
    }
    /* Each addition is in exactly one sum, what was replaced included. */
    ASSERT(sum_us == top->total_us);
}
