/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of the shadow policy, included only by pool_shadow*.c. The pool's lock guards
 * everything here.
 */
#ifndef RLB_ROUTING_POOL_SHADOW_H
#define RLB_ROUTING_POOL_SHADOW_H

#include "routing/pool_internal.h"

enum {
    /* Maximum number of requests that have ended in reality but not for the shadow; 400 bytes each.
     */
    SHADOW_BEHIND_MAX = 4096,
    /* ... and as a multiple of the pool's requests in flight, or of its eligible workers:
     * clients wait for responses before they send further requests, so they would not have sent
     * more. */
    SHADOW_BEHIND = 4,
    /* A worker is assumed to have the classes of this number of recent requests in its cache. */
    SHADOW_RECENT = 256,
    /* Sets for their classes, each with WAYS entries for equal hashes; the oldest entry is
     * replaced. */
    SHADOW_SETS = 128,
    SHADOW_WAYS = 8,
};

/* A request at a worker that serves as many requests at once as it has threads, and the others in
 * order. */
struct shadow_turn {
    struct list node; /* of shadow_turns.waiting, unless it is being served */
    bool serving;
    uint64_t serve_us; /* start of service; of a waiting request, its arrival */
};

struct shadow_turns {
    struct list waiting;
    unsigned serving;
};

struct shadow_recent {
    uint32_t tag;
    uint32_t at; /* value of served at its last request; 0: never */
};

/* Data of a worker or of its mirror. */
struct shadow_notes {
    uint32_t served;
    struct shadow_recent sets[SHADOW_SETS][SHADOW_WAYS]; /* its last classes, by hash */
    struct shadow_turns turns;
};

/*
 * A request as seen by the shadow. Owned by the pool's pick until that ends, then by the clock
 * until the request would have ended at the shadow's worker.
 */
struct shadow_request {
    struct pool_pick pick; /* of the shadow */
    struct worker *live;   /* the real worker, until the request has ended in reality */
    struct shadow_turn in_truth, here;
    uint64_t start_us;
    /* The following members are valid for a request that has ended in reality. */
    struct list reported_node; /* of shadow_clock.waiting or .served */
    uint64_t took_us;          /* time of service */
    uint64_t service_us;       /* as measured, without the wait before; 0: not measured */
    bool with_wait;            /* the measured time includes the wait */
    bool failed;
    bool reported;
    uint64_t due_us;
    size_t at; /* shadow_clock.due[at]; or SIZE_MAX */
};

/* Requests that have ended in reality but not yet for the shadow. */
struct shadow_clock {
    struct list waiting; /* for their turn, oldest first */
    struct list served;
    size_t nreported;                                  /* both */
    struct shadow_request *due[SHADOW_BEHIND_MAX + 1]; /* a heap of the requests being served */
    size_t ndue;
};

/* pool_shadow_time.c */
/* Both policies have just assigned the request. */
void shadow_time_begin(struct pool *p, struct shadow_request *r);
/* The request has ended in reality, by HOW (NULL: aborted). Ownership of R passes to the clock, or
 * R is freed. */
void shadow_time_tell(struct pool *p, struct shadow_request *r,
                      const struct pool_served *how) noinline_;
/* Ends the requests that are due. Cost: O(log SHADOW_BEHIND_MAX) for each. */
void shadow_time_catch_up(struct pool *p);
/* Ends the requests at MIRROR, or all (NULL), immediately. Cost: O(SHADOW_BEHIND_MAX). */
void shadow_time_cut(struct pool *p, const struct worker *mirror);
void shadow_time_check(const struct pool *p);

/* pool_shadow.c: creates the notes on the first call */
struct shadow_notes *shadow_notes_of(struct worker *w);

#endif
