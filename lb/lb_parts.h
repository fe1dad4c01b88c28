/* SPDX-License-Identifier: Apache-2.0
 *
 * What lb.c, reload.c and status.c share of the assembled load balancer. Control thread.
 */
#ifndef RLB_LB_LB_PARTS_H
#define RLB_LB_LB_PARTS_H

#include "common/net/admin.h"
#include "common/net/daemon.h"
#include "lb/configuration.h"
#include "lb/lb.h"
#include "lb/listeners.h"

struct lb_parts {
    struct lb *lb;
    const char *file; /* the configuration's; borrowed */
    struct configuration
        config; /* in force; after a reload: LOCAL and BOOT rows are still those of the start */
    struct listeners *listeners; /* NULL: not listening */
    struct admin *admin;         /* NULL: none */
    struct daemon_watch *signals;
    enum lb_phase phase;
    uint64_t listen_by_ms; /* start_wait is over */
    struct timer
        timer;         /* STARTING: look whether all have answered; DRAINING: the end of patience */
    unsigned draining; /* loops that have not finished yet */
    bool cut;
    bool fronts_up; /* each loop has its front, whose counts may be read */
    bool loops_gone, admin_gone;
    int exit_code;
};

/* The limits on clients of one data loop. Borrows texts of S. */
struct http_server_options lb_limits(const struct program_settings *s, unsigned nloops);

#endif
