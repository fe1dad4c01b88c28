/* SPDX-License-Identifier: Apache-2.0
 *
 * Each field is looked up in one short table. RFC 9110 7.6.1 (Connection), 8.6 (Content-Length).
 */
#include "common/net/http_fields.h"

/* By length: field_at[n] is where those of n bytes begin. */
static const struct field_name {
    struct slice name;
    enum http_field field;
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
    {{"x-real-ip", 9}, FIELD_CLAIM},
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
    {{"proxy-authorization", 19}, FIELD_HOP},
};

enum { LONGEST_NAME = 19 };

static const unsigned char field_at[LONGEST_NAME + 2] = {
    [3] = 1,   [4] = 1,   [5] = 3,   [6] = 3,   [7] = 6,   [8] = 8,
    [9] = 8,   [10] = 10, [11] = 12, [12] = 12, [13] = 13, [14] = 13,
    [15] = 15, [16] = 16, [17] = 18, [18] = 20, [19] = 20, [20] = ARRAY_LEN(field_names),
};

static const struct slice ours = {"resumelb-", 9};
static const struct slice forwarded = {"x-forwarded-", 12};

static char normal(char c)
{
    if (c == '_')
        return '-';
    return ascii_lower(c);
}

static bool begins(struct slice name, struct slice with)
{
    if (name.len < with.len)
        return false;
    for (size_t i = 0; i < with.len; ++i) {
        if (normal(name.p[i]) != with.p[i])
            return false;
    }
    return true;
}

/* The same as begins() with a name of its own length; hardly any has a '_'. */
static bool is_name(struct slice name, struct slice known)
{
    return slice_eq_nocase(name, known) ||
           (slice_find(name, '_') != SIZE_MAX && begins(name, known));
}

bool http_field_is_ours(struct slice name)
{
    return begins(name, ours);
}

bool http_field_is_client_certificate(struct slice name)
{
    return begins(name, SLICE_LIT("x-ssl-client-"));
}

enum http_field http_field_of(struct slice name)
{
    char first = name.len != 0 ? normal(name.p[0]) : '\0';

    if (first == ours.p[0] && http_field_is_ours(name))
        return FIELD_OURS;
    if (name.len <= LONGEST_NAME) {
        for (size_t i = field_at[name.len]; i < field_at[name.len + 1]; ++i) {
            const struct field_name *f = &field_names[i];

            if (f->name.p[0] == first && is_name(name, f->name))
                return f->field;
        }
    }
    return first == forwarded.p[0] && begins(name, forwarded) ? FIELD_CLAIM : FIELD_OTHER;
}

bool http_request_lists(const h2o_headers_t *headers, struct slice name)
{
    for (size_t i = 0; i < headers->size; ++i) {
        if (headers->entries[i].name == &H2O_TOKEN_CONNECTION->buf &&
            http1_list_has(slice_of_iovec(headers->entries[i].value), name))
            return true;
    }
    return false;
}

bool http_response_lists(const struct http1_head *head, struct slice name)
{
    for (size_t i = 0; i < head->nheaders; ++i) {
        if (slice_eq_nocase(head->headers[i].name, SLICE_LIT("connection")) &&
            http1_list_has(head->headers[i].value, name))
            return true;
    }
    return false;
}

void http_put_field(struct text *out, struct slice name, struct slice value)
{
    /* Room for all at once; the rest is then mere copying. */
    char *at = text_reserve(out, name.len + value.len + 4);

    memcpy(at, name.p, name.len);
    at += name.len;
    memcpy(at, ": ", 2);
    if (value.len != 0)
        memcpy(at + 2, value.p, value.len);
    memcpy(at + 2 + value.len, "\r\n", 2);
    out->len += name.len + value.len + 4;
}

/* RFC 9110 8.6 */
static bool announces_body(struct slice method)
{
    return slice_is(method, "POST") || slice_is(method, "PUT") || slice_is(method, "PATCH");
}

void http_put_length(const h2o_req_t *req, struct text *out)
{
    if (req->entity.base == NULL && !announces_body(slice_of_iovec(req->method)))
        return;
    text_add(out, SLICE_LIT("Content-Length: "));
    text_add_u64(out, req->entity.base != NULL ? req->entity.len : 0);
    text_add(out, SLICE_LIT("\r\n"));
}
