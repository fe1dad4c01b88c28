/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of an access log: combined or common log format, with or without the virtual host first,
 * whatever follows; or one of our own in JSON. Pure functions; slices point into the line or into
 * the room that the caller gives.
 */
#ifndef RLB_CTL_SIMULATE_ACCESS_LINE_H
#define RLB_CTL_SIMULATE_ACCESS_LINE_H

#include "common/base/base.h"

enum {
    /* A line; larger than any request target that is served. */
    ACCESS_LINE_MAX = 64 * 1024,
    ACCESS_HOST_MAX = 255,
};

/* What is wrong with a line: one row each in access_fault.def. */
enum access_fault {
#define FAULT(name, text) ACCESS_FAULT_##name,
#include "ctl/simulate/access_fault.def"
#undef FAULT
    ACCESS_FAULTS
};
const char *access_fault_text(enum access_fault f);

struct access_line {
    uint64_t time_ms;            /* since 1970 */
    struct slice method;         /* a token */
    struct slice path;           /* of the target, as it was sent; begins with '/', or is "*" */
    struct slice query;          /* behind the '?', or empty */
    struct slice host;           /* lower case, without port; empty: the line does not say */
    struct slice client;         /* as it stands there */
    struct slice referer, agent; /* empty: none */
    uint64_t service_us;         /* only our own lines say; 0: unknown */
    unsigned status;
};

/*
 * Read LINE, without its end. What stands there escaped is unescaped.
 *   room  as many bytes as the line has and ACCESS_HOST_MAX more, where slices of OUT may point to
 * Returns ACCESS_FAULT_NONE, or what is wrong; OUT is then of no use.
 */
enum access_fault access_line_parse(struct slice line, char *room,
                                    struct access_line *out) must_check;

#endif
