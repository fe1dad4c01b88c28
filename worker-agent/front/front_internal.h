/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the front have between themselves.
 */
#ifndef RLB_AGENT_FRONT_FRONT_INTERNAL_H
#define RLB_AGENT_FRONT_FRONT_INTERNAL_H

#include "worker-agent/front/front.h"
#include "worker-agent/pool/slot.h"

/* The information of load balancers about a request. */
struct request_class {
    struct slice cls, fingerprint; /* empty, or within the next two */
    char cls_bytes[CLASS_BYTES_MAX];
    char fingerprint_bytes[FINGERPRINT_LEN];
    bool has_reported; /* the next field is set; its `from` points into the request's header */
    struct home_report reported;
};

/* The recipient of a request head. */
struct front_recipient {
    bool agent; /* another agent, not a process: all headers of load balancers are included */
    /* Sent the request to an application's own address: the head contains its address. NULL: a load
     * balancer has set the headers about the client. */
    const struct addr *peer;
    bool believed; /* PEER is trusted to report previous clients (X-Forwarded-*) */
};

/* ---- front.c: pure over a request or a response head ---- */

/* Resumelb-Class and Resumelb-Classifier; a malformed header is treated as absent. */
void front_read_class(const struct http_request *req, struct request_class *out);
/* Appends the complete request head. */
void front_write_head(const struct http_request *req, const struct front_recipient *to,
                      struct text *out);
/* Adds Resumelb-Backlog to REQ->res, which reports the slot's backlog to a load balancer. */
void front_put_backlog(struct http_request *req, size_t backlog);

/* ---- front_exchange.c ---- */

/* Description of a failure for clients, if show_errors is on. */
struct error_facts {
    struct slice reason;           /* the answer by itself: "no process" */
    const struct failure *failure; /* the newest that may explain it; or NULL */
    /* Last output of the process that had the request, or NULL. */
    const struct last_lines *lines;
    long pid; /* of that process */
    uint64_t now_ms;
};

/* Appends the body: plain text, or HTML with every byte of others escaped. Pure function. */
void error_body(const struct error_facts *e, bool html, struct text *out);

/* Starts the exchange of a request for the process of LISTENER's slot, or for any process of its
 * application. */
void exchange_start(struct front *f, const struct front_listener *listener,
                    struct http_request *req, struct http_conn *conn);
/* Aborts all exchanges' requests at processes. */
void exchanges_cut(struct front *f);

#endif
