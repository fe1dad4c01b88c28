/* SPDX-License-Identifier: Apache-2.0
 *
 * With FULL <= BUCKETS < 2 * FULL, an entry is in the bucket of its hash's low bits, of as many as
 * 2 * FULL has; where there is no such bucket yet, in that of one bit less. Growing by a bucket so
 * divides one that there is.
 */
#include "common/base/split_map.h"

#include <stdlib.h>

#include "common/base/map.h"
#include "common/base/text.h"

enum {
    FIRST = 1 << SPLIT_MAP_FIRST_BITS,
    /* With more buckets than that for an entry it shrinks, and no sooner: not to grow again at
     * once.
     */
    SHRINK_BELOW = 4,
};

/* Buckets never move, so that growing costs nothing but the new ones. */
static struct split_node **bucket(const struct split_map *m, size_t i)
{
    if (i < FIRST)
        return &m->segments[0][i];
    unsigned top = 63U - (unsigned)__builtin_clzl(i);

    return &m->segments[top - SPLIT_MAP_FIRST_BITS + 1][i - ((size_t)1 << top)];
}

static size_t bucket_of(const struct split_map *m, uint32_t hash)
{
    size_t i = hash & (2 * m->full - 1);

    return i < m->buckets ? i : i - m->full;
}

void split_map_init(struct split_map *m, size_t key_offset)
{
    *m = (struct split_map){.key_offset = key_offset, .buckets = FIRST, .full = FIRST};
}

void split_map_fini(struct split_map *m)
{
    ASSERT(m->n == 0);
    for (size_t i = 0; i < SPLIT_MAP_SEGMENTS; ++i)
        free(m->segments[i]);
    *m = (struct split_map){0};
}

static uint32_t hash_of(struct slice key)
{
    return (uint32_t)map_hash(key.p, key.len);
}

struct split_node *split_map_find(const struct split_map *m, struct slice key)
{
    uint32_t hash = hash_of(key);

    if (m->n == 0)
        return NULL;
    for (struct split_node *at = *bucket(m, bucket_of(m, hash)); at != NULL; at = at->next) {
        if (at->hash == hash && slice_eq(split_map_key(m, at), key))
            return at;
    }
    return NULL;
}

/* ---- growing and shrinking, by one bucket ---- */

/* The buckets from FULL on, as many again. */
static bool has_segment(struct split_map *m)
{
    unsigned top = 63U - (unsigned)__builtin_clzl(m->full);
    unsigned i = top - SPLIT_MAP_FIRST_BITS + 1;

    if (i >= SPLIT_MAP_SEGMENTS)
        return false;
    if (m->segments[i] == NULL)
        m->segments[i] = calloc(m->full, sizeof(struct split_node *));
    return m->segments[i] != NULL;
}

static void grow(struct split_map *m)
{
    if (m->n <= m->buckets || !has_segment(m))
        return;
    struct split_node **from = bucket(m, m->buckets - m->full);
    struct split_node **to = bucket(m, m->buckets);

    while (*from != NULL) {
        struct split_node *node = *from;

        if ((node->hash & m->full) == 0) {
            from = &node->next;
            continue;
        }
        *from = node->next;
        node->next = *to;
        *to = node;
    }
    if (++m->buckets == 2 * m->full)
        m->full *= 2;
}

/* FULL has just become half: the last segment is empty, and wanted again for four times as many. */
static void drop_segment(struct split_map *m)
{
    unsigned top = 63U - (unsigned)__builtin_clzl(m->full);
    unsigned i = top - SPLIT_MAP_FIRST_BITS + 2;

    if (i >= SPLIT_MAP_SEGMENTS)
        return;
    free(m->segments[i]);
    m->segments[i] = NULL;
}

static void shrink_once(struct split_map *m)
{
    --m->buckets;
    bool half = m->buckets < m->full;
    if (half)
        m->full /= 2;
    struct split_node **from = bucket(m, m->buckets);
    struct split_node **to = bucket(m, m->buckets - m->full);

    while (*to != NULL)
        to = &(*to)->next;
    *to = *from;
    *from = NULL;
    if (half)
        drop_segment(m);
}

/* As many at a time as there may be for an entry: so they go as fast as entries do. */
static void shrink(struct split_map *m)
{
    for (int i = 0; i < SHRINK_BELOW; ++i) {
        if (m->n * SHRINK_BELOW >= m->buckets || m->buckets == FIRST)
            return;
        shrink_once(m);
    }
}

/* ---- entries ---- */

bool split_map_add(struct split_map *m, struct split_node *node, size_t len)
{
    if (m->segments[0] == NULL)
        m->segments[0] = calloc(FIRST, sizeof(struct split_node *));
    if (m->segments[0] == NULL)
        return false;
    node->len = (uint32_t)len;
    node->hash = hash_of(split_map_key(m, node));
    struct split_node **head = bucket(m, bucket_of(m, node->hash));
    node->next = *head;
    *head = node;
    ++m->n;
    grow(m);
    return true;
}

void split_map_remove(struct split_map *m, struct split_node *node)
{
    struct split_node **at = bucket(m, bucket_of(m, node->hash));

    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    node->next = NULL;
    --m->n;
    shrink(m);
}

struct split_node *split_map_next(const struct split_map *m, const struct split_node *node)
{
    size_t i = 0;

    if (m->n == 0)
        return NULL;
    if (node != NULL && node->next != NULL)
        return node->next;
    if (node != NULL)
        i = bucket_of(m, node->hash) + 1;
    for (; i < m->buckets; ++i) {
        if (*bucket(m, i) != NULL)
            return *bucket(m, i);
    }
    return NULL;
}

void split_map_check(const struct split_map *m)
{
    size_t n = 0;

    ASSERT(m->full >= FIRST);
    ASSERT(m->buckets >= m->full);
    ASSERT(m->buckets < 2 * m->full);
    for (size_t i = 0; m->segments[0] != NULL && i < m->buckets; ++i) {
        for (const struct split_node *at = *bucket(m, i); at != NULL; at = at->next) {
            ASSERT(bucket_of(m, at->hash) == i);
            ASSERT(at->hash == hash_of(split_map_key(m, at)));
            ++n;
        }
    }
    ASSERT(n == m->n);
}
