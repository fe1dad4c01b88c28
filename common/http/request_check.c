/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules that requests of both protocols have in common, applied when the head is complete: sizes,
 * and which host and path a request is for. The parsers have checked the bytes.
 */
#include "common/http/http_server_internal.h"

enum request_fault request_check_sizes(const struct http_server_options *o, size_t bytes,
                                       size_t fields)
{
    size_t max = o->max_header_bytes != 0 ? o->max_header_bytes : REQUEST_HEAD_MAX;

    if (fields > REQUEST_FIELDS_MAX || (o->max_headers != 0 && fields > o->max_headers))
        return FAULT_HEADERS_TOO_MANY;
    return bytes > max ? FAULT_HEADERS_TOO_LARGE : FAULT_NONE;
}

enum request_fault request_check_body(const struct http_server_options *o, uint64_t bytes)
{
    return bytes > o->max_body_bytes ? FAULT_BODY_TOO_LARGE : FAULT_NONE;
}

static bool is_options_star(const struct http_request *req)
{
    return slice_is(req->target, "*") && slice_is(req->method, "OPTIONS");
}

/* PATH begins with neither "/" nor "*": a query without a path. */
static struct slice rooted(struct http_request *req, struct slice path)
{
    char *p = http_request_take(req, path.len + 1);

    p[0] = '/';
    if (path.len != 0)
        memcpy(p + 1, path.p, path.len);
    return (struct slice){p, path.len + 1};
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
    req->target =
        path.len != 0 && (path.p[0] == '/' || path.p[0] == '*') ? path : rooted(req, path);
    return FAULT_NONE;
}

enum request_fault request_check(struct http_request *req)
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
