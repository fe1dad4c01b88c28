/* SPDX-License-Identifier: Apache-2.0
 *
 * The standby address of a listed, self-measured worker. When the worker's own address fails, the
 * worker moves to the standby address, with the same name and skills, as its next incarnation
 * (connections belong to address#incarnation). When its own address responds again, it moves back.
 *
 *   at its own address   refused, ejected or unhealthy: to the standby, at once
 *                        reset: its own address is tried; refused: to the standby
 *   at the standby       its own address is tried at eject_time, doubling up to eject_time_max, and
 *                        whenever the standby fails; it answers (and its active checks pass): back
 *
 * Owned by a known worker, which outlives it; control thread.
 */
#ifndef RLB_LB_BACKENDS_STANDBY_H
#define RLB_LB_BACKENDS_STANDBY_H

#include "lb/backends/active_check.h"

struct standby;

struct standby_options {
    struct application *app;
    const char *worker;      /* its name; borrowed */
    const struct addr *own;  /* its own address; borrowed */
    const struct addr *addr; /* the standby address */
    struct tls_peer *peer;   /* a reference is taken; NULL: plain */
    /* The worker must move to the other address (standby_in_use). Never from inside a call of this
     * module. */
    void (*move)(void *context);
    void *context;
};
/* Borrowed objects must outlive it. */
struct standby *standby_create(const struct standby_options *o);
/* NULL is fine, here and below. */
void standby_destroy(struct standby *s);
bool standby_in_use(const struct standby *s);
/* How many times the worker has moved. */
unsigned standby_moves(const struct standby *s);
const struct addr *standby_addr(const struct standby *s);
/* The address that is in use has failed. CERTAIN: nothing more need be known to leave it. */
void standby_report(struct standby *s, bool certain);
/* Settings have changed. */
void standby_settings(struct standby *s);

#endif
