/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the HTTP server: http_server.c, http_accept.c (listeners), http_conn.c (connections
 * and their phases), http_slow.c (clients that are slow), http_streams.c (slow bodies of HTTP/2),
 * http_watch.c (clients that leave), http_rest.c (idle ones), http_proxied.c (whose they are),
 * http_tap.c (their bytes), http_tap_head.c (heads), http_tap_spill.c (large bodies), http_plain.c
 * (HTTP where TLS is spoken), http_short.c (requests that go past libh2o), http_library.c (those
 * that go by it), http_check.c (requests refused), http_reply.c, http_held.c, http_reply_direct.c,
 * http_reply_head.c, http2_head.c and http2_end.c (the way back), http_tunnel.c. Nobody else
 * includes this. One loop's thread, but for the counts.
 *
 * Lifetimes: loop > server > listener, connection, tunnel > reply. A connection keeps its listener.
 */
#ifndef RLB_NET_HTTP_CONN_H
#define RLB_NET_HTTP_CONN_H

#include "common/base/slab.h"
#include "common/net/body_file.h"
#include "common/net/http_server.h"
#include "common/net/http_tap.h"

#include <stdatomic.h>

enum server_count {
    COUNT_ACCEPTED,
    COUNT_REQUESTS,
    COUNT_SHORT,
    COUNT_ABANDONED,
    COUNT_HEADER_TIMEOUTS,
    COUNT_BODY_TIMEOUTS,
    COUNT_SEND_TIMEOUTS,
    COUNT_SLOW_READERS,
    COUNT_RESETS,
    COUNT_ACCEPT_PAUSES,
    COUNT_RESTS,
    COUNT_TLS12,
    COUNT_TLS13,
    COUNT_TLS_RESUMED,
    COUNT_REFUSED,                                  /* + enum request_fault */
    COUNT_TLS_FAILED = COUNT_REFUSED + FAULT_COUNT, /* + enum tls_failure */
    COUNT_MAX = COUNT_TLS_FAILED + TLS_FAILURES,
};

/* The head of a request that was read last, on any connection. */
struct http_head_read {
    const struct http_conn *conn; /* NULL: none */
    struct http1_request_facts facts;
    struct http1_header fields[H2O_MAX_HEADERS];
};

struct http_server {
    struct loop *loop;
    struct http_server_options options;
    char *server_name;
    h2o_globalconf_t conf;
    h2o_context_t ctx;
    struct list listeners, conns, tunnels;
    struct slab conn_slab; /* connections' memory: http_rest.c gives back what was between */
    struct list resting;   /* idle HTTP/1 connections, longest first: no sweep looks at these */
    struct list untapped;  /* connections that http_tap.c looks at before each wait */
    struct list holding;   /* connections whose next request is there, held back by http_tap.c */
    struct loop_deferred tap_look, tap_hand_on;
    struct list begun_replies, held_replies; /* the first to go first: http_held.c */
    struct timer held_timer;
    struct list unseen; /* connections whose end unread bytes would hide: http_watch.c looks */
    struct timer unseen_timer;
    struct list tired; /* of those that rest: http_rest.c is to take libh2o off them */
    size_t taken_off;  /* since memory was last given back for it */
    struct timer rest_timer;
    struct http_head_read head;
    h2o_mem_recycle_t spare_requests; /* http_short.c's */
    size_t nconns, ntunnels;
    size_t nrequests; /* with us */
    char *spill_room; /* where http_tap_spill.c reads to */
    struct body_file_bin body_bin;
    struct text passed; /* what http_tap_http2.c gives libh2o, for a moment */
    struct http2_room http2_room;
    struct addr shown[2]; /* what http_conn_peer and http_conn_local have returned */
    int pipe[2];          /* http_reply_direct.c's, empty between two calls; -1: not open yet */
    struct timer sweep;
    struct timer accept_again; /* runs after descriptors ran out */
    bool accept_paused, held, draining;
    bool shuts_idle;   /* draining, and idle connections get no further answer */
    bool balanced;     /* has its place in options.balance */
    uint64_t drain_ms; /* when that began */
    void (*drained)(void *context);
    void *drained_context;
    struct loop_deferred end_of_drain;
    atomic_uint_fast64_t counts[COUNT_MAX]; /* written by the loop's thread alone */
};

struct http_listener {
    struct list node;
    struct http_server *server;
    h2o_socket_t *sock; /* NULL once closed */
    h2o_accept_ctx_t accept;
    bool http2;
    bool tells_plain;
    const struct networks *proxy_from; /* NULL: no PROXY header is read */
    bool (*allows)(void *context, void *tag, const struct addr *peer);
    void *tag;
    unsigned number;
    struct addr local;   /* that of all its connections; not set: each has its own */
    unsigned at_a_time;  /* connections accepted before others have their turn */
    unsigned full_turns; /* in a row, in which there were as many */
    unsigned refs;       /* its being open, and its connections */
};

enum conn_phase {
    PHASE_NEW,  /* nothing has come yet, TLS handshake included */
    PHASE_HEAD, /* a request head is on its way */
    PHASE_BODY, /* and now its body */
    PHASE_IDLE, /* between requests; of HTTP/2, no request is with us */
    PHASE_BUSY, /* a request is with us */
};

/* Most are of the internet, and a struct addr is four times as large. */
struct small_addr {
    socklen_t len;
    union {
        struct sockaddr_in6 in6; /* or a smaller one */
        struct addr *large;
    };
};
void small_addr_set(struct small_addr *a, const struct addr *from);
void small_addr_get(const struct small_addr *a, struct addr *out);
void small_addr_fini(struct small_addr *a);

/* What each request touches comes first, up to the cold ones of the tap. */
struct http_conn {
    struct http_server *server;
    h2o_socket_t *sock; /* libh2o's; another one after a rest */
    struct http_listener *listener;
    const SSL *ssl;               /* once its handshake is finished */
    struct http_short *brief;     /* the one that libh2o knows nothing of (HTTP/1) */
    const struct body_file *body; /* of the request that is being handed over */
    struct list replies;          /* requests with us, each with its reply */

    uint64_t requests;
    uint64_t received_bytes; /* as they came, decrypted */
    uint64_t phase_since_ms;
    struct list unseen; /* the callback saw bytes instead of an end: in the server's */
    enum conn_phase phase;
    bool http2;
    bool resting;   /* in the server's list of these */
    bool watching;  /* http_conn_watch's callback is on the socket */
    bool keep_half; /* the present request goes on when the client closes its half */
    bool read_shut; /* we have shut it for reading: its end says nothing about the client */
    bool cut;       /* and for writing: libh2o may find out later, with requests in its buffer */
    bool tunnelled;
    bool tls_before_us; /* with a proxy in front, which says so (proxy_from) */
    unsigned refused;
    struct pace body_pace, send_pace;
    struct small_addr peer;
    struct http_tap tap;

    struct list node; /* in the server's */
    struct small_addr local;
    struct address_count *address; /* where PEER is counted; NULL: it is not */
    uint64_t abandoned;
    enum tls_failure tls_failure; /* once it is known, why TLS will not be set up */
};

void http_server_count(struct http_server *s, size_t which);

/* ---- http_conn.c ---- */
/* Take on an accepted socket. */
struct http_conn *http_conn_create(struct http_listener *l, h2o_socket_t *sock,
                                   const struct addr *peer);
/* SOCK is what C has from now on; C ends when it is closed. */
void http_conn_set_socket(struct http_conn *c, h2o_socket_t *sock);
/* A request begins (its reply is in C->replies) or ends. */
void http_conn_begin(struct http_conn *c);
void http_conn_end(struct http_conn *c, bool done);
/* The TLS handshake is finished. */
void http_conn_secured(struct http_conn *c, const SSL *ssl);
/* Have libh2o see the end on the socket. */
void http_conn_shut_read(struct http_conn *c) rare;
/* Have libh2o see an error on the socket. */
void http_conn_cut(struct http_conn *c);
/* Time has passed: cut what is over its time. */
void http_conn_sweep(struct http_conn *c, uint64_t now_ms);
void http_conn_drain(struct http_conn *c);
/*
 * Whether libh2o has closed C, which exists until TLS's last word is written: libh2o's own
 * connection has been freed, so it must not be called for C any more.
 */
bool http_conn_is_closing(const struct http_conn *c);
/* Something has come, or is to be done: sweeps look at C again. */
void http_conn_wake(struct http_conn *c);
void http_conns_wake(struct http_server *s);
/* A number that grows while the peer takes bytes. */
uint64_t http_conn_progress(const struct http_conn *c);

/* ---- http_watch.c ---- */
void http_watch_start_server(struct http_server *s);
void http_watch_stop_server(struct http_server *s);
/* Watch the client of an HTTP/1 request, as libh2o does not read meanwhile; before libh2o reads or
 * gives the socket away, unwatch. */
void http_conn_watch(struct http_conn *c);
void http_conn_unwatch(struct http_conn *c);

/* ---- http_rest.c ---- */
void http_rest_start_server(struct http_server *s);
void http_rest_stop_server(struct http_server *s);
/* Whether C, which is idle, has been for so long that it should rest. */
bool http_rest_is_due(const struct http_conn *c, uint64_t now_ms);
/* Take libh2o off C soon, unless bytes come before, or it has been. */
void http_rest_soon(struct http_conn *c);

/* ---- http_short.c ---- */
void http_short_start_server(struct http_server *s);
void http_short_stop_server(struct http_server *s);
/* Whether the request of C whose head was just read may go past libh2o. */
bool http_short_fits(const struct http_conn *c, const struct http1_request_facts *facts);
/* The one that does is whole, and all there is in the input. False: the connection has gone. */
bool http_short_begin(struct http_conn *c);
/* As h2o_send of some of R's answer; http_reply_proceed follows. */
void http_short_write(struct http_reply *r, h2o_iovec_t *iov, size_t n);
/* The answer has been taken: C's request ends, and C goes on or closes, as the request says. */
void http_short_finish(struct http_conn *c);
/* C's request ends, and C closes, once HEAD is written, unless that is empty. */
void http_short_cut(struct http_conn *c, h2o_iovec_t head);
/* C has closed: so its request, if any, ends. */
void http_short_lost(struct http_conn *c);

/* ---- http_held.c ---- */
void http_held_start_server(struct http_server *s);
void http_held_stop_server(struct http_server *s);
/* Flush R (http_reply_flush) once HOLD_MS have passed, never inside this call, unless it is let go
 * before. */
void http_hold(struct http_reply *r, uint64_t hold_ms);
static inline void http_unhold(struct http_reply *r)
{
    list_remove(&r->held_node);
}

/* ---- http_slow.c ---- */
void http_slow_init(struct http_reply *r);
/* R's send timer: bytes have been handed to libh2o. */
void http_slow_arm_timer(struct http_reply *r);
/* What was queued for R has all been taken. */
void http_slow_drained(struct http_reply *r);
/* A body is on its way on this HTTP/1 connection, or responses are: whether the client is fast
 * enough; if not, it is dealt with. */
void http_slow_sweep_body(struct http_conn *c, uint64_t now_ms);
void http_slow_sweep_send(struct http_conn *c, uint64_t now_ms);

/* ---- http_streams.c ---- */
/* HTTP/2: refuse the streams whose request's body is too slow. */
void http_streams_sweep(struct http_conn *c, uint64_t now_ms);
/* HTTP/2: whether this answer waits for nothing but the client's windows. */
bool http_stream_waits_for_window(const struct http_reply *r);

/* ---- http_server.c ---- */
void http_server_conn_gone(struct http_server *s);
/* Count a refusal, and tell the user. */
void http_server_refused(struct http_server *s, const struct http_refusal *r);
static inline bool http_server_full(const struct http_server *s)
{
    return s->options.max_connections != 0 && s->nconns >= s->options.max_connections;
}

/* ---- http_accept.c ---- */
void http_accept_init(struct http_server *s);
void http_accept_fini(struct http_server *s);
/* The server has new options. */
void http_accept_set(struct http_server *s);
/* There may be room again. */
void http_accept_resume(struct http_server *s);
/* Close all listeners. */
void http_accept_close(struct http_server *s);
void http_listener_release(struct http_listener *l);
/* nconns, nrequests or accept_paused is another: tell the other loops. */
void http_server_load_changed(struct http_server *s);

/* ---- http_library.c ---- */
static inline struct slice slice_of_iovec(h2o_iovec_t v)
{
    return (struct slice){v.base, v.len};
}
/* libh2o's request, checked, as handlers see it: part of it. */
struct http_request *http_library_request(h2o_req_t *from);
/* Before h2o_start_response: what libh2o has to know of REQ's answer. */
void http_library_answer(struct http_request *req);

/* ---- http_check.c ---- */
/* Whether a head of so many bytes and fields is too large. */
enum request_fault http_check_sizes(const struct http_conn *c, size_t bytes, size_t headers);
/* Whether a body of so many bytes, there or announced, is too large. libh2o's own answer to one
 * would be seen by nobody but the client. */
enum request_fault http_check_body(const struct http_conn *c, uint64_t bytes);
/* Why REQ must not be handled, or FAULT_NONE; brings its authority and path into one form. */
enum request_fault http_check_request(struct http_conn *c, h2o_req_t *req);
/* Answer with an error; ends the request and, in HTTP/1, the connection. */
void http_refuse(struct http_conn *c, h2o_req_t *req, enum request_fault f) rare;

/* ---- http_proxied.c ---- */
/* Serve C, after the header of a proxy in front where its listener has one. C may be gone then. */
void http_proxied_accept(struct http_conn *c);
/* Whether that is still to come; then C may be gone, and the sweep has nothing else to do. */
bool http_proxied_sweep(struct http_conn *c, uint64_t now_ms);

/* ---- http_plain.c ---- */
/* C speaks HTTP in the clear instead of TLS: tell it, in the clear, and end it. */
void http_plain_refuse(struct http_conn *c) rare;

/* ---- http_reply.c ---- */
/* The client of an HTTP/1 connection has gone. May end everything of R's request. */
void http_reply_client_left(struct http_reply *r) rare;

/* Whether R's answer goes on, and all that was queued has been sent. */
bool http_reply_flows(const struct http_reply *r);
/* R's request is about to be freed. */
void http_reply_lost(struct http_reply *r);
/* What was being sent has been taken. R may be gone then. */
void http_reply_proceed(struct http_reply *r);
/* Begin a held answer, and send its head and what is queued. */
void http_reply_flush(struct http_reply *r);

/* ---- http_reply_direct.c ---- */
/*
 * Write the *N vectors at *IOV to the socket of R's HTTP/1 connection, as far as it takes them and
 * nothing else is being written; *N and *IOV are what is left. True: nothing. A failure leaves what
 * could not be written: libh2o, which gets it, finds out.
 */
bool http_direct_write(struct http_reply *r, h2o_iovec_t **iov, size_t *n);
/* S has moved its last byte. */
void http_direct_fini(struct http_server *s);

/* ---- http_reply_head.c ---- */
/* Write the head of R's answer (HTTP/1; to be sent before all else of it) into its piece, around
 * the lines that are there. libh2o writes none then. */
h2o_iovec_t http_reply_write_head(struct http_reply *r);
/* Of N vectors the first is that head: put the others, which are R's sending, behind it if they are
 * little. How many there are then. */
size_t http_reply_join(struct http_reply *r, h2o_iovec_t *vectors, size_t n);
/* V, if it is (the rest of) R's piece, moves to its request; there is no piece any more. */
void http_reply_keep_piece(struct http_reply *r, h2o_iovec_t *v);
void http_reply_free_piece(struct http_reply *r);
static inline void http_reply_drop_piece(struct http_reply *r)
{
    if (r->piece.p != NULL)
        http_reply_free_piece(r);
}
/*
 * Makes the N vectors of IOV the body of one chunk, of R's answer, and the last chunk with it when
 * that ENDS it; there is room for one vector before them and one after.
 */
size_t http_reply_frame_chunk(struct http_reply *r, h2o_iovec_t **iov, size_t n, bool ends) apart;
/* libh2o, which REQ's head has been given to, has written none. Aborts if it has. */
void http_reply_check_head(const h2o_req_t *req);

/* ---- http2_head.c ---- */
/* h2o_send of the first of an HTTP/2 response, its head included. */
void http2_head_send(struct http_reply *r, h2o_iovec_t *iov, size_t n, h2o_send_state_t state);

/* ---- http2_end.c ---- */
/* A stream's window that nothing a client says can open. */
#define HTTP2_WINDOW_SUNK (-((ssize_t)1 << 60))
/* h2o_send of the end of an HTTP/2 response (STATE), FIRST with its head, with none of its body. */
void http2_end_send(struct http_reply *r, bool first, h2o_send_state_t state);

/* ---- http_tunnel.c ---- */
struct http_tunnel;
/* WORKER is taken over. */
struct http_tunnel *http_tunnel_create(struct http_server *s, const struct http1_upgraded *worker,
                                       uint64_t idle_timeout_ms, const struct http_tunnel_end *end);
/* For h2o_http1_upgrade. */
void http_tunnel_start(void *tunnel, h2o_socket_t *client, size_t request_bytes);
void http_tunnels_end(struct http_server *s);

#endif
