/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of entries that are found by key. Intrusive: an entry has a struct map_node as a member.
 * The owner of the entry owns node and key, and keeps the key as it is while the entry is in; the
 * table owns its buckets only, and lets go of them with its last entry. Zeroed, it is empty; it is
 * walked in the order in which entries came. Not thread-safe by itself.
 *
 * uthash does the work. Its macros are for map.c alone: code of theirs in every function with a
 * table would be large, and beyond what an analyzer follows. Keys such as class names come from
 * clients, who could choose colliding ones for uthash's own hash: hence map_hash.
 */
#ifndef RLB_BASE_MAP_H
#define RLB_BASE_MAP_H

#include <uthash.h>

#include "common/base/base.h"

struct map_node {
    UT_hash_handle hh;
};

struct map {
    struct map_node *first;
};

/* XXH3 of the key, seeded once per process from the kernel. Any thread. */
uint64_t map_hash(const void *key, size_t len);

/* NODE is in no table, and no entry of M has this key; the key is borrowed until map_remove. */
void map_add(struct map *m, struct map_node *node, const void *key, size_t len);
/* The same. False: out of memory, and NODE is in no table. */
bool map_try_add(struct map *m, struct map_node *node, const void *key, size_t len);
/* The entry with that key, or NULL. */
struct map_node *map_find(const struct map *m, const void *key, size_t len);
/* The same, for who looks in several tables. HASH: the key's map_hash. */
struct map_node *map_find_hashed(const struct map *m, const void *key, size_t len, uint64_t hash);
/* NODE is in M. */
void map_remove(struct map *m, struct map_node *node);
/* All entries leave at once, untouched: their nodes may be added again, not removed. */
void map_clear(struct map *m);
size_t map_count(const struct map *m);

/* The key NODE was added with. */
static inline struct slice map_key(const struct map_node *node)
{
    return (struct slice){node->hh.key, node->hh.keylen};
}

/* The entry NODE is the member of; NULL for NULL. */
#define map_entry(node, type, member)                                                              \
    ({                                                                                             \
        struct map_node *map_node_ = (node);                                                       \
        map_node_ != NULL ? container_of(map_node_, type, member) : NULL;                          \
    })
#define map_first(m, type, member) map_entry((m)->first, type, member)
#define map_next(entry, member) map_entry((entry)->member.hh.next, __typeof__(*(entry)), member)

/* ENTRY is declared, a TYPE *. In the body of the _safe form it may leave (and be freed). */
#define map_for_each(type, entry, m, member)                                                       \
    for (__typeof__(type) *(entry) = map_first(m, type, member); (entry) != NULL;                  \
         (entry) = map_next(entry, member))
#define map_for_each_safe(type, entry, m, member)                                                  \
    for (__typeof__(type) *(entry) = map_first(m, type, member), *entry##_next;                    \
         (entry) != NULL && (entry##_next = map_next(entry, member), true);                        \
         (entry) = entry##_next)

#endif
