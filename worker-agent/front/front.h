/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP in front of slots and applications: access control, resume streams, and requests for
 * processes. Owned by the agent; outlives all listeners and exchanges. Control loop only.
 */
#pragma once

#include "common/http/body_sink.h"
#include "common/http/http_server.h"
#include "worker-agent/pool/slot.h"

struct trace_log;

enum {
    /* Longer than unsafe_reuse_idle of load balancers: no POST is in flight after it. */
    FRONT_QUIET_MS = 600,
};

struct agent_front {
    struct loop *loop;
    struct http_server *server;     /* of its connections; a socket's tag is its front_listener */
    const struct networks *allow;   /* the configuration's */
    struct tls_listener *tls;       /* NULL: plain */
    struct trace_log *trace;        /* NULL: none */
    bool closes_connections;        /* each response is the last of its connection */
    struct body_totals body_totals; /* of the bodies of all requests */
    uint64_t response_buffers_total;
    size_t buffered_bytes; /* received from processes, not yet sent to clients */
    struct list exchanges; /* all, from request to both ends done */
};

/* Ownership of C's TLS configuration passes to the front. The stages of requests are recorded in T,
 * which must outlive the front; NULL: not recorded. */
struct agent_front *front_create(struct loop *l, struct agent_config *c, struct trace_log *t);
/* Applies a re-read configuration. C's contents must stay valid until the next call. */
void front_configure(struct agent_front *f, struct agent_config *c);
/* Listens at L->addr, and updates that to the address actually bound. False: failed (logged). */
bool front_listen(struct agent_front *f, struct front_listener *l);
/* ON: moves clients to the new agent. Each response is the last of its connection; idle ones close
 * as soon as no load balancer would send a POST on them. Otherwise restores the settings of C. */
void front_decline_idle(struct agent_front *f, bool on, const struct agent_config *c);
/* Closes all connections, and aborts requests in flight at processes. */
void front_cut(struct agent_front *f);
/* All connections must have been closed: drained or cut. Requests in flight at processes without
 * a client are aborted. Must be called before the pool is freed. */
void front_destroy(struct agent_front *f);

/* ---- between the files of the front ---- */

/* What the load balancer has reported about a request in its headers. */
struct request_class {
    struct slice cls, fingerprint; /* empty, or within the next two */
    char cls_bytes[CLASS_BYTES_MAX];
    char fingerprint_bytes[FINGERPRINT_LEN];
    bool has_reported; /* the next field is set; its `from` points into the request's header */
    struct home_report reported;
};

/* Resumelb-Class and Resumelb-Classifier; a malformed header is treated as absent. */
void front_read_class(const struct http_request *req, struct request_class *out);
/* Adds Resumelb-Backlog to REQ->res, which reports the slot's backlog to a load balancer. */
void front_put_backlog(struct http_request *req, size_t backlog);

/* Description of a failure for clients, if show_errors is on. */
struct error_facts {
    struct slice reason;           /* the response by itself: "no process" */
    const struct failure *failure; /* the newest that may explain it; or NULL */
    /* Last output of the process that had the request, or NULL. */
    const struct last_lines *lines;
    long pid; /* of that process */
    uint64_t now_ms;
};

/* Appends the body: plain text, or HTML with all external text escaped. Pure function. */
void error_body(const struct error_facts *e, bool html, struct text *out);

/* Starts the exchange of a request for LISTENER's slot, or for any process of its application. */
void exchange_start(struct agent_front *f, const struct front_listener *listener,
                    struct http_request *req, struct http_conn *conn);
/* Aborts all exchanges' requests at processes. */
void exchanges_cut(struct agent_front *f);
