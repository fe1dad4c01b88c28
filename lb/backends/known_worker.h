/* SPDX-License-Identifier: Apache-2.0
 *
 * An address at which a worker may be: listed in the configuration, registered in the tree, or
 * both. It has the incarnation that lives there now, if any, brings it into the pool and takes it
 * out. Owned by membership.c; control thread.
 *
 *   with a stream    the stream's first resume makes the worker; its state decides about the pool
 *   self-measured    the worker is there, and in the pool, as long as it is listed or registered
 */
#ifndef RLB_LB_BACKENDS_KNOWN_WORKER_H
#define RLB_LB_BACKENDS_KNOWN_WORKER_H

#include "common/base/map.h"
#include "common/skills/resume.h"
#include "lb/backends/active_check.h"
#include "lb/backends/member.h"
#include "lb/backends/resume_feed.h"
#include "lb/config/configuration.h"

struct membership;

/* State of a known worker, as used for selecting the workers in the pool (membership_reserve). */
enum worker_kind {
    WORKER_OTHER,        /* absent, stream lost, draining or unhealthy */
    WORKER_WARM,         /* in the pool, ready */
    WORKER_STARTING_OUT, /* not in the pool */
    WORKER_STARTING_IN,
    WORKER_COLD_OUT,
    WORKER_COLD_IN,
    WORKER_KINDS
};

struct known_worker {
    struct map_node in_known; /* membership's table, by name */
    struct membership *membership;
    struct application *app;
    char *name; /* canonical address */
    struct addr addr;
    const struct worker_config *listed; /* the configuration lists it so; NULL: it does not */
    /* The tree has it (by so many providers, spelt differently), with the properties of the last
     * one. */
    unsigned registrations;
    char incarnation[INCARNATION_MAX + 1], version[VERSION_MAX + 1];
    /* The host name that is listed or registered and that stands for it; "": none. */
    char host[TLS_PEER_NAME_MAX + 1];
    /* The tree had it; discovery.c's, which has these in a list. */
    struct list missing;
    bool vanished;          /* just now: what that means is not decided yet */
    bool held;              /* with many others: it stays until it is known to be gone */
    uint64_t sign_ms;       /* held: the last sign of life */
    uint64_t failures_then; /* connections to it that had failed when it vanished */
    bool refuted; /* its stream ended with an end line, or its address refuses connections */

    struct list touched; /* membership's: to be asked whether anything holds it */
    struct list in_kind; /* membership's: with its like */
    enum worker_kind kind;

    bool started, streams;   /* streams: by resume_feed, else self-measured */
    struct tls_peer *peer;   /* TLS peer of its address, counted; NULL: no TLS */
    struct standby *standby; /* NULL: none */
    struct resume_feed *feed;
    struct active_check *check; /* self-measured ones: an agent knows its processes better */
    struct worker *worker;      /* counted; NULL: absent */
    struct resume_line last;    /* the last report of its stream */
    unsigned calls_failed; /* since it was warm: it was called (cold_slots.c), and did not start */
    uint64_t starting_ms;  /* since when it has reported that it is starting, over all instances; 0:
                              it  has not */
    bool silent;
    bool drained; /* drained by an operator: applies to any process at its address */
    struct loop_deferred deferred;
};

struct known_worker *known_worker_create(struct membership *ms, struct application *app,
                                         const char *name, const struct addr *addr);
/* Out of the pool for good; freed at the end of the turn. */
void known_worker_destroy(struct known_worker *k);
/*
 * Must be called after a change of the listed or registered workers. Starts a new worker; restarts
 * one that was replaced by another kind or incarnation. Returns false if nothing holds K any more;
 * the caller must then destroy it.
 */
bool known_worker_update(struct known_worker *k);
/* Whether its stream, or a connection to it, is open. */
bool known_worker_alive(const struct known_worker *k);
/* Connections to it that failed so far; for self-measured ones. */
uint64_t known_worker_failures(const struct known_worker *k);
bool known_worker_in_pool(const struct known_worker *k);
/* Bring it into the pool with its last resume (of a stream). */
void known_worker_join(struct known_worker *k);
void known_worker_leave(struct known_worker *k);
enum worker_kind known_worker_kind(const struct known_worker *k);
/* ON: no process at the address of K receives new requests, until undrained or K is removed. */
void known_worker_drain(struct known_worker *k, bool on);
/*
 * Deletes the score of K for CLS, or all of its scores (NULL). Returns the number of scores that
 * the pool had. The next resume of an agent sets its scores again.
 */
size_t known_worker_forget(struct known_worker *k, const struct slice *cls);
/* "ready", "cold", "draining", "starting"; "drained"; "silent"; "unhealthy"; "absent". */
const char *known_worker_state(const struct known_worker *k);
/* The host of NAME, which is HOST:PORT, stands for K. */
void known_worker_set_host(struct known_worker *k, const char *name);

/* ---- membership.c: what a known worker has of its owner ---- */

/* The one of that name, or NULL. MS may be NULL: it has ended. */
struct known_worker *membership_find(const struct membership *ms, const char *name);
/* K's part in the choice below may have changed: worker, state, whether it is in the pool. */
void membership_sort(struct known_worker *k);
/*
 * Must be called when the state of a worker has changed. Selects which cold or starting workers
 * join the pool, and which ones leave it (cold_slots.c).
 */
void membership_reserve(struct membership *ms);
/* K has been drained or undrained: it is so over restarts, too. */
void membership_keep_drained(struct known_worker *k);
/* Nothing holds K any more. */
void membership_forget(struct membership *ms, struct known_worker *k);

#endif
