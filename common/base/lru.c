/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries are in one array and refer to each other by index: in the chain of their hash bucket, and
 * in a ring in the order of their use, with entry 0 as its head.
 */
#include "common/base/lru.h"

#include <stdlib.h>

enum { NONE = 0, FIRST_ROOM = 64 };

struct lru_entry {
    uint64_t key, value;
    uint32_t chain;        /* the next of the same bucket */
    uint32_t newer, older; /* of entry 0: the oldest, the newest */
};

struct lru {
    size_t max, n, room;       /* entries, without the head; those there is memory for */
    size_t nbuckets;           /* a power of two */
    struct lru_entry *entries; /* 0 is the head of the ring */
    uint32_t *buckets;
    uint64_t evicted;
};

struct lru *lru_create(size_t max)
{
    struct lru *c = xcalloc(1, sizeof(*c));

    ASSERT(max >= 1);
    ASSERT(max < UINT32_MAX / 4);
    c->max = max;
    c->room = max < FIRST_ROOM ? max : FIRST_ROOM;
    c->entries = xcalloc(c->room + 1, sizeof(*c->entries));
    c->nbuckets = FIRST_ROOM;
    c->buckets = xcalloc(c->nbuckets, sizeof(*c->buckets));
    return c;
}

void lru_destroy(struct lru *c)
{
    if (c == NULL)
        return;
    free(c->buckets);
    free(c->entries);
    free(c);
}

static void leave_ring(struct lru *c, uint32_t i)
{
    const struct lru_entry *e = &c->entries[i];

    c->entries[e->older].newer = e->newer;
    c->entries[e->newer].older = e->older;
}

static uint32_t *lru_bucket_of(const struct lru *c, uint64_t key)
{
    return &c->buckets[key & (c->nbuckets - 1)];
}

static void enter_chain(struct lru *c, uint32_t i)
{
    uint32_t *first = lru_bucket_of(c, c->entries[i].key);

    c->entries[i].chain = *first;
    *first = i;
}

static uint32_t lru_find(const struct lru *c, uint64_t key)
{
    uint32_t i = *lru_bucket_of(c, key);

    while (i != NONE && c->entries[i].key != key)
        i = c->entries[i].chain;
    return i;
}

/* Adds an entry for KEY; a full table reuses the least recently used entry. */
static uint32_t lru_add(struct lru *c, uint64_t key)
{
    uint32_t i = 0;

    if (c->n == c->max) {
        i = c->entries[0].newer;
        leave_ring(c, i);
        uint32_t *at = lru_bucket_of(c, c->entries[i].key);
        while (*at != i)
            at = &c->entries[*at].chain;
        *at = c->entries[i].chain;
        ++c->evicted;
    } else {
        /* Doubles the room: O(1) for each key that came. */
        if (c->n == c->room) {
            c->room = c->room * 2 < c->max ? c->room * 2 : c->max;
            c->entries = xrealloc(c->entries, (c->room + 1) * sizeof(*c->entries));
        }
        if (c->nbuckets < c->room) {
            c->nbuckets *= 2;
            free(c->buckets);
            c->buckets = xcalloc(c->nbuckets, sizeof(*c->buckets));
            for (uint32_t k = 1; k <= c->n; ++k)
                enter_chain(c, k);
        }
        i = (uint32_t)++c->n;
    }
    c->entries[i].key = key;
    c->entries[i].value = 0;
    enter_chain(c, i);
    return i;
}

bool lru_use(struct lru *c, uint64_t key)
{
    uint32_t i = lru_find(c, key);
    bool known = i != NONE;

    if (known)
        leave_ring(c, i);
    else
        i = lru_add(c, key);
    struct lru_entry *head = &c->entries[0];
    c->entries[i].older = head->older;
    c->entries[i].newer = 0;
    c->entries[head->older].newer = i;
    head->older = i;
    return known;
}

uint64_t *lru_value(struct lru *c)
{
    ASSERT(c->n != 0);
    return &c->entries[c->entries[0].older].value;
}

void lru_clear(struct lru *c)
{
    c->n = 0;
    c->entries[0] = (struct lru_entry){0};
    memset(c->buckets, 0, c->nbuckets * sizeof(*c->buckets));
}

size_t lru_count(const struct lru *c)
{
    return c->n;
}

uint64_t lru_evicted(const struct lru *c)
{
    return c->evicted;
}

void lru_keys(const struct lru *c, uint64_t *out)
{
    for (uint32_t i = c->entries[0].older; i != 0; i = c->entries[i].older)
        *out++ = c->entries[i].key;
}
