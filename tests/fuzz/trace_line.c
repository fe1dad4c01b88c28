/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsed values lie within the line; written and parsed again they are the same, unless they had to
 * be escaped or truncated.
 */
#include "common/wire/trace_line.h"

#include "tests/fuzz/fuzz.h"

static bool same_text(struct slice a, struct slice b, size_t max)
{
    return text_plain_length(a) != a.len || a.len > max || slice_eq(a, b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace_line l;
    struct trace_line again;
    struct text anew = {0};

    if (trace_line_parse((struct slice){(const char *)data, size}, &l) != NULL)
        return 0;
    ASSERT(l.id.len != 0);
    ASSERT(l.id.len <= TRACE_LINE_ID_MAX);
    ASSERT(l.stage != 'B' || (l.method.len != 0 && l.path.len != 0));
    ASSERT(l.stage != 'A' || (l.status >= 100 && l.status <= 999));
    /* Ours are short; the rest fits a line however it is escaped. */
    if (l.name.len > TRACE_LINE_TEXT_MAX)
        l.name.len = TRACE_LINE_TEXT_MAX;
    trace_line_print(&l, &anew);
    ASSERT(anew.p[anew.len - 1] == '\n');
    ASSERT(slice_find(text_slice(&anew), '\n') == anew.len - 1);
    ASSERT(trace_line_parse((struct slice){anew.p, anew.len - 1}, &again) == NULL);
    ASSERT(again.stage == l.stage);
    ASSERT(again.time_us == l.time_us);
    ASSERT(again.bytes == l.bytes);
    ASSERT(again.status == l.status);
    ASSERT(slice_eq(again.id, l.id));
    ASSERT(same_text(l.method, again.method, TRACE_LINE_METHOD_MAX));
    ASSERT(same_text(l.path, again.path, TRACE_LINE_PATH_MAX));
    ASSERT(same_text(l.text, again.text, TRACE_LINE_TEXT_MAX));
    text_fini(&anew);
    return 0;
}
