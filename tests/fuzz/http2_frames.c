/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames are counted the same however they are cut. The first byte says into what pieces.
 */
#include "common/wire/http2_frames.h"
#include "tests/fuzz/fuzz.h"

static const struct http2_frame_limits limits = {
    .per_second = {5, 5, 5, 5, 5, 5, 5, 5},
    .block_frames = 3,
    .block_bytes = 100,
};

static enum request_fault judge(struct slice bytes, size_t piece, struct http2_frames *m)
{
    enum request_fault f = FAULT_NONE;
    size_t at = 0;

    while (f == FAULT_NONE && at < bytes.len) {
        size_t left = bytes.len - at;
        struct slice in = {bytes.p + at, left < piece ? left : piece};

        f = http2_frames_check(m, &limits, in, 1);
        at += in.len;
        ASSERT(m->head_bytes < sizeof(m->head));
        for (int k = 0; k < HTTP2_KINDS; ++k)
            ASSERT(m->counts[k] <= limits.per_second[k] + 1);
    }
    return f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct slice bytes = {(const char *)data + 1, size - 1};
    struct http2_frames whole = {0};
    struct http2_frames cut = {0};
    enum request_fault f = judge(bytes, SIZE_MAX, &whole);

    ASSERT(judge(bytes, 1 + data[0] % 16, &cut) == f);
    ASSERT(whole.left == cut.left || f != FAULT_NONE);
    ASSERT(memcmp(whole.counts, cut.counts, sizeof(whole.counts)) == 0);
    return 0;
}
