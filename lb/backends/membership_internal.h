/* SPDX-License-Identifier: Apache-2.0
 *
 * Membership's inside: the table of known workers (membership.c), what writes into it: the list of
 * the configuration and the providers of the tree (discovery.c); and which of those without a
 * process are in the pool (cold_slots.c). Control thread.
 */
#ifndef RLB_LB_BACKENDS_MEMBERSHIP_INTERNAL_H
#define RLB_LB_BACKENDS_MEMBERSHIP_INTERNAL_H

#include "common/base/map.h"
#include "common/tree/live_settings.h"
#include "lb/backends/drained_names.h"
#include "lb/backends/known_worker.h"
#include "lb/backends/membership.h"
#include "lb/config/configuration.h"
#include "lb/core/lb.h"
#include "routing/pool.h"

struct listed_workers;
struct providers;

/* Those that the tree had, and has no longer. */
struct missing_workers {
    struct list vanished; /* known_worker->missing: what it means is not decided yet */
    struct list held;     /* known_worker->missing: kept until they are known to be gone */
    size_t nheld;
    size_t window_base; /* registered when the present window began */
    struct timer window, look;
};

/* The property of a registration that identifies a process, and its length with NUL. */
#define BALANCER_INSTANCE "instance"
enum { BALANCER_INSTANCE_ROOM = 33 };

/*
 * The load balancers that are registered for the application in the tree, this one included. The
 * pool computes the homes of classes from this set (pool_set_balancers).
 */
struct balancers {
    struct tree_watch *watch; /* NULL: there is no tree */
    uint64_t own;
    uint64_t ids[HOMES_BALANCERS_MAX + 1]; /* in order */
    size_t n;
};

/* cold_slots.c's. */
struct cold_slots {
    struct membership *membership;
    struct timer look;
    struct known_worker *called; /* because of overload; cold or starting; NULL: none */
    uint64_t called_ms;
    uint64_t woken_ms; /* when it was seen to have got its request; 0: not */
    bool overloaded;   /* as of the last look */
};

struct membership {
    struct application *app;
    struct map known;                /* of known_worker, by name */
    struct list kinds[WORKER_KINDS]; /* each known worker is in one of them */
    struct list touched;             /* those to be asked whether anything holds them still */
    struct listed_workers *listed;
    struct drained_names *drained; /* by operators, over all our lives */
    struct tree *tree;             /* NULL: none */
    char *path;                    /* the application's node in it: "" or "/a/b" */
    struct snapshot *snapshot;
    struct providers *providers;
    struct missing_workers missing;
    struct cold_slots cold;
    struct tree_registration **entries; /* own registration, if there is one */
    size_t nentries;
    char instance[BALANCER_INSTANCE_ROOM]; /* identifies this process in them */
    struct balancers balancers;
    struct timer tls_look; /* at the files of worker_tls */
    bool stopping;
};

/* The known worker at ADDR, made if need be. Touch it, or nothing may ever hold it. */
struct known_worker *membership_at(struct membership *ms, const struct addr *addr);
/* Called when the references to K or its state may have changed; membership_settle evaluates it. */
void membership_touch(struct known_worker *k);
/* After touching: starts what is new, drops what nothing holds any more. */
void membership_settle(struct membership *ms);
/* K's last registration is gone; so many were registered BEFORE that reading. */
void membership_miss(struct known_worker *k, size_t before);
/* K is registered again, or destroyed. Harmless when it is not missing. */
void membership_find_again(struct known_worker *k);

/* How an operator confirms that held workers were removed; format of the application's name. */
#define CONFIRM_REMOVAL "resumelbctl confirm-removal --token-file FILE --application %s"

/* ---- discovery.c: the list of the configuration ---- */

struct listed_workers *listed_workers_create(struct membership *ms);
void listed_workers_destroy(struct listed_workers *l);
/*
 * Exchanges the list with *WORKERS (*N of them), which the caller has to free. Names in the new
 * list are resolved.
 */
void listed_workers_swap(struct listed_workers *l, struct worker_config **workers, size_t *n);
/* Whether each name has been answered once. */
bool listed_workers_settled(const struct listed_workers *l);

/* ---- discovery.c: the providers of the tree ---- */

/* Watches the workers of MS->path; WAIT_MS: how long the tree may take to answer. */
struct providers *providers_create(struct membership *ms, uint64_t wait_ms);
/* Releases the tree; the table is not changed. */
void providers_destroy(struct providers *p);
/* Judge all providers again. */
void providers_judge(struct providers *p);
/* The first reading is there (or remembered). */
bool providers_settled(const struct providers *p);
void providers_figures(const struct providers *p, struct membership_figures *out);
/* Members of the tree's status. */
void providers_describe(const struct providers *p, struct json_writer *w);

/* What is to be known after a restart has changed. */
void providers_keep(struct providers *p);

/* ---- cold_slots.c: which workers without a process are in the pool ---- */

void cold_slots_init(struct cold_slots *c, struct membership *ms);
/* K will be freed. */
void cold_slots_forget(struct cold_slots *c, const struct known_worker *k);

#endif
