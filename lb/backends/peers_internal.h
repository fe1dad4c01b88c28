/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of peers.h: what is known of all (peers.c), and the stream of one peer (peer_feed.c).
 */
#pragma once

#include "common/upstream/http_fetch.h"
#include "lb/backends/backend.h"
#include "lb/backends/peers.h"
#include "lb/rules/peer_line.h"

enum {
    /* Peers, including this load balancer. */
    PEERS_MAX = 16,
};

/* What a peer has reported of a worker that is known here. */
struct peer_worker {
    struct map_node by_name; /* peer_application's */
    char *name;
    struct home_records *records;
    uint64_t in_flight, reported_ms;
};

struct peer_application {
    struct map workers; /* of struct peer_worker */
    bool same;          /* the peer serves it, with the same classifier */
};

struct lb_peer {
    struct peers *all;
    struct addr addr;
    char name[ADDR_TEXT_MAX];
    char instance[PEER_INSTANCE_LEN + 1]; /* of the present stream, or "" */
    struct peer_application *applications;
    /* peer_feed.c's. */
    struct http_fetch fetch;
    struct timer timer; /* the next attempt */
    uint64_t pause_ms, opened_ms;
    struct text line; /* the received part of the present line */
    bool settled, failing;
    bool open; /* its first line was received: it decides, too */
    char why[JSON_WHY_ROOM], failed[JSON_WHY_ROOM]; /* FAILED: as logged last */
    /* The lines of homes that follow are of this worker of APPLICATION; NULL: not known here. */
    struct application *application;
    char worker[HOME_FROM_MAX + 1];
};

struct peers {
    struct lb *lb;
    struct lb_peer *items;
    size_t n;
    struct timer tick;
    unsigned ticks;
    struct list streams; /* of struct peer_stream */
    bool stopped;
};

/* The worker of A without an agent that is called NAME; NULL if there is none. */
struct backend *peers_find_worker(const struct application *a, struct slice name);
/* What PEER has reported of the worker B of A; creates it. */
struct peer_worker *peers_worker(struct lb_peer *peer, const struct application *a,
                                 const struct backend *b);
/* PEER has reported LINE of the worker of A that is called NAME, if it is known. */
void peers_take_homes(struct lb_peer *peer, const struct application *a, struct slice name,
                      const struct home_line *line);
/* The requests in flight of the peers at B have changed. */
void peers_take_in_flight(const struct peers *p, const struct application *a,
                          const struct backend *b);
/* A peer has connected or disconnected. */
void peers_changed(struct peers *p);

/* ---- peer_feed.c ---- */

void peer_feed_start(struct lb_peer *peer);
void peer_feed_stop(struct lb_peer *peer);
