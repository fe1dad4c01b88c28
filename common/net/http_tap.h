/* SPDX-License-Identifier: Apache-2.0
 *
 * The tap on a client's connection: it sees (decrypted) bytes as they arrive, before libh2o does,
 * and can refuse the connection. Of HTTP/1 it follows heads and bodies strictly, hands one request
 * at a time to libh2o, or past it (http_short.c), and holds what comes after it back. Embedded in
 * the connection (http_conn.h), which it lives and dies with; the loop's thread.
 *
 * It stands where libh2o keeps its read callback, in a private field of the socket: locked to this
 * version of the library, and tried out at the start of each server.
 */
#ifndef RLB_NET_HTTP_TAP_H
#define RLB_NET_HTTP_TAP_H

#include "common/base/text.h"
#include "common/event/loop.h"
#include "common/wire/http2_intake.h"
#include "common/wire/request_chunks.h"

#include <h2o.h>

struct body_file;
struct http_conn;
struct http_server;

enum tap_state {
    TAP_UNSERVED, /* libh2o has it not yet: the header of a proxy in front is to come */
    TAP_NONE,     /* no requests yet: TLS is being set up, or nothing has come; or none any more: a
                     tunnel */
    TAP_RESTING,  /* HTTP/1, between requests: libh2o has it no more (http_rest.c) */
    TAP_HEAD,     /* HTTP/1: a request head is read, or expected */
    TAP_LENGTH,   /* a body of known length */
    TAP_CHUNKED,  /* a chunked one */
    TAP_HTTP2,
    TAP_REFUSED, /* answered by us: what else comes is thrown away until the end */
};

/* A part of the request head, from the start of the socket's input. */
struct tap_span {
    uint32_t at, len;
};

/* How long a refused client may go on sending and not read its answer. */
enum { TAP_LINGER_MS = 5000, TAP_LINGER_BYTES = 8 << 20 };

/* Of a connection that is refused. */
struct tap_refused {
    struct text answer;
    uint64_t until_ms; /* then the connection ends, whatever the client does */
    size_t dropped;    /* bytes that came since */
    bool ended;        /* the client has, while the answer was on its way */
};

struct http_tap {
    enum tap_state state;
    bool reads;         /* we read the socket, not libh2o */
    h2o_socket_cb read; /* libh2o's */
    struct list node;   /* linked while libh2o may put its callback back, or for a turn: the
                            server's untapped, or holding; or, of an idle one, tired */
    bool *gone;         /* set when the connection goes while libh2o is being called */
    /* The head of the present request. */
    uint32_t scanned; /* of it, without finding its end */
    uint32_t lines;
    bool head_known; /* the rest is set */
    uint32_t head_bytes, nheaders;
    bool keep_alive;
    bool brief;                           /* it goes past libh2o, once it is whole (http_short.c) */
    struct tap_span method, target, host; /* host: length 0 at 0 when there is none */
    uint64_t left;                        /* of its body */
    struct body_file *file;               /* it is large, and is put there while it comes */
    /* What came after the request, or is not yet read; bytes before held_at have been handed on. */
    size_t held_at;
    struct text held;

    /* From here on for few: of large or chunked bodies, HTTP/2, and who is refused. */
    struct body_file *body; /* the whole of it, until the request has it */
    struct request_chunks chunks, stripped;
    struct http2_intake *http2;
    struct list stored;          /* bodies of HTTP/2 that are on their way into a file */
    bool goaway_sent;            /* HTTP/2: the first of the drain */
    struct tap_refused *refused; /* NULL: it is not */
};

/* Once at the start, on the loop: whether libh2o is the one this is made for. Aborts if not. */
void http_tap_check_library(struct loop *l);
void http_tap_start_server(struct http_server *s);
void http_tap_stop_server(struct http_server *s);

/* Have libh2o serve the accepted socket of C, from TLS on. C may be gone then. */
void http_tap_accept(struct http_conn *c);
/* C rests: have libh2o serve it again when bytes come. */
void http_tap_wait(struct http_conn *c);
/* A request has ended: libh2o goes on reading, by a callback of its own. */
void http_tap_look_again(struct http_conn *c);
/* What was checked of the present HTTP/1 request. False: nothing was. Slices are of the input. */
bool http_tap_head(const struct http_conn *c, struct http1_request_facts *out);
/* The connection becomes a tunnel, whose input C's socket has: what was held back goes there. */
void http_tap_release(struct http_conn *c);
/* Refuse the HTTP/1 request that is on its way, before it is complete. The connection may go. */
void http_tap_refuse(struct http_conn *c, enum request_fault f) rare;
/* Whether C was refused, or is closing; then its time is looked after here, and the sweep has
 * nothing to do. (http_slow.c) */
bool http_tap_sweep(struct http_conn *c, uint64_t now_ms);
/* Read on what is a client's connection; libh2o learns of it. */
void http_tap_read_on(struct http_conn *c);

/* ---- http_tap_head.c ---- */
/*
 * Read on in a head, which is at the start of the input, FRESH bytes of which are new. False: it
 * is refused, and the connection may be gone. *REST: how many bytes come after it, once it is
 * whole.
 */
bool http_tap_take_head(struct http_conn *c, size_t fresh, size_t *rest);

/* ---- http_tap_input.c ---- */
enum tap_read {
    TAP_READ_NOTHING, /* nothing has come */
    TAP_READ_SOME,
    TAP_READ_FULL, /* as much as there was room for: more may be there */
};
/* One read into the input. *FRESH bytes have come; none, and *ERR is set: the end. */
enum tap_read http_tap_receive(struct http_conn *c, size_t *fresh, const char **err);
/* FRESH bytes of a body, or none, have come: have room for all of it at once. */
void http_tap_make_room(struct http_conn *c, size_t fresh);
/* The last REST bytes of the input are of the next request. */
void http_tap_hold_back(struct http_conn *c, size_t rest);
/* A head is not whole yet: let it have no more room than it needs. */
void http_tap_shrink_head(struct http_conn *c) apart;

/* ---- http_tap_spill.c ---- */
/* Whether a body is on its way into a file, and whether the one that begins should be. */
bool http_tap_spilling(const struct http_conn *c);
/* It is, and all of it is there. */
bool http_tap_spilled(const struct http_conn *c);
bool http_tap_wants_spill(const struct http_conn *c);
/* Whether a chunked one, which waits in the input until it is whole, has become too large for it.
 */
bool http_tap_outgrows_memory(const struct http_conn *c);
/* Begin. False: there is no file, and the request was refused; the connection may be gone. */
bool http_tap_begin_spill(struct http_conn *c) apart;
/* Take so many BYTES of it, as they came, from the input, where REST follow them. False: as above.
 */
bool http_tap_spill(struct http_conn *c, size_t bytes, size_t rest);
/* Read more of it, if its length is known; when it is whole, libh2o gets the request. The
 * connection may be gone then. */
void http_tap_go_on_spilling(struct http_conn *c);
/* Whether "100 Continue" is being written; a refusal follows it then. */
bool http_tap_says_continue(const struct http_conn *c);
/* Forget it: the request is refused. */
void http_tap_drop_spill(struct http_conn *c);
/* The body of REQ, which has just been read, if it is in a file: REQ gets it, and owns it. Into
 * *OUT, NULL otherwise. */
enum request_fault http_tap_give_body(struct http_conn *c, h2o_req_t *req,
                                      const struct body_file **out);
/* HTTP/2: BYTES of STREAM's body come after the first BEFORE. False: there is no room. */
bool http_tap_store(struct http_conn *c, uint32_t stream, size_t before, struct slice bytes) apart;
/* What was stored of STREAM is not wanted any more. */
void http_tap_forget_stored(struct http_conn *c, uint32_t stream);
void http_tap_fini_spill(struct http_conn *c);

/* ---- http_tap_answer.c ---- */
/* Into *OUT: the whole answer to a request that is refused, which says WHY. */
void http_tap_put_answer(const struct http_conn *c, int status, const char *why, struct text *out);
/* The connection goes. */
void http_tap_fini(struct http_conn *c);

/* ---- between http_tap.c and the others ---- */

/* Refuse C for F, with what was read of its request, or NULL. The connection may go. */
void http_tap_refuse_for(struct http_conn *c, enum request_fault f,
                         const struct http1_request_facts *r) rare;
/* C is refused: it has from now so long to read its answer, and to end. */
void http_tap_linger(struct http_conn *c) rare;
/* Write the answer of C, which is refused. */
void http_tap_write_refusal(struct http_conn *c) rare;
/* Whether our callback stands where libh2o's would. */
bool http_tap_in_place(const struct http_conn *c);
/* Call libh2o. False: the connection has gone, or is closing (http_conn_is_closing). */
bool http_tap_pass_on(struct http_conn *c, const char *err);
/* Free what was held back, if all of it has been handed on. */
void http_tap_drop_held(struct http_conn *c);
/* Count a refusal of C; of HTTP/1 with what was read of the request. */
void http_tap_report(struct http_conn *c, enum request_fault f,
                     const struct http1_request_facts *r);
/* End C, which speaks HTTP/2, for F. It may be gone then. */
void http_tap_end_http2(struct http_conn *c, enum request_fault f);

void http_tap_begin_http2(struct http_conn *c);
/* FRESH bytes have come, at the end of the input. C may be gone then, as after the next. */
void http_tap_take_http2(struct http_conn *c, size_t fresh);
/* Go on with what was held back. */
void http_tap_hand_on_http2(struct http_conn *c);
/* Whether libh2o is between two frames. */
bool http_tap_may_inject_http2(const struct http_conn *c);
/* Only then: end the open stream S, whose request is not complete, for both sides. C may be gone
 * then. */
void http_tap_reset_http2(struct http_conn *c, struct http2_stream *s);
/* Why REQ has come without the rest of its body, or FAULT_NONE. */
enum request_fault http_tap_fault_http2(const struct http_conn *c, h2o_req_t *req);
uint32_t http_tap_stream_http2(h2o_req_t *req);
/* Have libh2o say GOAWAY with the error that F is, and close. C may be gone then. */
void http_tap_say_goaway(struct http_conn *c, enum request_fault f);
/* The server drains: say GOAWAY, and with LAST again, from when on no new requests are taken. */
void http_tap_drain_http2(struct http_conn *c, bool last);
/*
 * libh2o 2.2.5 goes on with other requests of a connection whose write has failed, while it closes
 * it, and trips over what they write. Tell it that it closes, if so. True: it does.
 */
bool http_tap_is_dying(struct http_conn *c);

#endif
