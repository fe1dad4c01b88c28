/* SPDX-License-Identifier: Apache-2.0
 *
 * The admin address over http_server: each page is made whole, on demand, on this loop. A request
 * passes the guards in order: Host, token, path, method.
 */
#include "common/net/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/net/http_server.h"

enum {
    /* What an operator's browser and a scraper may need at once. */
    ADMIN_CONNECTIONS_MAX = 256,
    ADMIN_HEADER_BYTES_MAX = 16 * 1024,
    ADMIN_HEADERS_MAX = 64,
    ADMIN_TIMEOUT_MS = 10000,
    ADMIN_KEEP_ALIVE_MS = 60000,
};

struct admin_page {
    struct list node;
    char *path;
    const char *content_type;
    admin_page_fn make;
    void *context;
};

struct admin {
    struct http_server *server;
    struct http_listener **listeners;
    struct addr *addresses;
    size_t naddresses;
    char *token;
    char **hosts;
    size_t nhosts;
    struct list pages;
};

/* A Host header's name, without port. */
static struct slice host_name(struct slice authority)
{
    if (authority.len != 0 && authority.p[0] == '[') {
        size_t end = slice_find(authority, ']');
        return end != SIZE_MAX ? (struct slice){authority.p + 1, end - 1} : authority;
    }
    size_t colon = slice_find(authority, ':');
    return colon != SIZE_MAX ? (struct slice){authority.p, colon} : authority;
}

/*
 * A page of another site can make a browser send requests here under a name of its own that
 * resolves to us, but under no address: addresses, localhost, and what was configured are fine. No
 * name at all (a unix socket's client) is, too.
 */
static bool host_allowed(const struct admin *a, struct slice authority)
{
    struct slice name = host_name(authority);
    struct addr parsed;
    char text[ADDR_TEXT_MAX];

    if (name.len == 0 || slice_eq_nocase(name, SLICE_LIT("localhost")))
        return true;
    for (size_t i = 0; i < a->nhosts; ++i) {
        if (slice_eq_nocase(name, slice_of(a->hosts[i])))
            return true;
    }
    if (name.len > ADDR_TEXT_MAX - 10)
        return false;
    bool six = slice_find(name, ':') != SIZE_MAX;
    snprintf(text, sizeof(text), six ? "[%.*s]:1" : "%.*s:1", SLICE_FMT(name));
    return addr_parse(slice_of(text), &parsed) == ERR_OK;
}

static bool same_secret(struct slice given, const char *token)
{
    size_t len = strlen(token);
    unsigned char differs = given.len != len;

    /* The time must not tell how much of it was right. */
    for (size_t i = 0; i < given.len; ++i)
        differs |= (unsigned char)(given.p[i] ^ token[len != 0 ? i % len : 0]);
    return differs == 0;
}

static bool token_allowed(const struct admin *a, const h2o_req_t *req)
{
    static const struct slice scheme = SLICE_LIT("Bearer ");

    if (a->token == NULL)
        return true;
    ssize_t i = h2o_find_header(&req->headers, H2O_TOKEN_AUTHORIZATION, -1);
    if (i < 0)
        return false;
    h2o_iovec_t v = req->headers.entries[i].value;
    if (v.len < scheme.len || !slice_eq_nocase((struct slice){v.base, scheme.len}, scheme))
        return false;
    return same_secret(slice_trim((struct slice){v.base + scheme.len, v.len - scheme.len}),
                       a->token);
}

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

static void on_gone(void *context, bool done)
{
    /* Answers are whole and small: nothing of ours outlives the call that made them. */
    (void)context;
    (void)done;
}

static const struct http_reply_events reply_events = {.gone = on_gone};

static void refuse(struct http_reply *r, int status, const char *why)
{
    http_reply_simple(r, status, "text/plain; charset=utf-8", slice_of(why));
}

static void add_header(h2o_req_t *req, const char *name, const char *value)
{
    h2o_add_header_by_str(&req->pool, &req->res.headers, name, strlen(name), 1, name, value,
                          strlen(value));
}

static void add_common_headers(h2o_req_t *req)
{
    add_header(req, "cache-control", "no-store");
    add_header(req, "x-content-type-options", "nosniff");
    add_header(req, "referrer-policy", "no-referrer");
    add_header(req, "content-security-policy",
               "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
               "img-src 'self' data:; "
               "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
}

static void answer_page(struct http_reply *r, h2o_req_t *req, const struct admin_page *p,
                        struct slice query)
{
    struct text body = {0};

    int status = p->make(p->context, query, &body);
    if (status == 401)
        add_header(req, "www-authenticate", "Bearer");
    http_reply_simple(r, status, p->content_type, text_slice(&body));
    text_fini(&body);
}

static void on_request(void *context, h2o_req_t *req, struct http_conn *conn)
{
    struct admin *a = context;
    struct http_reply *r = h2o_mem_alloc_shared(&req->pool, sizeof(*r), NULL);
    struct slice path = {req->path.base, req->path.len};
    struct slice query = path;

    *r = (struct http_reply){0};
    http_reply_init(r, req, conn, &reply_events, NULL);
    path = slice_cut(&query, '?');
    add_common_headers(req);
    if (!host_allowed(a, (struct slice){req->authority.base, req->authority.len})) {
        refuse(r, 421, "This address is not served under that Host name.\n");
        return;
    }
    if (!token_allowed(a, req)) {
        add_header(req, "www-authenticate", "Bearer");
        refuse(r, 401, "A token is wanted: Authorization: Bearer TOKEN.\n");
        return;
    }
    const struct admin_page *p = find_page(a, path);
    if (p == NULL) {
        refuse(r, 404, "There is no such page.\n");
        return;
    }
    if (!h2o_memis(req->method.base, req->method.len, H2O_STRLIT("GET")) &&
        !h2o_memis(req->method.base, req->method.len, H2O_STRLIT("HEAD"))) {
        add_header(req, "allow", "GET, HEAD");
        refuse(r, 405, "GET and HEAD only.\n");
        return;
    }
    answer_page(r, req, p, query);
}

static enum err listen_on(struct admin *a, size_t i, const struct addr *address)
{
    int fd;

    if (a->token == NULL && !addr_is_loopback(address))
        return ERR_UNSUPPORTED;
    enum err e = addr_listen(address, &(struct addr_listen_options){.mode = 0660}, &fd);
    if (e != ERR_OK)
        return e;
    e = addr_of_socket(fd, &a->addresses[i]);
    if (e != ERR_OK) {
        close(fd);
        return e;
    }
    a->listeners[i] = http_server_listen(a->server, fd, &(struct http_listen_options){0});
    return ERR_OK;
}

enum err admin_create(struct loop *l, const struct admin_options *o, struct admin **out)
{
    struct http_server_options limits = {
        .max_header_bytes = ADMIN_HEADER_BYTES_MAX,
        .max_headers = ADMIN_HEADERS_MAX,
        .max_connections = ADMIN_CONNECTIONS_MAX,
        .header_timeout_ms = ADMIN_TIMEOUT_MS,
        .body_timeout_ms = ADMIN_TIMEOUT_MS,
        .keep_alive_timeout_ms = ADMIN_KEEP_ALIVE_MS,
        .send_timeout_ms = ADMIN_TIMEOUT_MS,
        .on_request = on_request,
    };
    struct admin *a = xcalloc(1, sizeof(*a));
    enum err e = ERR_OK;

    list_init(&a->pages);
    a->token = xstrdup(o->token);
    a->nhosts = o->nhosts;
    a->hosts = xcalloc(o->nhosts, sizeof(char *));
    for (size_t i = 0; i < o->nhosts; ++i)
        a->hosts[i] = xstrdup(o->hosts[i]);
    a->naddresses = o->naddresses;
    a->addresses = xcalloc(o->naddresses, sizeof(struct addr));
    a->listeners = xcalloc(o->naddresses, sizeof(struct http_listener *));
    limits.context = a;
    a->server = http_server_create(l, &limits);
    for (size_t i = 0; i < o->naddresses && e == ERR_OK; ++i)
        e = listen_on(a, i, &o->addresses[i]);
    if (e != ERR_OK) {
        admin_destroy(a);
        return e;
    }
    *out = a;
    return ERR_OK;
}

void admin_add(struct admin *a, const char *path, const char *content_type, admin_page_fn page,
               void *context)
{
    struct admin_page *p = xcalloc(1, sizeof(*p));

    ASSERT(find_page(a, slice_of(path)) == NULL);
    p->path = xstrdup(path);
    p->content_type = content_type;
    p->make = page;
    p->context = context;
    list_push_back(&a->pages, &p->node);
}

void admin_address(const struct admin *a, size_t i, struct addr *out)
{
    ASSERT(i < a->naddresses);
    *out = a->addresses[i];
}

static void close_listeners(struct admin *a)
{
    for (size_t i = 0; i < a->naddresses; ++i) {
        if (a->listeners[i] == NULL)
            continue;
        http_listener_close(a->listeners[i]);
        a->listeners[i] = NULL;
        if (a->addresses[i].sa.sa_family == AF_UNIX && a->addresses[i].un.sun_path[0] != '\0')
            (void)unlink(a->addresses[i].un.sun_path);
    }
}

void admin_stop(struct admin *a, void (*done)(void *context), void *context)
{
    close_listeners(a);
    http_server_drain(a->server, done, context);
}

void admin_destroy(struct admin *a)
{
    struct list *it;
    struct list *tmp;

    if (a == NULL)
        return;
    close_listeners(a);
    http_server_destroy(a->server);
    list_for_each_safe (it, tmp, &a->pages) {
        struct admin_page *p = list_entry(it, struct admin_page, node);
        free(p->path);
        free(p);
    }
    for (size_t i = 0; i < a->nhosts; ++i)
        free(a->hosts[i]);
    free(a->hosts);
    free(a->token);
    free(a->addresses);
    free(a->listeners);
    free(a);
}
