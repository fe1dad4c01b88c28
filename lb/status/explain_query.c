/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/status/explain_query.h"

#include "common/base/text.h"
#include "common/wire/url_line.h"

/* A value of a query, with %XX; '+' is itself. False: it is broken, or longer than ROOM. */
static bool unescape(struct slice s, char *out, size_t room, size_t *len)
{
    size_t n = 0;

    for (size_t i = 0; i < s.len; ++i) {
        int c = (unsigned char)s.p[i];

        if (c == '%') {
            if (s.len - i < 3 || ascii_hex_digit(s.p[i + 1]) < 0 || ascii_hex_digit(s.p[i + 2]) < 0)
                return false;
            c = ascii_hex_digit(s.p[i + 1]) * 16 + ascii_hex_digit(s.p[i + 2]);
            i += 2;
        }
        if (n == room)
            return false;
        out[n++] = (char)c;
    }
    *len = n;
    return true;
}

/* Whether P is a possible result of a classifier: visible ASCII. */
static bool is_class(const char *p, size_t len)
{
    for (size_t i = 0; i < len; ++i) {
        if (p[i] < 0x21 || p[i] > 0x7e)
            return false;
    }
    return true;
}

static const char *take(struct explain_query *a, struct slice name, struct slice value)
{
    if (slice_is(name, "class")) {
        if (a->has_class)
            return "duplicate class";
        a->has_class = true;
        if (!unescape(value, a->cls, sizeof(a->cls), &a->cls_len) || !is_class(a->cls, a->cls_len))
            return "class: expected up to 255 visible ASCII characters, percent-encoded";
        return NULL;
    }
    if (slice_is(name, "url")) {
        struct url_line u;

        if (a->has_url)
            return "duplicate url";
        a->has_url = true;
        if (!unescape(value, a->url, sizeof(a->url), &a->url_len))
            return "url is not percent-encoded";
        return url_line_parse((struct slice){a->url, a->url_len}, &u) == NULL
                   ? NULL
                   : "url: expected http://HOST/PATH or /PATH";
    }
    if (slice_is(name, "application")) {
        if (a->has_application)
            return "duplicate application";
        a->has_application = true;
        if (!unescape(value, a->application, sizeof(a->application), &a->application_len))
            return "application is not a name";
        return NULL;
    }
    return "unknown parameter: class, url and application are known";
}

const char *explain_query_parse(struct slice query, struct explain_query *out)
{
    *out = (struct explain_query){0};
    if (query.len > EXPLAIN_QUERY_MAX)
        return "the query is too long";
    while (query.len != 0) {
        struct slice value = slice_cut(&query, '&');
        struct slice name = slice_cut(&value, '=');
        const char *why = take(out, name, value);

        if (why != NULL)
            return why;
    }
    if (out->has_class && out->has_url)
        return "class or url, not both";
    return out->has_class || out->has_url ? NULL : "class or url is missing";
}
