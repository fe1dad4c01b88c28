/* SPDX-License-Identifier: Apache-2.0
 *
 * The assembled load balancer: owns every part, builds them in order, drops them in reverse.
 * Threads: N data loops (exchanges) and the control loop (membership, settings, resumes, admin),
 * which is the main thread. Only the fields below are for the parts; everything else is
 * lb/program's.
 */
#pragma once

#include "common/event/loop.h"
#include "common/http/body_sink.h"
#include "common/http/http_server.h"
#include "common/net/addr.h"
#include "lb/core/response_spill.h"
#include "lb/core/step.h"
#include "lb/settings/settings.h"

struct access_log;
struct application;
struct application_index;
struct address_counts;
struct data_loops;
struct lb_front;
struct http_balance;
struct lb_parts;
struct observer;
struct peers;
struct resolver;
struct shared_responses;
struct self_measure;
struct traffic;
struct upgrade;

/* Hexadecimal digits of an exchange's id: 12 of lb->instance, 4 of the loop, 16 of a counter. */
enum { EXCHANGE_ID_LEN = 32 };

/* One data loop and its parts; on cache lines of its own. */
struct lb_loop {
    _Alignas(CACHE_LINE_BYTES) struct lb *lb;
    unsigned index;
    int cpu; /* that its thread stays on; -1: any */
    struct loop *loop;
    struct lb_front *front;
    struct traffic *traffic;           /* notes for the status page */
    char exchange_id[EXCHANGE_ID_LEN]; /* of the latest exchange; this loop only */
};

/* A phase is never followed by an earlier one. */
enum lb_phase { LB_STARTING, LB_SERVING, LB_DRAINING, LB_CLOSING };

struct lb {
    struct program_settings settings; /* data loops read RELOAD ones as front_set gave them */
    struct loop *control;
    struct lb_loop *loops;
    unsigned nloops;
    struct application **applications;
    size_t napplications;
    struct access_log *access_log; /* NULL: none */
    _Atomic size_t buffered_bytes; /* of responses, all loops; against response_buffers_total */
    _Atomic uint64_t response_buffers_total;
    struct spill_space spill_space;             /* of responses in files */
    _Atomic uint64_t unrouted[OUTCOMES];        /* outcomes of requests that no application had */
    struct address_counts *addresses;           /* of clients; all fronts count in it */
    struct http_connections client_connections; /* of all fronts */
    struct body_totals body_totals;             /* of the bodies of all requests */
    struct http_balance *balance;               /* of client connections over the loops */
    char instance[33];                          /* random id of this process's life */
    struct application_index *index;            /* for application_find */
    struct self_measure *self_measure;          /* has its own lock */
    struct data_loops *data_loops;              /* the threads of `loops` */
    struct observer *observer;                  /* control thread only */
    struct peers *peers;                        /* NULL: none are configured */
    const char *admin_token;                    /* borrowed; NULL: none */
    struct shared_responses *responses;         /* control thread only */
    struct resolver *resolver;                  /* of names; control thread only */
    struct addr *own; /* NOWN: where clients and admin connect; control thread only */
    size_t nown;
    bool admin_remote;                  /* the admin address is not only of this machine */
    const struct upgrade *upgrade;      /* to a new process; control thread only */
    const enum setting_origin *origins; /* of the rows of SETTINGS; control thread only */
    const char *file;                   /* that they were read from */
    enum lb_phase phase;                /* control thread only */
    bool fronts_up;                     /* and may be asked for counts; control thread only */
    uint64_t started_ms;                /* monotonic */
    /* Re-reads FILE and applies the settings that need no restart. False if FILE is not valid:
     * nothing is applied, and WHY (may be NULL) gets a line per problem. Control thread. */
    bool (*reload)(struct lb *lb, struct text *why);
    struct lb_parts *parts; /* lb/program's own */
};
