/* SPDX-License-Identifier: Apache-2.0
 *
 * The admin address: small pages generated on demand, and actions. On one loop (the control loop);
 * owned by the program. Pages by GET and HEAD, actions by POST only; checks the Host (a name other
 * than an address, localhost or those configured is rejected, against DNS rebinding); never listens
 * beyond loopback unless a token is configured, which is then required as "Authorization: Bearer
 * TOKEN". Actions are always rejected without their own token, actions_token.
 */
#pragma once

#include "common/base/json.h"
#include "common/base/text.h"
#include "common/event/loop.h"
#include "common/program/inherited.h"
#include "common/program/program_config.h"

struct admin;
struct http_response;
struct metrics;
/*
 * Appends the text of a page to BODY, or performs an action and appends its result. Returns the
 * HTTP status (200, 503, ...). ARGUMENT: the raw query string of a page; see below for actions.
 */
typedef int (*admin_fn)(void *context, struct slice argument, struct text *body);
/* Appends the program's metrics to M, and sets the prefix of M. */
typedef void (*admin_metrics_fn)(void *context, struct metrics *m);

/*
 * Listens at the addresses of C, with the sockets that H (may be NULL) has for them. *OUT is NULL
 * if there are none.
 * Errors: those of addr_listen(), which are logged with the address; ERR_UNSUPPORTED: an address
 * beyond loopback without a token, or an empty token.
 */
enum err admin_create(struct loop *l, const struct admin_config *c, struct inherited *h,
                      struct admin **out) must_check;
/*
 * Serves PATH, which is compared exactly, without the query. PATH and the other texts below must
 * outlive A. Pages may load scripts and styles only from this address, none inline.
 */
void admin_add(struct admin *a, const char *path, const char *content_type, admin_fn page,
               void *context);
/*
 * Serves "ok" at /healthz, and the page READY, with status 503 while the program is not ready, at
 * /readyz. A client without the token gets the status of both.
 */
void admin_add_health(struct admin *a, admin_fn ready, void *context);
/* Serves /metrics, in the Prometheus text format or, if the client prefers it, as OpenMetrics. */
void admin_add_metrics(struct admin *a, admin_metrics_fn metrics, void *context);
/*
 * Serves the status page at "/": the page, style and script that all programs share (assets/), and
 * as /page.js the program's own SCRIPT, which must outlive A. STATE creates the JSON document that
 * the page shows, with a line break at most at its end; the page receives it as server-sent events
 * from /live, once a second, each listener with its query. The number of listeners is bounded.
 */
void admin_add_status_page(struct admin *a, struct slice script, admin_fn state, void *context);
/*
 * Serves PATH by START, which responds as long as it likes; it must end its responses before
 * admin_stop. START returns 0, having set events and context of the response and started it, or the
 * status of an error.
 */
void admin_add_stream(struct admin *a, const char *path,
                      int (*start)(void *context, struct http_response *response), void *context);
enum {
    /* Maximum length of an action's argument, such as an instance. */
    ADMIN_ARGUMENT_MAX = 64,
};
/*
 * Handles POST BEFORE ARGUMENT AFTER ("/processes/", "/detach"). The argument is
 * 1..ADMIN_ARGUMENT_MAX letters, digits, '-', '_' and '.'; any other path does not match. Without a
 * configured token: 403. Pages of other sites cannot use this: a browser does not send our
 * Authorization for them.
 */
void admin_add_action(struct admin *a, const char *before, const char *after, admin_fn action,
                      void *context);
/*
 * Handles POST PATH, with the request's body as the argument and JSON as the response, with
 * "Authorization: Bearer ACTIONS_TOKEN", independently of the token for reading: permission to read
 * does not imply permission to act. Without an actions_token: 403. A page of another site cannot
 * send that header: the CORS request for permission never gets a response.
 */
void admin_add_body_action(struct admin *a, const char *path, admin_fn order, void *context);

/*
 * PUT or DELETE of what a path names. The function for it responds by admin_item_respond(), at once
 * or later. If the client disconnects first, the item leaves the list that it is in, and ends.
 */
struct admin_item {
    struct list node; /* for a function that responds later */
    bool put;         /* else DELETE */
    /* As sent: what follows the prefix in the path, percent-encoded; the query; the body. */
    struct slice name, query, content;
    int status; /* of the response; JSON: */
    struct text body;
    struct http_response *response;
};
typedef void (*admin_item_fn)(void *context, struct admin_item *i);
/* Handles all paths that begin with PREFIX, authorized as body actions are. */
void admin_add_items(struct admin *a, const char *prefix, admin_item_fn handle, void *context);
/* Sends the response. I ends. */
void admin_item_respond(struct admin_item *i);

/* ON: pauses accepting, as another process serves the sockets; off: resumes. A may be NULL. */
void admin_hold(struct admin *a, bool on);
/* Passes the sockets of A, which may be NULL, to the new process of U. */
void admin_pass_sockets(struct admin *a, struct upgrade *u);
/* The address a listener is bound to (port 0 resolved). */
void admin_address(const struct admin *a, size_t i, struct addr *out);
/*
 * Stops listening and closes connections as they become idle. DONE is called when none is left,
 * within a few seconds, as each request is bounded in time; at once if A is NULL.
 */
void admin_stop(struct admin *a, void (*done)(void *context), void *context);
/* After admin_stop: closes all connections, so that done() follows soon. A may be NULL. */
void admin_cut(struct admin *a);
/* Must be called after admin_stop is done, or when no client has connected. NULL is allowed. */
void admin_destroy(struct admin *a);

/* ---- actions ---- */

/*
 * An operator's action at an admin address: POST /actions/... {"application": NAME, "worker": NAME,
 * "class": CLASS}, where each member is optional. The body is checked completely, and unknown
 * members are rejected, before the action is performed.
 */

enum { ADMIN_ACTION_BYTES_MAX = 4096 /* the admin address accepts no longer bodies */ };

struct admin_action {
    json_t *root;
    struct slice application, worker, cls; /* empty: not specified */
    bool has_class;                        /* "" is a class too */
};

/* Returns NULL, or why ENTITY is invalid (constant text). Call admin_action_fini in any case. */
const char *admin_action_read(struct admin_action *o, struct slice entity);
void admin_action_fini(struct admin_action *o);
/* Returns true if O applies to the application NAME: it names that one, or none. */
bool admin_action_applies_to(const struct admin_action *o, const char *name);
/* Appends {"error": WHY} to BODY, and returns STATUS. */
int admin_action_reject(struct text *body, int status, const char *why);
/* Appends the response to the action that forgets skills, and logs it. */
void admin_action_forgotten(struct text *body, size_t workers, size_t scores);
