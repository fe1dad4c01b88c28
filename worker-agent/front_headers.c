/* SPDX-License-Identifier: Apache-2.0
 *
 * Header names from libh2o are in lower case; those of a process's response are as it wrote them.
 */
#include "worker-agent/front_internal.h"

#include <stdio.h>

#include "common/base/text.h"
#include "common/net/http_fields.h"

/* The value of header NAME, or SLICE_NULL. The first of several. */
static struct slice header_of(const h2o_req_t *req, const char *name)
{
    for (size_t i = 0; i < req->headers.size; ++i) {
        const h2o_header_t *h = &req->headers.entries[i];

        if (slice_eq_nocase(slice_of_iovec(*h->name), slice_of(name)))
            return slice_of_iovec(h->value);
    }
    return SLICE_NULL;
}

bool front_method_is(const h2o_req_t *req, const char *name)
{
    return slice_is(slice_of_iovec(req->method), name);
}

/* ---- what load balancers tell ---- */

void front_read_class(const h2o_req_t *req, struct request_class *out)
{
    struct slice cls = header_of(req, "resumelb-class");
    struct slice fingerprint = header_of(req, "resumelb-classifier");

    *out = (struct request_class){.cls_len = 0};
    if (cls.len > 0 && resume_is_class(cls)) {
        memcpy(out->cls, cls.p, cls.len);
        out->cls_len = cls.len;
    }
    out->has_told = home_told_parse(header_of(req, "resumelb-home"), &out->told) == ERR_OK;
    if (fingerprint.len > 0 && resume_is_fingerprint(fingerprint)) {
        memcpy(out->fingerprint, fingerprint.p, fingerprint.len);
        out->fingerprint_len = fingerprint.len;
    }
}

bool front_wants_stream(const h2o_req_t *req)
{
    return slice_is(header_of(req, "resumelb-feed"), "1");
}

bool front_wants_homes(const h2o_req_t *req)
{
    return slice_is(header_of(req, "resumelb-homes"), "1");
}

bool front_wants_upgrade(const h2o_req_t *req)
{
    return req->upgrade.base != NULL && req->upgrade.len > 0 && req->version == 0x101 &&
           h2o_memis(req->method.base, req->method.len, H2O_STRLIT("GET"));
}

/* ---- to the process ---- */

/* What a process is told of a client that has come without a load balancer. */
struct forwarded {
    struct slice peer;
    bool believed; /* what the request says of clients before it */
};

/* Whom a head is for. */
struct recipient {
    const struct forwarded *forwarded; /* NULL: a load balancer has said it all */
    bool agent;                        /* another one, not a process */
};

/* Of ours, the process gets its request's class from a load balancer. */
static bool passes(const h2o_req_t *req, const struct recipient *to, struct slice name,
                   struct slice value)
{
    const struct forwarded *forwarded = to->forwarded;
    enum http_field f = http_field_of(name);

    switch (f) {
    case FIELD_HOP:
        return false;
    case FIELD_OURS:
        return to->agent ||
               (forwarded == NULL && slice_eq_nocase(name, SLICE_LIT("resumelb-class")) &&
                resume_is_class(value));
    case FIELD_FOR:
        /* All of them become one, with the peer at its end. */
        return forwarded == NULL;
    case FIELD_PROTO:
    case FIELD_FORWARDED_HOST:
    case FIELD_FORWARDED:
    case FIELD_CLAIM:
        return forwarded == NULL || forwarded->believed;
    case FIELD_OTHER:
    case FIELD_COOKIE:
    case FIELD_REQUEST_ID:
    case FIELD_DATE:
    case FIELD_SERVER:
        break;
    }
    return !http_request_lists(&req->headers, name);
}

static bool has_field(const h2o_req_t *req, enum http_field f)
{
    for (size_t i = 0; i < req->headers.size; ++i) {
        if (http_field_of(slice_of_iovec(*req->headers.entries[i].name)) == f)
            return true;
    }
    return false;
}

/* X-Forwarded-*, as a server does that clients connect to. */
static void put_forwarded(const h2o_req_t *req, const struct forwarded *forwarded, struct text *out)
{
    text_add(out, SLICE_LIT("X-Forwarded-For: "));
    for (size_t i = 0; forwarded->believed && i < req->headers.size; ++i) {
        if (http_field_of(slice_of_iovec(*req->headers.entries[i].name)) != FIELD_FOR)
            continue;
        text_add(out, slice_of_iovec(req->headers.entries[i].value));
        text_add(out, SLICE_LIT(", "));
    }
    text_add(out, forwarded->peer);
    text_add(out, SLICE_LIT("\r\n"));
    if (!forwarded->believed || !has_field(req, FIELD_PROTO))
        http_put_field(out, SLICE_LIT("X-Forwarded-Proto"), SLICE_LIT("http"));
    if (!forwarded->believed || !has_field(req, FIELD_FORWARDED_HOST))
        http_put_field(out, SLICE_LIT("X-Forwarded-Host"), slice_of_iovec(req->authority));
}

static void write_head(const h2o_req_t *req, const struct recipient *to, struct text *out)
{
    text_add(out, slice_of_iovec(req->method));
    text_add_char(out, ' ');
    text_add(out, slice_of_iovec(req->path));
    text_add(out, SLICE_LIT(" HTTP/1.1\r\n"));
    http_put_field(out, SLICE_LIT("Host"), slice_of_iovec(req->authority));
    for (size_t i = 0; i < req->headers.size; ++i) {
        const h2o_header_t *h = &req->headers.entries[i];
        struct slice name = slice_of_iovec(*h->name);
        struct slice value = slice_of_iovec(h->value);

        if (!passes(req, to, name, value))
            continue;
        http_put_field(out, h->orig_name != NULL ? (struct slice){h->orig_name, name.len} : name,
                       value);
    }
    if (to->forwarded != NULL)
        put_forwarded(req, to->forwarded, out);
    if (front_wants_upgrade(req)) {
        http_put_field(out, SLICE_LIT("Connection"), SLICE_LIT("Upgrade"));
        http_put_field(out, SLICE_LIT("Upgrade"), slice_of_iovec(req->upgrade));
    }
    http_put_length(req, out);
    text_add(out, SLICE_LIT("\r\n"));
}

void front_write_head(const h2o_req_t *req, struct text *out)
{
    write_head(req, &(struct recipient){.agent = false}, out);
}

void front_write_agents_head(const h2o_req_t *req, struct text *out)
{
    write_head(req, &(struct recipient){.agent = true}, out);
}

void front_write_direct_head(const h2o_req_t *req, const struct addr *peer,
                             const struct networks *believed, struct text *out)
{
    char text[ADDR_TEXT_MAX];
    const struct forwarded forwarded = {.peer = slice_of(addr_host(peer, text)),
                                        .believed = networks_have(believed, peer)};

    write_head(req, &(struct recipient){.forwarded = &forwarded}, out);
}

/* ---- to the load balancer ---- */

static void copy_header(h2o_req_t *req, const struct http1_header *h)
{
    char *lower = h2o_mem_alloc_pool(&req->pool, h->name.len + 1);
    h2o_iovec_t value = h2o_strdup(&req->pool, h->value.len > 0 ? h->value.p : "", h->value.len);
    char *original = h2o_strdup(&req->pool, h->name.p, h->name.len).base;

    for (size_t i = 0; i < h->name.len; ++i)
        lower[i] = ascii_lower(h->name.p[i]);
    h2o_add_header_by_str(&req->pool, &req->res.headers, lower, h->name.len, 1, original,
                          value.base, value.len);
}

void front_copy_headers(h2o_req_t *req, const struct http1_head *head, bool ours)
{
    for (size_t i = 0; i < head->nheaders; ++i) {
        const struct http1_header *h = &head->headers[i];
        enum http_field f = http_field_of(h->name);

        /* Of ours: "Resumelb-Unprocessed" of a process would be a promise that it cannot make. */
        if (f != FIELD_HOP && (f != FIELD_OURS || ours) && f != FIELD_DATE &&
            !http_response_lists(head, h->name))
            copy_header(req, h);
    }
}

void front_put_backlog(h2o_req_t *req, size_t backlog)
{
    /* As many digits as 64 bits need, and the NUL. */
    char digits[21];
    size_t n = (size_t)snprintf(digits, sizeof(digits), "%zu", backlog);
    h2o_iovec_t value = h2o_strdup(&req->pool, digits, n);

    h2o_add_header_by_str(&req->pool, &req->res.headers, H2O_STRLIT("resumelb-backlog"), 0,
                          "Resumelb-Backlog", value.base, value.len);
}
