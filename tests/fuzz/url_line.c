/* SPDX-License-Identifier: Apache-2.0
 *
 * An accepted URL has a path, and no bytes that would end a request line or a header line; composed
 * again from its parts it is the same.
 */
#include "common/wire/url_line.h"

#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

static void is_harmless(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i)
        ASSERT((unsigned char)s.p[i] > ' ' && s.p[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct url_line u;
    struct url_line again;
    struct text anew = {0};

    if (url_line_parse((struct slice){(const char *)data, size}, &u) != NULL)
        return 0;
    ASSERT(u.path.len != 0);
    ASSERT(u.path.p[0] == '/');
    ASSERT(u.host.len <= URL_HOST_MAX);
    is_harmless(u.host);
    is_harmless(u.path);
    is_harmless(u.query);
    if (u.host.len != 0) {
        text_add(&anew, u.tls ? SLICE_LIT("https://") : SLICE_LIT("http://"));
        text_add(&anew, u.host);
    }
    text_add(&anew, u.path);
    text_add_char(&anew, '?');
    text_add(&anew, u.query);
    if (anew.len <= URL_LINE_MAX) {
        ASSERT(url_line_parse(text_slice(&anew), &again) == NULL);
        ASSERT(again.tls == u.tls);
        ASSERT(slice_eq(again.host, u.host));
        ASSERT(slice_eq(again.path, u.path));
        ASSERT(slice_eq(again.query, u.query));
    }
    text_fini(&anew);
    return 0;
}
