/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of a worker connection, shared by http1_conn.c (opening, closing, life in the pool) and
 * http1_client.c (the exchange); no other module includes this. One loop's thread.
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
    char *p; /* those of a struct held_body; NULL when there are none */
    size_t room, len;
    size_t used;    /* of len: handed on or dropped */
    size_t scanned; /* of len: known not to hold the end of a head */
};

/* http1_conn.c's: give its bytes up; room behind what is there, FIRST bytes at first, where heads
 * that were dropped make way; the body that it is to be, without parts yet: IN has none any more.
 */
void http1_input_free(struct loop *l, struct http1_input *in);
void http1_input_make_room(struct loop *l, struct http1_input *in, size_t first);
struct held_body *http1_input_take(struct loop *l, struct http1_input *in) returns_nonnull_;

enum {
    HTTP1_INPUT_BYTES = 16 * 1024, /* room of an input in one of the loop's blocks */
    HTTP1_BODY_READ_MIN = 4 * 1024,
    HTTP1_BODY_READ_MAX = 128 * 1024,
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
    bool paused, keep_alive, any_written, any_received;
    size_t read_bytes; /* how much to read at once */
    size_t room_bytes; /* what the user wants at most */
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

static inline size_t at_least(size_t n, size_t min)
{
    return n > min ? n : min;
}
/* http1_conn.c's: how much of a body to read at once, and that so many bytes of ROOM came. */
size_t http1_next_read_bytes(const struct http1_exchange *x);
void http1_adapt_read_bytes(struct http1_exchange *x, size_t room, size_t n);

/* In http1_client.c: called when there is something to read, to write, or to process. */
void http1_exchange_readable(struct http1_conn *c);
void http1_exchange_writable(struct http1_conn *c);
void http1_exchange_work(struct http1_conn *c);
void http1_exchange_expired(struct http1_conn *c);
/* Free what an exchange may have left. */
void http1_exchange_fini(struct http1_conn *c);

/* http1_conn.c's: listen for bytes (again), and stop it. */
void http1_conn_read_start(struct http1_conn *c);
void http1_conn_read_stop(struct http1_conn *c);
/* How many bytes of HEAD, then BODY, were taken; -1 with errno. */
ssize_t http1_conn_send(struct http1_conn *c, struct slice head, struct slice body);
/* Have http1_exchange_writable called once, when the socket takes bytes. */
void http1_conn_await_writable(struct http1_conn *c);

#endif
