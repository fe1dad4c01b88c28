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

struct front;
struct trace_log;

enum {
    /* Longer than unsafe_reuse_idle of load balancers: no POST is in flight on a connection that
       has been idle for this time. */
    FRONT_QUIET_MS = 600,
};

/* Ownership of C's TLS configuration passes to the front, here and below. The stages of requests
 * are recorded in T, which must outlive the front; NULL: not recorded. */
struct front *front_create(struct loop *l, struct agent_config *c, struct trace_log *t);
/* Applies a re-read configuration. C's contents must stay valid until the next call. */
void front_configure(struct front *f, struct agent_config *c);
/* Must be called every second: checks the TLS files for changes. */
void front_check_files(struct front *f);
/* Numbers of TLS handshakes that succeeded and failed. */
void front_handshakes(const struct front *f, uint64_t *finished, uint64_t *failed);
/* Memory and files of the bodies of all requests in progress. */
const struct body_totals *front_body_totals(const struct front *f);
/* The number of its slot; -1: the application's own address. */
int front_listener_number(const struct front_listener *listener);
/* Listens at A and updates A to the address actually bound. SUBJECT is the subject of log lines.
 * Returns NULL on failure (logged). */
struct http_listener *front_listen(struct front *f, struct addr *a, struct front_listener *listener,
                                   const void *subject);
/* The server of its connections and listening sockets; a socket's tag is its front_listener. */
struct http_server *front_server(const struct front *f);
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
