/* SPDX-License-Identifier: Apache-2.0
 *
 * A request as the environment that classifiers see (WSGI's), and through it to its class. Plain
 * computation over borrowed bytes; any thread, one request one thread. Nothing is computed that the
 * classifier does not ask for.
 */
#pragma once

#include "classifiers/registry.h"
#include "common/base/memory.h"
#include "common/net/addr.h"

/* A request, whatever it was parsed with. */
struct classify_request {
    struct slice method;
    struct slice script_name; /* prefix that was removed from the path; else empty */
    struct slice path;        /* the rest of it, raw, without query */
    struct slice query;       /* without '?' */
    struct slice host;        /* the Host as sent, with port; empty: none */
    struct slice protocol;    /* "HTTP/1.1" */
    bool tls;
    const struct addr *peer, *local; /* the client's, ours; an addr of length 0 is none */
    uint64_t content_length;         /* UINT64_MAX: none */
    /* Field I of the request, names in any case; false beyond the last. Not Host, nor framing. */
    bool (*header)(const void *context, size_t i, struct slice *name, struct slice *value);
    const void *context;
};

/* The environment of one request. Values live until classify_environment_fini. */
struct classify_environment {
    struct rlb_environment super; /* first: classifiers get its address */
    const struct classify_request *request;
    struct arena arena; /* values that had to be made */
    _Alignas(ARENA_ALIGN) char room[512];
};

void classify_environment_init(struct classify_environment *e, const struct classify_request *r);
void classify_environment_fini(struct classify_environment *e);

/* Fields named A are fields named B: in any case, and '_' is '-' (common/wire/http_field.h). */
bool header_names_same(struct slice a, struct slice b);
/* Whether the environment can have a variable named NAME: one of WSGI's, or HTTP_*. */
bool classify_is_variable(struct slice name);

/* The encoded class, written to OUT; returns its length. */
size_t classify_run(const struct classifier *k, const struct classify_request *r,
                    char out[CLASS_BYTES_MAX]);
