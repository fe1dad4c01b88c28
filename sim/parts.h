/* SPDX-License-Identifier: Apache-2.0
 *
 * What a simulation is built of: randomness, events by time, and texts as numbers. Each is
 * used by one thread; names may be read by any while none is added.
 */
#pragma once

#include "common/base/map.h"
#include "common/base/text.h"

/* ---- randomness that a seed repeats, on every machine ---- */

struct draw {
    uint64_t state;
};

/* Adjacent seeds yield unrelated sequences. */
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
/* Returns a hash of A and B: as good as a random number, but always the same. */
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
/* Removes and returns the next event. The queue must not be empty. */
struct queued_event event_queue_take(struct event_queue *q);

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
/* Sets OUT to the number of S, which is added if it is new. False: there are NAMES_MAX already. */
bool names_intern(struct names *t, struct slice s, uint32_t *out) must_check;
struct slice names_get(const struct names *t, uint32_t i);
/* How often it was interned. */
uint64_t names_uses(const struct names *t, uint32_t i);
