/* SPDX-License-Identifier: Apache-2.0
 *
 * traceparent \n tracestate: what is taken is written as a parent of version 00, which is taken
 * again and says the same; a state that is taken is within its bounds.
 */
#include "common/wire/trace_context.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = {(const char *)data, size};
    struct slice first = slice_cut(&rest, '\n');
    struct trace_parent p;
    struct trace_parent again;
    char text[TRACE_PARENT_LEN];
    size_t members = 0;

    if (trace_parent_parse(first, &p)) {
        ASSERT(p.flags < 256);
        trace_parent_print(&p, text);
        ASSERT(trace_parent_parse((struct slice){text, sizeof(text)}, &again));
        ASSERT(memcmp(p.trace_id, again.trace_id, sizeof(p.trace_id)) == 0);
        ASSERT(memcmp(p.span_id, again.span_id, sizeof(p.span_id)) == 0);
        ASSERT(p.flags == again.flags);
    }
    if (trace_state_valid(rest, &members)) {
        ASSERT(rest.len <= TRACE_STATE_BYTES_MAX);
        ASSERT(members <= TRACE_STATE_MEMBERS_MAX);
    }
    return 0;
}
