/* SPDX-License-Identifier: Apache-2.0
 *
 * The workers of one application: the addresses that its configuration lists (host names among them
 * are resolved again at intervals), and those registered in its tree; and its live settings in the
 * tree. Owned by the creator of the application (lb/program); control thread.
 */
#pragma once

#include "common/base/json.h"
#include "common/program/admin.h"
#include "common/tree/tree.h"
#include "lb/backends/backend.h"
#include "lb/config/configuration.h"
#include "lb/rules/worker_call.h"

struct membership;

/*
 * Start: workers are made, streams opened, the tree watched. The application is attached to its
 * loops. Sets A->membership and A->live. Takes the list of workers out of CONFIG; the rest is read,
 * not retained. Errors: those of tree_open, problems to D.
 */
enum err membership_start(struct application *a, struct application_config *config,
                          struct diag *d) must_check;
/* Removes all workers. Data loops still run, without exchanges. Harmless if not started. */
void membership_stop(struct application *a);
/* SIGHUP: applies the workers and settings of CONFIG, which gets the previous list. */
void membership_reload(struct membership *ms, struct application_config *config);
/* discovery.c: the rules for registrations have changed: provider_networks, or lb->own. */
void membership_recheck_providers(struct membership *ms);
/* Whether all workers known at start have responded, or were found to be absent. */
bool membership_settled(const struct membership *ms);
/* Registers this process in the tree (if any) as N NAMES, with its admin address (or NULL). */
void membership_register(struct membership *ms, char *const *names, size_t n, const char *admin);
/* Withdraws that before the program stops. */
void membership_unregister(struct membership *ms);
/*
 * An operator confirms that WORKER, or all if it is empty, has been removed from the tree on
 * purpose: those that are held are then treated as if each had been removed alone. Returns how many
 * were held.
 */
size_t membership_confirm_removal(struct membership *ms, struct slice worker);
enum { CALLED_WORKERS_MAX = 1000 /* registered by calls, of an application */ };
/* PUT of C's worker, or DELETE. Responds to I, a PUT when it is saved. C keeps its contents. */
void membership_call(struct membership *ms, const struct worker_call *c, struct admin_item *i);
/*
 * Before this process serves: reads the registrations by calls again, as the old process of an
 * upgrade has accepted some since.
 */
void membership_reread_calls(struct membership *ms);
/* A new process serves: it has the file now. */
void membership_hand_over(struct membership *ms);
/* Calls EACH for every address known. */
void membership_each(const struct membership *ms,
                     void (*each)(void *context, const struct backend *b), void *context);

struct checks_rejected {
    int status;       /* 4xx */
    const char *host; /* that was requested: until the settings or the workers change */
};
/*
 * Whether all workers that are checked fail, with the same 4xx status: the checks are wrong rather
 * than the workers.
 */
bool membership_checks_rejected(const struct membership *ms, struct checks_rejected *out);

struct membership_figures {
    struct tree_status tree;
    bool registered;  /* all own entries exist in the tree */
    size_t providers; /* registered workers, of this application */
    size_t rejected;  /* providers */
    size_t held;      /* workers retained although no source has them any more */
    size_t called;    /* registrations by calls */
    size_t failing;   /* listed names with a last answer that failed or was empty */
    bool remembered;  /* providers are from a previous run: no response from the tree */
};
/* These load balancers decide about homes (pool_set_balancers), unless the tree states them. */
void membership_set_peers(const struct membership *ms, const uint64_t ids[], size_t n, size_t self);
/* False: the application has no tree. */
bool membership_figures(const struct membership *ms, struct membership_figures *out);
/* Member "tree" of the application's status. */
void membership_describe(const struct membership *ms, struct json_writer *w);
