/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of at most so many keys, each with a value; when it is full, a new key replaces the least
 * recently used one. Keys are 64 bits of a hash, so their low bits choose the bucket. Owned by its
 * creator; one thread at a time.
 */
#pragma once

#include "common/base/base.h"

struct lru;

/* MAX: number of keys, at least 1. Memory is allocated as keys are added. */
struct lru *lru_create(size_t max);
/* NULL is fine. */
void lru_destroy(struct lru *c);
/* Makes KEY the most recently used key. Returns true if it was in the table. Cost: O(1). */
bool lru_use(struct lru *c, uint64_t key);
/* The value of the most recently used key; 0 in a new one. Valid until the next change of C. */
uint64_t *lru_value(struct lru *c);
/* Removes all keys. */
void lru_clear(struct lru *c);
size_t lru_count(const struct lru *c);
/* The number of keys that others have replaced. */
uint64_t lru_evicted(const struct lru *c);
/* Sets OUT, with room for lru_count(), to the keys, most recently used first. */
void lru_keys(const struct lru *c, uint64_t *out);
