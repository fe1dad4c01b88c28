/* SPDX-License-Identifier: Apache-2.0
 *
 * With FULL <= BUCKETS < 2 * FULL, the bucket of an entry is given by the low bits of its hash,
 * with the number of bits for 2 * FULL buckets; if that bucket does not exist yet, by one bit
 * fewer. Growing by one bucket therefore splits a single existing bucket.
 */
#include "common/base/map.h"
#include "common/base/bytes.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Compares two keys of the same length and hash, which are almost always equal, eight bytes at a
 * time. */
static inline bool same_bytes(const char *a, const char *b, size_t len)
{
    if (len >= sizeof(uint64_t)) {
        size_t last = len - sizeof(uint64_t);

        for (size_t i = 0; i < last; i += sizeof(uint64_t)) {
            if (load_word(a + i) != load_word(b + i))
                return false;
        }
        return load_word(a + last) == load_word(b + last);
    }
    for (size_t i = 0; i < len; ++i) {
        if (a[i] != b[i])
            return false;
    }
    return true;
}

static _Atomic uint64_t seed; /* 0: not read yet */
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

static void make_seed(void)
{
    uint64_t made = 0;

    /* A read of 8 bytes is never partial; kernels without getrandom() are not supported. */
    while (made == 0) {
        ssize_t n = getrandom(&made, sizeof(made), 0);
        ASSERT(n == (ssize_t)sizeof(made));
    }
    atomic_store_explicit(&seed, made, memory_order_relaxed);
}

uint64_t map_hash(const void *key, size_t len)
{
    uint64_t now = atomic_load_explicit(&seed, memory_order_relaxed);

    if (__builtin_expect(now == 0, 0)) {
        pthread_once(&seed_once, make_seed);
        now = atomic_load_explicit(&seed, memory_order_relaxed);
    }
    return XXH3_64bits_withSeed(key, len, now);
}

enum {
    FIRST = 1 << SPLIT_MAP_FIRST_BITS,
    /* The table shrinks only if it has more buckets per entry than this, so that it does not
     * grow again at once. */
    SHRINK_BELOW = 4,
};

/* The segment of bucket I, which is not in the first one. */
static unsigned segment_of(size_t i)
{
    return 64U - SPLIT_MAP_FIRST_BITS - (unsigned)__builtin_clzl(i);
}

/* Returns bucket I. Buckets never move, so that growing costs only the new ones. */
static struct split_node **bucket_at(const struct split_map *m, size_t i)
{
    if (i < FIRST)
        return &m->segments[0][i];
    unsigned top = 63U - (unsigned)__builtin_clzl(i);

    return &m->segments[segment_of(i)][i - ((size_t)1 << top)];
}

static size_t map_bucket_of(const struct split_map *m, uint32_t hash)
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

/* HASH is the low half of the key's map_hash(). */
static struct split_node *find_hashed(const struct split_map *m, struct slice key, uint32_t hash)
{
    if (m->n == 0)
        return NULL;
    for (struct split_node *at = *bucket_at(m, map_bucket_of(m, hash)); at != NULL; at = at->next) {
        if (at->hash == hash && at->len == key.len &&
            same_bytes(split_map_key(m, at).p, key.p, key.len))
            return at;
    }
    return NULL;
}

struct split_node *split_map_find(const struct split_map *m, struct slice key)
{
    return m->n != 0 ? find_hashed(m, key, hash_of(key)) : NULL;
}

/* ---- growing and shrinking, by one bucket ---- */

static void grow_buckets(struct split_map *m)
{
    unsigned last = segment_of(m->full);

    if (m->n <= m->buckets || last >= SPLIT_MAP_SEGMENTS)
        return;
    if (m->segments[last] == NULL)
        m->segments[last] = calloc(m->full, sizeof(struct split_node *));
    if (m->segments[last] == NULL)
        return; /* out of memory */
    struct split_node **from = bucket_at(m, m->buckets - m->full);
    struct split_node **to = bucket_at(m, m->buckets);

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

/* Removes up to SHRINK_BELOW buckets, the number that there may be per entry, so that the number of
 * buckets decreases as fast as that of entries. */
static void shrink_buckets(struct split_map *m)
{
    for (int i = 0; i < SHRINK_BELOW; ++i) {
        if (m->n * SHRINK_BELOW >= m->buckets || m->buckets == FIRST)
            return;
        unsigned last = segment_of(m->full);

        /* The last segment is empty, and needed again only for four times as many entries. */
        if (m->buckets-- == m->full) {
            m->full /= 2;
            if (last < SPLIT_MAP_SEGMENTS) {
                free(m->segments[last]);
                m->segments[last] = NULL;
            }
        }
        struct split_node **from = bucket_at(m, m->buckets);
        struct split_node **to = bucket_at(m, m->buckets - m->full);

        while (*to != NULL)
            to = &(*to)->next;
        *to = *from;
        *from = NULL;
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
    struct split_node **head = bucket_at(m, map_bucket_of(m, node->hash));
    node->next = *head;
    *head = node;
    ++m->n;
    grow_buckets(m);
    return true;
}

void split_map_remove(struct split_map *m, struct split_node *node)
{
    struct split_node **at = bucket_at(m, map_bucket_of(m, node->hash));

    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    node->next = NULL;
    --m->n;
    shrink_buckets(m);
}

struct split_node *split_map_next(const struct split_map *m, const struct split_node *node)
{
    size_t i = 0;

    if (m->n == 0)
        return NULL;
    if (node != NULL && node->next != NULL)
        return node->next;
    if (node != NULL)
        i = map_bucket_of(m, node->hash) + 1;
    for (; i < m->buckets; ++i) {
        if (*bucket_at(m, i) != NULL)
            return *bucket_at(m, i);
    }
    return NULL;
}

/* ---- in order ---- */

bool map_try_add(struct map *m, struct map_node *node, const void *key, size_t len)
{
    if (m->table.full == 0)
        split_map_init(&m->table, 0);
    node->key = key;
    if (!split_map_add(&m->table, &node->hashed, len))
        return false;
    node->next = NULL;
    node->prev = m->last;
    *(m->last != NULL ? &m->last->next : &m->first) = node;
    m->last = node;
    return true;
}

void map_add(struct map *m, struct map_node *node, const void *key, size_t len)
{
    if (!map_try_add(m, node, key, len))
        out_of_memory();
}

struct map_node *map_find_hashed(const struct map *m, const void *key, size_t len, uint64_t hash)
{
    struct split_node *node = find_hashed(&m->table, (struct slice){key, len}, (uint32_t)hash);

    return node != NULL ? container_of(node, struct map_node, hashed) : NULL;
}

struct map_node *map_find(const struct map *m, const void *key, size_t len)
{
    return m->first != NULL ? map_find_hashed(m, key, len, map_hash(key, len)) : NULL;
}

void map_remove(struct map *m, struct map_node *node)
{
    split_map_remove(&m->table, &node->hashed);
    *(node->prev != NULL ? &node->prev->next : &m->first) = node->next;
    *(node->next != NULL ? &node->next->prev : &m->last) = node->prev;
    if (m->first == NULL)
        map_clear(m);
}

void map_clear(struct map *m)
{
    m->table.n = 0;
    split_map_fini(&m->table);
    m->first = m->last = NULL;
}
