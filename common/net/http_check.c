/* SPDX-License-Identifier: Apache-2.0
 *
 * The strict second look, at what libh2o 2.2.5 lets through. Of HTTP/1 the tap has checked the raw
 * head (http_tap.c); what is left is whether libh2o has read the same, and for whom it is. Of
 * HTTP/2 we look at what the header block was decoded into, before anything of it is copied (its
 * size is not bounded by the bytes that came in).
 */
#include "common/base/text.h"
#include "common/net/http_conn.h"
#include "common/net/http_fields.h"
#include "common/wire/http1_bytes.h"

enum {
    HTTP2_FIELD_OVERHEAD = 32, /* as RFC 9113 section 6.5.2 counts */
    HTTP2_REFUSED_MAX = 10,    /* of one connection; then it is cut */
};

static bool same(h2o_iovec_t a, struct slice b)
{
    return slice_eq(slice_of_iovec(a), b);
}

enum request_fault http_check_sizes(const struct http_conn *c, size_t bytes, size_t headers)
{
    const struct http_server_options *o = &c->server->options;

    if (headers > H2O_MAX_HEADERS || (o->max_headers != 0 && headers > o->max_headers))
        return FAULT_HEADERS_TOO_MANY;
    size_t max = o->max_header_bytes != 0 ? o->max_header_bytes : H2O_MAX_REQLEN;

    return bytes > max ? FAULT_HEADERS_TOO_LARGE : FAULT_NONE;
}

enum request_fault http_check_body(const struct http_conn *c, uint64_t bytes)
{
    return bytes > c->server->options.max_body_bytes ? FAULT_BODY_TOO_LARGE : FAULT_NONE;
}

/* libh2o fills in the name of its first host for a request that has none. */
static bool has_authority(const h2o_req_t *req)
{
    return req->authority.base != req->conn->hosts[0]->authority.hostport.base;
}

static bool is_options_star(const h2o_req_t *req)
{
    return same(req->path, SLICE_LIT("*")) && same(req->method, SLICE_LIT("OPTIONS"));
}

static void set_path(h2o_req_t *req, struct slice path)
{
    bool rooted = path.len != 0 && (path.p[0] == '/' || path.p[0] == '*');
    h2o_iovec_t slash = h2o_iovec_init(H2O_STRLIT("/"));
    h2o_iovec_t rest = h2o_iovec_init(path.p, path.len);

    req->path =
        rooted ? h2o_strdup(&req->pool, path.p, path.len) : h2o_concat(&req->pool, slash, rest);
    req->input.path = req->path;
    req->path_normalized = h2o_url_normalize_path(&req->pool, req->path.base, req->path.len,
                                                  &req->query_at, &req->norm_indexes);
    req->input.query_at = req->query_at;
}

/*
 * "GET http://host/path". RFC 9112 section 3.2.2: its host counts, and what Host says is ignored,
 * as if it had never come. Section 3.2.4: of OPTIONS, a target without path and query is "*".
 */
static enum request_fault take_absolute_target(h2o_req_t *req)
{
    struct slice authority;
    struct slice path;

    if (!http_target_split(slice_of_iovec(req->path), &authority, &path))
        return FAULT_TARGET;
    if (path.len == 0 && same(req->method, SLICE_LIT("OPTIONS")))
        path = SLICE_LIT("*");
    req->authority = h2o_strdup(&req->pool, authority.p, authority.len);
    req->input.authority = req->authority;
    set_path(req, path);
    return FAULT_NONE;
}

static enum request_fault check_http1(const struct http_conn *c, h2o_req_t *req)
{
    struct http1_request_facts facts;

    /* Both must have read the same request. */
    if (!http_tap_head(c, &facts) || !same(req->method, facts.method) ||
        !same(req->path, facts.target))
        return FAULT_REQUEST_LINE;
    if (!has_authority(req))
        req->authority = h2o_iovec_init(H2O_STRLIT(""));
    /* libh2o ends a connection of which any option is named, and keeps one that is to be closed. */
    req->http1_is_persistent = facts.keep_alive;
    /* The tap has looked at the target's bytes; facts.target is never empty. */
    if (facts.target.p[0] == '/' || is_options_star(req))
        return FAULT_NONE;
    return take_absolute_target(req);
}

static enum request_fault check_fields(const h2o_req_t *req, size_t *bytes)
{
    *bytes = 0;
    for (size_t i = 0; i < req->headers.size; ++i) {
        const h2o_header_t *h = &req->headers.entries[i];
        bool known = h2o_iovec_is_token(h->name);
        if (!known && !http1_is_token(slice_of_iovec(*h->name)))
            return FAULT_HEADER;
        if (!http1_is_text(slice_of_iovec(h->value)))
            return FAULT_HEADER;
        if (h->name == &H2O_TOKEN_EXPECT->buf &&
            !slice_eq_nocase(slice_of_iovec(h->value), SLICE_LIT("100-continue")))
            return FAULT_EXPECTATION;
        *bytes += h->name->len + h->value.len + HTTP2_FIELD_OVERHEAD;
    }
    return FAULT_NONE;
}

static enum request_fault check_http2(const struct http_conn *c, h2o_req_t *req)
{
    size_t bytes;

    if (!c->listener->http2)
        return FAULT_VERSION;
    /* First the number, so that a bomb is not walked through. */
    enum request_fault f = http_check_sizes(c, 0, req->headers.size);
    if (f == FAULT_NONE)
        f = check_fields(req, &bytes);
    if (f == FAULT_NONE)
        f = http_check_sizes(c, bytes, 0);
    if (f != FAULT_NONE)
        return f;
    if (!http1_is_token(slice_of_iovec(req->method)))
        return FAULT_METHOD;
    if (!has_authority(req) || req->authority.len == 0)
        return FAULT_HOST_MISSING;
    if (!http_authority_valid(slice_of_iovec(req->authority)))
        return FAULT_AUTHORITY;
    if (!http_target_is_path(slice_of_iovec(req->path)) && !is_options_star(req))
        return FAULT_TARGET;
    return http_tap_fault_http2(c, req);
}

enum request_fault http_check_request(struct http_conn *c, h2o_req_t *req)
{
    if (same(req->method, SLICE_LIT("CONNECT")))
        return FAULT_CONNECT;
    return c->http2 ? check_http2(c, req) : check_http1(c, req);
}

void http_refuse(struct http_conn *c, h2o_req_t *req, enum request_fault f)
{
    int status = request_fault_status(f);

    const struct http_refusal r = {
        .conn = c,
        .fault = f,
        .status = status,
        .version = req->version,
        .method = slice_of_iovec(req->method),
        .target = slice_of_iovec(req->path),
        .host = has_authority(req) ? slice_of_iovec(req->authority) : SLICE_NULL,
    };

    http_server_refused(c->server, &r);
    h2o_send_error_generic(req, status, http_status_reason(status), request_fault_text(f),
                           H2O_SEND_ERROR_HTTP1_CLOSE_CONNECTION);
    if (c->http2 && ++c->refused > HTTP2_REFUSED_MAX)
        http_conn_cut(c);
}
