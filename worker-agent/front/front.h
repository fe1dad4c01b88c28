/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP in front of slots and applications: access control, resume streams, and requests for
 * processes. Owned by the agent; outlives all listeners and exchanges. Control loop only.
 */
#ifndef RLB_AGENT_FRONT_FRONT_H
#define RLB_AGENT_FRONT_FRONT_H

#include "common/http/body_sink.h"
#include "common/http/http_server.h"
#include "worker-agent/pool/model.h"

struct trace_log;

enum {
    /* Longer than unsafe_reuse_idle of load balancers: no POST is in flight on a connection that
       has been idle for this time. */
    FRONT_QUIET_MS = 600,
};

struct front {
    struct loop *loop;
    struct http_server *server;     /* of its connections; a socket's tag is its front_listener */
    const struct networks *allow;   /* the configuration's */
    struct tls_listener *tls;       /* NULL: plain */
    struct trace_log *trace;        /* NULL: none */
    bool turns_away;                /* each answer is the last of its connection */
    struct body_totals body_totals; /* of the bodies of all requests */
    uint64_t response_buffers_total;
    size_t buffered_bytes; /* taken from processes and not yet by load balancers */
    struct list exchanges; /* all, from request to both ends done */
};

/* Ownership of C's TLS configuration passes to the front, here and below. The stages of requests
 * are recorded in T, which must outlive the front; NULL: not recorded. */
struct front *front_create(struct loop *l, struct agent_config *c, struct trace_log *t);
/* Applies a re-read configuration. C's contents must stay valid until the next call. */
void front_configure(struct front *f, struct agent_config *c);
/* Listens at A and updates A to the address actually bound. SUBJECT is the subject of log lines.
 * Returns NULL on failure (logged). */
struct http_listener *front_listen(struct front *f, struct addr *a, struct front_listener *listener,
                                   const void *subject);
/*
 * ON true: moves clients to the new agent. Each response is the last of its connection, and idle
 * connections are closed as soon as no load balancer would send a POST on them. ON false: restores
 * the settings of C.
 */
void front_turn_away(struct front *f, bool on, const struct agent_config *c);
/* Closes all connections, and aborts requests in flight at processes. */
void front_cut(struct front *f);
/* Drained or cut. */
void front_destroy(struct front *f);

#endif
