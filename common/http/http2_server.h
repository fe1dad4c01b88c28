/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/2 on a client's connection (RFC 9113): the state of the connection and of its streams, and
 * all that is sent. Bytes are parsed by wire/http2_reader, header blocks are encoded by
 * wire/hpack_encoder, turns are h2o/priority_tree's. Owned by its connection; the loop's thread.
 */
#ifndef RLB_HTTP_HTTP2_SERVER_H
#define RLB_HTTP_HTTP2_SERVER_H

#include "common/http/http_server_internal.h"

struct http2_server;
struct http2_stream;

/* C has negotiated HTTP/2, or its listener speaks nothing else. C may be
 * closed when this returns, as with all below that take a connection. */
void http2_start(struct http_conn *c);
/* There are bytes to read, or the end. */
void http2_readable(struct http_conn *c);
/* Time has passed: time limits of the phases, slow bodies, the second GOAWAY of a drain. */
void http2_sweep(struct http_conn *c, uint64_t now_ms);
/* The server drains: the first GOAWAY (section 6.8); no new requests a while later. LAST: now. */
void http2_drain(struct http_conn *c, bool last);
/* C is being closed: end all its requests (http_reply_lost) and free everything. */
void http2_fini(struct http_conn *c);

/* R is REQ's response. */
void http2_attach(struct http_request *req, struct http_reply *r);
/*
 * A response, by http_reply.c (see there, "the protocols").
 *   iov   N pieces of the body, which stay valid until http_reply_proceed(), if this returns false
 *   last  the response ends with them
 * With the first call the head goes out: R->req->res.
 */
bool http2_send(struct http_reply *r, struct iovec *iov, size_t n, bool last);
/* The rest of the response will not come: reset the stream (the head has not gone out: with a 502
 * it never gets here). http_reply_lost() follows later. */
void http2_cut(struct http_reply *r);
/* Whether R waits for nothing but the client's windows. */
bool http2_waits_for_window(const struct http_reply *r);
/* Bytes of R's body that the transport has taken. */
uint64_t http2_sent_bytes(const struct http_reply *r);

#endif
