/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of each field in either direction goes by what it is (common/wire/http_field.h).
 * RFC 9113 8.2.2 (HTTP/2 has no hop-by-hop fields), 8.2.3 (cookies may come split), RFC 9112 6
 * (framing).
 */
#include "lb/request/headers.h"

#include "common/base/bytes.h"
#include "common/wire/http1_bytes.h"
#include "lb/rules/header_rules.h"
#include "lb/rules/methods.h"
#include "lb/settings/settings.h"
#include "routing/worker.h"

/* ---- requests: what may pass at all ---- */

bool headers_check_request(const struct http_request *req)
{
    const struct message_fields *fields = &req->fields;

    if (req->method.len > METHOD_MAX || slice_is(req->method, "CONNECT"))
        return false;
    /* For HTTP/1 the server has checked every byte when it was read. */
    for (size_t i = 0; req->version >= 0x200 && i < fields->n; ++i) {
        if (!http1_is_token(fields->at[i].name) || !http1_is_text(fields->at[i].value))
            return false;
    }
    return true;
}

void headers_remove(struct message_fields *fields, struct slice name)
{
    size_t kept = 0;

    for (size_t i = 0; i < fields->n; ++i) {
        if (header_names_same(fields->at[i].name, name))
            continue;
        if (kept != i)
            fields->at[kept] = fields->at[i];
        ++kept;
    }
    fields->n = kept;
}

struct slice headers_request_id(const struct http_request *req)
{
    const struct message_field *f = NULL;

    if (message_fields_may_have(&req->fields, FIELD_BIT(FIELD_REQUEST_ID)))
        f = message_fields_find(&req->fields, SLICE_LIT("x-request-id"), NULL);
    if (f == NULL || f->value.len == 0 || f->value.len > REQUEST_ID_MAX)
        return SLICE_NULL;
    for (size_t i = 0; i < f->value.len; ++i) {
        unsigned char c = (unsigned char)f->value.p[i];

        if (c <= 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '&')
            return SLICE_NULL;
    }
    return f->value;
}

static const struct slice max_forwards = {"max-forwards", 12};

enum err headers_max_forwards(const struct message_fields *fields, uint64_t *out)
{
    const struct message_field *f = message_fields_find(fields, max_forwards, NULL);
    uint64_t n = 0;

    if (f == NULL)
        return ERR_NOT_FOUND;
    if (f->value.len == 0 || message_fields_find(fields, max_forwards, f) != NULL)
        return ERR_SYNTAX;
    for (size_t i = 0; i < f->value.len; ++i) {
        if (f->value.p[i] < '0' || f->value.p[i] > '9')
            return ERR_SYNTAX;
        n = n * 10 + (uint64_t)(f->value.p[i] - '0');
        if (n > MAX_FORWARDS_MAX)
            n = MAX_FORWARDS_MAX + 1;
    }
    *out = n;
    return ERR_OK;
}

struct cache_request headers_cache_request(const struct http_request *req)
{
    return (struct cache_request){
        .method = req->method,
        .fields = {req->fields.at, req->fields.n},
        .body = req->body.p != NULL,
        .upgrade = req->upgrade.p != NULL,
    };
}

/* ---- responses ---- */

/* Returns the kinds of fields that are not passed to the client. */
static uint32_t not_for_client(const struct headers_response *r)
{
    /* The server writes its own date. */
    uint32_t kinds = FIELDS_HOP | FIELD_BIT(FIELD_OURS) | FIELD_BIT(FIELD_DATE);

    if (r->own_server)
        kinds |= FIELD_BIT(FIELD_SERVER);
    return r->request_id.len != 0 ? kinds | FIELD_BIT(FIELD_REQUEST_ID) : kinds;
}

void headers_add_to(struct http_request *req, struct message_fields *fields, struct slice name,
                    struct slice value)
{
    http_request_add(req, fields, http_request_retain(req, name), http_request_retain(req, value));
}

static inline void take_status(struct http_request *req, const struct http1_head *head)
{
    req->res.status = head->status;
    req->res.reason =
        slice_is(head->reason, "OK") ? "OK" : http_request_retain(req, head->reason).p;
}

void headers_take_response(const struct headers_response *r, const struct http1_head *head)
{
    struct http_request *req = r->req;

    http_request_take_response(req, head, not_for_client(r));
    take_status(req, head);
    if (r->websocket)
        http_request_add_response(req, "Upgrade", SLICE_LIT("websocket"));
    if (r->via)
        http_request_add(req, &req->res.fields, SLICE_LIT("Via"),
                         head->minor_version == 0 ? SLICE_LIT("1.0 resumelb")
                                                  : SLICE_LIT("1.1 resumelb"));
    if (r->request_id.len != 0)
        http_request_add_response(req, "X-Request-ID", r->request_id);
}

size_t headers_response_room(const struct headers_response *r, const struct http1_head *head)
{
    /* A received line may lack the space that is written after the colon. */
    return sizeof("Via: 1.1 resumelb\r\nX-Request-ID: \r\n") + r->request_id.len + head->bytes +
           head->nheaders;
}

size_t headers_response_lines(const struct headers_response *r, const struct http1_head *head,
                              char *at)
{
    struct http_request *req = r->req;
    uint32_t dropped = not_for_client(r);
    const char *lines = at;

    for (size_t i = 0; i < head->nheaders; ++i) {
        const struct message_field *h = &head->headers[i];

        if (http1_head_passes(head, h, req->version, dropped))
            at = put_line(at, h->name, h->value);
    }
    if (r->via)
        at = http_put_via(at, 0x100 + head->minor_version);
    if (r->request_id.len != 0)
        at = PUT_LINE(at, "X-Request-ID", r->request_id);
    take_status(req, head);
    return (size_t)(at - lines);
}

const struct message_field *headers_find(const struct http1_head *head, struct slice name,
                                         const struct message_field *after)
{
    const struct message_field *end = head->headers + head->nheaders;
    const struct message_field *f = after != NULL ? after + 1 : head->headers;

    while (f != end && !slice_eq_nocase(f->name, name))
        ++f;
    return f != end ? f : NULL;
}

bool headers_flag(const struct http1_head *head, struct slice name)
{
    const struct message_field *f = headers_find(head, name, NULL);

    return f != NULL && slice_is(f->value, "1");
}

enum err headers_backlog(const struct http1_head *head, uint64_t *out)
{
    const struct slice name = SLICE_LIT("Resumelb-Backlog");
    const struct message_field *f = headers_find(head, name, NULL);

    if (f == NULL)
        return ERR_NOT_FOUND;
    if (headers_find(head, name, f) != NULL)
        return ERR_SYNTAX;
    return parse_u64(f->value, WORKER_REPORT_MAX, out) ? ERR_OK : ERR_SYNTAX;
}
