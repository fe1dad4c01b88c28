/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of one response: status, end-to-end fields, whole body. Immutable and counted by atomic
 * references, so any thread may read one that it has a reference to; the last reference frees it.
 * A struct copy_maker makes one from a response that passes by, on one loop, and gives up without
 * harm when it would be too large. Both are charged to a struct copy_memory, which outlives them.
 */
#ifndef RLB_LB_LIMITS_COPY_H
#define RLB_LB_LIMITS_COPY_H

#include "common/upstream/http1_client.h"
#include "common/wire/cache_rules.h"

#include <stdatomic.h>

enum {
    /* Maximum number of fields of a copy: Age and Cache-Status are added to responses. */
    COPY_FIELDS_MAX = RESPONSE_HEADERS_MAX - 2,
    COPY_AGE_TEXT_MAX = 24,
    COPY_DETAIL_MAX = 64, /* maximum length of the detail in Cache-Status */
    COPY_CACHE_STATUS_MAX = 160,
};

/* Memory of all copies, including those being created and those still being sent. Any thread. */
struct copy_memory {
    atomic_size_t used_bytes;
    atomic_size_t max_bytes;
    /* Called if memory is exhausted: frees BYTES or more, and returns false if there is nothing
     * to free. NULL until a store sets it (copies.h). */
    bool (*make_room)(void *context, size_t bytes);
    void *context;
};
void copy_memory_init(struct copy_memory *m, size_t max_bytes);
void copy_memory_set_max(struct copy_memory *m, size_t max_bytes);

/* Modified by its maker only. */
struct copy {
    atomic_uint refs;
    struct copy_memory *memory;
    size_t head_bytes, body_room; /* allocated bytes */
    int status,
        minor_version; /* the minor version of HTTP/1 and the reason are those of the worker */
    struct slice reason;
    struct slice variant; /* key of the variant, see cache_variant_key() */
    struct cache_facts facts;
    /* Monotonic times at which the request was sent, and the head received. */
    uint64_t asked_us, made_us;
    char *body;
    size_t body_bytes;
    size_t nfields;
    struct message_field fields[];
};

/* ---- reading ---- */
struct copy *copy_get(struct copy *c);
/* NULL is allowed. */
void copy_put(struct copy *c);

struct slice copy_body(const struct copy *c);
/* Returns the current_age of RFC 9111 section 4.2.3 [s]. */
uint64_t copy_age_s(const struct copy *c, uint64_t now_us);
/* Returns the memory for which the copy is charged. */
size_t copy_bytes(const struct copy *c);
/* Returns the body for http_reply_send() without copying it. The body holds a reference to C
 * until it is released. */
struct http1_body *copy_take_body(struct copy *c) returns_nonnull_;

/* ---- answering a request with one ---- */

enum copy_use {
    COPY_COALESCED, /* another request did the work */
    COPY_STALE,     /* the request exceeded a limit */
};

/* Borrows from the copy and from itself, so it must not be moved. */
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

/* ---- making ---- */

struct copy_maker;
/* Creates a maker of a copy of at most MAX_BYTES. */
struct copy_maker *copy_maker_create(struct copy_memory *memory, size_t max_bytes) returns_nonnull_;
/* May be called at any time. NULL is allowed. */
void copy_maker_destroy(struct copy_maker *m);

struct copy_maker_head {
    const struct cache_request *request; /* has passed cache_check_request */
    const struct http1_head *head;
    uint64_t asked_us, received_us; /* monotonic: request sent, head received */
    int64_t received_s;             /* time of the head since 1970 */
};
/*
 * The response's head, once, before any body. False: it must not be shared (cache_check_response,
 * cache_variant_key), or cannot be copied (its end is unsure; too many fields; too large), and the
 * maker has given up.
 */
bool copy_maker_head(struct copy_maker *m, const struct copy_maker_head *h) noinline_;
/* Adds the next piece of the body; borrowed. No effect if the maker has given up. */
void copy_maker_body(struct copy_maker *m, const struct http1_body *body) noinline_;
/*
 * The response is whole; *M is NULL after it. The copy, with one reference, or NULL: given up, or
 * it has not the length that it announced. Destroy the maker instead where it was cut short.
 */
struct copy *copy_maker_end(struct copy_maker **m) noinline_;

#endif
