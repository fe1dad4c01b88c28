/* SPDX-License-Identifier: Apache-2.0 */
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
