/* SPDX-License-Identifier: Apache-2.0
 *
 * The resume stream of one worker's address: opened, read line by line, opened again. Owned by
 * membership.c; used on the control loop.
 *
 *   CONNECTING -> ASKED -> OPEN --- broken: at once again ---> CONNECTING
 *       |           |        '----- orderly end -------------> RESTING
 *       '-----------'--- failed: gone ---> RESTING --- after a while ---> CONNECTING
 */
#ifndef RLB_LB_BACKENDS_RESUME_FEED_H
#define RLB_LB_BACKENDS_RESUME_FEED_H

#include "common/net/addr.h"
#include "common/skills/home_records.h"
#include "common/skills/resume.h"
#include "common/tls/worker_tls.h"
#include "common/upstream/http_fetch.h"
#include "lb/core/application.h"

struct resume_feed;

/* None is called from inside a function below. Each may destroy the feed. */
struct resume_feed_events {
    /* A good line, borrowed. Never an end line. */
    void (*resume)(void *context, const struct resume_line *line);
    /* Which classes live there; borrowed. After a resume of the same stream. */
    void (*homes)(void *context, const struct home_line *line);
    /* The stream fell silent or ended without its end line; one reconnect is in progress. */
    void (*broken)(void *context);
    /*
     * The worker is absent: it refused the connection, did not open a stream, or ended the stream
     * in an orderly way (HOW; else RESUME_END_NONE). The feed retries for as long as it exists.
     */
    void (*gone)(void *context, enum resume_end how);
};

/* For others constant; they may read OPEN, SETTLED and REFUSED. */
struct resume_feed {
    struct application *app;
    struct loop *loop;
    struct addr addr;
    struct tls_peer *peer; /* counted; NULL: plain */
    const char *name;
    const struct resume_feed_events *events;
    void *context;
    struct http_fetch fetch;
    bool open;          /* a resume was received on the present stream */
    struct timer timer; /* the next try */
    uint64_t rest_ms;
    struct text line;  /* the received part of the present line */
    bool skipping;     /* the present line is over its limit: the rest of it is dropped */
    bool reconnecting; /* the stream broke: this is the one try at once */
    bool settled; /* the worker has answered at all, or was found not to be there: for start_wait */
    bool refused; /* the last attempt failed because the connection was refused */
    bool failing; /* already logged */
    struct loop_deferred deferred;
};

/*
 * Uses the settings and stats of APP. NAME is for logs and the Host header, and is borrowed until
 * the feed is destroyed. PEER: the TLS peer of the address (a reference is acquired); NULL: no TLS.
 */
struct resume_feed *resume_feed_create(struct application *app, const struct addr *addr,
                                       struct tls_peer *peer, const char *name,
                                       const struct resume_feed_events *events, void *context);
/* NULL is fine. */
void resume_feed_destroy(struct resume_feed *f);

#endif
