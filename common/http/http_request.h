/* SPDX-License-Identifier: Apache-2.0
 *
 * A request of HTTP/1 or HTTP/2 for handlers, and their response. Its texts are borrowed from its
 * stream and valid as long as the request. http_request_take allocates memory with the same
 * lifetime.
 *
 * The connection outlives the request. The loop's thread.
 */
#pragma once

#include "common/base/bytes.h"
#include "common/base/memory.h"
#include "common/base/text.h"
#include "common/wire/http1_head.h"

struct body_file;
struct body_sink;

enum {
    REQUEST_FIELDS_MAX = 100, /* header fields, whatever the limit is */
    REQUEST_HEAD_MAX = 32768, /* bytes, without another limit */
};

struct message_fields {
    struct message_field *at;
    size_t n, room;
    uint32_t kinds; /* FIELD_BIT of each that is there; and perhaps of some that are not */
};

/* Status and fields, until the response starts. */
struct http_response_head {
    int status;
    const char *reason;      /* lives as long as the request; NULL: the standard one */
    uint64_t content_length; /* http_response.c's; UINT64_MAX: not announced */
    struct message_fields fields;
};

struct http_request {
    struct slice method;
    struct slice target;               /* begins with "/", or is "*" */
    struct slice authority;            /* host[:port]; empty: a client of HTTP/1.0 has sent none */
    struct slice body;                 /* p == NULL: it has none, not even an empty one */
    const struct body_file *body_file; /* that holds BODY; NULL: memory does */
    struct slice upgrade;              /* p == NULL: it asks for none */
    int version;                       /* 0x100, 0x101, 0x200 */
    bool keep_alive;      /* HTTP/1: the connection stays; false: the response is its last */
    uint64_t received_ms; /* wall clock */
    struct message_fields fields; /* without Host and Content-Length */
    struct http_response_head res;
    /* The rest is the server's. */
    struct slice path; /* http_request_path; p == NULL: not computed yet */
    struct arena arena;
    struct body_sink *sink;         /* the stream's, with BODY */
    struct http2_stream *stream;    /* HTTP/2; else NULL */
    struct http_response *response; /* from http_response_init() on */
};

/* Initializes REQ. http_request_take uses the ROOM_BYTES at ROOM first, then the heap. */
void http_request_init(struct http_request *req, void *room, size_t room_bytes);
/* Frees what was taken from it. */
void http_request_fini(struct http_request *req);

/* N bytes that live as long as REQ; aligned as malloc does, not zeroed. */
static inline void *http_request_take(struct http_request *req, size_t n)
{
    return arena_take(&req->arena, n);
}
/* A copy of S that lives as long, with a NUL behind it. */
struct slice http_request_retain(struct http_request *req, struct slice s);

/*
 * Whether REQ asks for a WebSocket, which is the only upgrade that is passed on. A request for any
 * other protocol, such as h2c, is served as if it had no Upgrade.
 */
bool http_request_wants_websocket(const struct http_request *req);

/* The target without query, normalized (path_normalize): one path, however it is written. */
struct slice http_request_path(struct http_request *req);

/* Add a field to FIELDS, REQ's own or its response's: NAME and VALUE are borrowed while that lives.
 */
void http_request_add(struct http_request *req, struct message_fields *fields, struct slice name,
                      struct slice value);
/* Adds a field to the response. NAME is a literal, which is not copied; VALUE is copied. */
void http_request_add_response(struct http_request *req, const char *name, struct slice value);

/* Whether FIELDS may have one of KINDS, bits. */
static inline bool message_fields_may_have(const struct message_fields *fields, uint32_t kinds)
{
    return (fields->kinds & kinds) != 0;
}
/* Removes the fields of KINDS, bits. */
void message_fields_drop(struct message_fields *fields, uint32_t kinds);
/* The first with the NAME, in any case; NULL: none. AFTER: only those after it; NULL: all. */
const struct message_field *message_fields_find(const struct message_fields *fields,
                                                struct slice name,
                                                const struct message_field *after) noinline_;

/* ---- which requests are served ---- */

/* Of a request as the client has sent it, or limits of them: 0 bytes or fields of a head are the
 * constants above. */
struct request_sizes {
    size_t head_bytes, fields;
    uint64_t body_bytes; /* received or announced */
};
/* Whether a head of so many bytes and fields is too large. */
enum request_fault request_check_head(const struct request_sizes *max, size_t bytes, size_t fields);
/* FAULT_TARGET_TOO_LARGE instead of F, FAULT_HEADERS_TOO_LARGE, if the request line of REQ, as far
 * as it is known, is too large by itself. Other faults are returned unchanged. */
enum request_fault request_line_fault(const struct request_sizes *max, enum request_fault f,
                                      const struct http_request *req) cold_;
/* Whether a body of so many bytes, received or announced, is too large. */
static inline enum request_fault request_check_body(const struct request_sizes *max, uint64_t bytes)
{
    return bytes > max->body_bytes ? FAULT_BODY_TOO_LARGE : FAULT_NONE;
}
/*
 * Why REQ, with a complete head, must not be served, or FAULT_NONE: the above, and its method and
 * target. Takes an absolute target apart: its authority replaces that of Host. The memory is REQ's.
 */
enum request_fault request_check(struct http_request *req, const struct request_sizes *sizes,
                                 const struct request_sizes *max) must_check;

/* ---- fields of proxied messages; http_field.h of common/wire classifies them ---- */

/* Adds copies of the fields of HEAD, a worker's response, to the response, except the kinds DROPPED
 * (bits). */
void http_request_take_response(struct http_request *req, const struct http1_head *head,
                                uint32_t dropped);
/* What a proxy adds to each message, which it received with VERSION. */
static inline char *http_put_via(char *at, int version)
{
    if (version == 0x101)
        return PUT(at, "Via: 1.1 resumelb\r\n");
    return version == 0x100 ? PUT(at, "Via: 1.0 resumelb\r\n") : PUT(at, "Via: 2 resumelb\r\n");
}

/* A request as it is sent on. Texts that are empty are not sent. */
struct forwarded_request {
    const struct http_request *req;
    struct slice target, authority;
    uint32_t dropped; /* kinds of fields that are not sent (bits); FIELDS_HOP never are */
    /* X-Forwarded-* are sent: For is CLIENT; if APPENDS, behind the addresses that REQ has, and its
     * other X-Forwarded-* are sent instead of these. */
    bool forwards, appends;
    struct slice client;         /* address of the client, or of the connected peer, without port */
    bool tls;                    /* the client uses TLS */
    struct slice forwarded_host; /* stated by a trusted proxy; empty: AUTHORITY */
    struct slice client_verdict, client_subject; /* of its certificate; p == NULL: absent */
    bool via;                                    /* adds Via */
    struct slice request_id; /* replaces the client's, which is sent unchanged otherwise */
    struct slice cls, fingerprint;
    struct slice more; /* further whole lines */
    bool websocket;    /* asks for the upgrade */
};
/* Appends the complete head to OUT. */
void http_put_request(const struct forwarded_request *r, struct text *out);
/* Standard reason phrase, NUL-terminated: "Not Found"; "Unknown" for others. */
const char *http_status_reason(int status) noinline_;
