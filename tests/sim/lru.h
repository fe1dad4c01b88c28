/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker's cache: so many objects, the least recently used goes. Owned by who made it.
 */
#ifndef RLB_TESTS_SIM_LRU_H
#define RLB_TESTS_SIM_LRU_H

#include "common/base/base.h"

struct lru;

struct lru *lru_create(size_t objects);
void lru_destroy(struct lru *c);
void lru_clear(struct lru *c);
/* KEY != 0 is used. -> whether it was there; it is now. */
bool lru_use(struct lru *c, uint64_t key);
bool lru_has(const struct lru *c, uint64_t key);
/* The objects, in no order. -> how many. */
size_t lru_keys(const struct lru *c, const uint64_t **out);

#endif
