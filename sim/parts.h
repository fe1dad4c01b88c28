/* SPDX-License-Identifier: Apache-2.0
 *
 * What a simulation is built of: randomness, events by time, a cache, and texts as numbers. Each is
 * used by one thread; names may be read by any while none is added.
 */
#ifndef RLB_SIM_PARTS_H
#define RLB_SIM_PARTS_H

#include "common/base/map.h"
#include "common/base/text.h"

/* ---- randomness that a seed repeats, on every machine ---- */

struct draw {
    uint64_t state;
};

/* Two seeds next to each other draw nothing alike. */
struct draw draw_of(uint64_t seed);
uint64_t draw_bits(struct draw *d);
/* 0 .. n-1; N >= 1. */
uint32_t draw_below(struct draw *d, uint32_t n);
/* In [0, 1). */
double draw_unit(struct draw *d);
/* Normal, mean 0, standard deviation 1. */
double draw_gauss(struct draw *d);
/* Exponential, mean 1. */
double draw_exponential(struct draw *d);
/* Mixes A and B: as good as drawn, and always the same. */
uint64_t draw_mix(uint64_t a, uint64_t b);

/* ---- what happens next: events by time, those of one time in the order of being added ---- */

struct queued_event {
    uint64_t at_ns;
    uint64_t order; /* the queue's */
    void *what;     /* the caller's */
};

/* Embedded; zeroed, it is empty. */
struct event_queue {
    struct queued_event *heap;
    size_t n, room;
    uint64_t next_order;
};

void event_queue_fini(struct event_queue *q);
void event_queue_add(struct event_queue *q, uint64_t at_ns, void *what);
/* The next one, or NULL; valid until the next call that changes the queue. */
const struct queued_event *event_queue_peek(const struct event_queue *q);
/* The queue is not empty. */
struct queued_event event_queue_take(struct event_queue *q);

/* ---- a cache of so many objects, of which the least recently used goes first ---- */

struct lru;

/* SIZE >= 1 objects; all the memory is taken here. */
struct lru *lru_create(uint32_t size);
void lru_destroy(struct lru *c);
/* Whether KEY was there; it is now, as the one used last. */
bool lru_use(struct lru *c, uint64_t key);
/* Forget everything. */
void lru_clear(struct lru *c);
uint32_t lru_count(const struct lru *c);
/* The keys, the one used last first; room for lru_count(). */
void lru_keys(const struct lru *c, uint64_t *out);

/* ---- texts as numbers: the first is 0, the next new one 1 ---- */

enum { NAMES_MAX = 4 << 20 };

struct name;

/* Embedded; zeroed, it is empty; names_fini. */
struct names {
    struct map by_text;
    struct name **all;
    uint32_t n;
    size_t room;
};

void names_fini(struct names *t);
/* The number of S, which is added when it is new. False: there would be more than NAMES_MAX. */
bool names_intern(struct names *t, struct slice s, uint32_t *out) must_check;
struct slice names_get(const struct names *t, uint32_t i);
/* How often it was interned. */
uint64_t names_uses(const struct names *t, uint32_t i);

#endif
