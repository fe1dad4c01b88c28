/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries are an array, linked as a ring in the order of use, and as chains of entries with keys in
 * the same bucket. Entry 0 is the ring's head.
 */
#include "sim/lru.h"

#include <stdlib.h>

#include "sim/draw.h"

struct entry {
    uint64_t key;
    uint32_t newer, older; /* ring */
    uint32_t chain;        /* next of its bucket; 0: none */
};

struct lru {
    uint32_t size, n;
    uint32_t mask; /* buckets - 1 */
    struct entry *entries;
    uint32_t *buckets; /* 0: empty */
};

struct lru *lru_create(uint32_t size)
{
    struct lru *c = xcalloc(1, sizeof(*c));
    uint32_t buckets = 1;

    ASSERT(size >= 1);
    ASSERT(size < UINT32_MAX / 4);
    while (buckets < size)
        buckets *= 2;
    c->size = size;
    c->mask = buckets - 1;
    c->entries = xcalloc((size_t)size + 1, sizeof(c->entries[0]));
    c->buckets = xcalloc(buckets, sizeof(c->buckets[0]));
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

void lru_clear(struct lru *c)
{
    c->n = 0;
    c->entries[0] = (struct entry){0};
    memset(c->buckets, 0, ((size_t)c->mask + 1) * sizeof(c->buckets[0]));
}

static uint32_t *bucket_of(const struct lru *c, uint64_t key)
{
    return &c->buckets[draw_mix(key, 0) & c->mask];
}

static void ring_remove(struct lru *c, const struct entry *e)
{
    c->entries[e->newer].older = e->older;
    c->entries[e->older].newer = e->newer;
}

static void ring_put_newest(struct lru *c, uint32_t at)
{
    struct entry *head = &c->entries[0];
    struct entry *e = &c->entries[at];

    e->newer = 0;
    e->older = head->older;
    c->entries[head->older].newer = at;
    head->older = at;
}

static void leave_chain(struct lru *c, uint32_t at)
{
    uint32_t *link = bucket_of(c, c->entries[at].key);

    while (*link != at)
        link = &c->entries[*link].chain;
    *link = c->entries[at].chain;
}

/* A free entry: a new one, or that of the object used longest ago. */
static uint32_t take_entry(struct lru *c)
{
    if (c->n < c->size)
        return ++c->n;
    uint32_t oldest = c->entries[0].newer;

    ring_remove(c, &c->entries[oldest]);
    leave_chain(c, oldest);
    return oldest;
}

bool lru_use(struct lru *c, uint64_t key)
{
    uint32_t *bucket = bucket_of(c, key);
    uint32_t at = *bucket;

    while (at != 0 && c->entries[at].key != key)
        at = c->entries[at].chain;
    if (at != 0) {
        ring_remove(c, &c->entries[at]);
        ring_put_newest(c, at);
        return true;
    }
    at = take_entry(c);
    c->entries[at].key = key;
    c->entries[at].chain = *bucket;
    *bucket = at;
    ring_put_newest(c, at);
    return false;
}

uint32_t lru_count(const struct lru *c)
{
    return c->n;
}

void lru_keys(const struct lru *c, uint64_t *out)
{
    for (uint32_t at = c->entries[0].older; at != 0; at = c->entries[at].older)
        *out++ = c->entries[at].key;
}

void lru_check(const struct lru *c)
{
    uint32_t in_ring = 0;
    uint32_t in_chains = 0;
    uint32_t newer = 0;

    ASSERT(c->n <= c->size);
    for (uint32_t at = c->entries[0].older; at != 0; at = c->entries[at].older) {
        ASSERT(c->entries[at].newer == newer);
        newer = at;
        ASSERT(++in_ring <= c->n);
    }
    ASSERT(c->entries[0].newer == newer);
    ASSERT(in_ring == c->n);
    for (size_t b = 0; b <= c->mask; ++b) {
        for (uint32_t at = c->buckets[b]; at != 0; at = c->entries[at].chain) {
            ASSERT(bucket_of(c, c->entries[at].key) == &c->buckets[b]);
            ASSERT(++in_chains <= c->n);
        }
    }
    ASSERT(in_chains == c->n);
}
