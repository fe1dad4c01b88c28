/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of lb/program share of the assembled load balancer. Control thread.
 */
#pragma once

#include "common/program/admin.h"
#include "common/program/daemon.h"
#include "common/program/inherited.h"
#include "lb/config/configuration.h"
#include "lb/core/lb.h"

struct listeners;

struct lb_parts {
    struct lb *lb;
    const struct daemon_line *line;
    /* Effective; after a reload, LOCAL and BOOT rows are still those of the start. */
    struct configuration config;
    struct listeners *listeners; /* NULL: not listening */
    struct admin *admin;         /* NULL: none */
    struct daemon_watch *signals;
    uint64_t listen_by_ms; /* monotonic; the end of start_wait */
    /* STARTING: the next check whether all workers have responded; DRAINING: the next deadline. */
    struct timer timer;
    _Atomic unsigned draining;   /* loops that have not finished yet */
    struct loop_message drained; /* DRAINING has become 0 */
    bool cut;                    /* DRAINING, and requests are being aborted */
    struct inherited *inherited; /* until the program serves; then NULL */
    struct upgrade upgrade;      /* to a new process */
    bool handed_over;            /* DRAINING, and the new process serves */
    bool idle_grace;             /* handed over: idle clients may still send one request */
    bool sigterm_received;       /* handed over: the first SIGTERM was ignored */
    bool admin_gone;             /* it has stopped; of the loops: lb->data_loops is NULL */
    int exit_code;
};

/* ---- lb_stop.c ---- */

/* Accepts no more requests; those in flight get drain_timeout. Unaccepted connections are lost. */
void lb_drain(struct lb *lb);
/* The same where a new process accepts from the same sockets. LB: a struct lb. */
void lb_hand_over(void *lb);
/* A further shutdown request while draining: cuts the requests. The first one after a hand-over
 * only ends the time of idle clients, if that is not over. */
void lb_drain_again(struct lb *lb);
/* Aborts the remaining requests. */
void lb_cut(struct lb *lb);
void lb_on_drain_timer(struct lb *lb);

/* ---- reload.c ---- */

/* lb->reload. */
bool lb_reload(struct lb *lb, struct text *why);
/* Sets the limits of request bodies. */
void lb_set_body_totals(struct lb *lb, const struct program_settings *s);
/* The limits on clients of one data loop. Borrows texts of S. */
/* The setting resolvers as resolver_create takes it; the caller frees it. */
char *lb_name_servers(const struct program_settings *s);
struct http_server_options lb_limits(const struct program_settings *s, unsigned nloops);

/* ---- data_loops.c: the threads of the data loops, and calls to all of them ---- */

/* Start LB->nloops threads, each with its loop in LB->loops. Returns when all have one. */
void data_loops_start(struct lb *lb, const struct cpu_affinity *affinity);
/* Runs EACH (may be NULL) soon on every loop's thread, in the order of calls; then DONE (may be
 * NULL) here. CONTEXT is borrowed till then. */
void data_loops_call(struct lb *lb, void (*each)(struct lb_loop *ll, void *context),
                     void (*done)(void *context), void *context);
/* On the loop, once applications are attached to it. From now on new settings take effect at the
 * end of turns, and idle connections to workers are recycled. */
void data_loops_upkeep(struct lb_loop *ll);
/* Ends the threads; nothing may be left on any loop. Returns when all threads have ended. */
void data_loops_stop(struct lb *lb);

/* ---- listeners.c: the sockets that clients connect to ---- */

/*
 * Binds every address of CONFIG, with a socket for each of NLOOPS loops (unix: one shared socket),
 * or takes the sockets of that address over from INHERITED (may be NULL). Clients cannot connect
 * yet. CONFIG is borrowed. On failure logs the error, leaves nothing bound and returns NULL.
 */
struct listeners *listeners_create(struct configuration *config, unsigned nloops,
                                   struct inherited *inherited);
/*
 * Starts listening and gives each loop its sockets, which accept connections from now on. Must be
 * called once. Until listeners_withdraw the certificate files are checked every second. Returns
 * false if another process listens on one of the addresses (logged).
 */
bool listeners_open(struct listeners *ls, struct lb *lb);
/* The address listener I is bound to (a port of 0 resolved). */
const struct addr *listeners_address(const struct listeners *ls, size_t i);
/* Call before accepting stops: unix sockets lose their names. */
void listeners_withdraw(struct listeners *ls);
/* Call when another process accepts from the same sockets and this one stops; names remain. */
void listeners_leave(struct listeners *ls);
/* Once open, and before a drain: passes each socket, which stays the loops' own, to the new process
 * of U, with its configured address as the name. */
void listeners_pass(const struct listeners *ls, struct upgrade *u);
/* SIGHUP: new connections have the certificates of CONFIG, if that matches. */
void listeners_take_certificates(struct listeners *ls, const struct configuration *config);
/* Whether the listeners of CONFIG equal those of LS, certificates apart. */
bool listeners_match(const struct listeners *ls, const struct configuration *config);
/* Call after the loops have closed their sockets (front_destroy). NULL is fine. */
void listeners_destroy(struct listeners *ls);
