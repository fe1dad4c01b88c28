/* SPDX-License-Identifier: Apache-2.0
 *
 * Active checks of one address: a small GET on a separate connection each health_check_interval,
 * one at a time. Embedded in a backend without a resume stream; control thread. Without
 * health_check_path there are no checks.
 */
#pragma once

#include "common/net/addr.h"
#include "common/upstream/http_fetch.h"
#include "lb/core/application.h"

/* ---- what the results add up to: plain computation ---- */

struct check_record {
    bool failing;   /* the verdict; at first it is not */
    unsigned other; /* results in a row that speak against the verdict */
};
/* One more result. True when it has turned the verdict. */
bool check_record_add(struct check_record *r, bool passed, unsigned unhealthy_after,
                      unsigned healthy_after);
/* EXPECTED 0: any of 200 to 399. */
bool check_status_passes(int status, int64_t expected);
/*
 * When to check next: INTERVAL_MS plus or minus a tenth; FIRST: anywhere within it, so that the
 * checks of many workers are spread.
 *   hash  any bits
 */
uint64_t check_delay_ms(uint64_t interval_ms, bool first, uint64_t hash);

/* ---- the checks ---- */

/* Sets the head of Q to a check of the worker NAME of A at Q->addr. A has a health_check_path. */
void active_check_request(const struct application *a, const char *name,
                          struct http_fetch_request *q);
/* The Host of checks: health_check_host, else the first exact host of A; NULL: the address. */
const char *active_check_host(const struct application *a);
/* Whether a check that ended with E and STATUS has passed. */
bool active_check_passes(const struct application *a, enum err e, int status);

enum { CHECK_WHY_ROOM = 80 };

/* Zero, but for the first members, before it is started; zero again after it was stopped. */
struct active_check {
    struct application *app;
    /* Borrowed: the address, its TLS peer (NULL: no TLS), and the worker's name. */
    const struct addr *addr;
    struct tls_peer *peer;
    const char *name;
    /* The verdict has changed; of these functions only active_check_settings calls it. Or NULL. */
    void (*changed)(void *context);
    void *context;
    bool active; /* there is something to check */
    struct check_record record;
    uint64_t checks, failures; /* so far */
    char why[CHECK_WHY_ROOM];  /* the last failure; "" before the first */
    int status;                /* of the response that was the last failure; 0: it had none */
    struct timer pause;
    uint64_t interval_ms; /* that of the present pause */
    struct http_fetch fetch;
};

/* FAILING: what is checked fails until its checks pass. CHANGED is not called. */
void active_check_start(struct active_check *c, bool failing);
/* Cancels a check in progress. Harmless if it is not started. */
void active_check_stop(struct active_check *c);
/* Settings have changed; no path: all results are dropped. Harmless if it is not started. */
void active_check_settings(struct active_check *c);
