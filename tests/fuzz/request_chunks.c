/* SPDX-License-Identifier: Apache-2.0
 *
 * A body is judged the same however it is cut, and what passes is read to the same end by the more
 * lenient decoder. The first byte says into what pieces it is cut.
 */
#include "common/base/text.h"
#include "common/wire/http1_chunked.h"
#include "common/wire/http1_head.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

struct chunks_verdict {
    enum request_fault fault;
    size_t used;
    bool ended;
    uint64_t data_bytes;
    struct text data;
};

static struct chunks_verdict judge(struct slice bytes, size_t piece)
{
    struct http1_chunked c = {0};
    struct chunks_verdict v = {.fault = FAULT_NONE};
    char *copy = xmalloc(bytes.len + 1);

    if (bytes.len != 0)
        memcpy(copy, bytes.p, bytes.len);
    while (v.fault == FAULT_NONE && !v.ended && v.used < bytes.len) {
        size_t left = bytes.len - v.used;
        size_t len = left < piece ? left : piece;
        size_t used = 0;
        size_t data = 0;

        v.fault = http1_chunked_take(&c, copy + v.used, len, &used, &data, &v.ended);
        ASSERT(used <= len);
        ASSERT(used != 0);
        ASSERT(data <= used);
        text_add(&v.data, (struct slice){copy + v.used, data});
        v.used += used;
        ASSERT(memcmp(copy + v.used, bytes.p + v.used, bytes.len - v.used) == 0);
    }
    v.data_bytes = c.data_bytes;
    free(copy);
    return v;
}

static void compare_with_decoder(struct slice bytes, const struct chunks_verdict *v)
{
    struct http1_chunked d = {0};
    struct text all = {0};
    enum err e = ERR_OK;
    size_t at = 0;

    while (e == ERR_OK && at < bytes.len) {
        struct slice data;
        size_t used = 0;

        e = http1_chunked_decode(&d, (struct slice){bytes.p + at, bytes.len - at}, &data, &used);
        at += used;
        text_add(&all, data);
    }
    ASSERT(e == ERR_NOT_FOUND);
    ASSERT(at == v->used);
    ASSERT(all.len == v->data_bytes);
    ASSERT(slice_eq(text_slice(&all), text_slice(&v->data)));
    text_fini(&all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct slice bytes = {(const char *)data + 1, size - 1};
    struct chunks_verdict whole = judge(bytes, SIZE_MAX);
    struct chunks_verdict cut = judge(bytes, 1 + data[0] % 16);

    ASSERT(whole.fault == cut.fault);
    ASSERT(whole.used == cut.used);
    ASSERT(whole.ended == cut.ended);
    if (whole.ended)
        compare_with_decoder(bytes, &whole);
    ASSERT(!whole.ended || slice_eq(text_slice(&whole.data), text_slice(&cut.data)));
    text_fini(&whole.data);
    text_fini(&cut.data);
    return 0;
}
