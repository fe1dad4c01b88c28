/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages are few and made while the client waits, so a list and strcmp do. Beyond loopback a token
 * is wanted; Host must be a name of ours or an address (DNS rebinding). Answers are never cached,
 * framed or sniffed, and load only what this address serves.
 */
#include "common/program/admin.h"
#include "common/base/log.h"
#include "common/config/settings_value.h"
#include "common/http/http_request.h"
#include "common/http/http_server.h"
#include "common/program/admin_stream.h"
#include "common/stats/metrics.h"
#include "common/tls/crypto.h"

#include <errno.h>
#include <stdlib.h>

#include "assets.h"

enum {
    ADMIN_TIMEOUT_MS = 10 * 1000,
    ADMIN_KEEP_ALIVE_MS = 60 * 1000,
    ADMIN_CONNECTIONS_MAX = 256,
    ADMIN_HEADERS_MAX = 64,
    ADMIN_HEADER_BYTES_MAX = 16 * 1024,
    ADMIN_BODY_BYTES_MAX = 4 * 1024, /* no request here has a use for one */
    LIVE_MS = 1000,                  /* interval of the status page's events */
};

struct admin_page {
    struct list node;
    char *path;
    char *content_type;
    admin_page_fn make; /* NULL: bytes, or metrics */
    void *context;
    struct slice bytes;
    admin_metrics_fn metrics;    /* or NULL */
    struct admin_stream *stream; /* or NULL */
};

struct admin_action {
    struct list node;
    char *before, *after; /* the parts of its path beside the argument */
    admin_action_fn act;
    void *context;
};

struct admin_order {
    struct list node;
    char *path;
    admin_order_fn act;
    void *context;
};

struct admin {
    struct loop *loop;
    struct http_server *server;
    char *token;         /* or NULL */
    char *actions_token; /* or NULL */
    struct text_list hosts;
    struct addr *addresses; /* bound */
    size_t naddresses;
    struct list pages;
    struct list actions;
    struct list orders;
};

/* One request, in its own memory. */
struct admin_call {
    struct http_reply reply;
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

static void answer(struct admin_call *call, int status, const char *content_type, struct slice body)
{
    add_fixed_headers(call->reply.req);
    http_reply_simple(&call->reply, status, content_type, body);
}

static void answer_error(struct admin_call *call, int status)
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

static const struct admin_page *find_page(const struct admin *a, struct slice path)
{
    struct list *it;

    list_for_each (it, &a->pages) {
        const struct admin_page *p = list_entry(it, struct admin_page, node);
        if (slice_is(path, p->path))
            return p;
    }
    return NULL;
}

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

/* Finds the action for PATH, and sets *ARGUMENT to the argument in it. */
static const struct admin_action *find_action(const struct admin *a, struct slice path,
                                              struct slice *argument)
{
    struct list *it;

    list_for_each (it, &a->actions) {
        const struct admin_action *x = list_entry(it, struct admin_action, node);
        struct slice before = slice_of(x->before);
        struct slice after = slice_of(x->after);

        if (path.len < before.len + after.len || !slice_starts(path, before) ||
            !slice_ends(path, after))
            continue;
        *argument = (struct slice){path.p + before.len, path.len - before.len - after.len};
        if (is_argument(*argument))
            return x;
    }
    return NULL;
}

/* The request is allowed, and of a method that PATH takes? Else it is answered. */
static bool method_fits(struct admin_call *call, bool fits, const char *allowed)
{
    if (fits)
        return true;
    add_header(call->reply.req, "Allow", allowed);
    answer_error(call, 405);
    return false;
}

/* Makes the page of metrics in the format that REQ prefers; returns its type. */
static const char *make_metrics(const struct admin_page *p, const struct http_request *req,
                                struct text *body)
{
    const struct message_field *accept =
        message_fields_find(&req->fields, SLICE_LIT("accept"), NULL);
    struct metrics m = {.out = body, .open = accept != NULL && metrics_wants_open(accept->value)};

    p->metrics(p->context, &m);
    metrics_end(&m);
    return m.open ? METRICS_OPEN_TYPE : METRICS_TEXT_TYPE;
}

static void answer_stream(struct admin_call *call, struct admin_stream *s, struct slice query)
{
    struct http_request *req = call->reply.req;

    if (!method_fits(call, slice_is(req->method, "GET"), "GET"))
        return;
    if (!admin_stream_has_room(s)) {
        answer_error(call, 503);
        return;
    }
    add_fixed_headers(req);
    add_header(req, "Content-Type", "text/event-stream");
    req->res.status = 200;
    admin_stream_join(s, &call->reply, query);
}

static void answer_page(struct admin_call *call, const struct admin_page *p, struct slice query)
{
    struct slice method = call->reply.req->method;
    const char *type = p->content_type;
    struct text body = {0};
    int status = 200;

    if (!method_fits(call, slice_is(method, "GET") || slice_is(method, "HEAD"), "GET, HEAD"))
        return;
    if (p->make != NULL)
        status = p->make(p->context, query, &body);
    if (p->metrics != NULL)
        type = make_metrics(p, call->reply.req, &body);
    answer(call, status, type, p->bytes.p != NULL ? p->bytes : text_slice(&body));
    text_fini(&body);
}

static void answer_action(struct admin_call *call, const struct admin *a,
                          const struct admin_action *x, struct slice argument)
{
    struct text body = {0};

    if (!method_fits(call, slice_is(call->reply.req->method, "POST"), "POST"))
        return;
    /* authorized() has let everybody pass. */
    int status = a->token != NULL ? x->act(x->context, argument, &body) : 403;
    if (a->token == NULL)
        text_add(&body, SLICE_LIT("actions are off: the admin address has no token\n"));
    answer(call, status, "text/plain; charset=utf-8", text_slice(&body));
    text_fini(&body);
}

static const struct admin_order *find_order(const struct admin *a, struct slice path)
{
    struct list *it;

    list_for_each (it, &a->orders) {
        const struct admin_order *o = list_entry(it, struct admin_order, node);
        if (slice_is(path, o->path))
            return o;
    }
    return NULL;
}

static void answer_unauthorized(struct admin_call *call)
{
    add_header(call->reply.req, "WWW-Authenticate", "Bearer");
    answer_error(call, 401);
}

static void answer_order(struct admin_call *call, const struct admin *a,
                         const struct admin_order *o)
{
    struct http_request *req = call->reply.req;
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
        status = o->act(o->context, req->body, &body);
    }
    answer(call, status, "application/json", text_slice(&body));
    text_fini(&body);
}

static void on_request(void *context, struct http_request *req, struct http_conn *conn)
{
    struct admin *a = context;
    struct admin_call *call = http_request_take(req, sizeof(*call));
    struct slice query = req->target;
    struct slice path = slice_cut(&query, '?');
    struct slice argument = SLICE_NULL;

    http_reply_init(&call->reply, req, conn, &events, call);
    if (!host_allowed(a, req->authority)) {
        answer_error(call, 421);
        return;
    }
    const struct admin_order *o = find_order(a, path);
    if (o != NULL) {
        answer_order(call, a, o);
        return;
    }
    if (!authorized(a->token, req)) {
        answer_unauthorized(call);
        return;
    }
    const struct admin_page *p = find_page(a, path);
    const struct admin_action *x = p == NULL ? find_action(a, path, &argument) : NULL;
    if (p != NULL && p->stream != NULL)
        answer_stream(call, p->stream, query);
    else if (p != NULL)
        answer_page(call, p, query);
    else if (x != NULL)
        answer_action(call, a, x, argument);
    else
        answer_error(call, 404);
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

        log_error(NULL, "admin-cannot-listen", "address=%s reason=\"%s\"",
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
    list_init(&a->pages);
    list_init(&a->actions);
    list_init(&a->orders);
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

static struct admin_page *add_page(struct admin *a, const char *path, const char *content_type)
{
    struct admin_page *p = xcalloc(1, sizeof(*p));

    ASSERT(find_page(a, slice_of(path)) == NULL);
    p->path = xstrdup(path);
    p->content_type = xstrdup(content_type);
    list_push_back(&a->pages, &p->node);
    return p;
}

void admin_add(struct admin *a, const char *path, const char *content_type, admin_page_fn page,
               void *context)
{
    struct admin_page *p = add_page(a, path, content_type);

    ASSERT(page != NULL);
    p->make = page;
    p->context = context;
}

void admin_add_metrics(struct admin *a, admin_metrics_fn metrics, void *context)
{
    struct admin_page *p = add_page(a, "/metrics", METRICS_TEXT_TYPE);

    p->metrics = metrics;
    p->context = context;
}

static void add_asset(struct admin *a, const char *path, const char *content_type,
                      struct slice bytes)
{
    add_page(a, path, content_type)->bytes = bytes;
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
    add_page(a, "/live", "text/event-stream")->stream =
        admin_stream_create(a->loop, LIVE_MS, state, context);
}

void admin_add_action(struct admin *a, const char *before, const char *after,
                      admin_action_fn action, void *context)
{
    struct admin_action *x = xcalloc(1, sizeof(*x));

    x->before = xstrdup(before);
    x->after = xstrdup(after);
    x->act = action;
    x->context = context;
    list_push_back(&a->actions, &x->node);
}

void admin_add_order(struct admin *a, const char *path, admin_order_fn order, void *context)
{
    struct admin_order *o = xcalloc(1, sizeof(*o));

    o->path = xstrdup(path);
    o->act = order;
    o->context = context;
    list_push_back(&a->orders, &o->node);
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
    list_for_each (it, &a->pages) {
        const struct admin_page *p = list_entry(it, struct admin_page, node);
        if (p->stream != NULL)
            admin_stream_end(p->stream);
    }
}

void admin_cut(struct admin *a)
{
    http_server_cut(a->server);
}

static void free_secret(char *s)
{
    if (s != NULL)
        crypto_wipe(s, strlen(s));
    free(s);
}

void admin_destroy(struct admin *a)
{
    struct list *it;
    struct list *next;

    if (a == NULL)
        return;
    http_server_destroy(a->server);
    list_for_each_safe (it, next, &a->pages) {
        struct admin_page *p = list_entry(it, struct admin_page, node);
        free(p->path);
        free(p->content_type);
        if (p->stream != NULL)
            admin_stream_destroy(p->stream);
        free(p);
    }
    list_for_each_safe (it, next, &a->actions) {
        struct admin_action *x = list_entry(it, struct admin_action, node);
        free(x->before);
        free(x->after);
        free(x);
    }
    list_for_each_safe (it, next, &a->orders) {
        struct admin_order *o = list_entry(it, struct admin_order, node);
        free(o->path);
        free(o);
    }
    text_list_fini(&a->hosts);
    free_secret(a->token);
    free_secret(a->actions_token);
    free(a->addresses);
    free(a);
}
