/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of the HTTP server, included by its files only:
 *
 *     http_server.c   the server: options, listeners, which requests are served, held heads, sweep,
 *                     drain
 *     http_conn.c     connections and their phases, PROXY header, TLS
 *     http1_server.c  HTTP/1: requests                        http1_server_response.c  and
 * responses http2_server.c  HTTP/2: the connection                  http2_stream.c    requests
 *     http2_output.c  and all that is sent
 *     http_request.c  a request, of either protocol
 *     http_response.c    a response, of either; slow clients     body_sink.c       request bodies
 *     http_tunnel.c   after a 101
 *
 * Lifetimes: loop > server > listener, connection > request > response. A connection holds a
 * reference to its listener. Everything belongs to the loop's thread, except for the counts.
 */
#pragma once

#include "common/base/memory.h"
#include "common/http/http_server.h"
#include "common/net/transport.h"
#include "common/wire/http2/http2_head.h"

enum {
    /* How long a client that was rejected may continue to send, and how much. */
    LINGER_MS = 5000,
    LINGER_BYTES = 8 << 20,
    READ_ROOM_BYTES = 256 * 1024,
    HTTP_DATE_BYTES = 29, /* "Sun, 06 Nov 1994 08:49:37 GMT" */
};

struct http_server {
    struct loop *loop;
    struct http_server_options options;
    char *server_name;
    struct list listeners, tunnels;
    struct list conns;  /* all open connections but those in IDLE */
    struct list idle;   /* connections without a request, the longest idle first */
    struct list closed; /* their memory is freed at the end of the turn */
    struct slab conn_slab;
    struct list begun_responses, held_responses; /* the first to be sent first */
    struct timer held_timer;
    struct list http1_server_spares; /* http1_server.c: unused streams */
    size_t nspares;
    struct message_field
        http1_server_fields[REQUEST_FIELDS_MAX]; /* of the head that is being read */
    size_t nconns, ntunnels;
    size_t nrequests; /* in progress */
    char *read_room;  /* READ_ROOM_BYTES for parts of bodies; http_server_read_room() */
    struct body_file_bin body_bin;
    struct body_shares body_shares; /* if there are totals */
    struct http2_scratch http2_scratch;
    struct addr shown[2]; /* returned by http_conn_peer and http_conn_local */
    int pipe[2];          /* http1_server_response.c: empty between two calls; -1: not open yet */
    char date[HTTP_DATE_BYTES + 1]; /* of DATE_S; http_server_date() */
    uint64_t date_s;
    struct timer sweep;
    struct timer accept_again; /* runs after descriptors ran out */
    bool accept_paused, held, draining;
    bool waits_for_room; /* counted in options.connections->waiting */
    bool shuts_idle;     /* draining, and idle connections are closed without a further response */
    bool balanced;       /* has its place in options.balance */
    uint64_t drain_ms;   /* when the drain began */
    void (*drained)(void *context);
    void *drained_context;
    struct loop_deferred end_of_drain;
    struct http_server_counts counts; /* http_server_count(); read by any thread */
};

struct http_listener {
    struct list node;
    struct http_server *server;
    int fd;
    struct watch *watch;                /* NULL once closed */
    struct http_listen_options options; /* with a reference to SSL */
    struct addr local;                  /* of all its connections; not set: each has its own */
    unsigned at_a_time;                 /* maximum of connections accepted for one event */
    unsigned full_events;               /* consecutive events for which there were as many */
    unsigned refs;                      /* one while it is open, and one for each connection */
};

/* The protocol that handles the bytes of a connection. */
enum conn_state {
    CONN_PROXIED,   /* the header of a proxy in front is expected */
    CONN_HANDSHAKE, /* TLS */
    CONN_HTTP1,
    CONN_HTTP2,
    CONN_LINGER, /* rejected: what still comes is discarded */
    CONN_TUNNEL,
    CONN_CLOSED, /* memory is freed at the end of the turn */
};

/* Set by http_conn_enter() where it changes; each but BUSY has a time limit. */
enum conn_phase {
    PHASE_NEW,  /* no request has begun; includes the PROXY header and the handshake */
    PHASE_HEAD, /* a request head is incomplete */
    PHASE_BODY, /* HTTP/1: the body of a request is incomplete */
    PHASE_IDLE, /* between requests */
    PHASE_BUSY, /* at least one request is in progress (HTTP/2: or a body is incomplete) */
};

/* Most addresses are IPv4 or IPv6, and a struct addr is four times as large. */
struct small_addr {
    socklen_t len;
    union {
        struct sockaddr_in6 in6; /* or a smaller one */
        struct addr *large;
    };
};

/* Bytes still to be sent to a rejected client, and to be discarded from it. */
struct http_linger {
    struct text out;
    struct iovec left; /* of OUT */
    uint64_t until_ms;
    size_t dropped;
};

struct http_conn {
    struct http_server *server;
    struct http_listener *listener;
    struct transport transport;
    enum conn_state state;
    enum conn_phase phase;
    struct http1_server_stream *http1; /* the present request and its response; NULL: idle */
    struct http1_server_partial
        *partial;               /* instead of it, while a head is incomplete and no bytes come */
    struct http2_server *http2; /* CONN_HTTP2 only; else NULL */
    struct list responses;      /* of requests in progress */
    uint64_t requests;
    uint64_t received_bytes; /* after decryption */
    uint64_t phase_since_ms;
    struct list node;        /* in the server's conns, idle or closed */
    bool half_close_allowed; /* the response continues when the client closes its sending side */
    bool tls_before_us;      /* the client uses TLS to the proxy in front (proxy_from) */
    struct pace body_pace, send_pace;
    struct small_addr peer, local;
    struct address_count *address; /* where PEER is counted; NULL: it is not */
    struct text *proxied;          /* CONN_PROXIED only: of the header; else NULL */
    struct http_linger *linger;    /* CONN_LINGER only; else NULL */
    uint64_t abandoned;            /* requests that were given up before their response began */
    unsigned rejected;             /* requests over HTTP/2 that were rejected */
    enum tls_failure tls_failure;  /* why the handshake failed, as far as is known */
    struct loop_deferred later;    /* reads what TLS has read ahead; if closed, frees C */
};

/* ---- http_server.c ---- */
/* One more of *COUNT, which the loop's thread alone changes. */
static inline void http_server_count(uint64_t *count)
{
    __atomic_store_n(count, *count + 1, __ATOMIC_RELAXED);
}
void http_server_conn_closed(struct http_server *s);
/* Count the rejection of C, or of REQ, if it is known, and report it to the user. STATUS: as sent,
 * or 0. */
void http_server_rejected(struct http_conn *c, enum request_fault f, int status,
                          const struct http_request *req);
/* Room of READ_ROOM_BYTES, valid until the next call for any connection. */
char *http_server_read_room(struct http_server *s) returns_nonnull_;
/* The present time as HTTP has it: HTTP_DATE_BYTES. */
const char *http_server_date(struct http_server *s) returns_nonnull_;
/* A descriptor that was accepted is closed: its place among the process's connections is free. */
void http_accept_release(struct http_server *s);
/* Resumes accepting, if it was paused and there is room for a connection again. */
void http_accept_resume(struct http_server *s);
void http_listener_release(struct http_listener *l);
/* Flush R (http_response_flush) after HOLD_MS, never inside this call, unless it leaves the list
 * (held_node) before. */
void http_schedule_flush(struct http_response *r, uint64_t hold_ms);
/* nconns, nrequests or accept_paused has changed: notify the other loops. */
void http_server_load_changed(struct http_server *s);

/* Whether the handler responds to REQ, of which the head is complete, without its body. */
bool http_server_declines(struct http_conn *c, const struct http_request *req);

/* ---- http_conn.c ---- */
/* Takes over an accepted descriptor, and its place (http_accept_release), and serves it. */
void http_conn_accept(struct http_listener *l, int fd, const struct addr *peer);
/*
 * Close C at once: its requests end as abandoned. Memory is freed at the end of the turn, so that
 * callers further up can ask http_conn_is_closed(). May be called again.
 */
void http_conn_close(struct http_conn *c);
/* The same, by a reset: for the client the end must not look like that of a response. */
void http_conn_reset(struct http_conn *c);
/* Free C, which is closed, now. */
void http_conn_destroy(struct http_conn *c);
static inline bool http_conn_is_closed(const struct http_conn *c)
{
    return c->state == CONN_CLOSED;
}
void http_conn_enter(struct http_conn *c, enum conn_phase phase);
/* Has C read again at the end of this turn if TLS has read ahead, which the poller does not report.
 * To be called after a bounded number of reads. */
void http_conn_read_ahead_later(struct http_conn *c);
/* The client that the body of REQ, with a complete head, counts for. */
struct fair_owner http_conn_owner(const struct http_conn *c, const struct http_request *req);
/*
 * C gets no more responses: send OUT (taken over; may be empty), then close the sending side and
 * discard what still comes, for LINGER_MS and LINGER_BYTES at most. So that the client can read
 * OUT: the kernel resets a connection that is closed with unread bytes.
 */
void http_conn_linger(struct http_conn *c, struct text *out);
/* Time has passed: close or reject what is over its time. C may be closed. */
void http_conn_sweep(struct http_conn *c);
/* The server no longer serves idle connections. */
void http_conn_drain(struct http_conn *c);
/* A number that changes when the peer takes bytes; at TCP, by as many. */
uint64_t http_conn_progress(const struct http_conn *c);
/* Whether the phase of C has lasted LIMIT_MS; 0: no limit. */
bool http_conn_phase_over(const struct http_conn *c, uint64_t limit_ms, uint64_t now_ms);

/* Bytes to be sent first: those read after the request, and the head of the 101. */
struct http_tunnel_bytes {
    struct text to_worker, to_client;
};

/* ---- HTTP/1: http1_server.c, http1_server_response.c ---- */
void http1_server_stop(struct http_server *s);
/* There are bytes to read, or the end. C may be closed then, as with all below. */
void http1_server_readable(struct http_conn *c);
void http1_server_sweep(struct http_conn *c, uint64_t now_ms);
/* Release the stream of C, which is being closed. */
void http1_server_fini(struct http_conn *c);
/* Returns the head of R's 101, and the bytes that were read after its request; the caller's. */
struct http_tunnel_bytes http1_server_upgrade(struct http_response *r);
/* As http2_send below. */
bool http1_server_send(struct http_response *r, struct iovec *iov, size_t n, bool last);
void http1_server_cut(struct http_response *r) cold_;
/* The response is complete, or cut: continue with the next request, or close. */
void http1_server_finish(struct http_conn *c);
/* A response of the server's own, as a whole; without content if the request IS_HEAD. */
void http1_server_put_response(const struct http_conn *c, int status, const char *why, bool is_head,
                               struct text *out);
/* Frees the response's piece of memory, if it has one. */
void http1_server_drop_piece(struct http_response *r);
/* Sends the *N vectors at *IOV as far as T takes them, and sets both to what is left. False with
 * errno: it takes no more now (EAGAIN), or never will. */
bool http_write(struct transport *t, struct iovec **iov, size_t *n, int flags);

/* ---- HTTP/2 (RFC 9113): http2_server.c, http2_stream.c, http2_output.c ---- */
/* C speaks HTTP/2. It may be closed when this returns, as with all below that take a connection. */
void http2_start(struct http_conn *c);
/* There are bytes to read, or the end. */
void http2_readable(struct http_conn *c);
/* Time has passed: time limits of the phases, slow bodies, the second GOAWAY of a drain. */
void http2_sweep(struct http_conn *c, uint64_t now_ms);
/* C has been idle for too long: end it with GOAWAY. */
void http2_end_idle(struct http_conn *c);
/* The server drains: the first GOAWAY (section 6.8); no new requests a while later. LAST: now. */
void http2_drain(struct http_conn *c, bool last);
/* C is being closed: end all its requests (http_response_lost) and free everything. */
void http2_fini(struct http_conn *c);

/* Response: see http_response.c, "the protocols". The N pieces at IOV stay valid until
 * http_response_proceed() if this returns false; LAST: the response ends with them. */
bool http2_send(struct http_response *r, struct iovec *iov, size_t n, bool last);
/* The rest of the response will not come: reset the stream. http_response_lost() follows later. */
void http2_cut(struct http_response *r);
/* Whether R waits for nothing but the client's windows. If so, *SENT is what shows that the client
 * opens them: the bytes of R, or those of all responses if only the connection's window is closed,
 * which others that precede R may use up. */
bool http2_waits_for_window(const struct http_response *r, uint64_t *sent);
/* Bytes of R's body that the transport has taken. */
uint64_t http2_sent_bytes(const struct http_response *r);

/* ---- http_response.c: called by the protocols ---- */
/* Called when the data is sent for which http1_server_send or http2_send returned false. May end R.
 */
void http_response_proceed(struct http_response *r);
/* All of R has been taken by the client's connection. R is over then. */
void http_response_finished(struct http_response *r);
/* The client has left, has reset the stream, or its connection was closed. R is over then. */
void http_response_lost(struct http_response *r);
/* Start a held response, and send its head and what is queued. */
void http_response_flush(struct http_response *r);
/* Whether R continues, and all that was queued has been sent. */
bool http_response_flows(const struct http_response *r);
/* Responses are being sent: a client that reads too slowly is disconnected. C may be closed. */
void http_response_sweep(struct http_conn *c, uint64_t now_ms);

/* ---- http_tunnel.c ---- */
struct http_tunnel;
/* WORKER and EARLY are taken over. C's transport is the tunnel's from now on, and C is closed at
 * its end. C NULL, or closed: the client has disconnected; EARLY may be NULL then. */
void http_tunnel_start(struct http_server *s, struct http_conn *c, struct http_tunnel_bytes *early,
                       const struct upgraded_transport *worker, uint64_t idle_timeout_ms,
                       const struct http_tunnel_end *end);
void http_tunnels_end(struct http_server *s);
