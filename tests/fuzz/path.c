/* SPDX-License-Identifier: Apache-2.0
 *
 * A path. Its normalized form fits, and has no empty and no dot segment; a path that is normal is
 * not changed.
 */
#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

/* The segments of PATH, which begins with "/". */
static void check_segments(struct slice path)
{
    struct slice rest = {path.p + 1, path.len - 1};

    while (rest.len != 0) {
        struct slice segment = slice_cut(&rest, '/');

        ASSERT(segment.len != 0);
        ASSERT(!slice_is(segment, "."));
        ASSERT(!slice_is(segment, ".."));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice raw = {(const char *)data, size};
    char *out = xmalloc(size + 1);
    struct slice path = {out, path_normalize(raw, out)};

    ASSERT(path.len <= size);
    if (size != 0 && path.len != 0 && path.p[0] == '/')
        check_segments(path);
    if (path_is_normal(raw))
        ASSERT(slice_eq(path, raw));
    free(out);
    return 0;
}
