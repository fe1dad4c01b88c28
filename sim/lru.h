/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker's cache: so many objects, the least recently used goes first. Owned by its worker; one
 * thread. All its memory is taken at creation.
 */
#ifndef RLB_SIM_LRU_H
#define RLB_SIM_LRU_H

#include "common/base/base.h"

struct lru;

/* SIZE >= 1 objects. */
struct lru *lru_create(uint32_t size);
void lru_destroy(struct lru *c);
/* Whether KEY was there; it is now, as the one used last. */
bool lru_use(struct lru *c, uint64_t key);
/* Forget everything. */
void lru_clear(struct lru *c);
uint32_t lru_count(const struct lru *c);
/* The keys, the one used last first; room for lru_count(). */
void lru_keys(const struct lru *c, uint64_t *out);
/* Asserts every invariant; for tests, after each step. */
void lru_check(const struct lru *c);

#endif
