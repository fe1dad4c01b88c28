/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of the stream of another load balancer (docs/reference/protocols.md). Plain computation;
 * any thread.
 */
#pragma once

#include "common/base/json.h"
#include "common/skills/home_records.h"

enum {
    PEER_INSTANCE_LEN = 32,
    /* Requests in flight that a peer may report of a worker; more make the line invalid. */
    PEER_IN_FLIGHT_MAX = 1000000,
};

enum peer_line_kind {
    PEER_LINE_EMPTY,
    PEER_LINE_FIRST,     /* INSTANCE, APPLICATIONS */
    PEER_LINE_WORKER,    /* APPLICATION, WORKER: of the lines of homes that follow */
    PEER_LINE_HOMES,     /* HOMES */
    PEER_LINE_IN_FLIGHT, /* APPLICATION, COUNTS */
    PEER_LINE_END,
};

struct peer_line {
    enum peer_line_kind kind;
    struct slice instance;    /* PEER_INSTANCE_LEN lower-case hexadecimal digits */
    json_t *applications;     /* name -> fingerprint */
    struct slice application; /* SLICE_NULL: not stated */
    struct slice worker;      /* 1 to HOME_FROM_MAX bytes */
    json_t *counts;           /* worker, named as above -> number */
    struct home_line homes;
    json_t *object; /* owns the others */
};

/*
 * Parses BYTES, a line without its end, of at most RESUME_LINE_MAX bytes. FIRST: no line but empty
 * ones was before it. Returns NULL, or why it is invalid, which may be WHY. Call peer_line_fini in
 * any case.
 */
const char *peer_line_read(struct peer_line *l, bool first, struct slice bytes,
                           char why[JSON_WHY_ROOM]);
void peer_line_fini(struct peer_line *l);
