/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of one connection decode to the fields that were encoded, whatever sizes of the table are
 * announced between them. The input is a sequence of operations: a byte that selects one, then its
 * operands. Strings are taken from the input, so that fields recur.
 */
#include "common/wire/http2/hpack.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static const struct hpack_limits limits = {.list_bytes = SIZE_MAX, .fields = SIZE_MAX};

struct input {
    const uint8_t *data;
    size_t size, at;
};

static unsigned next_byte(struct input *in)
{
    return in->at < in->size ? in->data[in->at++] : 0;
}

/* Up to 255 times UNIT bytes, from any place of the input. */
static struct slice next_string(struct input *in, size_t unit)
{
    size_t at = next_byte(in) * in->size / 256;
    size_t len = next_byte(in) * unit;

    return (struct slice){(const char *)in->data + at, len < in->size - at ? len : in->size - at};
}

static void note(struct text *out, struct slice name, struct slice value)
{
    text_add_u64(out, name.len);
    ascii_lower_copy(text_reserve(out, name.len + 1), name);
    out->len += name.len;
    text_add_u64(out, value.len);
    text_add(out, value);
}

static void note_field(void *out, const struct hpack_field *f, bool *checked)
{
    (void)checked;
    note(out, f->name, f->value);
}

static void announce(struct hpack_encoder *e, unsigned operand)
{
    static const uint32_t sizes[] = {0, 31, 64, 100, 1024, 4095, 4096, UINT32_MAX};

    hpack_encoder_limit(e, sizes[operand % ARRAY_LEN(sizes)]);
}

static void check_block(struct hpack_encoder *e, struct hpack *reader, struct text *block,
                        struct text *expected)
{
    struct text seen = {0};
    enum request_fault r = hpack_decode(reader, text_slice(block), &limits, note_field, &seen);

    ASSERT(r == FAULT_NONE);
    ASSERT(slice_eq(text_slice(&seen), text_slice(expected)));
    ASSERT(reader->capacity == e->capacity);
    ASSERT(reader->bytes <= reader->capacity);
    text_fini(&seen);
    text_clear(block);
    text_clear(expected);
}

static void encode(struct hpack_encoder *e, struct text *block, struct text *expected,
                   struct input *in)
{
    unsigned operation = next_byte(in);

    if (operation < 128) {
        struct slice name = next_string(in, 1);
        struct slice value = next_string(in, operation < 120 ? 1 : 64);

        hpack_encoder_field(e, block, name, value);
        note(expected, name, value);
    } else {
        unsigned status = 100 + (operation - 128) * 7 % 900;
        char digits[3] = {(char)('0' + status / 100), (char)('0' + status / 10 % 10),
                          (char)('0' + status % 10)};

        hpack_encoder_status(e, block, (int)status);
        note(expected, SLICE_LIT(":status"), (struct slice){digits, sizeof(digits)});
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size, 0};
    struct hpack_encoder e;
    struct hpack reader;
    struct text block = {0};
    struct text expected = {0};

    hpack_encoder_init(&e);
    hpack_init(&reader);
    while (in.at < size) {
        for (unsigned n = next_byte(&in) % 4; n != 0; --n)
            announce(&e, next_byte(&in));
        hpack_encoder_begin(&e, &block);
        for (unsigned n = next_byte(&in) % 16; n != 0; --n)
            encode(&e, &block, &expected, &in);
        check_block(&e, &reader, &block, &expected);
    }
    hpack_encoder_fini(&e);
    hpack_fini(&reader);
    text_fini(&block);
    text_fini(&expected);
    return 0;
}
