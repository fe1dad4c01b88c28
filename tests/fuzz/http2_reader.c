/* SPDX-License-Identifier: Apache-2.0
 *
 * What is reported is the same however the client's bytes are cut. The first byte selects into what
 * pieces to cut, and what the owner does; what must hold for each event is checked there
 * (tests/support/http2_owner.h).
 */
#include "tests/fuzz/fuzz.h"
#include "tests/support/http2_owner.h"

enum { PIECES = 0x0f, DISCARDS = 0x10, FORGETS = 0x20, FAILS = 0x40 };

static const struct http2_reader_limits limits = {
    .block_frames = 3,
    .block_bytes = 4000,
    .list = {.list_bytes = 4000, .fields = 50},
};

static size_t piece_of(void *context)
{
    return *(const size_t *)context;
}

static enum request_fault read_all(struct http2_owner *o, struct slice bytes, size_t piece)
{
    http2_owner_start(o, &limits);
    enum request_fault f = http2_owner_read_pieces(o, bytes, piece_of, &piece);
    http2_owner_flush(o);
    if (f != FAULT_NONE)
        ASSERT(http2_error_of(f) != HTTP2_ERROR_NONE);
    return f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const struct http2_owner usual = {.discards = (data[0] & DISCARDS) != 0,
                                      .forgets = (data[0] & FORGETS) != 0,
                                      .fails_after = (data[0] & FAILS) != 0 ? 8 : 0};
    struct http2_owner whole = usual;
    struct http2_owner cut = usual;
    struct slice bytes = {(const char *)data + 1, size - 1};
    enum request_fault f = read_all(&whole, bytes, SIZE_MAX);

    ASSERT(read_all(&cut, bytes, 1 + (data[0] & PIECES)) == f);
    ASSERT(slice_eq(text_slice(&whole.log), text_slice(&cut.log)));
    ASSERT(whole.nstreams == cut.nstreams);
    if (f == FAULT_NONE)
        ASSERT(http2_reader_phase(whole.reader) == http2_reader_phase(cut.reader));
    ASSERT(http2_reader_last_stream(whole.reader) == http2_reader_last_stream(cut.reader));
    http2_owner_finish(&cut);
    http2_owner_finish(&whole);
    return 0;
}
