/* SPDX-License-Identifier: Apache-2.0
 *
 * RFC 3986, section 3, as far as HTTP has use for it: no user, no other schemes.
 */
#include "common/wire/url_line.h"

#include "common/base/text.h"
#include "common/wire/http1_head.h"

static bool starts_nocase(struct slice s, const char *prefix)
{
    size_t n = strlen(prefix);

    return s.len >= n && slice_eq_nocase((struct slice){s.p, n}, slice_of(prefix));
}

const char *url_line_parse(struct slice line, struct url_line *out)
{
    struct url_line u = {.path = SLICE_LIT("/"), .query = SLICE_LIT("")};
    struct slice rest = line;

    if (line.len > URL_LINE_MAX)
        return "longer than 8 KiB";
    /* Visible ASCII and non-ASCII bytes, which a path as displayed by browsers contains. */
    for (size_t i = 0; i < line.len; ++i) {
        unsigned char c = (unsigned char)line.p[i];

        if (c <= ' ' || c == 0x7f || c == '"' || c == '<' || c == '>')
            return "contains blanks, quotes or control characters";
    }
    u.tls = starts_nocase(line, "https://");
    struct slice target = slice_cut(&rest, '#');
    if (u.tls || starts_nocase(line, "http://")) {
        if (!http_target_split(target, &u.host, &target) || u.host.len > URL_HOST_MAX ||
            slice_find(u.host, '%') != SIZE_MAX)
            return "invalid host";
    } else if (target.len == 0 || target.p[0] != '/') {
        return "neither http://HOST/PATH nor /PATH";
    }
    u.query = target;
    struct slice path = slice_cut(&u.query, '?');
    if (path.len != 0)
        u.path = path;
    *out = u;
    return NULL;
}
