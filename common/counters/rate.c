/* SPDX-License-Identifier: Apache-2.0
 *
 *   full_ns   when the key's bucket will be full; if in the past, it is full
 *   level     = burst * interval - (full_ns - now), in nanoseconds' worth of tokens
 *   allowed   if level >= interval, that is full_ns - now <= (burst - 1) * interval
 *
 * Entries are in one array and refer to each other by index: in the chain of their hash bucket, and
 * in a ring in the order of their use, with entry 0 as its head.
 */
#include "common/counters/rate.h"

#include <stdlib.h>

#include "common/base/text.h"

enum { NONE = 0, COUNT_MAX = 1000000, FIRST_ROOM = 64 };

struct rate_entry {
    uint64_t key;
    uint64_t full_ns;
    uint32_t chain;        /* the next of the same bucket */
    uint32_t newer, older; /* of entry 0: the oldest, the newest */
};

struct rate_table {
    size_t max, n, room;        /* entries, without the head; those there is memory for */
    size_t nbuckets;            /* a power of two */
    struct rate_entry *entries; /* 0 is the head of the ring */
    uint32_t *buckets;
    uint64_t evicted;
};

enum err rate_parse(struct slice text, uint64_t *count, uint64_t *interval_ns)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"s", 1000000000ULL},
                 {"m", 60ULL * 1000000000},
                 {"h", 3600ULL * 1000000000},
                 {"d", 24ULL * 3600 * 1000000000}};
    struct slice unit = text;
    struct slice number = slice_cut(&unit, '/');
    uint64_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(units); ++i) {
        if (!slice_is(unit, units[i].unit))
            continue;
        if (!parse_u64(number, UINT64_MAX, &n))
            return ERR_SYNTAX;
        if (n == 0 || n > COUNT_MAX)
            return ERR_RANGE;
        *count = n;
        *interval_ns = units[i].ns / n;
        return ERR_OK;
    }
    return ERR_SYNTAX;
}

struct rate_table *rate_table_create(size_t max_keys)
{
    struct rate_table *t = xcalloc(1, sizeof(*t));

    ASSERT(max_keys >= 1);
    ASSERT(max_keys <= RATE_KEYS_MAX);
    t->max = max_keys;
    t->room = max_keys < FIRST_ROOM ? max_keys : FIRST_ROOM;
    t->entries = xcalloc(t->room + 1, sizeof(*t->entries));
    t->nbuckets = FIRST_ROOM;
    t->buckets = xcalloc(t->nbuckets, sizeof(*t->buckets));
    return t;
}

void rate_table_destroy(struct rate_table *t)
{
    if (t == NULL)
        return;
    free(t->buckets);
    free(t->entries);
    free(t);
}

/* ---- the ring and the chains ---- */

static void leave_ring(struct rate_table *t, uint32_t i)
{
    struct rate_entry *e = &t->entries[i];

    t->entries[e->older].newer = e->newer;
    t->entries[e->newer].older = e->older;
}

static uint32_t *rate_bucket_of(const struct rate_table *t, uint64_t key)
{
    return &t->buckets[key & (t->nbuckets - 1)];
}

static void enter_chain(struct rate_table *t, uint32_t i)
{
    uint32_t *first = rate_bucket_of(t, t->entries[i].key);

    t->entries[i].chain = *first;
    *first = i;
}

static uint32_t rate_find(const struct rate_table *t, uint64_t key)
{
    uint32_t i = *rate_bucket_of(t, key);

    while (i != NONE && t->entries[i].key != key)
        i = t->entries[i].chain;
    return i;
}

/* Adds an entry for KEY; a full table reuses the least recently used entry. */
static uint32_t rate_add(struct rate_table *t, uint64_t key)
{
    uint32_t i = 0;

    if (t->n == t->max) {
        i = t->entries[0].newer;
        leave_ring(t, i);
        uint32_t *at = rate_bucket_of(t, t->entries[i].key);
        while (*at != i)
            at = &t->entries[*at].chain;
        *at = t->entries[i].chain;
        ++t->evicted;
    } else {
        /* Doubles the room: O(1) for each key that came. */
        if (t->n == t->room) {
            t->room = t->room * 2 < t->max ? t->room * 2 : t->max;
            t->entries = xrealloc(t->entries, (t->room + 1) * sizeof(*t->entries));
        }
        if (t->nbuckets < t->room) {
            t->nbuckets *= 2;
            free(t->buckets);
            t->buckets = xcalloc(t->nbuckets, sizeof(*t->buckets));
            for (uint32_t k = 1; k <= t->n; ++k)
                enter_chain(t, k);
        }
        i = (uint32_t)++t->n;
    }
    t->entries[i].key = key;
    t->entries[i].full_ns = 0;
    enter_chain(t, i);
    return i;
}

uint64_t rate_take(struct rate_table *t, uint64_t key, uint64_t now_ns, const struct rate *r)
{
    uint64_t spare_ns = (r->burst - 1) * r->interval_ns;
    uint32_t i = rate_find(t, key);

    ASSERT(r->interval_ns >= 1);
    ASSERT(r->burst >= 1);
    ASSERT(r->interval_ns <= RATE_FILL_MAX_NS / r->burst);
    if (i != NONE)
        leave_ring(t, i);
    else
        i = rate_add(t, key);
    struct rate_entry *e = &t->entries[i];
    struct rate_entry *head = &t->entries[0];
    uint64_t debt_ns = e->full_ns > now_ns ? e->full_ns - now_ns : 0;

    /* It is the newest. */
    e->older = head->older;
    e->newer = 0;
    t->entries[head->older].newer = i;
    head->older = i;

    /* The debt may be from another rate: limit it to that of an empty bucket of R. */
    if (debt_ns > spare_ns + r->interval_ns)
        debt_ns = spare_ns + r->interval_ns;
    if (debt_ns > spare_ns)
        return debt_ns - spare_ns;
    e->full_ns = now_ns + debt_ns + r->interval_ns;
    return 0;
}

void rate_table_count(const struct rate_table *t, uint64_t *keys, uint64_t *evicted)
{
    *keys += t->n;
    *evicted += t->evicted;
}

void rate_table_check(const struct rate_table *t)
{
    size_t n = 0;

    ASSERT(t->n <= t->room);
    ASSERT(t->room <= t->max);
    for (uint32_t i = t->entries[0].newer; i != 0; i = t->entries[i].newer) {
        ++n;
        ASSERT(n <= t->n);
        ASSERT(t->entries[t->entries[i].newer].older == i);
        ASSERT(rate_find(t, t->entries[i].key) == i);
    }
    ASSERT(n == t->n);
}
