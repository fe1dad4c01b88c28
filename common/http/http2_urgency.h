/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which the streams of an HTTP/2 connection send if its client states urgencies (RFC
 * 9218). The most urgent level that has an active stream sends. In a level, streams that are not
 * incremental send one after the other, in the order of their numbers, and the first of them has
 * every second time if incremental streams are active, which share the others in rotation.
 *
 * Owned by its connection, as are the streams, which embed their entry. One thread; no function
 * calls back. Cost: O(1), but O(active streams of the level) for one that is not incremental.
 */
#pragma once

#include "common/base/list.h"
#include "common/wire/priority_field.h"

/* PRIORITY_UPDATE frames that came before their request; further ones replace the oldest. */
enum { URGENCY_EARLY_MAX = 16 };

struct urgency_entry { /* of a stream; zero before first use */
    struct list node;  /* among the active ones of its level, or in none */
    uint32_t id;       /* of the stream */
    struct urgency urgency;
};

struct http2_urgency {
    struct urgency_level {
        struct list sequential, incremental; /* the next to send is the first */
        bool shared;                         /* the last stream was an incremental one */
    } levels[URGENCY_LEVELS];
    unsigned next_early; /* EARLY is a ring */
    struct urgency_early {
        uint32_t id; /* 0: none */
        struct urgency urgency;
    } early[URGENCY_EARLY_MAX];
};

struct http2_urgency *http2_urgency_create(void) returns_nonnull_;
/* No stream is active. Accepts NULL. */
void http2_urgency_destroy(struct http2_urgency *q);

/* The stream has bytes and a window. Without effect if it is active. */
void http2_urgency_activate(struct http2_urgency *q, struct urgency_entry *e);
static inline void http2_urgency_deactivate(struct urgency_entry *e)
{
    list_remove(&e->node);
}
/* Changes the urgency of E, which may be active. */
void http2_urgency_change(struct http2_urgency *q, struct urgency_entry *e, struct urgency u);

/* The stream that sends next, or NULL if none is active. Counts as one service of it. */
struct urgency_entry *http2_urgency_next(struct http2_urgency *q);

/* Stores the urgency of the stream ID before its request arrives. */
void http2_urgency_announce(struct http2_urgency *q, uint32_t id, struct urgency u);
/* If one was stored for ID: removes it, sets *U and returns true. */
bool http2_urgency_announced(struct http2_urgency *q, uint32_t id, struct urgency *u);
