/* SPDX-License-Identifier: Apache-2.0
 *
 * An accepted query has a class of visible characters or a URL, and means the same when it is
 * written again with each byte escaped.
 */
#include "lb/status/status.h"

#include <string.h>

#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

static void add_escaped(struct text *to, const char *p, size_t len)
{
    for (size_t i = 0; i < len; ++i)
        text_addf(to, "%%%02x", (unsigned char)p[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct explain_query q;
    struct explain_query again;
    struct text anew = {0};

    if (explain_query_parse((struct slice){(const char *)data, size}, &q) != NULL)
        return 0;
    ASSERT(q.has_class != q.has_url);
    ASSERT(q.url_len <= EXPLAIN_URL_MAX);
    ASSERT(q.cls_len <= CLASS_BYTES_MAX);
    ASSERT(q.application_len <= EXPLAIN_APPLICATION_MAX);
    for (size_t i = 0; i < q.cls_len; ++i)
        ASSERT(q.cls[i] > 0x20 && q.cls[i] < 0x7f);
    text_add(&anew, q.has_url ? SLICE_LIT("url=") : SLICE_LIT("class="));
    add_escaped(&anew, q.has_url ? q.url : q.cls, q.has_url ? q.url_len : q.cls_len);
    if (q.has_application) {
        text_add(&anew, SLICE_LIT("&application="));
        add_escaped(&anew, q.application, q.application_len);
    }
    ASSERT((explain_query_parse(text_slice(&anew), &again) == NULL) ==
           (anew.len <= EXPLAIN_QUERY_MAX));
    if (anew.len <= EXPLAIN_QUERY_MAX)
        ASSERT(memcmp(&q, &again, sizeof(q)) == 0);
    text_fini(&anew);
    return 0;
}
