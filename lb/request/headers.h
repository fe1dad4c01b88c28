/* SPDX-License-Identifier: Apache-2.0
 *
 * Header fields in transit: which are passed on, dropped, or added. The head of a request as a
 * worker gets it is written by http_put_request(). Stateless; on the exchange's loop.
 *
 * Never passed on, in either direction: hop-by-hop fields, what Connection lists, framing (which is
 * generated), and Resumelb-*. A name is compared with '_' taken for '-', because CGI-like
 * interfaces do not distinguish the two, so that a client cannot set Resumelb_Class.
 */
#pragma once

#include "common/base/text.h"
#include "common/http/http_request.h"
#include "common/wire/cache_rules.h"

enum {
    /* Maximum value of Max-Forwards that is sent; larger ones are reduced to it. */
    MAX_FORWARDS_MAX = 255,
    /* Maximum length of a client's X-Request-ID that is forwarded. */
    REQUEST_ID_MAX = 128,
};

/* Returns true if REQ may be sent as HTTP/1.1: not CONNECT, within METHOD_MAX, and without control
 * bytes, which HTTP/2 could have. */
bool headers_check_request(const struct http_request *req);
/* The client's X-Request-ID if it is forwarded (REQUEST_ID_MAX, plain characters); or p == NULL. */
struct slice headers_request_id(const struct http_request *req);
/* Reads Max-Forwards, reduced to MAX_FORWARDS_MAX + 1. Errors: ERR_NOT_FOUND; ERR_SYNTAX if it is
 * not a number, or duplicate. */
enum err headers_max_forwards(const struct message_fields *fields,
                              uint64_t *out) must_check noinline_;
/* Describes REQ for the rules of shared responses. Borrowed from REQ until its fields change. */
struct cache_request headers_cache_request(const struct http_request *req);

struct headers_response {
    struct http_request *req;
    bool via;
    struct slice request_id;
    bool own_server; /* the Server field is that of the load balancer */
    bool websocket;  /* the response is a 101 */
};
/* Copies status, reason and fields of a worker's response to REQ->res. */
void headers_take_response(const struct headers_response *r, const struct http1_head *head);
/* The same for a client of HTTP/1: writes the fields as lines at AT, which has
 * headers_response_room, for http_response_lines. Returns the number of bytes. */
size_t headers_response_lines(const struct headers_response *r, const struct http1_head *head,
                              char *at);
size_t headers_response_room(const struct headers_response *r, const struct http1_head *head);
/* Returns the first field NAME, after AFTER unless that is NULL; NULL if there is none. */
const struct message_field *headers_find(const struct http1_head *head, struct slice name,
                                         const struct message_field *after);
/* Returns true if field NAME of an agent's response is "1": Resumelb-Unprocessed, as no byte of the
 * request reached a process; Resumelb-Failed, as its process failed it without a response. */
bool headers_flag(const struct http1_head *head, struct slice name) noinline_;
/* The number of requests in flight that an agent reports (Resumelb-Backlog). Errors: ERR_NOT_FOUND;
 * ERR_SYNTAX if it is not a number up to WORKER_REPORT_MAX, or duplicate. */
enum err headers_backlog(const struct http1_head *head, uint64_t *out) must_check;
/* Adds a field to FIELDS, those of REQ or of its response. NAME and VALUE are copied. */
void headers_add_to(struct http_request *req, struct message_fields *fields, struct slice name,
                    struct slice value);
/* Removes all fields NAME, as header_names_same() compares names. */
void headers_remove(struct message_fields *fields, struct slice name);
