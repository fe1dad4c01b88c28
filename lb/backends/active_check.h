/* SPDX-License-Identifier: Apache-2.0
 *
 * Active checks of one worker: a small GET on a connection of its own each health_check_interval,
 * one at a time. Owned by a known worker without a resume stream, which outlives it; control
 * thread. Without health_check_path it rests.
 */
#ifndef RLB_LB_BACKENDS_ACTIVE_CHECK_H
#define RLB_LB_BACKENDS_ACTIVE_CHECK_H

#include "common/net/addr.h"
#include "common/tls/worker_tls.h"
#include "lb/core/application.h"

/* ---- what the results add up to: plain computation ---- */

struct check_record {
    bool failing;   /* the verdict; at first it is not */
    unsigned other; /* results in a row that speak against the verdict */
};
/* One more result. True when it has turned the verdict. */
bool check_record_add(struct check_record *r, bool passed, unsigned unhealthy_after,
                      unsigned healthy_after);
/* WANTED 0: any of 200 to 399. */
bool check_status_passes(int status, int64_t wanted);
/*
 * When to check next: INTERVAL_MS, give or take a tenth; FIRST: anywhere within it, so that the
 * checks of many workers are spread.
 *   hash  any bits
 */
uint64_t check_delay_ms(uint64_t interval_ms, bool first, uint64_t hash);

/* ---- the checks ---- */

enum { CHECK_WHY_ROOM = 80 };

struct active_check;
/*
 * Creates the active check of one address. Calls CHANGED when the verdict has changed, but never
 * from inside a call of this module. NAME is borrowed. PEER: the TLS peer of the address (a
 * reference is acquired); NULL: no TLS.
 */
struct active_check *active_check_create(struct application *app, const struct addr *addr,
                                         struct tls_peer *peer, const char *name,
                                         void (*changed)(void *context), void *context);
/* If there is something to check: it fails until the checks specify otherwise. CHANGED is not
 * called.
 */
void active_check_doubt(struct active_check *c);
/* Cancels a check in progress. NULL is fine. */
void active_check_destroy(struct active_check *c);
/* Settings have changed. Without a path all is forgotten, and the worker passes; may call CHANGED.
 */
void active_check_settings(struct active_check *c);

struct active_check_view {
    bool active; /* there is something to check */
    bool failing;
    uint64_t checks, failures; /* so far */
    const char *why;           /* what the last failure was; "" before the first */
};
/* C may be NULL. The text is valid until the next turn. */
struct active_check_view active_check_view(const struct active_check *c);

#endif
