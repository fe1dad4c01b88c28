/* SPDX-License-Identifier: Apache-2.0
 *
 * What is written for the reader is the same however the client's bytes are cut; and who reads that
 * again writes the same once more, without a fault. The first byte says into what pieces to cut.
 */
#include "common/wire/http2_intake.h"
#include "tests/fuzz/fuzz.h"

static const struct http2_limits limits = {
    .per_second = {50, 50, 50, 50, 50, 50, 50, 50},
    .block_frames = 3,
    .block_bytes = 4000,
    .list = {.list_bytes = 4000, .fields = 50},
    .requests = 40,
    .body_bytes = 30000,
};

struct reading {
    struct text out, events;
    struct http2_room room;
    struct http2_intake *in;
};

static bool knows_all(void *context, uint32_t stream)
{
    (void)context;
    return stream != 0;
}

static enum request_fault read_all(struct reading *r, struct slice bytes, size_t piece)
{
    enum request_fault f = FAULT_NONE;
    size_t at = 0;

    r->in = http2_intake_create(&r->room, knows_all, NULL);
    while (f == FAULT_NONE && at < bytes.len) {
        size_t n = bytes.len - at < piece ? bytes.len - at : piece;
        struct http2_event e;
        struct slice left = {bytes.p + at, n};

        f = http2_intake_take(r->in, &limits, &left, 1, &r->out, &e);
        ASSERT(left.len <= n);
        ASSERT(left.len == 0 || e.kind != HTTP2_NOTHING || f != FAULT_NONE);
        ASSERT(left.p + left.len == bytes.p + at + n);
        at += n - left.len;
        if (e.kind != HTTP2_NOTHING)
            text_addf(&r->events, "%d %u %u %d\n", e.kind, e.stream, e.amount, e.fault);
    }
    text_addf(&r->events, "busy %d, requests %d\n", http2_intake_busy(r->in), (int)r->in->requests);
    return f;
}

static void finish(struct reading *r)
{
    http2_intake_destroy(r->in);
    http2_room_fini(&r->room);
    text_fini(&r->out);
    text_fini(&r->events);
}

static bool passes_whole(const struct reading *r, struct slice bytes)
{
    (void)bytes;
    return r->in->head_bytes == 0 && r->in->block_stream == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reading whole = {0};
    struct reading cut = {0};
    struct reading again = {0};

    if (size < 1)
        return 0;
    struct slice bytes = {(const char *)data + 1, size - 1};
    enum request_fault f = read_all(&whole, bytes, SIZE_MAX);

    ASSERT(read_all(&cut, bytes, 1 + data[0] % 16) == f);
    ASSERT(slice_eq(text_slice(&whole.out), text_slice(&cut.out)));
    ASSERT(slice_eq(text_slice(&whole.events), text_slice(&cut.events)));
    if (f == FAULT_NONE && passes_whole(&whole, bytes) && !whole.in->closing) {
        ASSERT(read_all(&again, text_slice(&whole.out), SIZE_MAX) == FAULT_NONE);
        ASSERT(slice_eq(text_slice(&whole.out), text_slice(&again.out)));
        finish(&again);
    }
    finish(&cut);
    finish(&whole);
    return 0;
}
