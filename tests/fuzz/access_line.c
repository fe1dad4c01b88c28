/* SPDX-License-Identifier: Apache-2.0
 *
 * Any line of an access log: slices lie within the line or the room, and the parsed values satisfy
 * the rules that the callers rely on.
 */
#include <stdlib.h>

#include "common/base/text.h"
#include "ctl/simulate/access_line.h"
#include "tests/fuzz/fuzz.h"

static void check_slice(struct slice s, struct slice line, const char *room, size_t room_bytes)
{
    /* A missing path is the constant "/". */
    if (s.len == 0 || slice_is(s, "/"))
        return;
    bool in_line = s.p >= line.p && s.p + s.len <= line.p + line.len;
    bool in_room = s.p >= room && s.p + s.len <= room + room_bytes;

    ASSERT(in_line || in_room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice line = {(const char *)data, size};
    size_t room_bytes = size + ACCESS_HOST_MAX;
    char *room = xmalloc(room_bytes);
    struct access_line l;
    enum access_fault f = access_line_parse(line, room, &l);

    ASSERT((unsigned)f < ACCESS_FAULTS);
    ASSERT(access_fault_texts[f][0] != '\0');
    if (f == ACCESS_FAULT_NONE) {
        const struct slice all[] = {l.method, l.path,    l.query, l.host,
                                    l.client, l.referer, l.agent};

        for (size_t i = 0; i < ARRAY_LEN(all); ++i)
            check_slice(all[i], line, room, room_bytes);
        ASSERT(l.method.len != 0);
        ASSERT(slice_starts(l.path, SLICE_LIT("/")) || slice_is(l.path, "*"));
        ASSERT(slice_find(l.path, '?') == SIZE_MAX);
        ASSERT(l.host.len <= ACCESS_HOST_MAX);
        ASSERT(slice_find(l.host, '/') == SIZE_MAX);
        ASSERT(l.status >= 100);
        ASSERT(l.status <= 599);
    }
    free(room);
    return 0;
}
