/* SPDX-License-Identifier: Apache-2.0
 *
 * uthash, with a hash that strangers cannot predict: include this, never <uthash.h>.
 * Keys such as class names come from clients; with uthash's own hash they could choose colliding ones.
 */
#ifndef RLB_BASE_MAP_H
#define RLB_BASE_MAP_H

#include "common/base/base.h"

/* XXH3 of the key, seeded once per process from the kernel. Any thread. */
unsigned map_hash(const void *key, size_t len);
/* The same in 64 bits, for our own tables and sketches. */
uint64_t map_hash64(const void *key, size_t len);

#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = map_hash((keyptr), (keylen)))
#define uthash_malloc(sz) xmalloc(sz)
#define HASH_NONFATAL_OOM 0

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#include <uthash.h>
#pragma GCC diagnostic pop

#endif
