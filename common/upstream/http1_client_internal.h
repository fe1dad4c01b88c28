/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of a worker connection, shared by http1_connect.c (opening) and http1_client.c (the
 * exchange, closing, life in the pool); no other module includes this. One loop's thread.
 */
#ifndef RLB_UPSTREAM_HTTP1_CLIENT_INTERNAL_H
#define RLB_UPSTREAM_HTTP1_CLIENT_INTERNAL_H

#include "common/upstream/http1_client.h"

enum exchange_state {
    EXCHANGE_NONE,   /* no request, or over; what is known of the last one stays */
    EXCHANGE_HEAD,   /* no final response head yet */
    EXCHANGE_BODY,   /* within the response body */
    EXCHANGE_TUNNEL, /* 101: the socket waits to be taken */
};

/* Bytes read ahead of a head's end, in the memory of a body to be. */
struct http1_input {
    struct held_body *h; /* NULL: there is none */
    size_t room, len;
    size_t used;    /* of len: handed on or dropped */
    size_t scanned; /* of len: known not to hold the end of a head */
};

struct http1_output {
    struct slice head, body; /* what is left to write */
    char *head_copy;         /* holds HEAD once a write was incomplete */
    bool failed;             /* the socket takes no more */
};

struct http1_exchange {
    enum exchange_state state;
    unsigned interim;          /* 1xx heads seen */
    enum err failure;          /* to be reported at the end of the turn */
    enum response_fault fault; /* of a response that is rejected */
    bool paused, keep_alive, any_written;
    size_t read_bytes; /* how much to read at once */
    size_t room_bytes; /* maximum that the user accepts */
    struct http1_times times;
    struct body_framing framing;
    struct http1_output out;
    struct http1_request request; /* head and body are in OUT */
};

struct http1_conn {
    struct pooled_conn pooled;
    struct loop *loop;
    struct transport transport; /* closed when taken */
    bool large_before;          /* the last response's body was worth moving */
    bool dead;                  /* can serve no (further) request */
    bool closed;
    uint64_t serial; /* of the exchange: a caller of a callback detects by it that the exchange has
                        changed */
    /* Idle and listened for since before the loop's waits that come after this one. */
    uint64_t quiet_since;
    size_t head_read_bytes; /* how much to read for the next head; 0: nothing known yet */
    struct http1_input in;
    struct http1_exchange x;
    struct deadline deadline;  /* of the exchange; rests while the connection is idle */
    struct loop_deferred work; /* failure to report, or input to process */
    struct loop_deferred free_later;
};

/* A connection over T, which it takes over. */
struct http1_conn *http1_conn_create(struct loop *l, struct transport *t) returns_nonnull_;

#endif
