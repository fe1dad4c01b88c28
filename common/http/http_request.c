/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http/http_request.h"

enum {
    FIELDS_FIRST = 8, /* initial room of a response's fields: enough for most */
};

void http_request_init(struct http_request *req, void *room, size_t room_bytes)
{
    *req = (struct http_request){.version = 0x101, .res.content_length = UINT64_MAX};
    arena_init(&req->arena, room, room_bytes);
}

void http_request_fini(struct http_request *req)
{
    arena_fini(&req->arena);
}

struct slice http_request_retain(struct http_request *req, struct slice s)
{
    char *p = http_request_take(req, s.len + 1);

    if (s.len != 0)
        memcpy(p, s.p, s.len);
    p[s.len] = '\0';
    return (struct slice){p, s.len};
}

/* ---- the path ---- */

struct slice http_request_path(struct http_request *req)
{
    if (req->path.p != NULL)
        return req->path;
    struct slice path = req->target;
    path = slice_cut(&path, '?');
    if (path.len == 0)
        path = SLICE_LIT("/");
    if (!path_is_normal(path)) {
        char *out = http_request_take(req, path.len);

        path = (struct slice){out, path_normalize(path, out)};
    }
    req->path = path;
    return path;
}

bool http_request_wants_websocket(const struct http_request *req)
{
    /* There is an `upgrade` only when Connection lists it; HTTP/2 has no such thing. */
    return req->upgrade.p != NULL && req->version == 0x101 && req->body.p == NULL &&
           slice_is(req->method, "GET") && slice_eq_nocase(req->upgrade, SLICE_LIT("websocket"));
}

/* ---- which requests are served ---- */

/*
 * Rules that requests of both protocols have in common, applied when the head is complete: sizes,
 * and which host and path a request is for. The parsers have checked the bytes.
 */

static size_t head_bytes_max(const struct request_sizes *max)
{
    return max->head_bytes != 0 ? max->head_bytes : REQUEST_HEAD_MAX;
}

enum request_fault request_check_head(const struct request_sizes *max, size_t bytes, size_t fields)
{
    if (fields > REQUEST_FIELDS_MAX || (max->fields != 0 && fields > max->fields))
        return FAULT_HEADERS_TOO_MANY;
    return bytes > head_bytes_max(max) ? FAULT_HEADERS_TOO_LARGE : FAULT_NONE;
}

/* RFC 9112 section 3. */
enum request_fault request_line_fault(const struct request_sizes *max, enum request_fault f,
                                      const struct http_request *req)
{
    bool too_large = req->method.len + 1 + req->target.len > head_bytes_max(max);

    return f == FAULT_HEADERS_TOO_LARGE && too_large ? FAULT_TARGET_TOO_LARGE : f;
}

static bool is_options_star(const struct http_request *req)
{
    return slice_is(req->target, "*") && slice_is(req->method, "OPTIONS");
}

/*
 * "GET http://host/path". RFC 9112 section 3.2.2: its host replaces that of Host. Section 3.2.4: of
 * OPTIONS, a target without path and query is "*".
 */
static enum request_fault take_absolute_target(struct http_request *req)
{
    struct slice path;

    if (!http_target_split(req->target, &req->authority, &path))
        return FAULT_TARGET;
    if (path.len == 0 && slice_is(req->method, "OPTIONS"))
        path = SLICE_LIT("*");
    req->target = path;
    if (path.len != 0 && (path.p[0] == '/' || path.p[0] == '*'))
        return FAULT_NONE;
    /* A query without a path. */
    char *p = http_request_take(req, path.len + 1);
    p[0] = '/';
    if (path.len != 0)
        memcpy(p + 1, path.p, path.len);
    req->target = (struct slice){p, path.len + 1};
    return FAULT_NONE;
}

static enum request_fault check_target(struct http_request *req)
{
    if (slice_is(req->method, "CONNECT"))
        return FAULT_CONNECT;
    if (req->version < 0x200) {
        if (req->target.p[0] == '/' || is_options_star(req))
            return FAULT_NONE;
        return take_absolute_target(req);
    }
    if (req->authority.len == 0)
        return FAULT_HOST_MISSING;
    if (!http_authority_valid(req->authority))
        return FAULT_AUTHORITY;
    return http_target_is_path(req->target) || is_options_star(req) ? FAULT_NONE : FAULT_TARGET;
}

enum request_fault request_check(struct http_request *req, const struct request_sizes *sizes,
                                 const struct request_sizes *max)
{
    enum request_fault f = request_check_head(max, sizes->head_bytes, sizes->fields);

    if (f == FAULT_NONE)
        f = check_target(req);
    if (f == FAULT_NONE)
        f = request_check_body(max, sizes->body_bytes);
    return f == FAULT_NONE ? f : request_line_fault(max, f, req);
}

/* ---- fields ---- */

void http_request_add(struct http_request *req, struct message_fields *fields, struct slice name,
                      struct slice value)
{
    enum http_field kind = http_field_kind(name);

    if (fields->n == fields->room) {
        size_t room = fields->room != 0 ? 2 * fields->room : FIELDS_FIRST;
        struct message_field *at = http_request_take(req, room * sizeof(*at));

        if (fields->n != 0)
            memcpy(at, fields->at, fields->n * sizeof(*at));
        fields->at = at;
        fields->room = room;
    }
    fields->at[fields->n++] = (struct message_field){.name = name, .value = value, .kind = kind};
    fields->kinds |= FIELD_BIT(kind);
}

void http_request_add_response(struct http_request *req, const char *name, struct slice value)
{
    http_request_add(req, &req->res.fields, slice_of(name), http_request_retain(req, value));
}

void http_request_take_response(struct http_request *req, const struct http1_head *head,
                                uint32_t dropped)
{
    size_t bytes = 0;

    for (size_t i = 0; i < head->nheaders; ++i)
        bytes += head->headers[i].name.len + head->headers[i].value.len;
    char *at = http_request_take(req, bytes);

    for (size_t i = 0; i < head->nheaders; ++i) {
        const struct message_field *h = &head->headers[i];

        if (!http1_head_passes(head, h, req->version, dropped))
            continue;
        char *value = put_slice(at, h->name);

        http_request_add(req, &req->res.fields, (struct slice){at, h->name.len},
                         (struct slice){value, h->value.len});
        at = put_slice(value, h->value);
    }
}

void message_fields_drop(struct message_fields *fields, uint32_t kinds)
{
    size_t retained = 0;

    if (!message_fields_may_have(fields, kinds))
        return;
    for (size_t i = 0; i < fields->n; ++i) {
        if ((FIELD_BIT(fields->at[i].kind) & kinds) != 0)
            continue;
        if (retained != i)
            fields->at[retained] = fields->at[i];
        ++retained;
    }
    fields->n = retained;
    fields->kinds &= ~kinds;
}

const struct message_field *message_fields_find(const struct message_fields *fields,
                                                struct slice name,
                                                const struct message_field *after)
{
    const struct message_field *end = fields->at + fields->n;

    for (const struct message_field *f = after != NULL ? after + 1 : fields->at; f != end; ++f) {
        if (f->name.len == name.len && slice_eq_nocase(f->name, name))
            return f;
    }
    return NULL;
}

/* ---- requests that are sent on ---- */

/* Writes all fields of one kind as a single one, with LAST (may be empty) at its end. */
static noinline_ char *put_merged(char *at, const struct message_fields *fields,
                                  enum http_field kind, struct slice name, struct slice glue,
                                  struct slice last)
{
    bool first = true;

    at = PUT(put_slice(at, name), ": ");
    for (size_t i = 0; i < fields->n; ++i) {
        if (fields->at[i].kind != kind)
            continue;
        if (!first)
            at = put_slice(at, glue);
        at = put_slice(at, fields->at[i].value);
        first = false;
    }
    if (last.len != 0) {
        if (!first)
            at = put_slice(at, glue);
        at = put_slice(at, last);
    }
    return PUT(at, "\r\n");
}

static char *put_head(const struct forwarded_request *r, char *at)
{
    const struct http_request *req = r->req;
    const struct message_fields *fields = &req->fields;
    uint32_t sent = 0;
    uint32_t dropped = FIELDS_HOP | r->dropped;

    /* When appending, all of them are written at the end with the new one. */
    if (r->forwards)
        dropped |= FIELD_BIT(FIELD_FOR);
    if (r->forwards && !r->appends)
        dropped |=
            FIELD_BIT(FIELD_PROTO) | FIELD_BIT(FIELD_FORWARDED_HOST) | FIELD_BIT(FIELD_FORWARDED);
    if (r->request_id.len != 0)
        dropped |= FIELD_BIT(FIELD_REQUEST_ID);
    at = PUT(put_slice(at, req->method), " ");
    at = PUT(put_slice(at, r->target), " HTTP/1.1\r\n");
    at = PUT_LINE(at, "Host", r->authority);
    for (size_t i = 0; i < fields->n; ++i) {
        const struct message_field *f = &fields->at[i];
        uint32_t kind = FIELD_BIT(f->kind);

        if ((kind & dropped) != 0)
            continue;
        sent |= kind;
        if (f->kind != FIELD_COOKIE) {
            at = put_line(at, f->name, f->value);
            continue;
        }
        at = put_merged(at, fields, FIELD_COOKIE, f->name, SLICE_LIT("; "), SLICE_NULL);
        dropped |= kind;
    }
    if (r->forwards && !r->appends)
        at = PUT_LINE(at, "X-Forwarded-For", r->client);
    else if (r->forwards)
        at = put_merged(at, fields, FIELD_FOR, SLICE_LIT("X-Forwarded-For"), SLICE_LIT(", "),
                        r->client);
    if (r->forwards && (sent & FIELD_BIT(FIELD_PROTO)) == 0)
        at = r->tls ? PUT(at, "X-Forwarded-Proto: https\r\n")
                    : PUT(at, "X-Forwarded-Proto: http\r\n");
    if (r->forwards && (sent & FIELD_BIT(FIELD_FORWARDED_HOST)) == 0)
        at = PUT_LINE(at, "X-Forwarded-Host",
                      r->forwarded_host.len != 0 ? r->forwarded_host : r->authority);
    if (r->client_verdict.p != NULL)
        at = PUT_LINE(at, "X-SSL-Client-Verify", r->client_verdict);
    if (r->client_subject.p != NULL)
        at = PUT_LINE(at, "X-SSL-Client-S-DN", r->client_subject);
    if (r->via)
        at = http_put_via(at, req->version);
    if (r->request_id.len != 0)
        at = PUT_LINE(at, "X-Request-ID", r->request_id);
    if (r->cls.len != 0)
        at = PUT_LINE(at, "Resumelb-Class", r->cls);
    if (r->fingerprint.len != 0)
        at = PUT_LINE(at, "Resumelb-Classifier", r->fingerprint);
    at = put_slice(at, r->more);
    if (r->websocket)
        at = PUT(at, "Connection: upgrade\r\nUpgrade: websocket\r\n");
    return at;
}

/* Appends Content-Length if the request has a BODY (NULL: none) or if METHOD requires the field
 * even for an empty body. */
static void put_length(struct slice method, struct slice body, struct text *out)
{
    /* RFC 9110 8.6 */
    if (body.p == NULL && !slice_is(method, "POST") && !slice_is(method, "PUT") &&
        !slice_is(method, "PATCH"))
        return;
    text_add(out, SLICE_LIT("Content-Length: "));
    text_add_u64(out, body.p != NULL ? body.len : 0);
    text_add(out, SLICE_LIT("\r\n"));
}

void http_put_request(const struct forwarded_request *r, struct text *out)
{
    const struct message_fields *fields = &r->req->fields;
    /* For everything that put_head() writes. Merged fields need less than separate ones. */
    size_t room =
        sizeof("  HTTP/1.1\r\nHost: \r\nX-Forwarded-For: , \r\nX-Forwarded-Proto: https\r\n"
               "X-Forwarded-Host: \r\nX-SSL-Client-Verify: \r\nX-SSL-Client-S-DN: \r\n"
               "Via: 1.1 resumelb\r\nX-Request-ID: \r\nResumelb-Class: \r\n"
               "Resumelb-Classifier: \r\nConnection: upgrade\r\nUpgrade: websocket\r\n") +
        r->req->method.len + r->target.len + 2 * r->authority.len + r->forwarded_host.len +
        r->client.len + r->client_verdict.len + r->client_subject.len + r->request_id.len +
        r->cls.len + r->fingerprint.len + r->more.len;

    for (size_t i = 0; i < fields->n; ++i)
        room += fields->at[i].name.len + fields->at[i].value.len + PUT_LINE_EXTRA;
    char *start = text_reserve(out, room);
    size_t bytes = (size_t)(put_head(r, start) - start);

    ASSERT(bytes <= room);
    out->len += bytes;
    put_length(r->req->method, r->req->body, out);
    text_add(out, SLICE_LIT("\r\n"));
}

/* ---- reason phrases, as registered (RFC 9110 section 15 and the IANA registry) ---- */

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {203, "Non-Authoritative Information"},
    {204, "No Content"},
    {205, "Reset Content"},
    {206, "Partial Content"},
    {207, "Multi-Status"},
    {208, "Already Reported"},
    {226, "IM Used"},
    {300, "Multiple Choices"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {305, "Use Proxy"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {424, "Failed Dependency"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {506, "Variant Also Negotiates"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
    {511, "Network Authentication Required"},
};

const char *http_status_reason(int status)
{
    for (size_t i = 0; i < ARRAY_LEN(reasons); ++i) {
        if (reasons[i].status == status)
            return reasons[i].reason;
    }
    return "Unknown";
}
