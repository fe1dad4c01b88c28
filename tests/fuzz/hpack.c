/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of one connection, each after its length in two bytes. What was decoded, put as literals,
 * decodes to the same; lists stay within their limits, and the table within its.
 */
#include "common/wire/hpack.h"
#include "tests/fuzz/fuzz.h"

static const struct hpack_limits limits = {.list_bytes = 20000, .fields = 300};

static void put(void *out, const struct hpack_field *f)
{
    hpack_put_literal(out, f);
}

static void check_again(struct slice literals)
{
    struct hpack fresh;
    struct text again = {0};

    hpack_init(&fresh);
    enum hpack_result r = hpack_decode(&fresh, literals, &limits, put, &again);
    ASSERT(r == HPACK_OK);
    ASSERT(slice_eq(text_slice(&again), literals));
    ASSERT(fresh.count == 0);
    hpack_fini(&fresh);
    text_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hpack h;
    size_t at = 0;

    hpack_init(&h);
    while (size - at >= 2) {
        size_t len = (size_t)data[at] << 8 | data[at + 1];
        struct text literals = {0};

        at += 2;
        len = len < size - at ? len : size - at;
        struct slice block = {(const char *)data + at, len};
        enum hpack_result r = hpack_decode(&h, block, &limits, put, &literals);
        at += len;
        ASSERT(h.bytes <= h.capacity);
        ASSERT(h.capacity <= HPACK_TABLE_BYTES);
        if (r != HPACK_MALFORMED)
            check_again(text_slice(&literals));
        text_fini(&literals);
        if (r != HPACK_OK)
            break;
    }
    hpack_fini(&h);
    return 0;
}
