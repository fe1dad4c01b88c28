/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP in front of slots and applications: who may connect, what is a resume stream, what goes to a
 * process. Owned by the agent; outlives all listeners and exchanges. Control loop only.
 */
#ifndef RLB_AGENT_FRONT_FRONT_H
#define RLB_AGENT_FRONT_FRONT_H

#include "common/server/http_server.h"
#include "worker-agent/config/agent_config.h"
#include "worker-agent/pool/front_door.h"

struct front;
struct trace_log;

enum {
    /* Longer than unsafe_reuse_idle of load balancers: no POST is on its way on a kept connection
       that has been idle for so long. */
    FRONT_QUIET_MS = 600,
};

/* C's TLS is taken out of it, here and below. */
struct front *front_create(struct loop *l, struct agent_config *c);
/* From now on stages of requests go to T, which outlives F; NULL: nowhere. */
void front_trace(struct front *f, struct trace_log *t);
/* A configuration read anew. What C points to must live as long as it is the newest. */
void front_configure(struct front *f, struct agent_config *c);
/* Each second: at the files of its TLS. */
void front_look(struct front *f);
/* Handshakes that were finished, and that were not. */
void front_handshakes(const struct front *f, uint64_t *finished, uint64_t *failed);
/* Of its slot; -1: of the application's own address. */
int front_door_number(const struct front_door *door);
/* Listen at A, which becomes the true one. SUBJECT of log lines. NULL: logged. */
struct http_listener *front_listen(struct front *f, struct addr *a, struct front_door *door,
                                   const void *subject);
/* Another agent takes the sockets over: accept nobody, or (false) do again. Connections are served.
 */
void front_hold(struct front *f, bool hold);
/*
 * And so that their clients go over to it: each answer is the last of its connection, and idle
 * connections are closed once no load balancer would send a POST on them. False: as before, C.
 */
void front_turn_away(struct front *f, bool on, const struct agent_config *c);
/* Each listening socket; its tag is a struct front_door. */
void front_each_socket(const struct front *f, void (*each)(void *context, int fd, void *tag),
                       void *context);
/* Remove a unix socket's file. */
void front_unlink(const struct addr *a);
size_t front_connections(const struct front *f);
/* Responses say close, idle connections are shut; done() when none is left. */
void front_drain(struct front *f, void (*done)(void *context), void *context);
/* Cut all connections, and give up what is under way at processes. */
void front_cut(struct front *f);
/* Drained or cut. */
void front_destroy(struct front *f);

#endif
