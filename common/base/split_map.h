/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of very many entries that are found by key, of which no single call takes long: it grows
 * by one bucket with an entry that comes, and shrinks by a few with one that goes (linear hashing;
 * W. Litwin, VLDB 1980; P.-A. Larson, CACM 31, 1988), where map.h doubles all at once. Intrusive,
 * and small: 16 bytes in each entry, 8 to 32 for its bucket. An entry's key lies in it, right
 * behind a constant part. The owner of the entry owns node and key. Not thread-safe by itself. Out
 * of memory it stays as it is, and becomes slower.
 */
#ifndef RLB_BASE_SPLIT_MAP_H
#define RLB_BASE_SPLIT_MAP_H

#include "common/base/base.h"

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
    size_t key_offset; /* from the node to the key */
    size_t n;
    size_t buckets; /* in use: FULL to 2 * FULL - 1 */
    size_t full;    /* a power of two */
    /* The first has 2^FIRST_BITS buckets, each further one as many as all before it. */
    struct split_node **segments[SPLIT_MAP_SEGMENTS];
};

/* KEY_OFFSET: from an entry's split_node to the first byte of its key. */
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
    return (struct slice){(const char *)node + m->key_offset, node->len};
}

/* In no order; M must not change in between. NODE NULL: the first one. NULL: no more. */
struct split_node *split_map_next(const struct split_map *m, const struct split_node *node);
/* Asserts every invariant; for tests. */
void split_map_check(const struct split_map *m);

#endif
