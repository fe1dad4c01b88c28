/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP request over a connection of its own, with a deadline. Embedded in its owner, zeroed
 * before the first use. One loop's thread.
 */
#pragma once

#include "common/upstream/http1_client.h"

struct http_fetch;

/*
 * Called by the loop, never from inside a function below. Each may stop the fetch; its memory must
 * then stay until the end of the turn, except in done.
 */
struct http_fetch_events {
    /* The final response head; valid during the call. May be NULL. */
    void (*on_head)(struct http_fetch *f, const struct http1_head *head);
    /* A part of the response body, decoded; valid during the call. May be NULL. */
    void (*on_body)(struct http_fetch *f, struct slice bytes);
    /*
     * The fetch has ended and its connection is closed. Called once, unless the fetch is stopped;
     * may start it again, or free it. ERR_OK: the response is complete, or, without a request, the
     * connection was made. Otherwise ERR_TIMEOUT, ERR_TOO_LARGE (over body_max), or an error of
     * http1_client_connect_tls or of struct http1_client_failure.
     */
    void (*done)(struct http_fetch *f, enum err e);
};

struct http_fetch_request {
    const struct addr *addr; /* copied */
    struct tls_peer *peer;   /* a reference is taken while it connects; NULL: plain */
    /*
     * The head with its blank line, and the body behind it. Ownership passes to the fetch. Empty:
     * no request is sent.
     */
    struct text bytes;
    uint64_t connect_timeout_ms; /* 0: connecting is part of timeout_ms, which then is not 0 */
    uint64_t timeout_ms;         /* from the request on; 0: none */
    bool head_only;              /* the fetch ends with the response head */
    size_t body_max;             /* of the response [bytes]; 0: no limit */
    const struct http_fetch_events *events;
};

struct http_fetch {
    struct loop *loop; /* NULL: not in progress */
    int status;        /* of the last response; 0: none yet */
    int connect_errno; /* the cause of ERR_CONNECT_* and ERR_SYSTEM, else 0 */
    size_t body_bytes; /* received */
    struct http_fetch_request q;
    struct http1_client_connect *attempt;
    struct http1_client_conn *conn;
    uint64_t due_ms;
    struct timer timer; /* once connected */
};

/* F is not in progress. */
void http_fetch_start(struct http_fetch *f, struct loop *l, const struct http_fetch_request *q);
/* Ends it without calling done; harmless if it is not in progress. */
void http_fetch_stop(struct http_fetch *f);
/* Sets the time left for the response to TIMEOUT_MS from now. From within on_head or on_body. */
void http_fetch_extend(struct http_fetch *f, uint64_t timeout_ms);
