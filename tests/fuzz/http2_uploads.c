/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies are followed the same however their frames are cut. The first byte says into what pieces.
 */
#include "common/wire/http2_uploads.h"
#include "tests/fuzz/fuzz.h"

static void follow(struct http2_uploads *u, struct slice bytes, size_t piece)
{
    for (size_t at = 0; at < bytes.len; at += piece) {
        size_t left = bytes.len - at;

        http2_uploads_follow(u, (struct slice){bytes.p + at, left < piece ? left : piece}, 1);
        ASSERT(u->n <= HTTP2_UPLOADS_MAX);
        ASSERT(u->head_bytes <= sizeof(u->head));
        if (left <= piece)
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct slice bytes = {(const char *)data + 1, size - 1};
    struct http2_uploads whole = {0};
    struct http2_uploads cut = {0};

    follow(&whole, bytes, SIZE_MAX);
    follow(&cut, bytes, 1 + data[0] % 16);
    ASSERT(whole.n == cut.n);
    ASSERT(whole.left == cut.left);
    ASSERT(http2_uploads_between_frames(&whole) == http2_uploads_between_frames(&cut));
    for (size_t i = 0; i < whole.n; ++i) {
        ASSERT(whole.items[i].stream == cut.items[i].stream);
        ASSERT(whole.items[i].bytes == cut.items[i].bytes);
    }
    http2_uploads_fini(&whole);
    http2_uploads_fini(&cut);
    return 0;
}
