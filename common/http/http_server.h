/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server of one loop (HTTP/1 and HTTP/2, plain or TLS): listeners, connections, requests
 * to one handler, and the response's way back with back-pressure. Used by the load balancer's
 * front, the agent's front and the admin address. Everything belongs to the loop's thread. The
 * server owns its listeners and outlives its connections; a connection owns its requests.
 */
#pragma once

#include "common/event/loop.h"
#include "common/event/pace.h"
#include "common/http/body_sink.h"
#include "common/http/http_balance.h"
#include "common/http/http_request.h"
#include "common/net/addr.h"
#include "common/net/address_counts.h"
#include "common/net/body_piece.h"
#include "common/net/networks.h"
#include "common/net/transport.h"
#include "common/tls/tls_server.h"
#include "common/wire/http1_head.h"

struct http_server;
struct http_conn; /* a client's connection */

/* State of a limit that several servers share. Initially all zero. */
struct http_connections {
    _Atomic size_t n;         /* accepted, those in transit to another loop included */
    _Atomic unsigned waiting; /* servers that do not accept, as the limit is reached */
};

/* A request, or a connection, rejected by the server itself. Borrowed for the call. */
struct http_rejection {
    struct http_conn *conn;
    enum request_fault fault;
    int status;  /* as sent; 0: none. 400, not sent, for BODY_BROKEN_OFF of HTTP/1 */
    int version; /* 0x100, 0x101, 0x200; 0: none, the connection was closed before it was known */
    struct slice method, target, host; /* as far as they were read; hostile bytes */
};

struct http_server_options {
    struct request_sizes max; /* over it: 413 or 431, before the handler */
    /*
     * At the limit, the connection that has been idle for longest makes room for a new one; if none
     * is idle, accepting pauses. 0: unlimited. CONNECTIONS: their number, shared by the servers
     * that have the limit together; NULL: this server's.
     */
    size_t max_connections;
    struct http_connections *connections;
    /*
     * Connections of one client address, over all servers that share the table ADDRESSES (borrowed;
     * must outlive them). Above it a connection is closed at once, unless EXEMPT (may be NULL)
     * returns true for its peer. 0: unlimited.
     */
    size_t max_connections_per_address;
    struct address_counts *addresses;
    bool (*exempt)(void *context, const struct addr *peer);
    /* Replaces *ADDRESS, that of the peer, by that of the client of REQ behind it, if it is known.
     * NULL: it never is. */
    void (*client_of)(void *context, const struct http_request *req, struct addr *address);
    /* Selects the loop that serves a connection; NULL: none. This server's place is its loop's
     * index. Borrowed. All listeners must then be added in one turn, and closed in one turn. */
    struct http_balance *balance;
    uint64_t header_timeout_ms;     /* a request head must be complete within */
    uint64_t body_timeout_ms;       /* a request body must be complete within */
    uint64_t keep_alive_timeout_ms; /* an idle client connection is closed after */
    uint64_t send_timeout_ms;       /* a client must take some bytes within (compared once per that
                                       time), or its connection is reset. 0 = none, as for others */
    /* Bytes per second, on average over each full grace time; 0 = any rate. A slower body is
     * rejected (HTTP/1: 408; HTTP/2: stream reset); a slower reader's connection is reset. */
    uint64_t min_body_rate, min_body_rate_grace_ms;
    uint64_t min_send_rate, min_send_rate_grace_ms;
    /* Frames per second of an HTTP/2 connection, above which it is closed; 0 = any. */
    uint32_t http2_pings, http2_priorities, http2_window_updates, http2_resets,
        http2_unknown_frames;
    uint32_t http2_requests;       /* of one connection; then GOAWAY. 0 = any number */
    uint32_t http2_abandoned;      /* abandoned ones, if over half; then it is closed. 0 = any */
    struct body_sink_limits sinks; /* of request bodies */
    struct slice server_name;      /* the Server header; empty: none */
    /*
     * A complete request that has passed the strict checks (request_fault.def): its method is a
     * token, its path begins with "/" (or is "*" for OPTIONS), its authority is host[:port], empty
     * when an HTTP/1.0 client sent none. Call http_response_init here, at once; respond now or
     * later. Memory with the lifetime of the request is allocated by http_request_take.
     */
    void (*on_request)(void *context, struct http_request *req, struct http_conn *conn);
    /*
     * Whether on_request will respond to REQ, of which only the head has arrived, without its body
     * and for the head alone. Called for requests that wait for "100 Continue", which is not sent
     * then: on_request gets the request at once, without a body. NULL: never.
     */
    bool (*declines)(void *context, const struct http_request *req, struct http_conn *conn);
    /* One that has not; it has been counted and gets a response. May be NULL. */
    void (*on_rejected)(void *context, const struct http_rejection *r);
    void *context;
};

struct http_server *http_server_create(struct loop *l, const struct http_server_options *o);
/* New limits and time-outs while running; all else is as before, server_name in any case. */
void http_server_set(struct http_server *s, const struct http_server_options *o);

struct http_listen_options {
    SSL_CTX *ssl; /* NULL: plain. Borrowed; one reference is taken */
    bool http2;   /* plain: nothing but HTTP/2 is accepted (prior knowledge, RFC 9113 section 3.3).
                     With TLS it is ignored: ALPN decides, as SSL offers it (tls_server_create) */
    /*
     * NULL: none. Otherwise each connection must begin with a PROXY header
     * (common/wire/proxy_line.h), and its addresses become those of the connection; a connection
     * from a peer outside these networks is closed. Borrowed until the listener is closed.
     */
    const struct networks *proxy_from;
    /* Called before anything is read of a connection: whether PEER is allowed. NULL: every peer. */
    bool (*allows)(void *context, void *tag, const struct addr *peer);
    /* With TLS: plain HTTP gets a plain 400. Not where clients are programs of ours, which would
     * take the response for an application's. */
    bool responds_plain;
    bool defer_accept; /* TCP: do not accept before the first bytes, for about a second */
    unsigned number;   /* with a balance: the same for the same listener on each loop */
    void *tag;         /* for http_conn_tag: which listener (slot, application) a request came by */
};
struct http_listener;
/* Takes over FD (bound and listening). */
struct http_listener *http_server_listen(struct http_server *s, int fd,
                                         const struct http_listen_options *o);
/* Stops accepting and closes the socket. Existing connections continue. */
void http_listener_close(struct http_listener *l);

/* Accept nothing until it is called with false: connections wait in the sockets' queues. */
void http_server_hold(struct http_server *s, bool hold);
/* Calls EACH with the socket, which remains the listener's, and the tag of each listener. */
void http_server_each_socket(const struct http_server *s,
                             void (*each)(void *context, int fd, void *tag), void *context);

/* Ends service: listeners are closed, responses have Connection: close; tunnels and idle
 * connections are closed. Calls DONE, later, once no connection is left. */
void http_server_drain(struct http_server *s, void (*done)(void *context), void *context);
/* The same, but until http_server_shut_idle tunnels continue, and idle and new connections get one
 * more response. */
void http_server_retire(struct http_server *s, void (*done)(void *context), void *context);
void http_server_shut_idle(struct http_server *s);
/* Cut every connection now. */
void http_server_cut(struct http_server *s);
/* After the drain or cut is complete. */
void http_server_destroy(struct http_server *s);
size_t http_server_connections(const struct http_server *s);

/* Counts of events so far. */
struct http_server_counts {
    uint64_t accepted;  /* connections */
    uint64_t requests;  /* handed to the handler */
    uint64_t abandoned; /* of those: the client left before it had the whole response */
    uint64_t header_timeouts, body_timeouts, send_timeouts; /* connections ended for them */
    uint64_t slow_readers;  /* connections cut for reading below min_send_rate */
    uint64_t resets;        /* HTTP/2 connections cut for abandoning most of many requests */
    uint64_t accept_pauses; /* times accepting paused: too many connections, or no descriptors */
    uint64_t tls12, tls13;  /* handshakes finished, by version */
    uint64_t tls_resumed;   /* of those: with a session of before */
    uint64_t tls_failed[TLS_FAILURES]; /* handshakes not finished, by reason */
    uint64_t rejected[FAULT_COUNT];    /* requests rejected before the handler, by reason */
};
/* Any thread. */
void http_server_read_counts(const struct http_server *s, struct http_server_counts *out);

void *http_conn_tag(const struct http_conn *c);
/* The address of either end: the socket's, or as reported by a proxy in front (proxy_from). Valid
 * until the next call for any connection of this server. */
const struct addr *http_conn_peer(struct http_conn *c);
/* A copy of it. */
void http_conn_copy_peer(const struct http_conn *c, struct addr *out);
const struct addr *http_conn_local(struct http_conn *c);
/* The local address as a host, for REQ without a Host; valid as long as REQ. */
struct slice http_conn_host(struct http_conn *c, struct http_request *req);
/* Whether the client uses TLS: on this connection, or to the proxy in front (proxy_from). */
bool http_conn_client_has_tls(const struct http_conn *c);
/* NULL: plain, or no handshake has been finished. */
const SSL *http_conn_ssl(const struct http_conn *c);

/* ---- the way back ---- */

enum { CHUNK_HEAD_MAX = 2 * sizeof(size_t) + 2 }; /* hex digits, CRLF */

/* Where the head of an HTTP/1 response is written, and its body behind it when that is small. */
struct http_piece {
    char *p; /* a block of the loop's, or of malloc where ROOM is larger; NULL: there is none */
    size_t room;
    size_t from, to; /* what is there already */
};

/*
 * One request's response. Embedded in memory of the user's that lives until gone() has returned;
 * call http_response_init in on_request. Everything below may end the request, and call gone():
 * touch nothing of it after a call with FINAL, after http_response_abort, or after gone().
 */
struct http_response {
    struct http_request *req;
    struct http_conn *conn;
    const struct http_response_events *events;
    void *context;
    size_t queued_bytes; /* taken from the worker, not yet taken by the client */
    uint64_t sent_bytes; /* of body, taken by the client's connection */
    /* The rest is http_response.c's and the protocols'. */
    struct list node; /* in its connection's */

    struct list parts, sending; /* bodies: waiting, and with the protocol until it has taken them */
    uint64_t left_bytes;        /* of the announced length; UINT64_MAX: unknown */
    size_t joined_bytes;        /* of body, in the piece, not taken yet */

    struct http_piece piece; /* HTTP/1: until it is sent */
    struct list held_node;   /* in one of the server's lines */
    int state;
    bool bodyless, chunked, head_sent, in_flight;
    bool final_queued, abort_queued, over;
    bool moving; /* more bytes follow at once after those of this send (MSG_MORE) */

    uint64_t held_until_ms;
    struct timer send_timer;

    /* http_response_init does not zero what follows: its few users initialize it. */
    struct pace stall;               /* of SEND_TIMER: whether the client takes anything */
    struct pace pace;                /* HTTP/2: of the stream, while its own window is closed */
    char chunk_head[CHUNK_HEAD_MAX]; /* of the chunk that is being sent */
};

struct http_response_events {
    /*
     * The queue has shrunk (queued_bytes): a paused worker may continue. Never inside
     * http_response_send, not after FINAL. May be NULL.
     */
    void (*drained)(void *context);
    /*
     * The client has disconnected (detected while waiting for the worker as well as while sending;
     * DONE is false), or all has been sent and the request is about to be freed (DONE is true).
     * Called exactly once per initialized request, as the last call for it.
     */
    void (*gone)(void *context, bool done);
};

void http_response_init(struct http_response *r, struct http_request *req, struct http_conn *c,
                        const struct http_response_events *e, void *context);
/* From now on a client that closes its sending side is not considered gone (HTTP/1); a client that
 * resets its connection still is. */
void http_response_allow_half_close(struct http_response *r);
/* HTTP/1, before the start: returns room for BYTES of whole header lines, which are sent after the
 * fields of req->res; NULL if the request is over. http_response_lines sets how many were written.
 */
char *http_response_room(struct http_response *r, size_t bytes);
void http_response_lines(struct http_response *r, size_t bytes);
/*
 * Starts the response with the status and fields of req->res, which must be set before (the reason
 * is the standard one unless set, and must live as long as the request). To be called once.
 *   content_length  UINT64_MAX: unknown. Of a HEAD or 304 it is what is announced.
 *   hold_ms         The head does not go out before that time has passed or the first bytes of the
 *                   body are there. Servers write the two apart; until then a failure of the worker
 *                   can be undone by http_response_withdraw, and the request be tried elsewhere
 *                   instead of being cut. 0: it goes out before the loop waits again.
 */
void http_response_hold(struct http_response *r, uint64_t content_length, uint64_t hold_ms);
enum {
    RESPONSE_HOLD_MS = 20, /* for a response of a worker */
    /* What such a response may queue even if response_buffers_total is used up. */
    RESPONSE_BUFFER_FLOOR = 16 * 1024,
};
static inline void http_response_start(struct http_response *r, uint64_t content_length)
{
    http_response_hold(r, content_length, 0);
}
/* Take a held response back: true when nothing of it has gone out; then start another one. */
bool http_response_withdraw(struct http_response *r);
/*
 * Queues BODY (taken over; NULL: none); FINAL: it completes the response. Bytes beyond the
 * announced length are dropped; FINAL before that length aborts the response. All bytes of a
 * response without a body (HEAD, 204, 304) are dropped.
 */
void http_response_send(struct http_response *r, struct body_piece *body, bool final);
/*
 * Queue up to MAX received bytes of the body FROM the worker; those that the client's connection
 * accepts at once do not pass through this program's memory. Only for HTTP/1 without TLS, with a
 * content length, when nothing else is queued. Returns their number, as recv(2) without waiting, or
 * -1 with errno. ENOTSUP: not possible now, so that they must be read; also if R is NULL.
 */
ssize_t http_response_move(struct http_response *r, struct transport *from, size_t max);
/*
 * The response cannot be completed: after the queued bytes it is cut, so that the client detects
 * this. If it was not started, or is still held, the response is a 502 instead.
 */
void http_response_abort(struct http_response *r);
/* The same, but what is queued is dropped, and the stream is reset or the connection closed. */
void http_response_cut(struct http_response *r) cold_;
/* The body of R's request is not needed any more: frees its file, or its memory. */
void http_response_drop_body(struct http_response *r);
/* Sends a complete response; copies BODY. Set fields other than Content-Type before. */
void http_response_simple(struct http_response *r, int status, const char *content_type,
                          struct slice body);
/*
 * Respond with 101 and the fields of req->res (Upgrade among them) and join the client's socket to
 * WORKER (ownership passes) until both sides have closed, either fails, or nothing has arrived for
 * the idle time-out (0 = none). HTTP/1.1 only. The counts are reported at the end, later; gone() is
 * called when the tunnel starts.
 */
struct http_tunnel_end {
    void (*ended)(void *context, uint64_t to_worker_bytes, uint64_t to_client_bytes);
    void *context;
};
void http_response_tunnel(struct http_response *r, const struct upgraded_transport *worker,
                          uint64_t idle_timeout_ms, const struct http_tunnel_end *end);
