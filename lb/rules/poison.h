/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that kill workers: the classes and paths of the requests that were in flight when
 * workers died. After several deaths that class and path is held, which means rejected, for a
 * while. Plain computation and a bounded table with its own lock. Owned by the application; any
 * thread.
 *
 *   unknown --death--> suspect --deaths in the window, without more responses--> held
 *      ^                  |  ^                                                     |
 *      +----- window -----+  +------------------- hold, all deaths but one --------+
 *
 * A class and path that gets more responses than workers die of it is not held: a popular page
 * is in flight at each death that other requests cause.
 */
#pragma once

#include "common/base/base.h"
#include "common/base/limits.h"

enum {
    /* Classes and paths that are stored: each counts the deaths during its requests. */
    POISON_KEYS_MAX = 1024,
    /* Maximum number held at once. If there would be more, requests are not the cause. */
    POISON_HELD_MAX = 16,
    /* poison_deaths at most: each is stored. */
    POISON_DEATHS_MAX = 16,
    /* Bytes of a path that are shown on the status page. */
    POISON_PATH_MAX = 256,
    /* Requests in flight at a worker end together when it dies: one death. */
    POISON_SAME_DEATH_MS = 1000,
};

struct poison_rule {
    unsigned deaths; /* 1 to POISON_DEATHS_MAX; 0: off */
    uint64_t window_ms, hold_ms;
};

struct poison_key {
    struct slice cls, path; /* borrowed */
};

struct poison;

enum poison_verdict {
    POISON_NOTHING,
    POISON_HELD,     /* it is held from now on */
    POISON_TOO_MANY, /* it would have been one too many: none is held any more */
};

/* The number of each, which may be read without the lock: the beginning of struct poison. */
struct poison_counts {
    _Atomic size_t nsuspects, nheld;
};
static inline const struct poison_counts *poison_counts(const struct poison *p)
{
    return (const struct poison_counts *)(const void *)p;
}
/* Whether a response can change anything. */
static inline bool poison_any_suspects(const struct poison *p)
{
    return atomic_load_explicit(&poison_counts(p)->nsuspects, memory_order_relaxed) != 0;
}
/* Whether any is held. */
static inline bool poison_any_held(const struct poison *p)
{
    return atomic_load_explicit(&poison_counts(p)->nheld, memory_order_relaxed) != 0;
}

struct poison *poison_create(void);
/* NULL is fine. */
void poison_destroy(struct poison *p);
/* KEY was in flight at WORKER (any pointer that identifies it) when the worker died. */
enum poison_verdict poison_death(struct poison *p, const struct poison_rule *r,
                                 const struct poison_key *key, const void *worker, uint64_t now_ms);
/* A request of KEY got a response. Costs nothing while there are no suspects. */
void poison_responded(struct poison *p, const struct poison_rule *r, const struct poison_key *key,
                      uint64_t now_ms);
/* Whether KEY is held, and so must be rejected. Costs nothing while none is held. */
bool poison_holds(struct poison *p, const struct poison_key *key, uint64_t now_ms);

struct poison_view {
    size_t nheld;
    struct poison_held {
        char cls[CLASS_BYTES_MAX + 1], path[POISON_PATH_MAX + 1]; /* cut */
        uint64_t for_ms;                                          /* yet */
    } held[POISON_HELD_MAX];
};
void poison_view(struct poison *p, uint64_t now_ms, struct poison_view *out);
