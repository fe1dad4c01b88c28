/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP/1.1 request over one connection to a worker.
 * A struct http1_client_conn belongs to one loop, embeds a struct pooled_conn, and belongs to the
 * user that has checked it out (or to the connection pool while idle). At most one request at a
 * time. Callbacks are never called from inside http1_client_request, http1_client_resume or
 * http1_client_close, nor after http1_client_close or the last callback (on_head FINAL, on_body
 * LAST, on_error, on_upgrade). A connection is always being read, also when idle, except under
 * back-pressure, so that a close is detected immediately.
 */
#pragma once

#include "common/net/addr.h"
#include "common/net/body_piece.h"
#include "common/net/transport.h"
#include "common/upstream/conn_pool.h"

struct body_file;
struct http1_client_conn;

enum {
    HTTP1_CLIENT_INTERIM_MAX = 100, /* 1xx heads before the final one; over it ERR_BAD_RESPONSE */
};

/* ---- connections ---- */
struct http1_client_connect; /* an attempt in progress */
/*
 * Open a connection to A on L. CB runs once, later: conn (in use, belongs to the caller), or NULL
 * and the error: ERR_CONNECT_REFUSED, ERR_CONNECT_FAILED, ERR_CONNECT_TIMEOUT, ERR_TLS_FAILED (why
 * is in the log), ERR_SYSTEM (no descriptors); errno is the cause of the last step that failed.
 *   peer  TLS, to it, of which the attempt takes a reference; the handshake is part of the attempt
 *         and its time. NULL: plain
 *   b     the pool's permission (CONN_OPEN), which the attempt takes over: conn then counts in B.
 *         NULL: it belongs to no pool
 */
struct http1_client_connect *
http1_client_connect_tls(struct loop *l, const struct addr *a, struct tls_peer *peer,
                         struct conn_backend *b, uint64_t timeout_ms,
                         void (*cb)(void *context, struct http1_client_conn *c, enum err e),
                         void *context);
/* *ATTEMPT is NULL afterwards. No effect if it is NULL. */
void http1_client_connect_cancel(struct http1_client_connect **attempt);
/* A connection over T, which it takes over. */
struct http1_client_conn *http1_client_conn_create(struct loop *l,
                                                   struct transport *t) returns_nonnull_;
/* Whether C uses TLS; *RESUMED: and has resumed an earlier session. */
bool http1_client_is_tls(const struct http1_client_conn *c, bool *resumed);
/* Gives up the exchange, if there is one, takes *C out of its pool, closes and frees it (memory
 * goes at end of turn). *C is NULL afterwards. No effect if it is NULL. */
void http1_client_close(struct http1_client_conn **c);
/* Ends the use of *C: returns it to its pool if it may serve another request; else the same as
 * http1_client_close. */
void http1_client_give_back(struct http1_client_conn **c);
struct pooled_conn *http1_client_pooled(struct http1_client_conn *c);
struct http1_client_conn *http1_client_of_pooled(struct pooled_conn *p);
/* For conn_pool_create. A connection that dies while idle leaves the pool by itself. */
extern const struct conn_pool_ops http1_client_pool_ops;

/* ---- one request ---- */

/* How an exchange has failed. Valid only during the call. */
struct http1_client_failure {
    /* ERR_PEER_CLOSED, ERR_PEER_RESET, ERR_WRITE_FAILED, ERR_BAD_RESPONSE, ERR_TOO_LARGE,
     * ERR_TIMEOUT, ERR_TLS_FAILED (the reason is in the log). */
    enum err error;
    /* WRITTEN: the worker may have received a byte of the request. One was written, and the worker
     * did not close the connection (TCP: it ended, and a request with ONCE was rejected by a reset
     * then) without having acknowledged one. RECEIVED: a byte of the response came. */
    bool written, received;
    /*
     * The connection was idle in its pool before, and the worker may have ended it then, which does
     * not indicate a failure. CLOSED_IDLE: it ended without a byte of a response. LEFT_OVER: what
     * came does not begin as a response does, and may be left over from the one before.
     */
    bool closed_idle, left_over;
    const char *reason;  /* what is wrong with the response, or the text of the error */
    const char *setting; /* ERR_TIMEOUT: the one that expired */
};

struct http1_client_events {
    /*
     * The final response head (1xx heads except 101 are consumed). Strings are valid only during
     * the call. FINAL: the response has no body, and the exchange is over.
     */
    void (*on_head)(void *context, const struct http1_head *head, bool final);
    /*
     * Body bytes, with chunked coding removed; ownership of BODY passes to the receiver. LAST: the
     * body is complete; BODY is then empty if the end came without bytes, but never NULL.
     */
    void (*on_body)(void *context, struct body_piece *body, bool last);
    /*
     * For requests with MOVES. Takes up to MAX bytes of a body of announced length from FROM, the
     * worker's socket, as a non-blocking recv(2) does, and passes them on without bringing them
     * here. Returns their number; 0 at the end of the connection; -1 with errno on error, ENOTSUP
     * if that is not possible now, and on_body gets the bytes. After the last byte, on_body is
     * called with LAST and an empty body. May pause, but not end, the exchange.
     */
    ssize_t (*on_moving)(void *context, struct transport *from, size_t max);
    /* The exchange has failed. The connection is not reusable. */
    void (*on_error)(void *context, const struct http1_client_failure *failure);
    /* 101: the connection is now a tunnel, to be had by http1_client_take_upgraded. HEAD as for
     * on_head.
     */
    void (*on_upgrade)(void *context, const struct http1_head *head);
};

struct http1_client_request {
    struct slice head; /* whole request head with its blank line, and what of the body is to go with
                          it; copied or written at once */
    struct slice body; /* stays valid until the response has ended or the request is cancelled */
    const struct body_file *body_file; /* NULL, or the same bytes to send without a copy */
    bool is_head;                      /* HEAD: the response has no body */
    bool once;                         /* the worker must not process it twice */
    bool moves;                        /* on_moving may be called, unless the worker uses TLS */
    /* The protocol that a 101 may switch to; empty: none. Lives as long as the exchange. */
    struct slice upgrade;
    uint64_t
        first_byte_timeout_ms; /* from the request written to the first response byte; 0 = none */
    uint64_t
        between_bytes_timeout_ms; /* within a response, and within writing the request; 0 = none */
    const struct http1_client_events *events;
    void *context;
};
void http1_client_request(struct http1_client_conn *c, const struct http1_client_request *r);
/* Sets the number of response bytes that a read should not exceed by much, until the next call; at
 * least 4 KiB of a body, and 16 KiB together with its head. Initially unlimited. */
void http1_client_room(struct http1_client_conn *c, size_t bytes);
/* Back-pressure: stop and restart reading the response; no on_body comes while paused. Time-outs
 * rest. */
void http1_client_pause(struct http1_client_conn *c);
void http1_client_resume(struct http1_client_conn *c);
/* After the last byte: whether the connection may serve another request. */
bool http1_client_reusable(const struct http1_client_conn *c);
/* Whether C was idle in its pool before. */
bool http1_client_reused(const struct http1_client_conn *c);
/* Whether it was, and HEAD is a 408 with which the worker closes it, sent before it got the request
 * (RFC 9110 section 15.5.9). */
bool http1_client_gave_up(const struct http1_client_conn *c, const struct http1_head *head);
/* Monotonic microseconds: request wholly written, first response byte, last byte taken; 0 = not
 * yet. */
struct http1_client_times {
    uint64_t written_us, first_byte_us, last_byte_us;
};
struct http1_client_times http1_client_times(const struct http1_client_conn *c);
/*
 * Returns the parts and frees the rest; sets *C to NULL. From on_upgrade on, also within it. The
 * connection leaves its pool; for its place to stay occupied, call conn_retain_permission before.
 */
struct upgraded_transport http1_client_take_upgraded(struct http1_client_conn **c);
