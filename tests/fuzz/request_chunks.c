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

struct verdict {
    enum request_fault fault;
    size_t used;
    bool ended;
    uint64_t data_bytes;
};

static struct verdict judge(struct slice bytes, size_t piece)
{
    struct http1_chunked c = {0};
    struct verdict v = {.fault = FAULT_NONE};

    while (v.fault == FAULT_NONE && !v.ended && v.used < bytes.len) {
        size_t left = bytes.len - v.used;
        struct slice in = {bytes.p + v.used, left < piece ? left : piece};
        size_t used = 0;

        v.fault = http1_chunked_check(&c, in, &used, &v.ended);
        ASSERT(used <= in.len);
        ASSERT(used != 0);
        v.used += used;
    }
    v.data_bytes = c.data_bytes;
    return v;
}

/* In pieces of N. Of no more than the decoder gets. */
static void compare_with_strip(struct slice bytes, struct slice data, size_t n)
{
    struct http1_chunked c = {0};
    char *copy = xmalloc(bytes.len + 1);
    size_t kept = 0;

    memcpy(copy, bytes.p, bytes.len);
    for (size_t at = 0; at < bytes.len; at += n) {
        size_t len = bytes.len - at < n ? bytes.len - at : n;
        size_t got = http1_chunked_strip(&c, copy + at, len);

        ASSERT(got <= data.len - kept);
        ASSERT(got == 0 || memcmp(copy + at, data.p + kept, got) == 0);
        kept += got;
    }
    ASSERT(kept == data.len);
    free(copy);
}

static void compare_with_decoder(struct slice bytes, size_t end, uint64_t data_bytes, size_t n)
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
        data_bytes -= data.len;
        text_add(&all, data);
    }
    ASSERT(data_bytes == 0);
    ASSERT(e == ERR_NOT_FOUND);
    ASSERT(at == end);
    compare_with_strip((struct slice){bytes.p, end}, text_slice(&all), n);
    text_fini(&all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct slice bytes = {(const char *)data + 1, size - 1};
    struct verdict whole = judge(bytes, SIZE_MAX);
    struct verdict cut = judge(bytes, 1 + data[0] % 16);

    ASSERT(whole.fault == cut.fault);
    ASSERT(whole.used == cut.used);
    ASSERT(whole.ended == cut.ended);
    if (whole.ended)
        compare_with_decoder(bytes, whole.used, whole.data_bytes, 1 + data[0] % 16);
    return 0;
}
