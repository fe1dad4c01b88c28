/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_KEYCMP(a, b, len) (!same_bytes((a), (b), (len)))
#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = (unsigned)map_hash((keyptr), (keylen)))
#define uthash_malloc(sz) xmalloc(sz)
#define HASH_NONFATAL_OOM 0

#include "common/base/map.h"

#include <pthread.h>
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

static uint64_t seed;
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

static void make_seed(void)
{
    /* 8 bytes never come short; a kernel without getrandom is not one we run on. */
    ASSERT(getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed));
}

uint64_t map_hash(const void *key, size_t len)
{
    pthread_once(&seed_once, make_seed);
    return XXH3_64bits_withSeed(key, len, seed);
}

/* What the macros nest is not ours to cut up. NOLINTBEGIN(readability-function-size) */
void map_add(struct map *m, struct map_node *node, const void *key, size_t len)
{
    HASH_ADD_KEYPTR(hh, m->first, key, len, node);
}

struct map_node *map_find(const struct map *m, const void *key, size_t len)
{
    struct map_node *node = NULL;

    HASH_FIND(hh, m->first, key, len, node);
    return node;
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
