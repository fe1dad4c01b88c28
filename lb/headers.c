/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of each field in either direction goes by what it is (common/net/http_fields.h).
 * RFC 9113 8.2.2 (HTTP/2 has no hop-by-hop fields), 8.2.3 (cookies may come split), RFC 9112 6
 * (framing).
 */
#include "lb/headers.h"

#include <stdio.h>

#include "common/base/nocase.h"
#include "common/base/put.h"
#include "common/wire/http1_bytes.h"
#include "lb/settings.h"
#include "lb/worker.h"

static enum http_field field_at(const h2o_headers_t *headers, size_t i)
{
    return http_field_of(slice_of_iovec(*headers->entries[i].name));
}

/* ---- requests: what may pass at all ---- */

bool headers_check_request(const h2o_req_t *req)
{
    size_t listed_bytes = 0;

    if (req->method.len > METHOD_MAX || slice_is(slice_of_iovec(req->method), "CONNECT"))
        return false;
    for (size_t i = 0; i < req->headers.size; ++i) {
        const h2o_header_t *h = &req->headers.entries[i];

        /* Of HTTP/1 the server has looked at every byte as it came. */
        if (req->version >= 0x200 &&
            (!http1_is_token(slice_of_iovec(*h->name)) || !http1_is_text(slice_of_iovec(h->value))))
            return false;
        if (h->name->len == 10 && memcmp(h->name->base, "connection", 10) == 0)
            listed_bytes += h->value.len;
    }
    return listed_bytes <= CONNECTION_LIST_MAX;
}

/* Takes off the fields of whose name UNWANTED says so. */
static void drop_fields(h2o_headers_t *headers, bool (*unwanted)(struct slice name))
{
    size_t kept = 0;

    for (size_t i = 0; i < headers->size; ++i) {
        if (unwanted(slice_of_iovec(*headers->entries[i].name)))
            continue;
        if (kept != i)
            headers->entries[kept] = headers->entries[i];
        ++kept;
    }
    headers->size = kept;
}

void headers_scrub_request(h2o_req_t *req, bool client_certificates)
{
    drop_fields(&req->headers, http_field_is_ours);
    if (client_certificates)
        drop_fields(&req->headers, http_field_is_client_certificate);
}

static bool is_claim(struct slice name)
{
    /* Names are in lower case; what begins otherwise need not be looked up. */
    if (name.len == 0 || (name.p[0] != 'x' && name.p[0] != 'f'))
        return false;
    enum http_field kind = http_field_of(name);

    return kind == FIELD_FOR || kind == FIELD_PROTO || kind == FIELD_FORWARDED_HOST ||
           kind == FIELD_FORWARDED || kind == FIELD_CLAIM || kind == FIELD_REQUEST_ID;
}

void headers_drop_claims(h2o_req_t *req)
{
    drop_fields(&req->headers, is_claim);
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

static bool is_max_forwards(const h2o_header_t *h)
{
    return slice_is(slice_of_iovec(*h->name), "max-forwards");
}

enum err headers_max_forwards(const h2o_headers_t *headers, uint64_t *out)
{
    struct slice value = SLICE_NULL;
    uint64_t n = 0;

    for (size_t i = 0; i < headers->size; ++i) {
        if (!is_max_forwards(&headers->entries[i]))
            continue;
        if (value.p != NULL)
            return ERR_SYNTAX;
        value = slice_of_iovec(headers->entries[i].value);
        if (value.len == 0)
            return ERR_SYNTAX;
    }
    if (value.p == NULL)
        return ERR_NOT_FOUND;
    for (size_t i = 0; i < value.len; ++i) {
        if (value.p[i] < '0' || value.p[i] > '9')
            return ERR_SYNTAX;
        n = n * 10 + (uint64_t)(value.p[i] - '0');
        if (n > MAX_FORWARDS_MAX)
            n = MAX_FORWARDS_MAX + 1;
    }
    *out = n;
    return ERR_OK;
}

void headers_set_max_forwards(h2o_req_t *req, uint64_t n)
{
    char text[8];
    int len = snprintf(text, sizeof(text), "%u", (unsigned)n);

    ASSERT(n <= MAX_FORWARDS_MAX);
    for (size_t i = 0; i < req->headers.size; ++i) {
        if (is_max_forwards(&req->headers.entries[i]))
            req->headers.entries[i].value = h2o_strdup(&req->pool, text, (size_t)len);
    }
}

bool headers_wants_websocket(const h2o_req_t *req)
{
    /* libh2o sets `upgrade` only when Connection lists it; HTTP/2 has no such thing. */
    return req->version == 0x101 && req->upgrade.base != NULL && req->entity.base == NULL &&
           slice_is(slice_of_iovec(req->method), "GET") &&
           slice_eq_nocase(slice_of_iovec(req->upgrade), SLICE_LIT("websocket"));
}

struct cache_request headers_cache_request(h2o_req_t *req)
{
    size_t n = req->headers.size;
    struct http1_header *fields = h2o_mem_alloc_pool(&req->pool, (n + 1) * sizeof(*fields));

    for (size_t i = 0; i < n; ++i) {
        const h2o_header_t *h = &req->headers.entries[i];

        fields[i] = (struct http1_header){.name = slice_of_iovec(*h->name),
                                          .value = slice_of_iovec(h->value)};
    }
    return (struct cache_request){
        .method = slice_of_iovec(req->method),
        .fields = {fields, n},
        .body = req->entity.base != NULL,
        .upgrade = req->upgrade.base != NULL,
    };
}

/* ---- requests: the head a worker gets ---- */

/* Whether there is a Connection field that says more than keep-alive or close. */
static bool connection_lists(const h2o_headers_t *headers)
{
    for (size_t i = 0; i < headers->size; ++i) {
        struct slice value = slice_of_iovec(headers->entries[i].value);

        if (headers->entries[i].name == &H2O_TOKEN_CONNECTION->buf &&
            !SLICE_IS_WORD(value, "keep-alive") && !SLICE_IS_WORD(value, "close"))
            return true;
    }
    return false;
}

/* All fields of one kind as one, glued, with LAST (may be empty) at the end. */
static char *put_merged(char *at, const h2o_headers_t *headers, enum http_field kind,
                        struct slice name, struct slice glue, struct slice last)
{
    bool first = true;

    at = PUT(put_slice(at, name), ": ");
    for (size_t i = 0; i < headers->size; ++i) {
        if (field_at(headers, i) != kind)
            continue;
        if (!first)
            at = put_slice(at, glue);
        at = put_slice(at, slice_of_iovec(headers->entries[i].value));
        first = false;
    }
    if (last.len != 0) {
        if (!first)
            at = put_slice(at, glue);
        at = put_slice(at, last);
    }
    return PUT(at, "\r\n");
}

struct put_state {
    const struct headers_request *r;
    bool listing;             /* Connection names fields */
    bool cookie, proto, host; /* done */
};

/* The field as the worker gets it, or nothing. */
static char *put_passed(struct put_state *s, size_t i, char *at)
{
    const struct headers_request *r = s->r;
    const h2o_headers_t *headers = &r->req->headers;
    const h2o_header_t *h = &headers->entries[i];
    struct slice name = slice_of_iovec(*h->name);
    struct slice sent_name = {h->orig_name != NULL ? h->orig_name : name.p, name.len};
    bool set = r->forwarded == FORWARDED_SET;
    bool passes = false;
    enum http_field kind = http_field_kind(name);

    switch (kind) {
    case FIELD_HOP:
    case FIELD_OURS:
        return at;
    case FIELD_COOKIE:
        if (!s->cookie && !(s->listing && http_request_lists(headers, name)))
            at = put_merged(at, headers, FIELD_COOKIE, sent_name, SLICE_LIT("; "), SLICE_NULL);
        s->cookie = true;
        return at;
    case FIELD_FOR:
        /* Appending writes them all, with ours, at the end. */
        passes = r->forwarded == FORWARDED_OFF;
        break;
    case FIELD_PROTO:
    case FIELD_FORWARDED_HOST:
        passes = !set;
        if (passes)
            *(kind == FIELD_PROTO ? &s->proto : &s->host) = true;
        break;
    case FIELD_FORWARDED:
        passes = !set;
        break;
    case FIELD_REQUEST_ID:
        passes = r->request_id.len == 0;
        break;
    case FIELD_CLAIM:
        passes = true;
        break;
    case FIELD_OTHER:
    case FIELD_DATE:
    case FIELD_SERVER:
        passes = !s->listing || !http_request_lists(headers, name);
        break;
    }
    return passes ? put_line(at, sent_name, slice_of_iovec(h->value)) : at;
}

static char *put_forwarded(const struct put_state *s, char *at)
{
    const struct headers_request *r = s->r;

    if (r->forwarded == FORWARDED_OFF)
        return at;
    if (r->forwarded == FORWARDED_SET)
        at = PUT_LINE(at, "X-Forwarded-For", r->client);
    else
        at = put_merged(at, &r->req->headers, FIELD_FOR, SLICE_LIT("X-Forwarded-For"),
                        SLICE_LIT(", "), r->peer);
    if (!s->proto)
        at = r->tls ? PUT(at, "X-Forwarded-Proto: https\r\n")
                    : PUT(at, "X-Forwarded-Proto: http\r\n");
    if (!s->host)
        at = PUT_LINE(at, "X-Forwarded-Host",
                      r->forwarded_host.len != 0 ? r->forwarded_host : r->authority);
    return at;
}

static struct slice version_text(int version)
{
    if (version >= 0x200)
        return SLICE_LIT("2");
    return version == 0x100 ? SLICE_LIT("1.0") : SLICE_LIT("1.1");
}

static char *put_via(char *at, struct slice version, struct slice name)
{
    at = put_slice(PUT(at, "Via: "), version);
    return PUT(put_slice(PUT(at, " "), name), "\r\n");
}

/* For all that put_head writes. Fields that are merged take less room than apart. */
static size_t room_for_head(const struct headers_request *r)
{
    const h2o_headers_t *headers = &r->req->headers;
    size_t n = sizeof("  HTTP/1.1\r\nHost: \r\nX-Forwarded-For: , \r\nX-Forwarded-Proto: https\r\n"
                      "X-Forwarded-Host: \r\nX-SSL-Client-Verify: \r\nX-SSL-Client-S-DN: \r\n"
                      "Via: 1.1 \r\nX-Request-ID: \r\nResumelb-Class: \r\n"
                      "Resumelb-Classifier: \r\n");

    n += r->req->method.len + r->target.len + 2 * r->authority.len + r->forwarded_host.len +
         r->client.len + r->peer.len + r->client_verdict.len + r->client_subject.len + r->via.len +
         r->request_id.len + r->cls.len + r->fingerprint.len;
    for (size_t i = 0; i < headers->size; ++i)
        n += headers->entries[i].name->len + headers->entries[i].value.len + PUT_LINE_EXTRA;
    return n;
}

static char *put_head(const struct headers_request *r, char *at)
{
    const h2o_req_t *req = r->req;
    struct put_state state = {.r = r, .listing = connection_lists(&req->headers)};

    at = PUT(put_slice(at, slice_of_iovec(req->method)), " ");
    at = PUT(put_slice(at, r->target), " HTTP/1.1\r\n");
    at = PUT_LINE(at, "Host", r->authority);
    for (size_t i = 0; i < req->headers.size; ++i)
        at = put_passed(&state, i, at);
    at = put_forwarded(&state, at);
    if (r->client_verdict.p != NULL)
        at = PUT_LINE(at, "X-SSL-Client-Verify", r->client_verdict);
    if (r->client_subject.p != NULL)
        at = PUT_LINE(at, "X-SSL-Client-S-DN", r->client_subject);
    if (r->via.len != 0)
        at = put_via(at, version_text(req->version), r->via);
    if (r->request_id.len != 0)
        at = PUT_LINE(at, "X-Request-ID", r->request_id);
    at = PUT_LINE(at, "Resumelb-Class", r->cls);
    return PUT_LINE(at, "Resumelb-Classifier", r->fingerprint);
}

void headers_put_request(const struct headers_request *r, struct text *out)
{
    size_t room = room_for_head(r);
    char *start = text_reserve(out, room);
    size_t bytes = (size_t)(put_head(r, start) - start);

    ASSERT(bytes <= room);
    out->len += bytes;
    if (r->home != NULL) {
        text_add(out, SLICE_LIT("Resumelb-Home: "));
        home_told_print(r->home, out);
        text_add(out, SLICE_LIT("\r\n"));
    }
    if (r->websocket)
        text_add(out, SLICE_LIT("Connection: upgrade\r\nUpgrade: websocket\r\n"));
    http_put_length(r->req, out);
    text_add(out, SLICE_LIT("\r\n"));
}

/* ---- responses ---- */

static bool passes_back(const struct headers_response *r, const struct http1_header *h)
{
    if (h->framing)
        return false;
    switch (http_field_kind(h->name)) {
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
    case FIELD_CLAIM:
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

    ascii_lower_copy(to, s);
    c->at += s.len;
    return to;
}

static void take_field(h2o_req_t *req, h2o_headers_t *to, struct copier *c,
                       const struct http1_header *from)
{
    char *lower = copy_lower(c, from->name);
    char *value = copy(c, from->value);
    const h2o_token_t *token = h2o_lookup_token(lower, from->name.len);
    /* HTTP/2 has lower-case names only; HTTP/1 clients get them as the worker wrote them. */
    const char *spelling = req->version < 0x200 || to == &req->headers ? copy(c, from->name) : NULL;

    h2o_vector_reserve(&req->pool, to, to->size + 1);
    h2o_header_t *h = &to->entries[to->size++];

    if (token != NULL) {
        h->name = http_field_token_name(token);
    } else {
        h->name = h2o_mem_alloc_pool(&req->pool, sizeof(*h->name));
        *h->name = h2o_iovec_init(lower, from->name.len);
    }
    h->orig_name = spelling;
    h->value = h2o_iovec_init(value, from->value.len);
}

void headers_add_to(h2o_req_t *req, h2o_headers_t *headers, struct slice name, struct slice value)
{
    struct copier c = {h2o_mem_alloc_pool(&req->pool, 2 * name.len + value.len)};

    take_field(req, headers, &c, &(struct http1_header){.name = name, .value = value});
}

void headers_add(h2o_req_t *req, struct slice name, struct slice value)
{
    headers_add_to(req, &req->res.headers, name, value);
}

static struct slice version_of(const struct http1_head *head)
{
    return head->minor_version == 0 ? SLICE_LIT("1.0") : SLICE_LIT("1.1");
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
    bool listing = head->connection_lists;
    size_t bytes = head->reason.len + 1;

    for (size_t i = 0; i < head->nheaders; ++i)
        bytes += 2 * head->headers[i].name.len + head->headers[i].value.len;
    struct copier c = {h2o_mem_alloc_pool(&req->pool, bytes)};

    h2o_vector_reserve(&req->pool, &req->res.headers, req->res.headers.size + head->nheaders + 3);
    for (size_t i = 0; i < head->nheaders; ++i) {
        const struct http1_header *h = &head->headers[i];

        if (passes_back(r, h) && !(listing && http_response_lists(head, h->name)))
            take_field(req, &req->res.headers, &c, h);
    }
    req->res.status = head->status;
    req->res.reason = copy(&c, head->reason);
    *c.at = '\0';
    if (r->websocket)
        headers_add(req, SLICE_LIT("Upgrade"), SLICE_LIT("websocket"));
    if (r->via.len != 0)
        add_via(req, version_of(head), r->via);
    if (r->request_id.len != 0)
        headers_add(req, SLICE_LIT("X-Request-ID"), r->request_id);
}

size_t headers_response_room(const struct headers_response *r, const struct http1_head *head)
{
    size_t bytes = sizeof("Via: 1.1 \r\nX-Request-ID: \r\n") + r->via.len + r->request_id.len;

    for (size_t i = 0; i < head->nheaders; ++i)
        bytes += head->headers[i].name.len + head->headers[i].value.len + PUT_LINE_EXTRA;
    return bytes;
}

static const char *keep_reason(h2o_req_t *req, struct slice reason)
{
    if (slice_is(reason, "OK"))
        return "OK";
    char *kept = h2o_mem_alloc_pool(&req->pool, reason.len + 1);
    *put_slice(kept, reason) = '\0';
    return kept;
}

size_t headers_response_lines(const struct headers_response *r, const struct http1_head *head,
                              char *at)
{
    h2o_req_t *req = r->req;
    bool listing = head->connection_lists;
    const char *lines = at;

    for (size_t i = 0; i < head->nheaders; ++i) {
        const struct http1_header *h = &head->headers[i];

        if (passes_back(r, h) && !(listing && http_response_lists(head, h->name)))
            at = put_line(at, h->name, h->value);
    }
    if (r->via.len != 0)
        at = put_via(at, version_of(head), r->via);
    if (r->request_id.len != 0)
        at = PUT_LINE(at, "X-Request-ID", r->request_id);
    req->res.status = head->status;
    req->res.reason = keep_reason(req, head->reason);
    return (size_t)(at - lines);
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

enum err headers_backlog(const struct http1_head *head, uint64_t *out)
{
    const struct http1_header *found = NULL;

    for (size_t i = 0; i < head->nheaders; ++i) {
        if (!slice_eq_nocase(head->headers[i].name, SLICE_LIT("Resumelb-Backlog")))
            continue;
        if (found != NULL)
            return ERR_SYNTAX;
        found = &head->headers[i];
    }
    if (found == NULL)
        return ERR_NOT_FOUND;
    return parse_u64(found->value, WORKER_REPORT_MAX, out) ? ERR_OK : ERR_SYNTAX;
}

bool headers_process_failed(const struct http1_head *head)
{
    return says_one(head, SLICE_LIT("Resumelb-Failed"));
}
