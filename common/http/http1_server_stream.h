/* SPDX-License-Identifier: Apache-2.0
 *
 * A request over HTTP/1, from its first byte to the end of its response. Internals of
 * http1_server.c and http1_server_response.c.
 *
 * Owned by its connection, which has none between two requests. Its memory is retained by the
 * server for the next one. The loop's thread.
 */
#pragma once

#include "common/http/http_server_internal.h"
#include "common/wire/http1_chunked.h"

enum {
    HTTP1_SERVER_FIELDS_ROOM = 24,  /* more are in the request's arena */
    HTTP1_SERVER_FIELDS_MORE = 4,   /* that handlers add */
    HTTP1_SERVER_TAKEN_ROOM = 1024, /* for what handlers take */
    HTTP1_SERVER_UNSENT_MAX = 68,   /* vectors of one send: 64 of a body, and those around them */
};

enum http1_server_state {
    HTTP1_SERVER_HEAD,    /* the head is incomplete */
    HTTP1_SERVER_SIZED,   /* a body of known length */
    HTTP1_SERVER_CHUNKED, /* a chunked body */
    HTTP1_SERVER_BUSY,    /* the request is with the handler */
};

struct http1_server_stream {
    struct list spare; /* in the server's, while it is not used */
    struct http_conn *conn;
    enum http1_server_state state;

    /* Input: the head, and what was read with it. */
    char *in;
    size_t in_len, in_room; /* LOOP_BLOCK_BYTES: a block of the loop's; else malloc's */
    size_t in_used;         /* of IN; what follows belongs to the next request */
    uint32_t scanned;       /* of the head, without finding its end */
    uint32_t lines;
    size_t head_bytes; /* 0: not known yet */

    uint64_t left; /* of a sized body */
    bool in_place; /* the body follows its head in IN */
    bool declined; /* the body has not been asked for, but may come */
    struct http1_chunked chunks;
    struct body_sink body;
    struct text rest; /* was read behind a chunked body: the next request */

    /* "100 Continue", as far as it has not been taken. */
    struct iovec interim;

    /* Response: what the transport has not taken yet. */
    struct iovec unsent[HTTP1_SERVER_UNSENT_MAX];
    size_t unsent_at, unsent_n;
    bool last; /* nothing follows it */
    struct loop_deferred finish;

    struct http_request req;
    struct message_field fields[HTTP1_SERVER_FIELDS_ROOM];
    _Alignas(ARENA_ALIGN) char taken[HTTP1_SERVER_TAKEN_ROOM];
};

/* The bytes of an incomplete head, while none come. */
struct http1_server_partial {
    size_t len;
    uint32_t scanned, lines; /* as of the stream */
    char bytes[];
};

/* http1_server_response.c: sends what the transport has not taken; called when it may take bytes.
 */
void http1_server_write_on(void *conn);
