/* SPDX-License-Identifier: Apache-2.0
 *
 * The latest copies of one application's responses, by URL and by the fields in Vary. This is not a
 * cache: a request is answered with a copy in two cases only (struct copies_need).
 *
 *   shared  it has waited while another request for the same did the work: only a copy that was put
 *           here since it began to wait
 *   stale   it exceeds a limit: the newest copy, where it may be served stale
 *
 * Owned by the application; outlives its users, but not the copies that were obtained from it. Any
 * thread; it has its own mutex, and calls no other module while holding it. Bounded by bytes,
 * number and age; the least recently used copy is evicted first. Every call is O(1), except for the
 * variants of one URL (at most COPIES_VARIANTS_MAX) and the copies that are evicted.
 *
 * A copy of one response: status, end-to-end fields, whole body. Immutable and counted by atomic
 * references, so any thread may read one that it has a reference to; the last reference frees it.
 * A struct copy_maker makes one from a response in transit, on one loop, and gives up without
 * harm when it would be too large. Both are charged to a struct copy_memory, which outlives them.
 */
#ifndef RLB_LB_LIMITS_COPIES_H
#define RLB_LB_LIMITS_COPIES_H

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

struct copies;

/* Memory of all copies, including those being created and those still being sent. Any thread. */
struct copy_memory {
    atomic_size_t used_bytes;
    atomic_size_t max_bytes;
    struct copies *copies; /* are removed if memory is exhausted; NULL until they are created */
};
void copy_memory_init(struct copy_memory *m, size_t max_bytes);
void copy_memory_set_max(struct copy_memory *m, size_t max_bytes);

/* Modified by its maker only. */
struct copy {
    atomic_uint refs;
    struct copy_memory *memory;
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
struct copy *copy_get(struct copy *c);
/* NULL is allowed. */
void copy_put(struct copy *c);

struct slice copy_body(const struct copy *c);
/* Returns the current_age of RFC 9111 section 4.2.3 [s]. */
uint64_t copy_age_s(const struct copy *c, uint64_t now_us);
/* Returns the memory for which the copy is charged. */
size_t copy_bytes(const struct copy *c);
/* Returns the body for http_reply_send() without copying it; it holds a reference to C. */
struct http1_body *copy_take_body(struct copy *c) returns_nonnull_;

/* ---- answering a request with one ---- */

enum copy_use {
    COPY_COALESCED, /* another request did the work */
    COPY_STALE,     /* the request exceeded a limit */
};

/* Borrows from the copy and from itself, so it must not be moved. */
struct copy_answer {
    /* For headers_take_response; content_length is UINT64_MAX where a status has none. */
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
 * The response is complete: destroys *M, which becomes NULL. Returns the copy, with one reference;
 * NULL if the maker gave up or the announced length differs. If truncated: copy_maker_destroy.
 */
struct copy *copy_maker_end(struct copy_maker **m) noinline_;

/* ---- the copies of an application ---- */

enum {
    /* Maximum number of variants of a URL. One with more is assumed to vary for each visitor. */
    COPIES_VARIANTS_MAX = 16,
    /* Maximum length of scheme, authority and target; longer ones are neither stored nor found. */
    COPIES_KEY_MAX = 16 * 1024,
    /* Memory of a copy in addition to its bytes and its key. */
    COPIES_ENTRY_BYTES = 320,
};

struct copies_limits {
    size_t max_bytes; /* of all: each counts copy_bytes() + its key + COPIES_ENTRY_BYTES */
    size_t max_copies;
    size_t max_copy_bytes; /* limit of copy_bytes() of one copy */
    uint64_t max_age_s;    /* older copies are removed */
};

/* A URL; borrowed. The case of the host is ignored. */
struct copies_url {
    struct slice scheme, authority, target;
};

struct copies_stats {
    size_t copies, bytes;
    uint64_t stored, refused; /* calls of copies_put() */
    uint64_t evictions, expired,
        invalidated; /* copies removed for room, by age, and by RFC 9111 section 4.4 */
    uint64_t hits_coalesced, hits_stale;
};

/* MEMORY must outlive the copies. */
struct copies *copies_create(const struct copies_limits *l, struct copy_memory *memory);
void copies_destroy(struct copies *s);
/* Changes the limits. Copies above max_bytes, max_copies or max_age_s are removed. */
void copies_set_limits(struct copies *s, const struct copies_limits *l, uint64_t now_us);

/* Creates a maker with the limit of S for one copy. S removes copies if the maker needs memory. */
struct copy_maker *copies_begin(struct copies *s) returns_nonnull_;
/*
 * Stores *COPY (ownership is taken, *COPY becomes NULL) in place of the previous one of its
 * variant. Not stored if that is newer, or if its request was sent before the last invalidation of
 * the URL (RFC 9111 4.4: its contents may be older).
 */
void copies_put(struct copies *s, const struct copies_url *url, struct copy **copy,
                uint64_t now_us);
/* Invalidates copies of the target of a request that changed it, see cache_invalidates(). */
void copies_invalidate(struct copies *s, const struct copies_url *url, uint64_t now_us);

/* Removes all copies, and rejects those of requests that were sent before. */
void copies_clear(struct copies *s, uint64_t now_us);

/* Conditions for a copy, in addition to its variant. */
struct copies_need {
    /* NULL: a copy to be shared, put at NOT_BEFORE_US or later. (Its response may have begun
     * before: that is the work that was waited for.) */
    const struct cache_wish *stale;
    uint64_t not_before_us;
    uint64_t max_age_s; /* maximum age of a stale copy */
};
/*
 * Returns a reference to the newest copy that REQUEST, which has passed cache_check_request,
 * chooses, or NULL if there is none or it does not meet NEED.
 */
struct copy *copies_find(struct copies *s, const struct copies_url *url,
                         const struct cache_request *request, const struct copies_need *need,
                         uint64_t now_us) must_check;

/* Returns true if a copy of any variant of URL was put at SINCE_US or later. */
bool copies_were_put(struct copies *s, const struct copies_url *url, uint64_t since_us);

void copies_read_stats(struct copies *s, struct copies_stats *out);
/* Asserts all invariants. For tests. Its cost is linear. */
void copies_check(struct copies *s);

#endif
