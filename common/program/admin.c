/* SPDX-License-Identifier: Apache-2.0
 *
 * There are few pages, so routes are in a list and are compared one by one. Responses must not be
 * cached, framed or sniffed, and pages load only what this address serves.
 */
#include "common/program/admin.h"
#include "assets.h"
#include "common/base/log.h"
#include "common/http/http_request.h"
#include "common/http/http_server.h"
#include "common/program/line_delta.h"
#include "common/stats/metrics.h"
#include "common/tls/crypto.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ADMIN_LISTENERS_MAX = 16, /* of event streams: further ones get 503 */
    /* A listener is disconnected if it was too slow for this many events in a row. */
    ADMIN_LISTENER_LATE_MAX = 10,
};

/* ---- actions ---- */

int admin_action_reject(struct text *body, int status, const char *why)
{
    struct json_writer w = {.out = body};

    json_open_object(&w, NULL);
    json_put_text(&w, "error", slice_of(why));
    json_close_object(&w);
    text_add_char(body, '\n');
    return status;
}

const char *admin_action_read(struct admin_action *o, struct slice entity)
{
    const struct {
        const char *name;
        struct slice *text;
    } known[] = {{"application", &o->application}, {"worker", &o->worker}, {"class", &o->cls}};
    const char *name;
    json_t *v;

    *o = (struct admin_action){0};
    if (slice_trim(entity).len == 0)
        return NULL;
    if (json_parse(entity, ADMIN_ACTION_BYTES_MAX, &o->root, NULL) != ERR_OK ||
        !json_is_object(o->root))
        return "the body is not a JSON object";
    json_object_foreach (o->root, name, v) {
        size_t i = 0;

        if (!json_is_string(v))
            return "each member must be a string";
        while (i < ARRAY_LEN(known) && strcmp(name, known[i].name) != 0)
            ++i;
        if (i == ARRAY_LEN(known))
            return "unknown member; known are application, worker, class";
        *known[i].text = json_slice(v);
    }
    o->has_class = o->cls.p != NULL;
    return NULL;
}

void admin_action_fini(struct admin_action *o)
{
    json_decref(o->root);
}

bool admin_action_applies_to(const struct admin_action *o, const char *name)
{
    return o->application.len == 0 || slice_is(o->application, name);
}

void admin_action_forgotten(struct text *body, size_t workers, size_t scores)
{
    log_info(NULL, "skills-forgotten", "workers=%zu scores=%zu", workers, scores);
    text_addf(body, "{\"action\":\"forget\",\"workers\":%zu,\"scores\":%zu}\n", workers, scores);
}

/* ---- the admin address ---- */

enum {
    ADMIN_TIMEOUT_MS = 10 * 1000,
    ADMIN_KEEP_ALIVE_MS = 60 * 1000,
    ADMIN_CONNECTIONS_MAX = 256,
    ADMIN_HEADERS_MAX = 64,
    ADMIN_HEADER_BYTES_MAX = 16 * 1024,
    ADMIN_BODY_BYTES_MAX = 4 * 1024, /* of actions: ADMIN_ACTION_BYTES_MAX */
    LIVE_MS = 1000,                  /* interval of the status page's events */
};

static const char plain_type[] = "text/plain; charset=utf-8";

enum route_kind {
    ROUTE_PAGE,
    ROUTE_HEALTH,
    ROUTE_ASSET,
    ROUTE_METRICS,
    ROUTE_LIVE,
    ROUTE_STREAM,
    ROUTE_ACTION,
    ROUTE_ORDER,
    ROUTE_ITEM
};

static const char *const methods[] = {
    [ROUTE_PAGE] = "GET, HEAD",    [ROUTE_HEALTH] = "GET, HEAD", [ROUTE_ASSET] = "GET, HEAD",
    [ROUTE_METRICS] = "GET, HEAD", [ROUTE_LIVE] = "GET",         [ROUTE_ACTION] = "POST",
    [ROUTE_STREAM] = "GET",        [ROUTE_ORDER] = "POST",       [ROUTE_ITEM] = "PUT, DELETE",
};

struct route {
    struct list node;
    enum route_kind kind;
    const char *path;  /* borrowed, as the other texts */
    const char *after; /* of an action: what follows its argument */
    const char *content_type;
    void *context;
    admin_fn make;            /* PAGE, HEALTH, LIVE, ACTION, ORDER */
    admin_metrics_fn metrics; /* METRICS */
    admin_item_fn handle;     /* ITEM */
    struct slice bytes;       /* ASSET */
    int (*start)(void *context, struct http_response *response); /* STREAM */
};

struct admin {
    struct loop *loop;
    struct http_server *server;
    char *token;         /* or NULL */
    char *actions_token; /* or NULL */
    struct text_list hosts;
    struct addr *addresses; /* bound */
    size_t naddresses;
    struct list routes;
    struct list listeners; /* those with the same query are neighbors */
    struct timer live;
    bool stopping;
};

static const struct {
    const char *name;
    const char *value;
} fixed_headers[] = {
    {"Cache-Control", "no-store"},
    {"Content-Security-Policy",
     "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
     "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
};

/* ---- access ---- */

static bool host_allowed(const struct admin *a, struct slice authority)
{
    struct slice name = host_without_port(authority);
    char text[ADDR_TEXT_MAX + 3];
    struct addr address;

    /* A client that sends no Host is not a browser. */
    if (name.len == 0 || slice_eq_nocase(name, SLICE_LIT("localhost")))
        return true;
    for (size_t i = 0; i < a->hosts.n; ++i) {
        if (slice_eq_nocase(name, slice_of(a->hosts.items[i])))
            return true;
    }
    /* DNS rebinding cannot redirect a literal address. */
    int n = snprintf(text, sizeof(text), "%.*s:0", SLICE_FMT(name));
    return (size_t)n < sizeof(text) && addr_parse(slice_of(text), &address) == ERR_OK;
}

/* Returns true if the request has TOKEN, or if TOKEN is NULL. */
static bool is_authorized(const char *token, const struct http_request *req)
{
    if (token == NULL)
        return true;
    const struct slice name = SLICE_LIT("authorization");
    const struct message_field *f = message_fields_find(&req->fields, name, NULL);
    /* Several fields are ambiguous, so they are rejected. */
    if (f == NULL || message_fields_find(&req->fields, name, f) != NULL)
        return false;
    struct slice given = f->value;
    struct slice scheme = slice_cut(&given, ' ');
    size_t len = strlen(token);
    given = slice_trim(given);
    /* The time may reveal the length of the token, but not its bytes. */
    return slice_eq_nocase(scheme, SLICE_LIT("Bearer")) && given.len == len &&
           crypto_equal(given.p, token, len);
}

/* ---- responses ---- */

static void respond_error(struct http_response *call, int status)
{
    struct text t = {0};

    text_addf(&t, "%d %s\n", status, http_status_reason(status));
    http_response_simple(call, status, plain_type, text_slice(&t));
    text_fini(&t);
}

static void on_admin_gone(void *context, unused_ bool done)
{
    (void)context; /* in the request's pool */
}

static const struct http_response_events events = {.gone = on_admin_gone};

/* ---- server-sent events ---- */

/*
 * The state, a JSON document, is sent to each listener of ROUTE_LIVE every LIVE_MS. The first event
 * is the whole text. Later ones have the type "delta" and contain the changes, in pieces between
 * commas (common/program/line_delta.h), if that is shorter. The text is created once for all
 * listeners with the same query.
 *
 * An event is created when it is due, and only for listeners that have received the previous one;
 * so at most one event is queued for each. The number of listeners is bounded; one that is too slow
 * is disconnected, and its browser reconnects.
 */
struct event_reader {
    struct list node;
    const struct route *route;
    struct http_response *response;
    struct text query, last; /* the text of the last event */
    unsigned late;
};

static void on_listener_closed(void *context, unused_ bool done)
{
    struct event_reader *x = context;

    list_remove(&x->node);
    text_fini(&x->query);
    text_fini(&x->last);
    free(x);
}

static const struct http_response_events listener_events = {.gone = on_listener_closed};

/* Appends BODY as an event of type KIND (NULL: the default), each line prefixed with "data: ". */
static void add_event(const char *kind, struct slice body, struct text *out)
{
    if (kind != NULL)
        text_addf(out, "event: %s\n", kind);
    while (body.len != 0) {
        struct slice line = slice_cut(&body, '\n');

        text_add(out, SLICE_LIT("data: "));
        text_add(out, line);
        text_add_char(out, '\n');
    }
    text_add_char(out, '\n');
}

/* Sends the state NOW to X. If X is too slow, aborts its response, which frees X. */
static void send_state(struct event_reader *x, struct slice now)
{
    struct text changes = {0};
    struct text whole = {0};
    struct text delta = {0};

    if (x->response->queued_bytes != 0) {
        if (++x->late >= ADMIN_LISTENER_LATE_MAX)
            http_response_abort(x->response);
        return;
    }
    line_delta(text_slice(&x->last), now, ',', &changes);
    add_event(NULL, now, &whole);
    add_event("delta", text_slice(&changes), &delta);
    bool shorter = x->last.len != 0 && delta.len < whole.len;
    struct body_piece *event = body_piece_copy(text_slice(shorter ? &delta : &whole));
    x->late = 0;
    text_clear(&x->last);
    text_add(&x->last, now);
    text_fini(&changes);
    text_fini(&whole);
    text_fini(&delta);
    http_response_send(x->response, event, false);
}

static void on_live_timer(struct timer *t)
{
    struct admin *a = container_of(t, struct admin, live);
    struct text query = {0};
    struct text now = {0};
    struct event_reader *x;

    list_for_each_entry_safe (x, &a->listeners, node) {
        if (now.len == 0 || !slice_eq(text_slice(&query), text_slice(&x->query))) {
            text_clear(&query);
            text_add(&query, text_slice(&x->query));
            text_clear(&now);
            (void)x->route->make(x->route->context, text_slice(&query), &now);
            /* An event's data has one line. */
            if (slice_ends(text_slice(&now), SLICE_LIT("\n")))
                --now.len;
            ASSERT(slice_find(text_slice(&now), '\n') == SIZE_MAX);
        }
        send_state(x, text_slice(&now));
    }
    text_fini(&query);
    text_fini(&now);
    if (!list_empty(&a->listeners))
        timer_start(a->loop, &a->live, LIVE_MS);
}

static void respond_live(struct http_response *call, struct admin *a, const struct route *r,
                         struct slice query)
{
    struct event_reader *other;
    struct list *at = &a->listeners;

    if (a->stopping || list_length(&a->listeners) >= ADMIN_LISTENERS_MAX) {
        respond_error(call, 503);
        return;
    }
    http_request_add_response(call->req, "Content-Type", SLICE_LIT("text/event-stream"));
    call->req->res.status = 200;
    struct event_reader *x = xcalloc(1, sizeof(*x));
    x->route = r;
    x->response = call;
    text_add(&x->query, query);
    /* Those with the same query are next to each other. */
    list_for_each_entry (other, &a->listeners, node) {
        if (slice_eq(text_slice(&other->query), query)) {
            at = &other->node;
            break;
        }
    }
    list_insert_before(at, &x->node);
    call->events = &listener_events;
    call->context = x;
    http_response_start(call, UINT64_MAX);
    if (!timer_running(&a->live))
        timer_start(a->loop, &a->live, 0);
}

/* ---- items ---- */

static void on_item_gone(void *context, unused_ bool done)
{
    struct admin_item *i = context;

    list_remove(&i->node);
    text_fini(&i->body);
}

static const struct http_response_events item_events = {.gone = on_item_gone};

void admin_item_respond(struct admin_item *i)
{
    http_response_simple(i->response, i->status, "application/json", text_slice(&i->body));
}

static void handle_item(struct http_response *call, const struct route *r, struct slice name)
{
    struct slice query = call->req->target;

    struct admin_item *i = http_request_take(call->req, sizeof(*i));

    (void)slice_cut(&query, '?');
    *i = (struct admin_item){.put = slice_is(call->req->method, "PUT"),
                             .name = name,
                             .query = query,
                             .content = call->req->body,
                             .status = 200,
                             .response = call};
    call->events = &item_events;
    call->context = i;
    r->handle(r->context, i);
}

/* ---- requests ---- */

/* Returns the route of PATH, or NULL. For an action or an item, sets *ARGUMENT. */
static const struct route *find_route(const struct admin *a, struct slice path,
                                      struct slice *argument)
{
    const struct route *r;

    list_for_each_entry (r, &a->routes, node) {
        struct slice before = slice_of(r->path);
        struct slice after = slice_of(r->after);

        if (r->kind == ROUTE_ITEM) {
            if (path.len > before.len && slice_starts(path, before)) {
                *argument = (struct slice){path.p + before.len, path.len - before.len};
                return r;
            }
        } else if (r->kind != ROUTE_ACTION) {
            if (slice_eq(path, before))
                return r;
        } else if (path.len >= before.len + after.len && slice_starts(path, before) &&
                   slice_ends(path, after)) {
            struct slice s = {path.p + before.len, path.len - before.len - after.len};

            if (s.len != 0 && s.len <= ADMIN_ARGUMENT_MAX && slice_is_word(s, "-_.")) {
                *argument = s;
                return r;
            }
        }
    }
    return NULL;
}

/* Whether R requires the actions_token. */
static bool is_order(const struct route *r)
{
    return r->kind == ROUTE_ORDER || r->kind == ROUTE_ITEM;
}

/*
 * Responds with R's page, or with the result of its action for ARGUMENT; without AUTHORIZED with
 * the status only.
 */
static void respond_route(struct http_response *call, const struct admin *a, const struct route *r,
                          struct slice argument, bool authorized)
{
    const char *type = r->content_type;
    struct text body = {0};
    int status = 200;

    if (r->kind == ROUTE_ACTION && a->token == NULL) {
        status = 403;
        text_add(&body, SLICE_LIT("actions are off: the admin address has no token\n"));
    } else if (is_order(r) && a->actions_token == NULL) {
        status = 403;
        text_add(&body, SLICE_LIT("{\"error\":\"actions are off: no actions_token is set\"}\n"));
    } else if (r->kind == ROUTE_ITEM) {
        handle_item(call, r, argument);
        return;
    } else if (r->kind == ROUTE_METRICS) {
        const struct message_field *accept =
            message_fields_find(&call->req->fields, SLICE_LIT("accept"), NULL);
        struct metrics m = {.out = &body,
                            .open = accept != NULL && metrics_wants_open(accept->value)};

        r->metrics(r->context, &m);
        metrics_end(&m);
        type = m.open ? METRICS_OPEN_TYPE : METRICS_TEXT_TYPE;
    } else if (r->kind != ROUTE_ASSET) {
        status = r->make(r->context, argument, &body);
    }
    if (!authorized)
        body.len = 0;
    http_response_simple(call, status, type, r->kind == ROUTE_ASSET ? r->bytes : text_slice(&body));
    text_fini(&body);
}

static void on_request(void *context, struct http_request *req, struct http_conn *conn)
{
    struct admin *a = context;
    struct http_response *call = http_request_take(req, sizeof(*call));
    struct slice query = req->target;
    struct slice path = slice_cut(&query, '?');
    struct slice argument = query;

    http_response_init(call, req, conn, &events, call);
    for (size_t i = 0; i < ARRAY_LEN(fixed_headers); ++i)
        http_request_add_response(req, fixed_headers[i].name, slice_of(fixed_headers[i].value));
    if (!host_allowed(a, req->authority)) {
        respond_error(call, 421);
        return;
    }
    const struct route *r = find_route(a, path, &argument);
    bool order = r != NULL && is_order(r);
    if (r != NULL && r->kind == ROUTE_ORDER)
        argument = req->body;
    struct slice known = slice_of(r != NULL ? methods[r->kind] : NULL);
    bool allowed = false;
    while (known.len != 0 && !allowed)
        allowed = slice_eq(slice_trim(slice_cut(&known, ',')), req->method);
    /* Probes of Kubernetes and of load balancers in front have no token. */
    bool is_open = allowed && r->kind == ROUTE_HEALTH;
    bool authorized = is_authorized(order ? a->actions_token : a->token, req);
    if ((allowed || !order) && !is_open && !authorized) {
        http_request_add_response(req, "WWW-Authenticate", SLICE_LIT("Bearer"));
        respond_error(call, 401);
    } else if (r == NULL) {
        respond_error(call, 404);
    } else if (!allowed) {
        http_request_add_response(req, "Allow", slice_of(methods[r->kind]));
        respond_error(call, 405);
    } else if (r->kind == ROUTE_LIVE) {
        respond_live(call, a, r, query);
    } else if (r->kind == ROUTE_STREAM) {
        int status = r->start(r->context, call);

        if (status != 0)
            respond_error(call, status);
    } else {
        respond_route(call, a, r, argument, authorized);
    }
}

/* ---- life ---- */

enum err admin_create(struct loop *l, const struct admin_config *c, struct inherited *h,
                      struct admin **out)
{
    const char *token = c->s.token;
    enum err e = ERR_OK;

    *out = NULL;
    if (c->n == 0)
        return ERR_OK;
    if ((c->s.actions_token != NULL && *c->s.actions_token == '\0') ||
        (token != NULL && *token == '\0'))
        return ERR_UNSUPPORTED;
    for (size_t i = 0; i < c->n; ++i) {
        if (token == NULL && !addr_is_loopback(&c->addresses[i]))
            return ERR_UNSUPPORTED;
    }
    struct admin *a = xcalloc(1, sizeof(*a));
    struct addr_listen_options lo = {.mode = 0660};
    struct http_listen_options ho = {.tag = a};
    struct http_server_options so = {
        .max.body_bytes = ADMIN_BODY_BYTES_MAX,
        .max.head_bytes = ADMIN_HEADER_BYTES_MAX,
        .max.fields = ADMIN_HEADERS_MAX,
        .max_connections = ADMIN_CONNECTIONS_MAX,
        .header_timeout_ms = ADMIN_TIMEOUT_MS,
        .body_timeout_ms = ADMIN_TIMEOUT_MS,
        .keep_alive_timeout_ms = ADMIN_KEEP_ALIVE_MS,
        .send_timeout_ms = ADMIN_TIMEOUT_MS,
        .on_request = on_request,
        .context = a,
    };
    a->loop = l;
    list_init(&a->routes);
    list_init(&a->listeners);
    timer_init(&a->live, on_live_timer);
    a->token = xstrdup(token);
    a->actions_token = xstrdup(c->s.actions_token);
    for (size_t i = 0; i < c->s.hosts.n; ++i)
        text_list_add(&a->hosts, slice_of(c->s.hosts.items[i]));
    a->addresses = xcalloc(c->n + 1, sizeof(*a->addresses));
    a->server = http_server_create(l, &so);
    for (size_t i = 0; i < c->n && e == ERR_OK; ++i) {
        int fd = inherited_take_socket(h, &c->addresses[i], NULL, 0);

        if (fd < 0)
            e = addr_listen(&c->addresses[i], &lo, &fd);
        if (e == ERR_OK) {
            http_server_listen(a->server, fd, &ho);
            e = addr_of_socket(fd, &a->addresses[a->naddresses++]);
        } else {
            log_error(NULL, "admin-listen-failed", "address=%s reason=\"%s\"",
                      addr_text(&c->addresses[i]), e == ERR_SYSTEM ? strerror(errno) : err_text(e));
        }
    }
    if (e == ERR_OK)
        *out = a;
    else
        admin_destroy(a);
    return e;
}

static struct route *add_route(struct admin *a, enum route_kind kind, const char *path,
                               const char *content_type, admin_fn make, void *context)
{
    struct route *r = xcalloc(1, sizeof(*r));

    *r = (struct route){
        .kind = kind, .path = path, .content_type = content_type, .make = make, .context = context};
    list_push_back(&a->routes, &r->node);
    return r;
}

void admin_add(struct admin *a, const char *path, const char *content_type, admin_fn page,
               void *context)
{
    add_route(a, ROUTE_PAGE, path, content_type, page, context);
}

static int page_health(unused_ void *context, unused_ struct slice query, struct text *body)
{
    text_add(body, SLICE_LIT("ok\n"));
    return 200;
}

void admin_add_health(struct admin *a, admin_fn ready, void *context)
{
    add_route(a, ROUTE_HEALTH, "/healthz", plain_type, page_health, NULL);
    add_route(a, ROUTE_HEALTH, "/readyz", plain_type, ready, context);
}

void admin_add_metrics(struct admin *a, admin_metrics_fn metrics, void *context)
{
    add_route(a, ROUTE_METRICS, "/metrics", METRICS_TEXT_TYPE, NULL, context)->metrics = metrics;
}

void admin_add_stream(struct admin *a, const char *path,
                      int (*start)(void *context, struct http_response *response), void *context)
{
    add_route(a, ROUTE_STREAM, path, NULL, NULL, context)->start = start;
}

static void add_asset(struct admin *a, const char *path, const char *content_type,
                      struct slice bytes)
{
    add_route(a, ROUTE_ASSET, path, content_type, NULL, NULL)->bytes = bytes;
}

#define ASSET(name) ((struct slice){(const char *)asset_##name, sizeof(asset_##name)})

void admin_add_status_page(struct admin *a, struct slice script, admin_fn state, void *context)
{
    static const char script_type[] = "text/javascript; charset=utf-8";

    add_asset(a, "/", "text/html; charset=utf-8", ASSET(status_html));
    add_asset(a, "/status.css", "text/css; charset=utf-8", ASSET(status_css));
    add_asset(a, "/status.js", script_type, ASSET(status_js));
    add_asset(a, "/page.js", script_type, script);
    add_asset(a, "/icon.svg", "image/svg+xml", ASSET(icon_svg));
    add_route(a, ROUTE_LIVE, "/live", NULL, state, context);
}

void admin_add_action(struct admin *a, const char *before, const char *after, admin_fn action,
                      void *context)
{
    add_route(a, ROUTE_ACTION, before, plain_type, action, context)->after = after;
}

void admin_add_body_action(struct admin *a, const char *path, admin_fn order, void *context)
{
    add_route(a, ROUTE_ORDER, path, "application/json", order, context);
}

void admin_add_items(struct admin *a, const char *prefix, admin_item_fn handle, void *context)
{
    add_route(a, ROUTE_ITEM, prefix, "application/json", NULL, context)->handle = handle;
}

void admin_hold(struct admin *a, bool on)
{
    if (a != NULL)
        http_server_hold(a->server, on);
}

static void pass_socket(void *context, int fd, unused_ void *tag)
{
    upgrade_pass(context, "socket", NULL, 0, fd);
}

void admin_pass_sockets(struct admin *a, struct upgrade *u)
{
    if (a != NULL)
        http_server_each_socket(a->server, pass_socket, u);
}

void admin_address(const struct admin *a, size_t i, struct addr *out)
{
    ASSERT(i < a->naddresses);
    *out = a->addresses[i];
}

void admin_stop(struct admin *a, void (*done)(void *context), void *context)
{
    struct event_reader *x;

    if (a == NULL) {
        done(context);
        return;
    }
    http_server_drain(a->server, done, context);
    a->stopping = true;
    timer_stop(&a->live);
    list_for_each_entry_safe (x, &a->listeners, node)
        http_response_send(x->response, NULL, true);
}

void admin_cut(struct admin *a)
{
    if (a != NULL)
        http_server_cut(a->server);
}

void admin_destroy(struct admin *a)
{
    struct route *r;

    if (a == NULL)
        return;
    http_server_destroy(a->server);
    ASSERT(list_empty(&a->listeners));
    timer_stop(&a->live);
    while ((r = list_pop_entry(&a->routes, struct route, node)) != NULL)
        free(r);
    text_list_fini(&a->hosts);
    crypto_free(a->token);
    crypto_free(a->actions_token);
    free(a->addresses);
    free(a);
}
