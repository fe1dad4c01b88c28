/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a shadow: only pool_shadow*.c include this. All under the pool's lock.
 */
#ifndef RLB_ROUTING_POOL_SHADOW_H
#define RLB_ROUTING_POOL_SHADOW_H

#include "routing/pool_internal.h"

enum {
    /* Requests that have ended in truth and not for the shadow, at most; 400 bytes each. */
    SHADOW_BEHIND_MAX = 4096,
    /* ... and so many times what the pool has in hand, or has workers in the line: whoever asks
     * waits for answers before asking on, and so would not have sent more. */
    SHADOW_BEHIND = 4,
    /* Requests of a worker that it is taken to remember. */
    SHADOW_RECENT = 256,
    /* Places for their classes, WAYS for those whose hashes are alike: the oldest gives way. */
    SHADOW_SETS = 128,
    SHADOW_WAYS = 8,
};

/* A request at a worker that serves as many at once as it has threads, the others in order. */
struct shadow_turn {
    struct list node; /* shadow_turns.waiting, unless it is served */
    bool serving;
    uint64_t serve_us; /* since when; of one that waits, when it came */
};

struct shadow_turns {
    struct list waiting;
    unsigned serving;
};

struct shadow_recent {
    uint32_t tag;
    uint32_t at; /* served, when it was last here; 0: never */
};

/* Of a worker, or of its mirror. */
struct shadow_notes {
    uint32_t served;
    struct shadow_recent sets[SHADOW_SETS][SHADOW_WAYS]; /* its last classes, by hash */
    struct shadow_turns turns;
};

/*
 * A request that the shadow has too. It belongs to the pool's pick until that one ends, then to the
 * clock until it would have ended where the shadow has put it.
 */
struct shadow_request {
    struct pool_pick pick; /* of the shadow */
    struct worker *live;   /* who has it in truth, until it is told */
    struct shadow_turn in_truth, here;
    uint64_t start_us;
    /* From here on of one that has ended in truth. */
    struct list told_node; /* shadow_clock.waiting or .served */
    uint64_t took_us;      /* served for so long */
    uint64_t service_us;   /* as measured, without the wait before; 0: not measured */
    bool with_wait;        /* what is measured has the wait in it */
    bool failed;
    bool told;
    uint64_t due_us;
    size_t at; /* shadow_clock.due[at]; or SIZE_MAX */
};

/* Requests that have ended in truth and not yet for the shadow. */
struct shadow_clock {
    struct list waiting; /* for their turn, oldest first */
    struct list served;
    size_t ntold;                                      /* both */
    struct shadow_request *due[SHADOW_BEHIND_MAX + 1]; /* a heap of those that are served */
    size_t ndue;
};

/* pool_shadow_time.c */
/* Both have just got it. */
void shadow_time_begin(struct pool *p, struct shadow_request *r);
/* It has ended in truth, by HOW (NULL: given up); R is the clock's from now on, or gone. */
void shadow_time_tell(struct pool *p, struct shadow_request *r,
                      const struct pool_served *how) apart;
/* What has ended by now ends. Cost: O(log SHADOW_BEHIND_MAX) for each. */
void shadow_time_catch_up(struct pool *p);
/* Those at MIRROR, or all (NULL), end now, whatever is left of them. Cost: O(SHADOW_BEHIND_MAX). */
void shadow_time_cut(struct pool *p, const struct worker *mirror);
void shadow_time_check(const struct pool *p);

/* pool_shadow.c: made when it is asked for first */
struct shadow_notes *shadow_notes_of(struct worker *w);

#endif
