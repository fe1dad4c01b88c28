/* SPDX-License-Identifier: Apache-2.0
 *
 * Membership's inside: the table of known workers (membership.c), and what writes into it: the list
 * of the configuration (listed_workers.c) and the providers of the tree (providers.c). Control
 * thread.
 */
#ifndef RLB_LB_MEMBERSHIP_INTERNAL_H
#define RLB_LB_MEMBERSHIP_INTERNAL_H

#include "common/base/map.h"
#include "common/tree/tree_memory.h"
#include "lb/configuration.h"
#include "lb/known_worker.h"
#include "lb/lb.h"
#include "lb/membership.h"

struct listed_workers;
struct providers;

struct membership {
    struct application *app;
    struct map known;                /* of known_worker, by name */
    struct list kinds[WORKER_KINDS]; /* each known worker is in one of them */
    struct list touched;             /* those to be asked whether anything holds them still */
    struct listed_workers *listed;
    struct tree *tree; /* NULL: none */
    char *path;        /* the application's node in it: "" or "/a/b" */
    struct tree_memory *memory;
    struct timer memory_timer; /* tree_start_wait is over */
    struct tree_watch *settings_watch;
    bool settings_heard;
    struct providers *providers;
    struct tree_registration **entries; /* our own, where we are registered */
    size_t nentries;
    bool stopping;
};

/* The known worker at ADDR, made if need be. Touch it, or nothing may ever hold it. */
struct known_worker *membership_at(struct membership *ms, const struct addr *addr);
/* What holds K, or what is known of it, may have changed: it is asked by membership_settle. */
void membership_touch(struct known_worker *k);
/* After touching: starts what is new, drops what nothing holds any more. */
void membership_settle(struct membership *ms);

/* ---- listed_workers.c ---- */

struct listed_workers *listed_workers_create(struct membership *ms);
void listed_workers_destroy(struct listed_workers *l);
/* The list is this now; names in it are asked for. */
void listed_workers_set(struct listed_workers *l, const struct worker_config *workers, size_t n);
/* Whether each name has been answered once. */
bool listed_workers_settled(const struct listed_workers *l);

/* ---- providers.c ---- */

/* Watches PATH's workers in MS->tree. */
struct providers *providers_create(struct membership *ms);
/* Lets go of the tree; the table stays as it is. */
void providers_destroy(struct providers *p);
/* The tree has not answered in time: those of another life, if any are remembered. */
void providers_remember(struct providers *p);
/* The first reading is there (or remembered), and what was missing in it has been decided on. */
bool providers_settled(const struct providers *p);
/* K is destroyed. */
void providers_forget(struct known_worker *k);
void providers_figures(const struct providers *p, struct membership_figures *out);
/* Members of the tree's status. */
void providers_describe(const struct providers *p, struct json_writer *w);

#endif
