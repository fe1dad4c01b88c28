/* SPDX-License-Identifier: Apache-2.0 */
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

uint64_t map_hash64(const void *key, size_t len)
{
    pthread_once(&seed_once, make_seed);
    return XXH3_64bits_withSeed(key, len, seed);
}

unsigned map_hash(const void *key, size_t len)
{
    return (unsigned)map_hash64(key, len);
}
