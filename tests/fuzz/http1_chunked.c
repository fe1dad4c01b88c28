/* SPDX-License-Identifier: Apache-2.0
 *
 * A chunked body gives the same bytes and the same end however it is cut. The first byte selects
 * the pieces.
 */
#include "common/wire/http1_chunked.h"
#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

struct decode_outcome {
    enum err e;
    size_t used; /* of the whole input, where the body ended */
    struct text data;
};

static struct decode_outcome decode(struct slice bytes, size_t piece)
{
    struct http1_chunked d = {0};
    struct decode_outcome o = {.e = ERR_OK};

    while (o.e == ERR_OK && o.used < bytes.len) {
        size_t left = bytes.len - o.used;
        struct slice in = {bytes.p + o.used, left < piece ? left : piece};
        struct slice data = SLICE_NULL;
        size_t used = 0;

        o.e = http1_chunked_decode(&d, in, &data, &used);
        if (o.e != ERR_OK && o.e != ERR_NOT_FOUND)
            break;
        ASSERT(used <= in.len);
        ASSERT(used != 0 || o.e == ERR_NOT_FOUND);
        ASSERT(data.len <= used);
        if (data.len != 0) {
            ASSERT(data.p >= in.p);
            ASSERT(data.p + data.len <= in.p + in.len);
        }
        text_add(&o.data, data);
        o.used += used;
    }
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct slice bytes = {(const char *)data + 1, size - 1};
    struct decode_outcome whole = decode(bytes, SIZE_MAX);
    struct decode_outcome cut = decode(bytes, 1 + data[0] % 16);

    ASSERT(whole.e == cut.e);
    if (whole.e == ERR_OK || whole.e == ERR_NOT_FOUND) {
        ASSERT(whole.used == cut.used);
        ASSERT(slice_eq(text_slice(&whole.data), text_slice(&cut.data)));
    }
    text_fini(&whole.data);
    text_fini(&cut.data);
    return 0;
}
