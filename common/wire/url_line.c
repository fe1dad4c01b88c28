/* SPDX-License-Identifier: Apache-2.0
 *
 * RFC 3986, section 3, as far as HTTP has use for it: no user, no other schemes.
 */
#include "common/wire/url_line.h"

#include "common/base/text.h"

static bool starts_nocase(struct slice s, const char *prefix)
{
    size_t n = strlen(prefix);

    return s.len >= n && slice_eq_nocase((struct slice){s.p, n}, slice_of(prefix));
}

/* Visible ASCII and bytes beyond: a path as browsers show it has those. */
static bool is_target(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        unsigned char c = (unsigned char)s.p[i];

        if (c <= ' ' || c == 0x7f || c == '"' || c == '<' || c == '>')
            return false;
    }
    return true;
}

/* Letters of names, addresses and ports. */
static bool is_host(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        char c = ascii_lower(s.p[i]);

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && memchr(".-_:[]", c, 6) == NULL)
            return false;
    }
    return s.len != 0 && s.len <= URL_HOST_MAX && s.p[0] != ':';
}

/* Where the host ends: at the path, the query or the fragment. */
static size_t host_end(struct slice s)
{
    size_t i = 0;

    while (i < s.len && s.p[i] != '/' && s.p[i] != '?' && s.p[i] != '#')
        ++i;
    return i;
}

const char *url_line_parse(struct slice line, struct url_line *out)
{
    struct url_line u = {.path = SLICE_LIT("/"), .query = SLICE_LIT("")};
    struct slice rest = line;

    if (line.len > URL_LINE_MAX)
        return "longer than 8 KiB";
    if (!is_target(line))
        return "contains blanks, quotes or control characters";
    u.tls = starts_nocase(rest, "https://");
    if (u.tls || starts_nocase(rest, "http://")) {
        size_t scheme = u.tls ? strlen("https://") : strlen("http://");

        rest = (struct slice){rest.p + scheme, rest.len - scheme};
        u.host = (struct slice){rest.p, host_end(rest)};
        if (!is_host(u.host))
            return "invalid host";
        rest = (struct slice){rest.p + u.host.len, rest.len - u.host.len};
    } else if (rest.len == 0 || rest.p[0] != '/') {
        return "neither http://HOST/PATH nor /PATH";
    }
    struct slice before = slice_cut(&rest, '#');
    u.query = before;
    struct slice path = slice_cut(&u.query, '?');
    if (path.len != 0)
        u.path = path;
    *out = u;
    return NULL;
}
