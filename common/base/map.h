/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of entries that are found by key. Intrusive: an entry has a node as a member. Not
 * thread-safe by themselves.
 *
 * struct split_map grows by one bucket when an entry is added, and shrinks by a few when one is
 * removed, so that no single call takes long, however many entries there are (linear hashing: W.
 * Litwin, VLDB 1980; P.-A. Larson, CACM 31, 1988). It is small: 16 bytes in each entry, 8 to 32 for
 * its bucket. If out of memory it keeps its size, and becomes slower.
 *
 * struct map is such a table that also retains the order of insertion.
 */
#ifndef RLB_BASE_MAP_H
#define RLB_BASE_MAP_H

#include "common/base/base.h"

/*
 * XXH3 of the key. The seed is read from the kernel once per process, because keys such as class
 * names come from clients, which could choose keys with colliding hashes. Any thread.
 */
uint64_t map_hash(const void *key, size_t len);

/* FNV-1a of S (Fowler, Noll, Vo): without a seed, so the same in every process. */
static inline uint64_t hash_fixed(struct slice s)
{
    uint64_t h = 0xcbf29ce484222325;

    for (size_t i = 0; i < s.len; ++i)
        h = (h ^ (unsigned char)s.p[i]) * 0x100000001b3;
    return h;
}

/* The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): spreads each bit of H. */
static inline uint64_t hash_mixed(uint64_t h)
{
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
    h = (h ^ h >> 27) * 0x94d049bb133111eb;
    return h ^ h >> 31;
}

/* ---- without order ---- */

struct split_node {
    struct split_node *next;
    uint32_t hash;
    uint32_t len; /* of the key */
};

enum {
    SPLIT_MAP_FIRST_BITS = 6, /* 2^6 buckets at least: half a page */
    SPLIT_MAP_SEGMENTS = 33 - SPLIT_MAP_FIRST_BITS,
};

struct split_map {
    size_t key_offset; /* from the node to the key; 0: to a pointer right behind the node */
    size_t n;
    size_t buckets; /* in use: FULL to 2 * FULL - 1 */
    size_t full;    /* a power of two */
    /* The first has 2^FIRST_BITS buckets, each further one as many as all before it. */
    struct split_node **segments[SPLIT_MAP_SEGMENTS];
};

/*
 * The key of an entry is in it, KEY_OFFSET behind its split_node; 0: a pointer to it follows the
 * node. The owner of the entry owns node and key.
 */
void split_map_init(struct split_map *m, size_t key_offset);
/* It is empty. */
void split_map_fini(struct split_map *m);

/* The entry with that key, or NULL. */
struct split_node *split_map_find(const struct split_map *m, struct slice key);
/*
 * NODE is in no table, its key of LEN bytes is in place, and no entry of M has that.
 * False: out of memory; that is so for the first entry only.
 */
bool split_map_add(struct split_map *m, struct split_node *node, size_t len) must_check;
/* NODE is in M. */
void split_map_remove(struct split_map *m, struct split_node *node);

static inline size_t split_map_count(const struct split_map *m)
{
    return m->n;
}

static inline struct slice split_map_key(const struct split_map *m, const struct split_node *node)
{
    const char *key = (const char *)node + m->key_offset;

    if (m->key_offset == 0)
        memcpy(&key, node + 1, sizeof(key));
    return (struct slice){key, node->len};
}

/* In no order; M must not change in between. NODE NULL: the first one. NULL: no more. */
struct split_node *split_map_next(const struct split_map *m, const struct split_node *node);
/* Asserts every invariant; for tests. */
void split_map_check(const struct split_map *m);

/* ---- in order ---- */

struct map_node {
    struct split_node hashed;
    const void *key;              /* the owner's, constant while the entry is in */
    struct map_node *next, *prev; /* in the order in which they came */
};

/* Zeroed, it is empty. It owns its buckets only, and frees them with its last entry. */
struct map {
    struct split_map table;
    struct map_node *first, *last;
};

/* NODE is in no table, and no entry of M has this key; the key is borrowed until map_remove. */
void map_add(struct map *m, struct map_node *node, const void *key, size_t len);
/* The same. False: out of memory, and NODE is in no table. */
bool map_try_add(struct map *m, struct map_node *node, const void *key, size_t len);
/* The entry with that key, or NULL. */
struct map_node *map_find(const struct map *m, const void *key, size_t len);
/* The same, for several look-ups of one key. HASH: the key's map_hash. */
struct map_node *map_find_hashed(const struct map *m, const void *key, size_t len, uint64_t hash);
/* NODE is in M. */
void map_remove(struct map *m, struct map_node *node);
/* All entries leave at once, untouched: their nodes may be added again, not removed. */
void map_clear(struct map *m);
size_t map_count(const struct map *m);

/* The key NODE was added with. */
static inline struct slice map_key(const struct map_node *node)
{
    return (struct slice){node->key, node->hashed.len};
}

/* The entry NODE is the member of; NULL for NULL. */
#define map_entry(node, type, member)                                                              \
    ({                                                                                             \
        struct map_node *map_node_ = (node);                                                       \
        map_node_ != NULL ? container_of(map_node_, type, member) : NULL;                          \
    })
#define map_first(m, type, member) map_entry((m)->first, type, member)
#define map_next(entry, member) map_entry((entry)->member.next, __typeof__(*(entry)), member)

/* ENTRY is declared, a TYPE *. In the body of the _safe form it may leave (and be freed). */
#define map_for_each(type, entry, m, member)                                                       \
    for (__typeof__(type) *(entry) = map_first(m, type, member); (entry) != NULL;                  \
         (entry) = map_next(entry, member))
#define map_for_each_safe(type, entry, m, member)                                                  \
    for (__typeof__(type) *(entry) = map_first(m, type, member), *entry##_next;                    \
         (entry) != NULL && (entry##_next = map_next(entry, member), true);                        \
         (entry) = entry##_next)

#endif
