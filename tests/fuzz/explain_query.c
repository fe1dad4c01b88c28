/* SPDX-License-Identifier: Apache-2.0
 *
 * An accepted query has a class of visible characters or a URL, and means the same when it is
 * written again with each byte escaped.
 */
#include "lb/status/status.h"

#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

static void add_escaped(struct text *to, struct slice s)
{
    for (size_t i = 0; i < s.len; ++i)
        text_addf(to, "%%%02x", (unsigned char)s.p[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct explain_query q;
    struct explain_query again;
    struct text anew = {0};

    if (explain_query_parse((struct slice){(const char *)data, size}, &q) != NULL)
        return 0;
    ASSERT((q.cls.p != NULL) != (q.url.p != NULL));
    ASSERT(q.used <= EXPLAIN_QUERY_MAX);
    ASSERT(q.cls.len <= CLASS_BYTES_MAX);
    ASSERT(q.application.len <= EXPLAIN_APPLICATION_MAX);
    for (size_t i = 0; i < q.cls.len; ++i)
        ASSERT(q.cls.p[i] > 0x20 && q.cls.p[i] < 0x7f);
    text_add(&anew, q.url.p != NULL ? SLICE_LIT("url=") : SLICE_LIT("class="));
    add_escaped(&anew, q.url.p != NULL ? q.url : q.cls);
    if (q.application.p != NULL) {
        text_add(&anew, SLICE_LIT("&application="));
        add_escaped(&anew, q.application);
    }
    ASSERT((explain_query_parse(text_slice(&anew), &again) == NULL) ==
           (anew.len <= EXPLAIN_QUERY_MAX));
    if (anew.len <= EXPLAIN_QUERY_MAX) {
        ASSERT(slice_eq(q.cls, again.cls));
        ASSERT(slice_eq(q.url, again.url));
        ASSERT(slice_eq(q.application, again.application));
        ASSERT((q.application.p != NULL) == (again.application.p != NULL));
    }
    text_fini(&anew);
    return 0;
}
