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
#pragma once

#include "common/base/base.h"

/*
 * XXH3 of the key. The seed is read from the kernel once per process, because keys such as class
 * names come from clients, which could choose keys with colliding hashes. Any thread.
 */
uint64_t map_hash(const void *key, size_t len);

/* Returns FNV-1a of S (Fowler, Noll, Vo). It has no seed and is therefore the same in every
 * process. */
static inline uint64_t hash_fixed(struct slice s)
{
    uint64_t h = 0xcbf29ce484222325;

    for (size_t i = 0; i < s.len; ++i)
        h = (h ^ (unsigned char)s.p[i]) * 0x100000001b3;
    return h;
}

/* Returns H with each of its bits spread over all: the finalizer of SplitMix64 (Steele, Lea,
 * Flood, OOPSLA 2014). */
static inline uint64_t hash_mixed(uint64_t h)
{
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
    h = (h ^ h >> 27) * 0x94d049bb133111eb;
    return h ^ h >> 31;
}

/* ---- hash table without order ---- */

struct split_node {
    struct split_node *next;
    uint32_t hash;
    uint32_t len; /* length of the key [bytes] */
};

enum {
    SPLIT_MAP_FIRST_BITS = 6, /* at least 2^6 buckets, half a page */
    SPLIT_MAP_SEGMENTS = 33 - SPLIT_MAP_FIRST_BITS,
};

struct split_map {
    size_t key_offset; /* from the node to the key; 0: a pointer to the key follows the node */
    size_t n;
    size_t buckets; /* number in use: FULL to 2 * FULL - 1 */
    size_t full;    /* a power of two */
    /* The first segment has 2^FIRST_BITS buckets, each further one as many as all before it
     * together. */
    struct split_node **segments[SPLIT_MAP_SEGMENTS];
};

/* The owner of an entry owns its node and its key. */
void split_map_init(struct split_map *m, size_t key_offset);
/* M must be empty. */
void split_map_fini(struct split_map *m);

/* Returns the entry with KEY, or NULL. */
struct split_node *split_map_find(const struct split_map *m, struct slice key);
/*
 * Adds NODE, which must be in no table; its key of LEN bytes must be set, and no entry of M may
 * have the same key. Returns false if out of memory, which is possible for the first entry only.
 */
bool split_map_add(struct split_map *m, struct split_node *node, size_t len) must_check;
/* Removes NODE, which must be in M. */
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

/* Returns the entry after NODE in no particular order; the first one if NODE is NULL; NULL after
 * the last one. M must not change during the iteration. */
struct split_node *split_map_next(const struct split_map *m, const struct split_node *node);

/* ---- hash table that retains the order of insertion ---- */

struct map_node {
    struct split_node hashed;
    const void *key; /* borrowed from the owner; constant while the entry is in the table */
    struct map_node *next, *prev; /* in the order of insertion */
};

/* An all-zero map is empty. It owns only its buckets, which it frees with its last entry. */
struct map {
    struct split_map table;
    struct map_node *first, *last;
};

/* Adds NODE, which must be in no table. No entry of M may have the same key. The key is borrowed
 * until map_remove. */
void map_add(struct map *m, struct map_node *node, const void *key, size_t len);
/* The same, but returns false if out of memory, without adding NODE. */
bool map_try_add(struct map *m, struct map_node *node, const void *key, size_t len);
/* Returns the entry with KEY, or NULL. */
struct map_node *map_find(const struct map *m, const void *key, size_t len);
/* The same for several look-ups of one key, with its HASH by map_hash. */
struct map_node *map_find_hashed(const struct map *m, const void *key, size_t len, uint64_t hash);
/* Removes NODE, which must be in M. */
void map_remove(struct map *m, struct map_node *node);
/* Empties M without accessing its entries. Their nodes may be added again, but not removed. */
void map_clear(struct map *m);
static inline size_t map_count(const struct map *m)
{
    return m->table.n;
}

/* Returns the key with which NODE was added. */
static inline struct slice map_key(const struct map_node *node)
{
    return (struct slice){node->key, node->hashed.len};
}

/* The TYPE that contains NODE as MEMBER; NULL if NODE is NULL. */
#define map_entry(node, type, member)                                                              \
    ({                                                                                             \
        struct map_node *map_node_ = (node);                                                       \
        map_node_ != NULL ? container_of(map_node_, type, member) : NULL;                          \
    })
#define map_next(entry, member) map_entry((entry)->member.next, __typeof__(*(entry)), member)

/* ENTRY is declared as a TYPE *. In the _safe form, the body may remove (and free) it. */
#define map_for_each(type, entry, m, member)                                                       \
    for (__typeof__(type) *(entry) = map_entry((m)->first, type, member); (entry) != NULL;         \
         (entry) = map_next(entry, member))
#define map_for_each_safe(type, entry, m, member)                                                  \
    for (__typeof__(type) *(entry) = map_entry((m)->first, type, member), *entry##_next;           \
         (entry) != NULL && (entry##_next = map_next(entry, member), true);                        \
         (entry) = entry##_next)
