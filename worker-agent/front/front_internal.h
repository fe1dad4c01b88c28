/* SPDX-License-Identifier: Apache-2.0
 *
 * What front.c, front_exchange.c and front_headers.c have between themselves.
 */
#ifndef RLB_AGENT_FRONT_FRONT_INTERNAL_H
#define RLB_AGENT_FRONT_FRONT_INTERNAL_H

#include "worker-agent/config/agent_stats.h"
#include "worker-agent/front/front.h"
#include "worker-agent/pool/slot.h"

struct front {
    struct loop *loop;
    struct http_server *server;
    const struct networks *allow; /* the configuration's */
    struct tls_listener *tls;     /* NULL: plain */
    struct trace_log *trace;      /* NULL: none */
    bool turns_away;              /* each answer is the last of its connection */
    uint64_t response_buffers_total;
    size_t buffered_bytes; /* taken from processes and not yet by load balancers */
    struct list exchanges; /* all, from request to both ends done */
};

/* What load balancers tell us about a request. */
struct request_class {
    char cls[CLASS_BYTES_MAX];
    size_t cls_len;
    char fingerprint[FINGERPRINT_LEN];
    size_t fingerprint_len;
    bool has_told; /* where the class lives; TOLD.from is of the request's header */
    struct home_told told;
};

/* ---- front_headers.c: pure over a request or a response head ---- */

/* Resumelb-Class and Resumelb-Classifier; what is not well-formed counts as absent. */
void front_read_class(const struct http_request *req, struct request_class *out);
bool front_wants_stream(const struct http_request *req);
bool front_wants_homes(const struct http_request *req);
bool front_method_is(const struct http_request *req, const char *name);
/* The whole head for the process, of a request that a load balancer sends. */
void front_write_head(const struct http_request *req, struct text *out);
/*
 * The same, of one that PEER has sent to an application's own address: the process is told of it.
 *   believed  who may say of clients before it (X-Forwarded-*)
 */
void front_write_direct_head(const struct http_request *req, const struct addr *peer,
                             const struct networks *believed, struct text *out);
/* The same as front_write_head, for another agent: with all that load balancers say. */
void front_write_agents_head(const struct http_request *req, struct text *out);
/*
 * The response's headers into REQ->res, but for those that are between us and the process.
 *   ours  also those between agents and load balancers: another agent has written them
 */
void front_copy_headers(struct http_request *req, const struct http1_head *head, bool ours);
/* Resumelb-Backlog into REQ->res: what a load balancer is told of how much the slot has in hand. */
void front_put_backlog(struct http_request *req, size_t backlog);

/* ---- front_answer.c ---- */

enum outcome {
#define OUTCOME(name, status, note, figure, text, doc) OUTCOME_##name,
#include "worker-agent/config/outcome.def"
#undef OUTCOME
    OUTCOMES
};

enum { FIGURE_NONE = AGENT_STATS };

/* Whose request was not served. */
struct front_whose {
    const struct app_group *group;
    const struct slot *slot; /* NULL: it was for whichever process, and had none */
};

/* The status and the text of O, for logs. */
void outcome_print(enum outcome o, struct text *out);
/* What O is counted as: an agent_stat, or FIGURE_NONE. */
int outcome_figure(enum outcome o);
/* What a response of that status is counted as, likewise. */
int front_status_figure(int status);
/* What a request is answered that no process will get. */
enum outcome front_refusal(enum slot_refusal why);
/*
 * Answer O; may be the end of REPLY.
 *   backlog  for a load balancer: what the slot has in hand. NULL: another client, who is told
 *            nothing that is between load balancers and us
 */
void front_answer(struct http_reply *reply, enum outcome o, const size_t *backlog,
                  const struct front_whose *whose);

/* ---- front_error.c ---- */
/*
 * Append the body of answer O, whose text by itself is REASON: with what its process has said, in
 * HTML if REQ asks for that. Its Content-Type; NULL: nothing is shown (show_errors, or O explains
 * itself).
 */
const char *front_explain(const struct http_request *req, enum outcome o, struct slice reason,
                          const struct front_whose *whose, struct text *out);

/* ---- front_exchange.c ---- */

/* A request for the process of DOOR's slot, or for whichever of its application. */
void exchange_start(struct front *f, const struct front_door *door, struct http_request *req,
                    struct http_conn *conn);
/* Give up what all of them have at processes. */
void exchanges_cut(struct front *f);

#endif
