/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages are few and made while the client waits, so a list and strcmp do. Beyond loopback a token
 * is wanted; Host must be a name of ours or an address (DNS rebinding). Answers are never cached,
 * framed or sniffed, and load only what this address serves.
 */
#include "common/program/admin.h"
#include "assets.h"
#include "common/base/log.h"
#include "common/config/setting.h"
#include "common/http/http_request.h"
#include "common/http/http_server.h"
#include "common/program/line_delta.h"
#include "common/stats/metrics.h"
#include "common/tls/crypto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    ADMIN_LISTENERS_MAX = 16, /* of one stream: further ones get 503 */
    /* A listener that has not taken the previous event this many times in a row is disconnected. */
    ADMIN_LISTENER_LATE_MAX = 10,
};

/* ---- orders ---- */

int admin_order_refuse(struct text *body, int status, const char *why)
{
    struct json_writer w = {.out = body};

    json_open_object(&w, NULL);
    json_put_text(&w, "error", slice_of(why));
    json_close_object(&w);
    text_add_char(body, '\n');
    return status;
}

static const char *read_member(struct admin_order *o, const char *name, const json_t *v)
{
    struct slice text = {json_string_value(v), json_string_length(v)};

    if (!json_is_string(v))
        return "each member must be a string";
    if (strcmp(name, "application") == 0)
        o->application = text;
    else if (strcmp(name, "worker") == 0)
        o->worker = text;
    else if (strcmp(name, "class") == 0) {
        o->cls = text;
        o->has_class = true;
    } else
        return "unknown member; known are application, worker, class";
    return NULL;
}

const char *admin_order_read(struct admin_order *o, struct slice entity)
{
    const char *name;
    const char *why = NULL;
    json_t *v;

    *o = (struct admin_order){0};
    if (slice_trim(entity).len == 0)
        return NULL;
    if (json_parse(entity, ADMIN_ORDER_BYTES_MAX, &o->root, NULL) != ERR_OK ||
        !json_is_object(o->root))
        return "the body is not a JSON object";
    json_object_foreach(o->root, name, v)
    {
        if (why == NULL)
            why = read_member(o, name, v);
    }
    return why;
}

void admin_order_fini(struct admin_order *o)
{
    json_decref(o->root);
}

bool admin_order_means(const struct admin_order *o, const char *name)
{
    return o->application.len == 0 || slice_is(o->application, name);
}

void admin_order_forgotten(struct text *body, size_t workers, size_t scores)
{
    struct json_writer w = {.out = body};

    log_info(NULL, "skills-forgotten", "workers=%zu scores=%zu", workers, scores);
    json_open_object(&w, NULL);
    json_put_text(&w, "action", SLICE_LIT("forget"));
    json_put_int(&w, "workers", (int64_t)workers);
    json_put_int(&w, "scores", (int64_t)scores);
    json_close_object(&w);
    text_add_char(body, '\n');
}

/* ---- server-sent events ---- */

/*
 * Of admin_add_status_page(): each listener is sent the state, a JSON document, every so often. The
 * first event is the whole text, later ones, of type "delta", what has changed in it, in pieces
 * between commas (common/program/line_delta.h), where that is shorter and the listener has taken
 * the text before. Listeners with the same query share a topic: the text is created once for all of
 * them.
 *
 * An event is created when it is due, if there are listeners, and only for listeners that have
 * taken the previous one; so at most one event is queued for each, whatever the network does. The
 * number of listeners is bounded; one that does not keep up is cut, and its browser reconnects.
 */

/* The text sent to listeners with the same query. */
struct topic {
    struct list node;
    struct list listeners;
    uint64_t serial; /* of the text; 0: none yet */
    struct text query, text;
};

struct listener {
    struct list node;
    struct topic *topic;
    struct http_reply *reply;
    uint64_t reported; /* the serial of the last text sent to it */
    unsigned late;
};

struct admin_stream {
    struct loop *loop;
    uint64_t every_ms;
    admin_page_fn make;
    void *context;
    struct timer timer;
    struct list topics;
    bool ended;
};

static void drop_if_empty(struct topic *t)
{
    if (!list_empty(&t->listeners))
        return;
    list_remove(&t->node);
    text_fini(&t->query);
    text_fini(&t->text);
    free(t);
}

static void on_listener_gone(void *context, bool done)
{
    struct listener *x = context;

    (void)done;
    list_remove(&x->node);
    drop_if_empty(x->topic);
    free(x);
}

static const struct http_reply_events listener_events = {.gone = on_listener_gone};

/* Each line of an event's data begins with its name. KIND: NULL: the usual. */
static void wrap(const char *kind, struct slice body, struct text *out)
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

/* Of one text: all of it, and what has changed since the one before. */
struct event {
    struct text whole, delta;
};

/* May end X. */
static void tell(struct listener *x, const struct event *e)
{
    const struct topic *t = x->topic;
    bool has_last = x->reported != 0 && x->reported + 1 == t->serial && e->delta.len < e->whole.len;

    if (x->reply->queued_bytes == 0) {
        x->late = 0;
        x->reported = t->serial;
        http_reply_send(x->reply, http1_body_copy(text_slice(has_last ? &e->delta : &e->whole)),
                        false);
    } else if (++x->late >= ADMIN_LISTENER_LATE_MAX) {
        http_reply_abort(x->reply);
    }
}

static size_t count(const struct admin_stream *s)
{
    struct list *t;
    struct list *it;
    size_t n = 0;

    list_for_each (t, &s->topics) {
        list_for_each (it, &list_entry(t, struct topic, node)->listeners)
            ++n;
    }
    return n;
}

/* T may be gone afterwards. */
static void tell_all(const struct admin_stream *s, struct topic *t)
{
    struct event e = {{0}, {0}};
    struct text now = {0};
    struct text changes = {0};
    struct list *it;
    struct list *next;
    bool last = false;

    (void)s->make(s->context, text_slice(&t->query), &now);
    /* The members of a JSON document, on the one line that an event's data may have. */
    if (slice_ends(text_slice(&now), SLICE_LIT("\n")))
        --now.len;
    ASSERT(slice_find(text_slice(&now), '\n') == SIZE_MAX);
    line_delta(text_slice(&t->text), text_slice(&now), ',', &changes);
    wrap(NULL, text_slice(&now), &e.whole);
    wrap("delta", text_slice(&changes), &e.delta);
    text_fini(&t->text);
    t->text = now;
    ++t->serial;
    /* The last one takes the topic along. */
    for (it = t->listeners.next; !last; it = next) {
        next = it->next;
        last = next == &t->listeners;
        tell(list_entry(it, struct listener, node), &e);
    }
    text_fini(&changes);
    text_fini(&e.whole);
    text_fini(&e.delta);
}

static void on_timer(struct timer *t)
{
    struct admin_stream *s = container_of(t, struct admin_stream, timer);
    struct list *it;
    struct list *next;

    list_for_each_safe (it, next, &s->topics)
        tell_all(s, list_entry(it, struct topic, node));
    if (count(s) != 0)
        timer_start(s->loop, &s->timer, s->every_ms);
}

static struct admin_stream *admin_stream_create(struct loop *l, uint64_t every_ms,
                                                admin_page_fn make, void *context)
{
    struct admin_stream *s = xcalloc(1, sizeof(*s));

    s->loop = l;
    s->every_ms = every_ms;
    s->make = make;
    s->context = context;
    list_init(&s->topics);
    timer_init(&s->timer, on_timer);
    return s;
}

/* No listener is left. */
static void admin_stream_destroy(struct admin_stream *s)
{
    if (s == NULL)
        return;
    ASSERT(list_empty(&s->topics));
    timer_stop(&s->timer);
    free(s);
}

/* Whether there is room for one more. */
static bool admin_stream_has_room(const struct admin_stream *s)
{
    return !s->ended && count(s) < ADMIN_LISTENERS_MAX;
}

static struct topic *topic_of(struct admin_stream *s, struct slice query)
{
    struct list *it;

    list_for_each (it, &s->topics) {
        struct topic *t = list_entry(it, struct topic, node);

        if (slice_eq(text_slice(&t->query), query))
            return t;
    }
    struct topic *t = xcalloc(1, sizeof(*t));
    text_add(&t->query, query);
    list_init(&t->listeners);
    list_push_back(&s->topics, &t->node);
    return t;
}

/* R has its headers, and nothing was sent yet; the stream has it from now on. QUERY: of its
 * request, in its memory. */
static void admin_stream_join(struct admin_stream *s, struct http_reply *r, struct slice query)
{
    struct listener *x = xcalloc(1, sizeof(*x));

    x->reply = r;
    x->topic = topic_of(s, query);
    list_push_back(&x->topic->listeners, &x->node);
    r->events = &listener_events;
    r->context = x;
    http_reply_start(r, UINT64_MAX);
    if (!timer_running(&s->timer))
        timer_start(s->loop, &s->timer, 0);
}

static void end_topic(struct topic *t)
{
    struct list *it;
    struct list *next;
    bool last = false;

    /* The last one takes the topic along. */
    for (it = t->listeners.next; !last; it = next) {
        next = it->next;
        last = next == &t->listeners;
        http_reply_send(list_entry(it, struct listener, node)->reply, NULL, true);
    }
}

/* Disconnects all listeners; no listener can join from now on. */
static void admin_stream_end(struct admin_stream *s)
{
    struct list *it;
    struct list *next;

    s->ended = true;
    timer_stop(&s->timer);
    list_for_each_safe (it, next, &s->topics)
        end_topic(list_entry(it, struct topic, node));
}

/* ---- the admin address ---- */

enum {
    ADMIN_TIMEOUT_MS = 10 * 1000,
    ADMIN_KEEP_ALIVE_MS = 60 * 1000,
    ADMIN_CONNECTIONS_MAX = 256,
    ADMIN_HEADERS_MAX = 64,
    ADMIN_HEADER_BYTES_MAX = 16 * 1024,
    ADMIN_BODY_BYTES_MAX = 4 * 1024, /* no request here has a use for one */
    LIVE_MS = 1000,                  /* interval of the status page's events */
};

/* What a path is for: exactly one of make, metrics, stream, act, order, or else BYTES. */
struct route {
    struct list node;
    const char *path;  /* borrowed, as the other texts */
    const char *after; /* of an action: what follows its argument */
    const char *content_type;
    void *context;
    admin_page_fn make;
    admin_metrics_fn metrics;
    struct admin_stream *stream; /* owned */
    admin_action_fn act;
    admin_order_fn order;
    struct slice bytes;
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

/* The host part of a Host header, without its port. */
static struct slice host_name(struct slice authority)
{
    size_t end;

    if (authority.len != 0 && authority.p[0] == '[')
        end = slice_find(authority, ']');
    else
        end = slice_find(authority, ':');
    if (end == SIZE_MAX)
        return authority;
    return (struct slice){authority.p, authority.p[end] == ']' ? end + 1 : end};
}

/* Whether NAME is a literal address, which DNS rebinding cannot redirect. */
static bool is_address(struct slice name)
{
    struct text t = {0};
    struct addr a;

    if (name.len > ADDR_TEXT_MAX)
        return false;
    text_add(&t, name);
    text_add(&t, SLICE_LIT(":0"));
    bool is = addr_parse(text_slice(&t), &a) == ERR_OK;
    text_fini(&t);
    return is;
}

static bool host_allowed(const struct admin *a, struct slice authority)
{
    struct slice name = host_name(authority);

    /* No Host at all: not a browser. */
    if (name.len == 0 || slice_eq_nocase(name, SLICE_LIT("localhost")))
        return true;
    for (size_t i = 0; i < a->hosts.n; ++i) {
        if (slice_eq_nocase(name, slice_of(a->hosts.items[i])))
            return true;
    }
    return is_address(name);
}

static bool token_matches(const char *token, struct slice value)
{
    struct slice prefix = SLICE_LIT("Bearer ");
    size_t len = strlen(token);

    if (value.len < prefix.len || !slice_eq_nocase((struct slice){value.p, prefix.len}, prefix))
        return false;
    struct slice given = slice_trim((struct slice){value.p + prefix.len, value.len - prefix.len});
    /* The length may show, the bytes may not. */
    return given.len == len && crypto_equal(given.p, token, len);
}

/* Whether the request has TOKEN (NULL: none is wanted). */
static bool authorized(const char *token, const struct http_request *req)
{
    if (token == NULL)
        return true;
    const struct slice name = SLICE_LIT("authorization");
    const struct message_field *f = message_fields_find(&req->fields, name, NULL);
    /* Of several it would be a matter of taste which counts. */
    if (f == NULL || message_fields_find(&req->fields, name, f) != NULL)
        return false;
    return token_matches(token, f->value);
}

/* ---- answers ---- */

static void add_header(struct http_request *req, const char *name, const char *value)
{
    http_request_answer(req, name, slice_of(value));
}

static void add_fixed_headers(struct http_request *req)
{
    for (size_t i = 0; i < ARRAY_LEN(fixed_headers); ++i)
        add_header(req, fixed_headers[i].name, fixed_headers[i].value);
}

static void answer(struct http_reply *call, int status, const char *content_type, struct slice body)
{
    add_fixed_headers(call->req);
    http_reply_simple(call, status, content_type, body);
}

static void answer_error(struct http_reply *call, int status)
{
    struct text t = {0};

    text_addf(&t, "%d %s\n", status, http_status_reason(status));
    answer(call, status, "text/plain; charset=utf-8", text_slice(&t));
    text_fini(&t);
}

static void on_gone(void *context, bool done)
{
    (void)context; /* in the request's pool */
    (void)done;
}

static const struct http_reply_events events = {.gone = on_gone};

static bool is_argument(struct slice s)
{
    if (s.len == 0 || s.len > ADMIN_ARGUMENT_MAX)
        return false;
    for (size_t i = 0; i < s.len; ++i) {
        char c = ascii_lower(s.p[i]);

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.')
            return false;
    }
    return true;
}

/* The route of PATH, and the argument in that of an action. */
static const struct route *find_route(const struct admin *a, struct slice path,
                                      struct slice *argument)
{
    struct list *it;

    list_for_each (it, &a->routes) {
        const struct route *r = list_entry(it, struct route, node);
        struct slice before = slice_of(r->path);
        struct slice after = slice_of(r->after);

        if (r->act == NULL ? slice_eq(path, before)
                           : path.len >= before.len + after.len && slice_starts(path, before) &&
                                 slice_ends(path, after)) {
            *argument = (struct slice){path.p + before.len, path.len - before.len - after.len};
            if (r->act == NULL || is_argument(*argument))
                return r;
        }
    }
    return NULL;
}

/* The request is allowed, and of a method that PATH takes? Else it is answered. */
static bool method_fits(struct http_reply *call, bool fits, const char *allowed)
{
    if (fits)
        return true;
    add_header(call->req, "Allow", allowed);
    answer_error(call, 405);
    return false;
}

/* Makes the page of metrics in the format that REQ prefers; returns its type. */
static const char *make_metrics(const struct route *p, const struct http_request *req,
                                struct text *body)
{
    const struct message_field *accept =
        message_fields_find(&req->fields, SLICE_LIT("accept"), NULL);
    struct metrics m = {.out = body, .open = accept != NULL && metrics_wants_open(accept->value)};

    p->metrics(p->context, &m);
    metrics_end(&m);
    return m.open ? METRICS_OPEN_TYPE : METRICS_TEXT_TYPE;
}

static void answer_stream(struct http_reply *call, struct admin_stream *s, struct slice query)
{
    struct http_request *req = call->req;

    if (!method_fits(call, slice_is(req->method, "GET"), "GET"))
        return;
    if (!admin_stream_has_room(s)) {
        answer_error(call, 503);
        return;
    }
    add_fixed_headers(req);
    add_header(req, "Content-Type", "text/event-stream");
    req->res.status = 200;
    admin_stream_join(s, call, query);
}

static void answer_page(struct http_reply *call, const struct route *p, struct slice query)
{
    struct slice method = call->req->method;
    const char *type = p->content_type;
    struct text body = {0};
    int status = 200;

    if (!method_fits(call, slice_is(method, "GET") || slice_is(method, "HEAD"), "GET, HEAD"))
        return;
    if (p->make != NULL)
        status = p->make(p->context, query, &body);
    if (p->metrics != NULL)
        type = make_metrics(p, call->req, &body);
    answer(call, status, type, p->bytes.p != NULL ? p->bytes : text_slice(&body));
    text_fini(&body);
}

static void answer_action(struct http_reply *call, const struct admin *a, const struct route *x,
                          struct slice argument)
{
    struct text body = {0};

    if (!method_fits(call, slice_is(call->req->method, "POST"), "POST"))
        return;
    /* Without a token, authorized() permits every request. */
    int status = a->token != NULL ? x->act(x->context, argument, &body) : 403;
    if (a->token == NULL)
        text_add(&body, SLICE_LIT("actions are off: the admin address has no token\n"));
    answer(call, status, "text/plain; charset=utf-8", text_slice(&body));
    text_fini(&body);
}

static void answer_unauthorized(struct http_reply *call)
{
    add_header(call->req, "WWW-Authenticate", "Bearer");
    answer_error(call, 401);
}

static void answer_order(struct http_reply *call, const struct admin *a, const struct route *o)
{
    struct http_request *req = call->req;
    struct text body = {0};
    int status = 403;

    if (!method_fits(call, slice_is(req->method, "POST"), "POST"))
        return;
    if (a->actions_token == NULL) {
        text_add(&body, SLICE_LIT("{\"error\":\"actions are off: no actions_token is set\"}\n"));
    } else if (!authorized(a->actions_token, req)) {
        answer_unauthorized(call);
        return;
    } else {
        status = o->order(o->context, req->body, &body);
    }
    answer(call, status, "application/json", text_slice(&body));
    text_fini(&body);
}

static void on_request(void *context, struct http_request *req, struct http_conn *conn)
{
    struct admin *a = context;
    struct http_reply *call = http_request_take(req, sizeof(*call));
    struct slice query = req->target;
    struct slice path = slice_cut(&query, '?');
    struct slice argument = SLICE_NULL;

    http_reply_init(call, req, conn, &events, call);
    if (!host_allowed(a, req->authority)) {
        answer_error(call, 421);
        return;
    }
    const struct route *r = find_route(a, path, &argument);
    if (r != NULL && r->order != NULL)
        answer_order(call, a, r);
    else if (!authorized(a->token, req))
        answer_unauthorized(call);
    else if (r == NULL)
        answer_error(call, 404);
    else if (r->stream != NULL)
        answer_stream(call, r->stream, query);
    else if (r->act != NULL)
        answer_action(call, a, r, argument);
    else
        answer_page(call, r, query);
}

/* ---- life ---- */

static enum err listen_at(struct admin *a, struct inherited *h, const struct addr *address)
{
    struct addr_listen_options lo = {.mode = 0660};
    struct http_listen_options o = {.tag = a};
    int fd = inherited_take_socket(h, address, NULL, 0);
    enum err e = fd < 0 ? addr_listen(address, &lo, &fd) : ERR_OK;

    if (e != ERR_OK) {
        char text[ADDR_TEXT_MAX];

        log_error(NULL, "admin-listen-failed", "address=%s reason=\"%s\"",
                  addr_format(address, text), e == ERR_SYSTEM ? strerror(errno) : err_text(e));
        return e;
    }
    http_server_listen(a->server, fd, &o);
    return addr_of_socket(fd, &a->addresses[a->naddresses++]);
}

static bool beyond_loopback(const struct admin_config *c)
{
    for (size_t i = 0; i < c->n; ++i) {
        if (!addr_is_loopback(&c->addresses[i]))
            return true;
    }
    return false;
}

static void copy_config(struct admin *a, const struct admin_config *c)
{
    a->token = xstrdup(c->s.token);
    a->actions_token = xstrdup(c->s.actions_token);
    for (size_t i = 0; i < c->s.hosts.n; ++i)
        text_list_add(&a->hosts, slice_of(c->s.hosts.items[i]));
    a->addresses = xcalloc(c->n + 1, sizeof(*a->addresses));
}

enum err admin_create(struct loop *l, const struct admin_config *c, struct inherited *h,
                      struct admin **out)
{
    const char *token = c->s.token;
    bool has_token = token != NULL && *token != '\0';
    enum err e = ERR_OK;

    if (c->s.actions_token != NULL && *c->s.actions_token == '\0')
        return ERR_UNSUPPORTED;
    if (!has_token && (token != NULL || beyond_loopback(c)))
        return ERR_UNSUPPORTED;
    struct admin *a = xcalloc(1, sizeof(*a));
    struct http_server_options so = {
        .max_body_bytes = ADMIN_BODY_BYTES_MAX,
        .max_header_bytes = ADMIN_HEADER_BYTES_MAX,
        .max_headers = ADMIN_HEADERS_MAX,
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
    copy_config(a, c);
    a->server = http_server_create(l, &so);
    for (size_t i = 0; i < c->n && e == ERR_OK; ++i)
        e = listen_at(a, h, &c->addresses[i]);
    if (e != ERR_OK) {
        admin_destroy(a);
        return e;
    }
    *out = a;
    return ERR_OK;
}

static struct route *add_route(struct admin *a, const char *path, const char *content_type,
                               void *context)
{
    struct route *r = xcalloc(1, sizeof(*r));

    r->path = path;
    r->content_type = content_type;
    r->context = context;
    list_push_back(&a->routes, &r->node);
    return r;
}

void admin_add(struct admin *a, const char *path, const char *content_type, admin_page_fn page,
               void *context)
{
    ASSERT(page != NULL);
    add_route(a, path, content_type, context)->make = page;
}

void admin_add_metrics(struct admin *a, admin_metrics_fn metrics, void *context)
{
    add_route(a, "/metrics", METRICS_TEXT_TYPE, context)->metrics = metrics;
}

static void add_asset(struct admin *a, const char *path, const char *content_type,
                      struct slice bytes)
{
    add_route(a, path, content_type, NULL)->bytes = bytes;
}

#define ASSET(name) ((struct slice){(const char *)asset_##name, sizeof(asset_##name)})

void admin_add_status_page(struct admin *a, struct slice script, admin_page_fn state, void *context)
{
    static const char script_type[] = "text/javascript; charset=utf-8";

    add_asset(a, "/", "text/html; charset=utf-8", ASSET(status_html));
    add_asset(a, "/status.css", "text/css; charset=utf-8", ASSET(status_css));
    add_asset(a, "/status.js", script_type, ASSET(status_js));
    add_asset(a, "/page.js", script_type, script);
    add_asset(a, "/icon.svg", "image/svg+xml", ASSET(icon_svg));
    add_route(a, "/live", NULL, NULL)->stream =
        admin_stream_create(a->loop, LIVE_MS, state, context);
}

void admin_add_action(struct admin *a, const char *before, const char *after,
                      admin_action_fn action, void *context)
{
    struct route *r = add_route(a, before, NULL, context);

    r->after = after;
    r->act = action;
}

void admin_add_order(struct admin *a, const char *path, admin_order_fn order, void *context)
{
    add_route(a, path, NULL, context)->order = order;
}

struct http_server *admin_server(const struct admin *a)
{
    return a->server;
}

void admin_address(const struct admin *a, size_t i, struct addr *out)
{
    ASSERT(i < a->naddresses);
    *out = a->addresses[i];
}

void admin_stop(struct admin *a, void (*done)(void *context), void *context)
{
    struct list *it;

    http_server_drain(a->server, done, context);
    list_for_each (it, &a->routes) {
        const struct route *r = list_entry(it, struct route, node);
        if (r->stream != NULL)
            admin_stream_end(r->stream);
    }
}

void admin_cut(struct admin *a)
{
    http_server_cut(a->server);
}

void admin_destroy(struct admin *a)
{
    struct list *node;

    if (a == NULL)
        return;
    http_server_destroy(a->server);
    while ((node = list_pop_front(&a->routes)) != NULL) {
        struct route *r = list_entry(node, struct route, node);

        admin_stream_destroy(r->stream);
        free(r);
    }
    text_list_fini(&a->hosts);
    crypto_free(a->token);
    crypto_free(a->actions_token);
    free(a->addresses);
    free(a);
}
