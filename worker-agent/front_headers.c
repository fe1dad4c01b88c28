/* SPDX-License-Identifier: Apache-2.0
 *
 * Header names from libh2o are in lower case; those of a process's response are as it wrote them.
 */
#include "worker-agent/front_internal.h"

#include "common/base/text.h"

/* Between two hops only (RFC 9110, 7.6.1), or made anew by us (content-length, host, date). */
static const char *const not_for_process[] = {
    "connection", "keep-alive", "proxy-connection", "te",   "trailer",       "transfer-encoding",
    "upgrade",    "expect",     "content-length",   "host", "http2-settings"};
static const char *const not_for_client[] = {"connection", "keep-alive", "proxy-connection",
                                             "te",         "trailer",    "transfer-encoding",
                                             "upgrade",    "date",       "content-length"};

static struct slice slice_of_iovec(h2o_iovec_t v)
{
    return (struct slice){v.base, v.len};
}

static bool is_one_of(struct slice name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        if (slice_eq_nocase(name, slice_of(list[i])))
            return true;
    }
    return false;
}

static bool starts_nocase(struct slice name, struct slice prefix)
{
    return name.len >= prefix.len && slice_eq_nocase((struct slice){name.p, prefix.len}, prefix);
}

/* Ours, between load balancer and agent. */
static bool is_internal(struct slice name)
{
    return starts_nocase(name, SLICE_LIT("resumelb-"));
}

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

/* ---- what load balancers tell ---- */

static bool is_class(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] < 0x21 || s.p[i] > 0x7e)
            return false;
    }
    return s.len <= CLASS_BYTES_MAX;
}

static bool is_fingerprint(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (!(s.p[i] >= '0' && s.p[i] <= '9') && !(s.p[i] >= 'a' && s.p[i] <= 'f'))
            return false;
    }
    return s.len == FINGERPRINT_LEN;
}

void front_read_class(const h2o_req_t *req, struct request_class *out)
{
    struct slice cls = header_of(req, "resumelb-class");
    struct slice fingerprint = header_of(req, "resumelb-classifier");

    *out = (struct request_class){.cls_len = 0};
    if (cls.len > 0 && is_class(cls)) {
        memcpy(out->cls, cls.p, cls.len);
        out->cls_len = cls.len;
    }
    if (is_fingerprint(fingerprint)) {
        memcpy(out->fingerprint, fingerprint.p, fingerprint.len);
        out->fingerprint_len = fingerprint.len;
    }
}

bool front_wants_stream(const h2o_req_t *req)
{
    return slice_is(header_of(req, "resumelb-feed"), "1");
}

bool front_wants_upgrade(const h2o_req_t *req)
{
    return req->upgrade.base != NULL && req->upgrade.len > 0 && req->version == 0x101 &&
           h2o_memis(req->method.base, req->method.len, H2O_STRLIT("GET"));
}

/* ---- to the process ---- */

/* Whether a Connection header names it as for one hop only. */
static bool is_listed(const h2o_req_t *req, struct slice name)
{
    for (size_t i = 0; i < req->headers.size; ++i) {
        const h2o_header_t *h = &req->headers.entries[i];

        if (slice_eq_nocase(slice_of_iovec(*h->name), SLICE_LIT("connection")) &&
            http1_list_has(slice_of_iovec(h->value), name))
            return true;
    }
    return false;
}

static void add_line(struct text *out, const char *name, struct slice value)
{
    text_add(out, slice_of(name));
    text_add(out, SLICE_LIT(": "));
    text_add(out, value);
    text_add(out, SLICE_LIT("\r\n"));
}

static bool method_is(const h2o_req_t *req, const char *name)
{
    return slice_is(slice_of_iovec(req->method), name);
}

static void add_length(const h2o_req_t *req, struct text *out)
{
    bool expects_body = !method_is(req, "GET") && !method_is(req, "HEAD") &&
                        !method_is(req, "OPTIONS") && !method_is(req, "DELETE") &&
                        !method_is(req, "TRACE");

    if (req->entity.base != NULL || expects_body)
        text_addf(out, "Content-Length: %zu\r\n", req->entity.base != NULL ? req->entity.len : 0);
}

void front_write_head(const h2o_req_t *req, struct text *out)
{
    text_add(out, slice_of_iovec(req->method));
    text_add_char(out, ' ');
    text_add(out, slice_of_iovec(req->path));
    text_add(out, SLICE_LIT(" HTTP/1.1\r\n"));
    add_line(out, "Host", slice_of_iovec(req->authority));
    for (size_t i = 0; i < req->headers.size; ++i) {
        const h2o_header_t *h = &req->headers.entries[i];
        struct slice name = slice_of_iovec(*h->name);
        bool is_class_name = slice_eq_nocase(name, SLICE_LIT("resumelb-class"));

        if (is_one_of(name, not_for_process, ARRAY_LEN(not_for_process)) || is_listed(req, name) ||
            (is_internal(name) && !is_class_name))
            continue;
        if (is_class_name && !is_class(slice_of_iovec(h->value)))
            continue;
        text_add(out, h->orig_name != NULL ? (struct slice){h->orig_name, name.len} : name);
        text_add(out, SLICE_LIT(": "));
        text_add(out, slice_of_iovec(h->value));
        text_add(out, SLICE_LIT("\r\n"));
    }
    if (front_wants_upgrade(req)) {
        add_line(out, "Connection", SLICE_LIT("Upgrade"));
        add_line(out, "Upgrade", slice_of_iovec(req->upgrade));
    }
    add_length(req, out);
    text_add(out, SLICE_LIT("\r\n"));
}

/* ---- to the load balancer ---- */

static bool response_lists(const struct http1_head *head, struct slice name)
{
    for (size_t i = 0; i < head->nheaders; ++i) {
        if (slice_eq_nocase(head->headers[i].name, SLICE_LIT("connection")) &&
            http1_list_has(head->headers[i].value, name))
            return true;
    }
    return false;
}

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

void front_copy_headers(h2o_req_t *req, const struct http1_head *head)
{
    for (size_t i = 0; i < head->nheaders; ++i) {
        const struct http1_header *h = &head->headers[i];

        /* "Resumelb-Unprocessed" of a process would be a promise that it cannot make. */
        if (!is_one_of(h->name, not_for_client, ARRAY_LEN(not_for_client)) &&
            !response_lists(head, h->name) && !is_internal(h->name))
            copy_header(req, h);
    }
}
