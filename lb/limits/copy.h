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
    /* Fields of a copy: its answer has an Age and a Cache-Status more. */
    COPY_FIELDS_MAX = RESPONSE_HEADERS_MAX - 2,
};

/* Bytes of all copies, of those being made, and of those that are only being sent. Any thread. */
struct copy_memory {
    atomic_size_t used_bytes;
    atomic_size_t max_bytes;
};
void copy_memory_init(struct copy_memory *m, size_t max_bytes);
void copy_memory_set_max(struct copy_memory *m, size_t max_bytes);
size_t copy_memory_used(const struct copy_memory *m);

struct copy;

/* ---- reading ---- */
struct copy *copy_get(struct copy *c);
/* NULL is fine. */
void copy_put(struct copy *c);

int copy_status(const struct copy *c);
/* Of HTTP/1: minor version and reason as the worker sent them. */
int copy_minor_version(const struct copy *c);
struct slice copy_reason(const struct copy *c);
struct cache_fields copy_fields(const struct copy *c);
struct slice copy_body(const struct copy *c);
const struct cache_facts *copy_facts(const struct copy *c);
/* The key of its variant: see cache_variant_key. */
struct slice copy_variant(const struct copy *c);
/* Monotonic: when its request was sent, and when its head came. */
uint64_t copy_asked_us(const struct copy *c);
uint64_t copy_made_us(const struct copy *c);
/* Seconds: RFC 9111 4.2.3, current_age. */
uint64_t copy_age_s(const struct copy *c, uint64_t now_us);
/* Memory that it is charged for. */
size_t copy_bytes(const struct copy *c);
/* Its body for http_reply_send, not copied; holds a reference until it is released. */
struct http1_body *copy_take_body(struct copy *c) returns_nonnull_;

/* ---- making ---- */

struct copy_maker_options {
    struct copy_memory *memory;
    size_t max_bytes; /* of the copy */
    /*
     * No memory left: free BYTES or more; return whether there was anything to free. May be NULL.
     */
    bool (*make_room)(void *context, size_t bytes);
    void *context;
};
struct copy_maker;
struct copy_maker *copy_maker_create(const struct copy_maker_options *o) returns_nonnull_;
/* At any time; NULL is fine. */
void copy_maker_destroy(struct copy_maker *m);

struct copy_maker_head {
    const struct cache_request *request; /* has passed cache_check_request */
    const struct http1_head *head;
    uint64_t asked_us, received_us; /* monotonic: request sent, head received */
    int64_t received_s;             /* the latter since 1970 */
};
/*
 * The response's head, once, before any body. Other than CACHE_OK: it is none to be shared
 * (cache_check_response, cache_variant_key), or none to be copied (CACHE_REFUSAL_END_UNSURE,
 * _FIELDS_TOO_MANY, _TOO_LARGE), and the maker has given up.
 */
enum cache_refusal copy_maker_head(struct copy_maker *m, const struct copy_maker_head *h) noinline_;
/* The next piece of its body; borrowed. Nothing when the maker has given up. */
void copy_maker_body(struct copy_maker *m, const struct http1_body *body) noinline_;
/* Given up: too large, no memory, or not to be shared. The rest does nothing then. */
bool copy_maker_failed(const struct copy_maker *m);
/*
 * The response is whole; *M is NULL after it. The copy, with one reference, or NULL: given up, or
 * it has not the length that it announced. Destroy the maker instead where it was cut short.
 */
struct copy *copy_maker_end(struct copy_maker **m) noinline_;

#endif
