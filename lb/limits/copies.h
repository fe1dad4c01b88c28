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
 */
#ifndef RLB_LB_LIMITS_COPIES_H
#define RLB_LB_LIMITS_COPIES_H

#include "lb/limits/copy.h"

enum {
    /* Maximum number of variants of a URL: encodings times languages. With more, each visitor
     * would have one. */
    COPIES_VARIANTS_MAX = 16,
    /* Maximum length of scheme, authority and target; longer ones are neither stored nor found. */
    COPIES_KEY_MAX = 16 * 1024,
    /* Memory of a copy in addition to its bytes and its key. */
    COPIES_ENTRY_BYTES = 320,
};

struct copies_limits {
    size_t max_bytes; /* limit of all copies; each counts copy_bytes() + its key +
                         COPIES_ENTRY_BYTES */
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

struct copies;

/* MEMORY must outlive the copies. */
struct copies *copies_create(const struct copies_limits *l, struct copy_memory *memory);
void copies_destroy(struct copies *s);
/* Changes the limits. Copies above them are removed. */
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

void copies_read_stats(struct copies *s, struct copies_stats *out);
/* Asserts all invariants. For tests. Its cost is linear. */
void copies_check(struct copies *s);

#endif
