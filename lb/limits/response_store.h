/* SPDX-License-Identifier: Apache-2.0
 *
 * The stored responses of one application, by URL and by the fields in Vary: the latest of each.
 * This is not a cache: a request gets a response with a stored response in two cases only (struct
 * response_store_need).
 *
 *   shared  it has waited while another request for the same did the work: only one that was put
 *           here since it began to wait
 *   stale   it exceeds a limit: the newest, where it may be served stale
 *
 * Owned by the application; outlives its users, but not the stored responses that were obtained
 * from it. Any thread; it has its own mutex, and calls no other module while holding it. Bounded by
 * bytes, number and age; the least recently used stored response is evicted first. Every call is
 * O(1), except for the variants of one URL (at most RESPONSE_STORE_VARIANTS_MAX) and the stored
 * responses that are evicted.
 *
 * A stored response: status, end-to-end fields, whole body. Immutable and counted by atomic
 * references, so any thread may read one that it has a reference to; the last reference frees it.
 * A struct stored_maker makes one from a response in transit, on one loop, and gives up without
 * harm when it would be too large. Both are charged to a struct stored_memory, which outlives them.
 */
#pragma once

#include "common/upstream/http1_client.h"
#include "common/wire/cache_rules.h"

#include <stdatomic.h>

enum {
    /* Maximum number of stored fields: Age and Cache-Status are added to responses. */
    STORED_FIELDS_MAX = RESPONSE_HEADERS_MAX - 2,
    STORED_AGE_TEXT_MAX = 24,
    STORED_DETAIL_MAX = 64, /* maximum length of the detail in Cache-Status */
    STORED_CACHE_STATUS_MAX = 160,
};

struct response_store;

/* Memory of all stored responses, including those being created and those still being sent. Any
 * thread. */
struct stored_memory {
    atomic_size_t used_bytes;
    atomic_size_t max_bytes;
    struct response_store *store; /* evicts if it is used up; NULL until it is created */
};
void stored_memory_init(struct stored_memory *m, size_t max_bytes);
void stored_memory_set_max(struct stored_memory *m, size_t max_bytes);

/* Modified by its maker only. */
struct stored_response {
    atomic_uint refs;
    struct stored_memory *memory;
    size_t head_bytes, body_room; /* allocated bytes */
    int status, minor_version;    /* of HTTP/1: it and the reason are those of the worker */
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
struct stored_response *stored_get(struct stored_response *c);
/* NULL is allowed. */
void stored_put(struct stored_response *c);

struct slice stored_body(const struct stored_response *c);
/* Returns the current_age of RFC 9111 section 4.2.3 [s]. */
uint64_t stored_age_s(const struct stored_response *c, uint64_t now_us);
/* Returns the memory for which the stored response is charged. */
size_t stored_bytes(const struct stored_response *c);
/* Returns the body for http_response_send() without copying it; it holds a reference to C. */
struct body_piece *stored_take_body(struct stored_response *c) returns_nonnull_;

/* ---- responding to a request with one ---- */

enum stored_use {
    STORED_COALESCED, /* another request did the work */
    STORED_STALE,     /* the request exceeded a limit */
};

/* Borrows from the stored response and from itself, so it must not be moved. */
struct stored_rendering {
    /* For headers_take_response; content_length is UINT64_MAX where a status has none. */
    struct http1_head head;
    struct slice body;
    char age[STORED_AGE_TEXT_MAX];
    char cache_status[STORED_CACHE_STATUS_MAX];
};

/*
 * The response of C: its fields, an Age (RFC 9111 5.1) and a Cache-Status (RFC 9211) behind those
 * of others. detail  why a stale one, a token of at most STORED_DETAIL_MAX bytes that begins with a
 * letter
 */
void stored_render(const struct stored_response *c, enum stored_use use, struct slice detail,
                   uint64_t now_us, struct stored_rendering *out);

/* ---- making ---- */

struct stored_maker;
/* Creates a maker of a stored response of at most MAX_BYTES. */
struct stored_maker *stored_maker_create(struct stored_memory *memory,
                                         size_t max_bytes) returns_nonnull_;
/* May be called at any time. NULL is allowed. */
void stored_maker_destroy(struct stored_maker *m);

struct stored_maker_head {
    const struct cache_request *request; /* has passed cache_check_request */
    const struct http1_head *head;
    uint64_t asked_us, received_us; /* monotonic: request sent, head received */
    int64_t received_s;             /* time of the head since 1970 */
};
/*
 * The response's head, once, before any body. False: it must not be shared (cache_check_response,
 * cache_variant_key), or cannot be stored (its end is unsure; too many fields; too large), and the
 * maker has given up.
 */
bool stored_maker_head(struct stored_maker *m, const struct stored_maker_head *h) noinline_;
/* Adds the next piece of the body; borrowed. No effect if the maker has given up. */
void stored_maker_body(struct stored_maker *m, const struct body_piece *body) noinline_;
/*
 * The response is complete: destroys *M, which becomes NULL. Returns the stored response, with one
 * reference; NULL if the maker gave up or the announced length differs. If truncated:
 * stored_maker_destroy.
 */
struct stored_response *stored_maker_end(struct stored_maker **m) noinline_;

/* ---- the stored responses of an application ---- */

enum {
    /* Maximum number of variants of a URL. One with more is assumed to vary for each visitor. */
    RESPONSE_STORE_VARIANTS_MAX = 16,
    /* Maximum length of scheme, authority and target; longer ones are neither stored nor found. */
    RESPONSE_STORE_KEY_MAX = 16 * 1024,
    /* Memory of a stored response in addition to its bytes and its key. */
    RESPONSE_STORE_ENTRY_BYTES = 320,
};

struct response_store_limits {
    size_t max_bytes; /* of all, with key and RESPONSE_STORE_ENTRY_BYTES each */
    size_t max_responses;
    size_t max_response_bytes; /* of stored_bytes() of one */
    uint64_t max_age_s;        /* older ones are removed */
};

/* A URL; borrowed. The case of the host is ignored. */
struct response_store_url {
    struct slice scheme, authority, target;
};

struct response_store_stats {
    size_t responses, bytes;
    uint64_t stored, rejected; /* calls of response_store_put() */
    uint64_t evictions, expired,
        invalidated; /* stored responses removed for room, by age, and by RFC 9111 section 4.4 */
    uint64_t hits_coalesced, hits_stale;
};

/* MEMORY must outlive the stored responses. */
struct response_store *response_store_create(const struct response_store_limits *l,
                                             struct stored_memory *memory);
void response_store_destroy(struct response_store *s);
/* Changes the limits. Stored responses above max_bytes, max_responses or max_age_s are removed. */
void response_store_set_limits(struct response_store *s, const struct response_store_limits *l,
                               uint64_t now_us);

/* Creates a maker with the limit of S for one response. S evicts others if the maker needs memory.
 */
struct stored_maker *response_store_begin(struct response_store *s) returns_nonnull_;
/*
 * Stores *RESPONSE (ownership is taken, *RESPONSE becomes NULL) in place of the previous one of its
 * variant. Not stored if that is newer, or if its request was sent before the last invalidation of
 * the URL (RFC 9111 4.4: its contents may be older).
 */
void response_store_put(struct response_store *s, const struct response_store_url *url,
                        struct stored_response **stored, uint64_t now_us);
/* Invalidates those of the target of a request that changed it, see cache_invalidates(). */
void response_store_invalidate(struct response_store *s, const struct response_store_url *url,
                               uint64_t now_us);

/* Removes all stored responses, and rejects those of requests that were sent before. */
void response_store_clear(struct response_store *s, uint64_t now_us);

/* Conditions for a stored response, in addition to its variant. */
struct response_store_need {
    /* NULL: a stored response to be shared, put at NOT_BEFORE_US or later. (Its response may have
     * begun before: that is the work that was waited for.) */
    const struct cache_wish *stale;
    uint64_t not_before_us;
    uint64_t max_age_s; /* maximum age of a stale stored response */
};
/*
 * Returns a reference to the newest stored response that REQUEST, which has passed
 * cache_check_request, chooses, or NULL if there is none or it does not meet NEED.
 */
struct stored_response *response_store_find(struct response_store *s,
                                            const struct response_store_url *url,
                                            const struct cache_request *request,
                                            const struct response_store_need *need,
                                            uint64_t now_us) must_check;

/* Returns true if a stored response of any variant of URL was put at SINCE_US or later. */
bool response_store_were_put(struct response_store *s, const struct response_store_url *url,
                             uint64_t since_us);

void response_store_read_stats(struct response_store *s, struct response_store_stats *out);
