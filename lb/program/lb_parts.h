/* SPDX-License-Identifier: Apache-2.0
 *
 * What main.c, lb.c, lb_stop.c, upgrade.c and reload.c share of the assembled load balancer.
 * Control thread.
 */
#ifndef RLB_LB_PROGRAM_LB_PARTS_H
#define RLB_LB_PROGRAM_LB_PARTS_H

#include "common/program/admin.h"
#include "common/program/daemon.h"
#include "common/program/inherited.h"
#include "lb/config/configuration.h"
#include "lb/core/lb.h"
#include "lb/program/listeners.h"

struct lb_parts {
    struct lb *lb;
    const struct daemon_line *line;
    struct configuration
        config; /* effective; after a reload: LOCAL and BOOT rows are still those of the start */
    struct listeners *listeners; /* NULL: not listening */
    struct admin *admin;         /* NULL: none */
    struct daemon_watch *signals;
    uint64_t listen_by_ms; /* start_wait is over */
    struct timer
        timer;         /* STARTING: look whether all have answered; DRAINING: the end of patience */
    unsigned draining; /* loops that have not finished yet */
    bool cut;
    struct inherited *inherited; /* until the program serves; then NULL */
    struct upgrade upgrade;      /* to a new process */
    bool handed_over;            /* DRAINING, and it serves in our place */
    bool patient;                /* of that: idle clients may still send one request */
    bool sigterm_received;       /* of that */
    bool loops_gone, admin_gone;
    int exit_code;
};

/* ---- lb_stop.c ---- */

/* Accepts no new requests; those in flight get drain_timeout. Connections not accepted yet are
 * lost. */
void lb_drain(struct lb *lb);
/* The same for a process that was replaced by a new one, which accepts from the same sockets. */
void lb_hand_over(struct lb *lb);
/*
 * Handles a further request for shutdown while draining. If idle clients still have time for
 * another request, ends that time. The first one after a hand-over is ignored. Otherwise cuts the
 * remaining requests.
 */
void lb_drain_again(struct lb *lb);
/* The requests that are left are cut. */
void lb_cut(struct lb *lb);
void lb_on_drain_timer(struct lb *lb);

/* ---- upgrade.c ---- */

void lb_upgrade_init(struct lb *lb);
/* SIGUSR2. */
void lb_upgrade_begin(struct lb *lb);

/* ---- reload.c ---- */

/* lb->reload. */
bool lb_reload(struct lb *lb, struct text *why);

/* ---- lb.c ---- */

/* Run the load balancer of CONFIG, a struct configuration that is taken, until it is to stop.
 * Returns the exit code. CONTEXT is not used. */
int lb_run(void *context, void *config, const struct daemon_line *line);
/* Sets the limits of request bodies. */
void lb_set_body_totals(struct lb *lb, const struct program_settings *s);
/* The limits on clients of one data loop. Borrows texts of S. */
struct http_server_options lb_limits(const struct program_settings *s, unsigned nloops);

#endif
