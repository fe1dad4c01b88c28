/* SPDX-License-Identifier: Apache-2.0
 *
 * Each field is looked up once in one short table, which says what becomes of it in either
 * direction. RFC 9110 7.6.1 (Connection), RFC 9113 8.2.2 (HTTP/2 has none of them), 8.2.3 (cookies
 * may come split), RFC 9112 6 (framing).
 */
#include "lb/headers.h"

#include "lb/settings.h"

enum field {
    FIELD_OTHER,
    FIELD_HOP,  /* concerns this connection only, or is framing: never passed on */
    FIELD_OURS, /* Resumelb-*: never passed on */
    FIELD_COOKIE,
    FIELD_FOR,   /* X-Forwarded-For */
    FIELD_PROTO, /* X-Forwarded-Proto */
    FIELD_FORWARDED_HOST,
    FIELD_FORWARDED, /* RFC 7239: as little to be believed as the three above */
    FIELD_REQUEST_ID,
    FIELD_DATE,
    FIELD_SERVER,
};

static const struct field_name {
    struct slice name;
    enum field field;
} field_names[] = {
    {{"te", 2}, FIELD_HOP},
    {{"date", 4}, FIELD_DATE},
    {{"host", 4}, FIELD_HOP},
    {{"cookie", 6}, FIELD_COOKIE},
    {{"expect", 6}, FIELD_HOP},
    {{"server", 6}, FIELD_SERVER},
    {{"trailer", 7}, FIELD_HOP},
    {{"upgrade", 7}, FIELD_HOP},
    {{"forwarded", 9}, FIELD_FORWARDED},
    {{"connection", 10}, FIELD_HOP},
    {{"keep-alive", 10}, FIELD_HOP},
    {{"x-request-id", 12}, FIELD_REQUEST_ID},
    {{"content-length", 14}, FIELD_HOP},
    {{"http2-settings", 14}, FIELD_HOP},
    {{"x-forwarded-for", 15}, FIELD_FOR},
    {{"proxy-connection", 16}, FIELD_HOP},
    {{"x-forwarded-host", 16}, FIELD_FORWARDED_HOST},
    {{"x-forwarded-proto", 17}, FIELD_PROTO},
    {{"transfer-encoding", 17}, FIELD_HOP},
    {{"proxy-authenticate", 18}, FIELD_HOP},
    {{"proxy-authorization", 19}, FIELD_HOP},
};

enum { LONGEST_NAME = 19 };

static const struct slice ours = {"resumelb-", 9};

static struct slice of_iovec(h2o_iovec_t v)
{
    return (struct slice){v.base, v.len};
}

static char normal(char c)
{
    if (c == '_')
        return '-';
    return ascii_lower(c);
}

static bool is_ours(struct slice name)
{
    if (name.len < ours.len)
        return false;
    for (size_t i = 0; i < ours.len; ++i) {
        if (normal(name.p[i]) != ours.p[i])
            return false;
    }
    return true;
}

static enum field field_of(struct slice name)
{
    char lower[LONGEST_NAME];

    if (name.len > LONGEST_NAME)
        return is_ours(name) ? FIELD_OURS : FIELD_OTHER;
    for (size_t i = 0; i < name.len; ++i)
        lower[i] = normal(name.p[i]);
    if (name.len >= ours.len && memcmp(lower, ours.p, ours.len) == 0)
        return FIELD_OURS;
    for (size_t i = 0; i < ARRAY_LEN(field_names); ++i) {
        if (slice_eq((struct slice){lower, name.len}, field_names[i].name))
            return field_names[i].field;
    }
    return FIELD_OTHER;
}

static enum field field_at(const h2o_headers_t *headers, size_t i)
{
    return field_of(of_iovec(*headers->entries[i].name));
}

/* ---- requests: what may pass at all ---- */

static bool is_token_char(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (!is_token_char((unsigned char)s.p[i]))
            return false;
    }
    return s.len != 0;
}

static bool is_value(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        unsigned char c = (unsigned char)s.p[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

bool headers_check_request(const h2o_req_t *req)
{
    size_t listed_bytes = 0;

    if (req->method.len > METHOD_MAX || slice_is(of_iovec(req->method), "CONNECT"))
        return false;
    for (size_t i = 0; i < req->headers.size; ++i) {
        const h2o_header_t *h = &req->headers.entries[i];

        if (!is_token(of_iovec(*h->name)) || !is_value(of_iovec(h->value)))
            return false;
        if (slice_is(of_iovec(*h->name), "connection"))
            listed_bytes += h->value.len;
    }
    return listed_bytes <= CONNECTION_LIST_MAX;
}

void headers_scrub_request(h2o_req_t *req)
{
    size_t kept = 0;

    for (size_t i = 0; i < req->headers.size; ++i) {
        if (is_ours(of_iovec(*req->headers.entries[i].name)))
            continue;
        if (kept != i)
            req->headers.entries[kept] = req->headers.entries[i];
        ++kept;
    }
    req->headers.size = kept;
}

struct slice headers_find(const h2o_headers_t *headers, struct slice name)
{
    for (size_t i = 0; i < headers->size; ++i) {
        const h2o_header_t *h = &headers->entries[i];

        if (h->name->len == name.len && memcmp(h->name->base, name.p, name.len) == 0)
            return (struct slice){h->value.base != NULL ? h->value.base : "", h->value.len};
    }
    return SLICE_NULL;
}

struct slice headers_request_id(const h2o_req_t *req)
{
    struct slice id = headers_find(&req->headers, SLICE_LIT("x-request-id"));

    if (id.len == 0 || id.len > REQUEST_ID_MAX)
        return SLICE_NULL;
    for (size_t i = 0; i < id.len; ++i) {
        unsigned char c = (unsigned char)id.p[i];

        if (c <= 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '&')
            return SLICE_NULL;
    }
    return id;
}

bool headers_wants_websocket(const h2o_req_t *req)
{
    /* libh2o sets `upgrade` only when Connection lists it; HTTP/2 has no such thing. */
    return req->version == 0x101 && req->upgrade.base != NULL && req->entity.base == NULL &&
           slice_is(of_iovec(req->method), "GET") &&
           slice_eq_nocase(of_iovec(req->upgrade), SLICE_LIT("websocket"));
}

/* ---- requests: the head a worker gets ---- */

static void put_field(struct text *out, struct slice name, struct slice value)
{
    /* Room for all at once; the rest is then mere copying. */
    text_reserve(out, name.len + value.len + 4);
    text_add(out, name);
    text_add(out, SLICE_LIT(": "));
    text_add(out, value);
    text_add(out, SLICE_LIT("\r\n"));
}

static void put_u64_field(struct text *out, struct slice name, uint64_t value)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);

    put_field(out, name, (struct slice){text, (size_t)n});
}

/* Whether there is a Connection field that says more than keep-alive or close. */
static bool connection_lists(const h2o_headers_t *headers)
{
    for (size_t i = 0; i < headers->size; ++i) {
        struct slice value = of_iovec(headers->entries[i].value);

        if (headers->entries[i].name == &H2O_TOKEN_CONNECTION->buf &&
            !slice_eq_nocase(value, SLICE_LIT("keep-alive")) &&
            !slice_eq_nocase(value, SLICE_LIT("close")))
            return true;
    }
    return false;
}

static bool is_listed(const h2o_headers_t *headers, struct slice name)
{
    for (size_t i = 0; i < headers->size; ++i) {
        if (headers->entries[i].name == &H2O_TOKEN_CONNECTION->buf &&
            http1_list_has(of_iovec(headers->entries[i].value), name))
            return true;
    }
    return false;
}

/* All fields of one kind as one, glued, with LAST (may be empty) at the end. */
static void put_merged(const h2o_headers_t *headers, enum field kind, struct slice name,
                       struct slice glue, struct slice last, struct text *out)
{
    bool first = true;

    text_add(out, name);
    text_add(out, SLICE_LIT(": "));
    for (size_t i = 0; i < headers->size; ++i) {
        if (field_at(headers, i) != kind)
            continue;
        if (!first)
            text_add(out, glue);
        text_add(out, of_iovec(headers->entries[i].value));
        first = false;
    }
    if (last.len != 0) {
        if (!first)
            text_add(out, glue);
        text_add(out, last);
    }
    text_add(out, SLICE_LIT("\r\n"));
}

struct put_state {
    const struct headers_request *r;
    bool listing;             /* Connection names fields */
    bool cookie, proto, host; /* done */
};

/* The field as the worker gets it, or nothing. */
static void put_passed(struct put_state *s, size_t i, struct text *out)
{
    const struct headers_request *r = s->r;
    const h2o_headers_t *headers = &r->req->headers;
    const h2o_header_t *h = &headers->entries[i];
    struct slice name = of_iovec(*h->name);
    struct slice sent_name = {h->orig_name != NULL ? h->orig_name : name.p, name.len};
    bool set = r->forwarded == FORWARDED_SET;

    switch (field_of(name)) {
    case FIELD_HOP:
    case FIELD_OURS:
        return;
    case FIELD_COOKIE:
        if (!s->cookie && !(s->listing && is_listed(headers, name)))
            put_merged(headers, FIELD_COOKIE, sent_name, SLICE_LIT("; "), SLICE_NULL, out);
        s->cookie = true;
        return;
    case FIELD_FOR:
        /* Appending writes them all, with ours, at the end. */
        if (r->forwarded == FORWARDED_OFF)
            put_field(out, sent_name, of_iovec(h->value));
        return;
    case FIELD_PROTO:
    case FIELD_FORWARDED_HOST:
        if (set)
            return;
        *(field_of(name) == FIELD_PROTO ? &s->proto : &s->host) = true;
        put_field(out, sent_name, of_iovec(h->value));
        return;
    case FIELD_FORWARDED:
        if (!set)
            put_field(out, sent_name, of_iovec(h->value));
        return;
    case FIELD_REQUEST_ID:
        if (r->request_id.len == 0)
            put_field(out, sent_name, of_iovec(h->value));
        return;
    case FIELD_OTHER:
    case FIELD_DATE:
    case FIELD_SERVER:
        if (!s->listing || !is_listed(headers, name))
            put_field(out, sent_name, of_iovec(h->value));
        return;
    }
}

static void put_forwarded(const struct put_state *s, struct text *out)
{
    const struct headers_request *r = s->r;

    if (r->forwarded == FORWARDED_OFF)
        return;
    if (r->forwarded == FORWARDED_SET)
        put_field(out, SLICE_LIT("X-Forwarded-For"), r->peer);
    else
        put_merged(&r->req->headers, FIELD_FOR, SLICE_LIT("X-Forwarded-For"), SLICE_LIT(", "),
                   r->peer, out);
    if (!s->proto)
        put_field(out, SLICE_LIT("X-Forwarded-Proto"),
                  r->tls ? SLICE_LIT("https") : SLICE_LIT("http"));
    if (!s->host)
        put_field(out, SLICE_LIT("X-Forwarded-Host"), r->authority);
}

static void put_via(struct text *out, struct slice version, struct slice name)
{
    text_add(out, SLICE_LIT("Via: "));
    text_add(out, version);
    text_add_char(out, ' ');
    text_add(out, name);
    text_add(out, SLICE_LIT("\r\n"));
}

static struct slice version_text(int version)
{
    if (version >= 0x200)
        return SLICE_LIT("2");
    return version == 0x100 ? SLICE_LIT("1.0") : SLICE_LIT("1.1");
}

/* Methods whose requests announce a body even when it is empty (RFC 9110 8.6). */
static bool has_body_semantics(struct slice method)
{
    return slice_is(method, "POST") || slice_is(method, "PUT") || slice_is(method, "PATCH");
}

void headers_put_request(const struct headers_request *r, struct text *out)
{
    const h2o_req_t *req = r->req;
    struct put_state state = {.r = r, .listing = connection_lists(&req->headers)};

    text_add(out, of_iovec(req->method));
    text_add_char(out, ' ');
    text_add(out, r->target);
    text_add(out, SLICE_LIT(" HTTP/1.1\r\n"));
    put_field(out, SLICE_LIT("Host"), r->authority);
    for (size_t i = 0; i < req->headers.size; ++i)
        put_passed(&state, i, out);
    put_forwarded(&state, out);
    if (r->via.len != 0)
        put_via(out, version_text(req->version), r->via);
    if (r->request_id.len != 0)
        put_field(out, SLICE_LIT("X-Request-ID"), r->request_id);
    put_field(out, SLICE_LIT("Resumelb-Class"), r->cls);
    put_field(out, SLICE_LIT("Resumelb-Classifier"), r->fingerprint);
    if (r->websocket)
        text_add(out, SLICE_LIT("Connection: upgrade\r\nUpgrade: websocket\r\n"));
    if (req->entity.base != NULL || has_body_semantics(of_iovec(req->method)))
        put_u64_field(out, SLICE_LIT("Content-Length"), req->entity.len);
    text_add(out, SLICE_LIT("\r\n"));
}

/* ---- responses ---- */

/* Fields that the worker's Connection lists; nobody else's concern. */
static bool response_lists(const struct http1_head *head, struct slice name)
{
    for (size_t i = 0; i < head->nheaders; ++i) {
        if (slice_eq_nocase(head->headers[i].name, SLICE_LIT("connection")) &&
            http1_list_has(head->headers[i].value, name))
            return true;
    }
    return false;
}

static bool response_listing(const struct http1_head *head)
{
    for (size_t i = 0; i < head->nheaders; ++i) {
        struct slice value = head->headers[i].value;

        if (slice_eq_nocase(head->headers[i].name, SLICE_LIT("connection")) &&
            !slice_eq_nocase(value, SLICE_LIT("keep-alive")) &&
            !slice_eq_nocase(value, SLICE_LIT("close")))
            return true;
    }
    return false;
}

static bool passes_back(const struct headers_response *r, struct slice name)
{
    switch (field_of(name)) {
    case FIELD_HOP:
    case FIELD_OURS:
    case FIELD_DATE: /* libh2o writes one */
        return false;
    case FIELD_SERVER:
        return !r->own_server;
    case FIELD_REQUEST_ID:
        return r->request_id.len == 0;
    case FIELD_OTHER:
    case FIELD_COOKIE:
    case FIELD_FOR:
    case FIELD_PROTO:
    case FIELD_FORWARDED_HOST:
    case FIELD_FORWARDED:
        return true;
    }
    UNREACHABLE();
}

/* Where strings of a response go: one piece of the request's pool. */
struct copier {
    char *at;
};

static char *copy(struct copier *c, struct slice s)
{
    char *to = c->at;

    if (s.len != 0)
        memcpy(to, s.p, s.len);
    c->at += s.len;
    return to;
}

static char *copy_lower(struct copier *c, struct slice s)
{
    char *to = c->at;

    for (size_t i = 0; i < s.len; ++i)
        to[i] = ascii_lower(s.p[i]);
    c->at += s.len;
    return to;
}

/* Tokens are constant; libh2o's type for names is not. */
static h2o_iovec_t *name_of(const h2o_token_t *token)
{
    union {
        const h2o_iovec_t *constant;
        h2o_iovec_t *name;
    } u = {.constant = &token->buf};

    return u.name;
}

static void take_field(h2o_req_t *req, struct copier *c, const struct http1_header *from)
{
    char *lower = copy_lower(c, from->name);
    char *value = copy(c, from->value);
    const h2o_token_t *token = h2o_lookup_token(lower, from->name.len);
    /* HTTP/2 has lower-case names only; HTTP/1 clients get them as the worker wrote them. */
    const char *spelling = req->version < 0x200 ? copy(c, from->name) : NULL;

    h2o_vector_reserve(&req->pool, &req->res.headers, req->res.headers.size + 1);
    h2o_header_t *h = &req->res.headers.entries[req->res.headers.size++];

    if (token != NULL) {
        h->name = name_of(token);
    } else {
        h->name = h2o_mem_alloc_pool(&req->pool, sizeof(*h->name));
        *h->name = h2o_iovec_init(lower, from->name.len);
    }
    h->orig_name = spelling;
    h->value = h2o_iovec_init(value, from->value.len);
}

void headers_add(h2o_req_t *req, struct slice name, struct slice value)
{
    struct copier c = {h2o_mem_alloc_pool(&req->pool, 2 * name.len + value.len)};

    take_field(req, &c, &(struct http1_header){name, value});
}

static void add_via(h2o_req_t *req, struct slice version, struct slice name)
{
    h2o_iovec_t v = h2o_concat(&req->pool, h2o_iovec_init(version.p, version.len),
                               h2o_iovec_init(" ", 1), h2o_iovec_init(name.p, name.len));

    h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_VIA, "Via", v.base, v.len);
}

void headers_take_response(const struct headers_response *r, const struct http1_head *head)
{
    h2o_req_t *req = r->req;
    bool listing = response_listing(head);
    size_t bytes = head->reason.len + 1;

    for (size_t i = 0; i < head->nheaders; ++i)
        bytes += 2 * head->headers[i].name.len + head->headers[i].value.len;
    struct copier c = {h2o_mem_alloc_pool(&req->pool, bytes)};

    h2o_vector_reserve(&req->pool, &req->res.headers, req->res.headers.size + head->nheaders + 3);
    for (size_t i = 0; i < head->nheaders; ++i) {
        const struct http1_header *h = &head->headers[i];

        if (passes_back(r, h->name) && !(listing && response_lists(head, h->name)))
            take_field(req, &c, h);
    }
    req->res.status = head->status;
    req->res.reason = copy(&c, head->reason);
    *c.at = '\0';
    if (r->websocket)
        headers_add(req, SLICE_LIT("Upgrade"), SLICE_LIT("websocket"));
    if (r->via.len != 0)
        add_via(req, head->minor_version == 0 ? SLICE_LIT("1.0") : SLICE_LIT("1.1"), r->via);
    if (r->request_id.len != 0)
        headers_add(req, SLICE_LIT("X-Request-ID"), r->request_id);
}

static bool says_one(const struct http1_head *head, struct slice name)
{
    for (size_t i = 0; i < head->nheaders; ++i) {
        if (slice_eq_nocase(head->headers[i].name, name))
            return slice_is(head->headers[i].value, "1");
    }
    return false;
}

bool headers_unprocessed(const struct http1_head *head)
{
    return says_one(head, SLICE_LIT("Resumelb-Unprocessed"));
}

bool headers_process_failed(const struct http1_head *head)
{
    return says_one(head, SLICE_LIT("Resumelb-Failed"));
}
