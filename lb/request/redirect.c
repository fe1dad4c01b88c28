/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/request/redirect.h"

enum { HTTPS_PORT = 443 };

/* AUTHORITY without its port. */
static struct slice host_of(struct slice authority)
{
    size_t end = 0;

    if (authority.len != 0 && authority.p[0] == '[')
        end = slice_find(authority, ']') + 1;
    else
        end = slice_find(authority, ':');
    return (struct slice){authority.p, end < authority.len ? end : authority.len};
}

/* A target may have bytes that no URI has; what browsers do with them is theirs to know. */
static void put_target(struct text *out, struct slice target)
{
    for (size_t i = 0; i < target.len; ++i) {
        unsigned char c = (unsigned char)target.p[i];

        if (c < 0x80)
            text_add_char(out, (char)c);
        else
            text_addf(out, "%%%02X", c);
    }
}

bool redirect_location(const struct redirect *to, struct slice authority, struct slice target,
                       struct text *out)
{
    struct slice host = host_of(authority);

    if (host.len == 0)
        return false;
    text_addf(out, "https://%.*s", SLICE_FMT(host));
    if (to->port != HTTPS_PORT)
        text_addf(out, ":%u", to->port);
    put_target(out, target.p[0] == '*' ? SLICE_LIT("/") : target);
    return true;
}
