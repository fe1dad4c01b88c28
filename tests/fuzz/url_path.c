/* SPDX-License-Identifier: Apache-2.0
 *
 * A request target. The normalized path begins with "/", fits its buffer and has no dot segment; a
 * path in normal form that needs no escapes is not changed.
 */
#include "common/h2o/url_path.h"

#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

/* The segments of PATH, which begins with "/". */
static void check_segments(struct slice path)
{
    struct slice rest = {path.p + 1, path.len - 1};

    while (rest.len != 0) {
        struct slice segment = slice_cut(&rest, '/');

        ASSERT(!slice_is(segment, "."));
        ASSERT(!slice_is(segment, ".."));
    }
}

static void check_again(struct slice path)
{
    char *out = xmalloc(URL_PATH_ROOM(path.len));

    if (slice_find(path, '%') == SIZE_MAX && slice_find(path, '?') == SIZE_MAX) {
        struct slice again = url_path_normalize(path, out);

        ASSERT(slice_eq(again, path));
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice target = {(const char *)data, size};
    char *out = xmalloc(URL_PATH_ROOM(size));
    struct slice path = url_path_normalize(target, out);

    ASSERT(path.len != 0);
    ASSERT(path.p[0] == '/');
    ASSERT(path.len <= URL_PATH_ROOM(size));
    check_segments(path);
    check_again(path);
    free(out);
    return 0;
}
