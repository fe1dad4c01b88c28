/* SPDX-License-Identifier: Apache-2.0
 *
 * When a failing worker is ejected, and for how long: plain computation. A struct failure_record is
 * a worker's failure record, embedded in its member; its owner serializes all calls (member.c:
 * members_lock).
 *
 * A failed connection is sufficient by itself (after_refused); the other failures must be
 * consecutive (after). Each ejection that has run its full time doubles the next one, up to
 * time_max_ms. Any response of the worker clears the record. An ejected worker is probed meanwhile,
 * and stays ejected until it passes (enum worker_probe).
 */
#pragma once

#include "common/base/base.h"

/* The way in which a worker failed. */
enum worker_fault {
    FAULT_REFUSED,            /* refuses connections, or is unreachable */
    FAULT_CONNECT_TIMEOUT,    /* connect_timeout */
    FAULT_TLS,                /* not authenticated by its certificate, or it rejects ours */
    FAULT_RESET,              /* closed or reset before any response */
    FAULT_FIRST_BYTE_TIMEOUT, /* first_byte_timeout */
    WORKER_FAULTS
};
/* "refused", "connect-timeout", ... */
const char *worker_fault_text(enum worker_fault f);
/* Whether it is one of the connection, before any request was on it. */
bool worker_fault_connects(enum worker_fault f);

/* How an ejected worker is probed: it passes by what it failed at. */
enum worker_probe {
    PROBE_CONNECT, /* by connecting */
    PROBE_CHECK,   /* by a request for health_check_path */
    PROBE_REQUEST, /* by a client's GET, one at a time; another worker gets it if the probe fails */
};

struct ejection_rule {
    uint64_t time_ms;       /* the first ejection's; 0: none at all */
    uint64_t time_max_ms;   /* below time_ms it is as time_ms */
    uint64_t probe_ms;      /* until an ejected worker is probed first; 0: it is not probed */
    bool checks;            /* health_check_path is set */
    unsigned after_refused; /* failed connections in a row; 0: they never eject */
    unsigned after;         /* other failures in a row; 0: they never eject */
    double max_share;       /* of the workers in the pool: how many may be out, 0..1 */
};

/* Zero at first, and again when the worker has responded. */
struct failure_record {
    unsigned failures; /* in a row */
    unsigned doublings;
};

/* Another failure: returns for how many ms to eject the worker; 0: not yet. */
uint64_t failure_record_add(struct failure_record *s, const struct ejection_rule *r,
                            enum worker_fault f);
/* MAY_CHECK: its health is checked if health_check_path is set. */
enum worker_probe worker_probe_for(const struct ejection_rule *r, enum worker_fault f,
                                   bool may_check);
/* Sets the time until the first probe, and between further ones [ms]; 0: it is not probed, and
 * ejected for its whole time. */
void failure_record_probe_ms(const struct failure_record *s, const struct ejection_rule *r,
                             enum worker_probe how, uint64_t *first_ms, uint64_t *then_ms);
/* An ejection has expired, or a probe has passed; not if it was ended early. */
void failure_record_served(struct failure_record *s);

/*
 * Whether one more may be ejected if OUT of WORKERS in the pool are ejected. Workers that refuse
 * connections or fail TLS are exempt from the share: each would cost every request an attempt.
 */
bool ejection_fits(const struct ejection_rule *r, enum worker_fault f, size_t out, size_t workers);
