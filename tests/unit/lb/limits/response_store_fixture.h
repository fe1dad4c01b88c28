/* SPDX-License-Identifier: Apache-2.0
 *
 * Responses as text, stored responses of them, and requests that ask for them.
 */
#pragma once

#include "lb/limits/response_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Asserts all invariants of S (response_store_test.c). Its cost is linear. */
void response_store_check(struct response_store *s);

/* Sun, 01 Mar 2026 12:00:00 GMT */
#define NOW_S INT64_C(1772366400)
/* Any moment of the monotonic clock. */
#define NOW_US UINT64_C(5000000000)
#define SECOND_US UINT64_C(1000000)

enum { MEMORY_BYTES = 64 << 20, STORED_BYTES = 1 << 20 };

static const struct cache_wish no_wish = {CACHE_SECONDS_NONE, CACHE_SECONDS_NONE,
                                          CACHE_SECONDS_NONE};

static inline struct stored_response *
response_store_find_shared(struct response_store *s, const struct response_store_url *url,
                           const struct cache_request *request, uint64_t not_before_us,
                           uint64_t now_us)
{
    return response_store_find(
        s, url, request, &(struct response_store_need){.not_before_us = not_before_us}, now_us);
}

static inline struct stored_response *
response_store_find_stale(struct response_store *s, const struct response_store_url *url,
                          const struct cache_request *request, const struct cache_wish *wish,
                          uint64_t max_age_s, uint64_t now_us)
{
    return response_store_find(s, url, request,
                               &(struct response_store_need){.stale = wish, .max_age_s = max_age_s},
                               now_us);
}

static inline size_t stored_memory_used(const struct stored_memory *m)
{
    return atomic_load(&m->used_bytes);
}

/* A request with at most one field, "Name: value" or "". */
struct asked {
    struct message_field field;
    struct cache_request request;
};

static inline void ask(struct asked *a, const char *field)
{
    struct slice rest = slice_of(field);
    struct slice name = slice_cut(&rest, ':');

    *a = (struct asked){.field = {.name = name, .value = slice_trim(rest)}};
    a->request = (struct cache_request){.method = SLICE_LIT("GET"),
                                        .fields = {&a->field, name.len != 0 ? 1 : 0}};
}

/* Passes HEAD, a complete head, to a maker. */
static inline bool tell_head(struct stored_maker *m, const char *head, const char *request_field,
                             uint64_t asked_us, uint64_t received_us)
{
    static _Thread_local struct http1_head parsed;
    struct asked a;

    ask(&a, request_field);
    assert_int_equal(http1_head_parse(slice_of(head), false, &parsed), ERR_OK);
    return stored_maker_head(m, &(struct stored_maker_head){.request = &a.request,
                                                            .head = &parsed,
                                                            .asked_us = asked_us,
                                                            .received_us = received_us,
                                                            .received_s = NOW_S});
}

static inline void tell_body(struct stored_maker *m, struct slice bytes)
{
    struct body_piece *body = body_piece_copy(bytes);

    stored_maker_body(m, body);
    body_piece_release(body);
}

struct made {
    const char *fields;  /* of the response, each with its CRLF; NULL: none */
    const char *request; /* the request's one field; NULL: none */
    struct slice body;
    uint64_t at_us; /* asked and received; 0: NOW_US */
};

/* A stored response of a 200 by M, which is used up; NULL when it has given up. */
static inline struct stored_response *make_by(struct stored_maker *m, const struct made *r)
{
    struct text head = {0};
    uint64_t at_us = r->at_us != 0 ? r->at_us : NOW_US;

    text_addf(&head, "HTTP/1.1 200 OK\r\n%sContent-Length: %zu\r\n\r\n",
              r->fields != NULL ? r->fields : "", r->body.len);
    if (tell_head(m, text_cstr(&head), r->request != NULL ? r->request : "", at_us, at_us) &&
        r->body.len != 0)
        tell_body(m, r->body);
    text_fini(&head);
    return stored_maker_end(&m);
}

static inline struct response_store_url url_of(const char *target)
{
    return (struct response_store_url){SLICE_LIT("http"), SLICE_LIT("a.example"), slice_of(target)};
}

static inline void assert_slice(struct slice s, const char *expected)
{
    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.p, expected, s.len);
}

/* The value of the last field NAME; p == NULL: none. */
static inline struct slice field(struct cache_fields f, const char *name)
{
    struct slice found = SLICE_NULL;

    for (size_t i = 0; i < f.n; ++i) {
        if (slice_eq_nocase(f.fields[i].name, slice_of(name)))
            found = f.fields[i].value;
    }
    return found;
}
