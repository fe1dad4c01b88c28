/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which the streams of an HTTP/2 connection send if its client states no urgencies
 * (common/http/http2_urgency.h): a tree of dependencies with weights (RFC 7540 section 5.3) by
 * libh2o's scheduler. Built without libh2o, streams are served in rotation (round_robin.c).
 *
 * Owned by its connection, as are the streams; the tree outlives every one of its entries. One
 * thread at a time. No function calls back. Entries are bounded: PRIORITY_STREAMS_MAX of streams,
 * which is a programmer's error to exceed, and PRIORITY_IDLE_MAX of streams that are idle.
 */
#pragma once

#include "common/base/base.h"

enum {
    PRIORITY_STREAMS_MAX = 1024, /* far above what is announced; bounds the depth of the tree */
    /* Firefox groups its requests below six idle streams; no client in use has more. */
    PRIORITY_IDLE_MAX = 16,
    PRIORITY_WEIGHT_DEFAULT = 16,
    PRIORITY_WEIGHT_MAX = 256,
};

struct priority_tree;
struct priority_entry; /* of one stream in one tree */

/* As HEADERS and PRIORITY frames have it. */
struct priority {
    uint32_t dependency; /* stream ID; 0, or one without an entry: the root */
    uint16_t weight;     /* 1..PRIORITY_WEIGHT_MAX, one more than the frame's byte */
    bool exclusive;
};
#define PRIORITY_DEFAULT ((struct priority){.weight = PRIORITY_WEIGHT_DEFAULT})

/* Whether dependencies and weights have an effect. */
extern const bool priority_tree_has_effect;

struct priority_tree *priority_tree_create(void);
/* All entries of streams have been closed. Accepts NULL. */
void priority_tree_destroy(struct priority_tree *t);

/*
 * Add the stream ID, inactive.
 *   id      has no entry of an open stream; an entry that was reserved for it is used
 *   p       NULL: as reserved, or the default. Dependency on a stream without an entry: the default
 *           (RFC 7540 section 5.3.1). On ID itself: a programmer's error, the frame is malformed
 *   stream  what priority_tree_next returns for it; not NULL
 * Returns the entry, which lives until priority_tree_close.
 */
struct priority_entry *priority_tree_open(struct priority_tree *t, uint32_t id,
                                          const struct priority *p, void *stream);
/* Remove an entry. Its dependents move to its parent and share its weight. */
void priority_tree_close(struct priority_tree *t, struct priority_entry *e);

/*
 * A PRIORITY frame for the stream ID: move its entry. If it has none and is IDLE, reserve one, on
 * which other streams can depend until the tree is destroyed; but no more than PRIORITY_IDLE_MAX.
 * False: the frame is ignored, which RFC 9113 section 5.3.2 permits.
 *   p       as for priority_tree_open
 */
bool priority_tree_change(struct priority_tree *t, uint32_t id, const struct priority *p,
                          bool idle);

/* Whether the stream can send: it has bytes and a window. An active stream precedes its dependents,
 * which send when it is not active. */
void priority_tree_activate(struct priority_entry *e);
void priority_tree_deactivate(struct priority_entry *e);

/*
 * The stream that sends next, as it was given to priority_tree_open, or NULL if none is active.
 * Counts as one service of that stream: siblings are served in proportion to their weights, so all
 * services should be of about the same size (a DATA frame). The stream stays active: call
 * priority_tree_deactivate after its last bytes, or when its window is used up.
 */
void *priority_tree_next(struct priority_tree *t);

/* Release memory that a tree without entries does not need. For idle connections. */
void priority_tree_trim(struct priority_tree *t);
