/* SPDX-License-Identifier: Apache-2.0
 *
 * Header names, of requests and of a process's responses, are as they were written.
 */
#include "worker-agent/front/front_internal.h"

#include <stdio.h>

#include "common/base/text.h"
#include "common/http/http_request.h"

/* The value of header NAME, or SLICE_NULL. The first of several. */
static struct slice header_of(const struct http_request *req, const char *name)
{
    const struct message_field *f = message_fields_find(&req->fields, slice_of(name), NULL);

    return f != NULL ? f->value : SLICE_NULL;
}

bool front_method_is(const struct http_request *req, const char *name)
{
    return slice_is(req->method, name);
}

/* ---- fields of load balancers ---- */

void front_read_class(const struct http_request *req, struct request_class *out)
{
    struct slice cls = header_of(req, "resumelb-class");
    struct slice fingerprint = header_of(req, "resumelb-classifier");

    *out = (struct request_class){.cls_len = 0};
    if (cls.len > 0 && resume_is_class(cls)) {
        memcpy(out->cls, cls.p, cls.len);
        out->cls_len = cls.len;
    }
    out->has_reported =
        home_report_parse(header_of(req, "resumelb-home"), &out->reported) == ERR_OK;
    if (fingerprint.len > 0 && resume_is_fingerprint(fingerprint)) {
        memcpy(out->fingerprint, fingerprint.p, fingerprint.len);
        out->fingerprint_len = fingerprint.len;
    }
}

bool front_wants_stream(const struct http_request *req)
{
    return slice_is(header_of(req, "resumelb-feed"), "1");
}

bool front_wants_homes(const struct http_request *req)
{
    return slice_is(header_of(req, "resumelb-homes"), "1");
}

/* ---- to the process ---- */

/* The headers that describe a client which connected without a load balancer. */
struct forwarded {
    struct slice peer;
    bool believed; /* the peer is trusted to report previous clients */
};

/* The recipient of a request head. */
struct recipient {
    const struct forwarded *forwarded; /* NULL: a load balancer has set these headers */
    bool agent;                        /* the recipient is another agent, not a process */
};

/* Of the product's own headers, a process receives only the class set by a load balancer. */
static bool passes(const struct http_request *req, const struct recipient *to,
                   const struct message_field *field)
{
    const struct forwarded *forwarded = to->forwarded;

    switch (field->kind) {
    case FIELD_HOP:
    case FIELD_CONNECTION:
    case FIELD_FRAMING:
        return false;
    case FIELD_OURS:
        return to->agent ||
               (forwarded == NULL && slice_eq_nocase(field->name, SLICE_LIT("resumelb-class")) &&
                resume_is_class(field->value));
    case FIELD_FOR:
        /* All of them become one, with the peer at its end. */
        return forwarded == NULL;
    case FIELD_PROTO:
    case FIELD_FORWARDED_HOST:
    case FIELD_FORWARDED:
    case FIELD_CLAIM:
    case FIELD_REQUEST_ID:
    case FIELD_CLIENT_CERTIFICATE:
        return forwarded == NULL || forwarded->believed;
    case FIELD_OTHER:
    case FIELD_COOKIE:
    case FIELD_DATE:
    case FIELD_SERVER:
    case FIELD_REFERER:
    case FIELD_USER_AGENT:
        break;
    }
    return !http_request_lists(&req->fields, field->name);
}

/* X-Forwarded-*, as a server does that clients connect to. */
static void put_forwarded(const struct http_request *req, const struct forwarded *forwarded,
                          struct text *out)
{
    text_add(out, SLICE_LIT("X-Forwarded-For: "));
    for (size_t i = 0; forwarded->believed && i < req->fields.n; ++i) {
        if (req->fields.at[i].kind != FIELD_FOR)
            continue;
        text_add(out, req->fields.at[i].value);
        text_add(out, SLICE_LIT(", "));
    }
    text_add(out, forwarded->peer);
    text_add(out, SLICE_LIT("\r\n"));
    if (!forwarded->believed || !message_fields_may_have(&req->fields, FIELD_BIT(FIELD_PROTO)))
        http_put_field(out, SLICE_LIT("X-Forwarded-Proto"), SLICE_LIT("http"));
    if (!forwarded->believed ||
        !message_fields_may_have(&req->fields, FIELD_BIT(FIELD_FORWARDED_HOST)))
        http_put_field(out, SLICE_LIT("X-Forwarded-Host"), req->authority);
}

static void write_head(const struct http_request *req, const struct recipient *to, struct text *out)
{
    text_add(out, req->method);
    text_add_char(out, ' ');
    text_add(out, req->target);
    text_add(out, SLICE_LIT(" HTTP/1.1\r\n"));
    http_put_field(out, SLICE_LIT("Host"), req->authority);
    for (size_t i = 0; i < req->fields.n; ++i) {
        const struct message_field *f = &req->fields.at[i];

        if (passes(req, to, f))
            http_put_field(out, f->name, f->value);
    }
    if (to->forwarded != NULL)
        put_forwarded(req, to->forwarded, out);
    if (http_request_wants_websocket(req)) {
        http_put_field(out, SLICE_LIT("Connection"), SLICE_LIT("Upgrade"));
        http_put_field(out, SLICE_LIT("Upgrade"), SLICE_LIT("websocket"));
    }
    http_put_length(req->method, req->body, out);
    text_add(out, SLICE_LIT("\r\n"));
}

void front_write_head(const struct http_request *req, struct text *out)
{
    write_head(req, &(struct recipient){.agent = false}, out);
}

void front_write_agents_head(const struct http_request *req, struct text *out)
{
    write_head(req, &(struct recipient){.agent = true}, out);
}

void front_write_direct_head(const struct http_request *req, const struct addr *peer,
                             const struct networks *believed, struct text *out)
{
    char text[ADDR_TEXT_MAX];
    const struct forwarded forwarded = {.peer = slice_of(addr_host(peer, text)),
                                        .believed = networks_have(believed, peer)};

    write_head(req, &(struct recipient){.forwarded = &forwarded}, out);
}

/* ---- to the load balancer ---- */

void front_copy_headers(struct http_request *req, const struct http1_head *head, bool ours)
{
    for (size_t i = 0; i < head->nheaders; ++i) {
        const struct http1_header *h = &head->headers[i];
        enum http_field f = h->kind;

        /* Of ours: "Resumelb-Unprocessed" of a process would be a promise that it cannot make. */
        if (!http_field_is_hop(f) && (f != FIELD_OURS || ours) && f != FIELD_DATE &&
            !http_response_lists(head, h->name))
            http_request_add(req, &req->res.fields, http_request_keep(req, h->name),
                             http_request_keep(req, h->value));
    }
}

void front_put_backlog(struct http_request *req, size_t backlog)
{
    /* As many digits as 64 bits need, and the NUL. */
    char digits[21];
    size_t n = (size_t)snprintf(digits, sizeof(digits), "%zu", backlog);

    http_request_answer(req, "Resumelb-Backlog", (struct slice){digits, n});
}
