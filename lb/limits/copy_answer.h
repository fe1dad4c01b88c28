/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer that a copy gives to a request. Stateless; any thread.
 *
 *     copy_answer_make(copy, COPY_STALE, SLICE_LIT("full"), now_us, &a);
 *     headers_take_response(&(struct headers_response){...}, &a.head);
 *     http_reply_start(reply, a.head.content_length);
 *     http_reply_send(reply, copy_take_body(copy), true);
 */
#ifndef RLB_LB_LIMITS_COPY_ANSWER_H
#define RLB_LB_LIMITS_COPY_ANSWER_H

#include "lb/limits/copy.h"

enum {
    COPY_AGE_TEXT_MAX = 24,
    COPY_DETAIL_MAX = 64, /* of Cache-Status */
    COPY_CACHE_STATUS_MAX = 160,
};

enum copy_use {
    COPY_COALESCED, /* another request did the work */
    COPY_STALE,     /* this request was one too many */
};

/* Borrows from the copy, and from itself: not to be moved. */
struct copy_answer {
    /* All that headers_take_response wants; content_length is UINT64_MAX where a status has none.
     */
    struct http1_head head;
    struct slice body;
    char age[COPY_AGE_TEXT_MAX];
    char cache_status[COPY_CACHE_STATUS_MAX];
};

/*
 * The answer of C: its fields, an Age (RFC 9111 5.1) and a Cache-Status (RFC 9211) behind those of
 * others.
 *   detail  why a stale one, a token of at most COPY_DETAIL_MAX bytes that begins with a letter
 */
void copy_answer_make(const struct copy *c, enum copy_use use, struct slice detail, uint64_t now_us,
                      struct copy_answer *out);

#endif
