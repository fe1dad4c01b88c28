/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_KEYCMP(a, b, len) (!same_bytes((a), (b), (len)))
#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = (unsigned)map_hash((keyptr), (keylen)))
#define HASH_NONFATAL_OOM 1 /* then what could not be added has no table */

#include "common/base/map.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wundef"
#include <xxhash.h>
#pragma GCC diagnostic pop

static inline uint64_t word_at(const char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

/* Keys of the same length and hash, which hardly ever differ: no call, eight bytes at a time, the
 * last of them again. */
static inline bool same_bytes(const char *a, const char *b, size_t len)
{
    if (len >= sizeof(uint64_t)) {
        size_t last = len - sizeof(uint64_t);

        for (size_t i = 0; i < last; i += sizeof(uint64_t)) {
            if (word_at(a + i) != word_at(b + i))
                return false;
        }
        return word_at(a + last) == word_at(b + last);
    }
    for (size_t i = 0; i < len; ++i) {
        if (a[i] != b[i])
            return false;
    }
    return true;
}

static _Atomic uint64_t seed; /* 0: not made yet */
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

static void make_seed(void)
{
    uint64_t made = 0;

    /* 8 bytes never come short; a kernel without getrandom is not one we run on. */
    while (made == 0)
        ASSERT(getrandom(&made, sizeof(made), 0) == (ssize_t)sizeof(made));
    atomic_store_explicit(&seed, made, memory_order_relaxed);
}

static rare uint64_t first_seed(void)
{
    pthread_once(&seed_once, make_seed);
    return atomic_load_explicit(&seed, memory_order_relaxed);
}

uint64_t map_hash(const void *key, size_t len)
{
    uint64_t now = atomic_load_explicit(&seed, memory_order_relaxed);

    return XXH3_64bits_withSeed(key, len, now != 0 ? now : first_seed());
}

/* What the macros nest is not ours to cut up. NOLINTBEGIN(readability-function-size) */
bool map_try_add(struct map *m, struct map_node *node, const void *key, size_t len)
{
    HASH_ADD_KEYPTR(hh, m->first, key, len, node);
    return node->hh.tbl != NULL;
}

void map_add(struct map *m, struct map_node *node, const void *key, size_t len)
{
    if (!map_try_add(m, node, key, len))
        out_of_memory();
}

struct map_node *map_find_hashed(const struct map *m, const void *key, size_t len, uint64_t hash)
{
    struct map_node *node = NULL;

    HASH_FIND_BYHASHVALUE(hh, m->first, key, len, (unsigned)hash, node);
    return node;
}

struct map_node *map_find(const struct map *m, const void *key, size_t len)
{
    return m->first != NULL ? map_find_hashed(m, key, len, map_hash(key, len)) : NULL;
}

void map_remove(struct map *m, struct map_node *node)
{
    HASH_DEL(m->first, node);
}

void map_clear(struct map *m)
{
    HASH_CLEAR(hh, m->first);
}
/* NOLINTEND(readability-function-size) */

size_t map_count(const struct map *m)
{
    return HASH_COUNT(m->first);
}
