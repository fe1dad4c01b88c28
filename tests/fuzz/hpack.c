/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of one connection, each after its length in two bytes. What was decoded, put as literals,
 * decodes to the same, and so does what the encoder makes of it for a reader with a table; lists
 * stay within their limits, and the tables within theirs.
 */
#include "common/wire/http2/hpack.h"
#include "tests/fuzz/fuzz.h"

static const struct hpack_limits limits = {.list_bytes = 20000, .fields = 300};

/* Of one connection: what its sender sends, and what a reader gets. */
struct both {
    struct hpack_encoder encoder;
    struct text literals, written;
    bool capitals; /* which the encoder changes */
};

/* RFC 7541 section 5.2, without Huffman coding. */
static void put_string(struct text *out, struct slice s)
{
    size_t left = s.len;

    if (left < 0x7f) {
        text_add_char(out, (char)left);
    } else {
        text_add_char(out, 0x7f);
        for (left -= 0x7f; left >= 0x80; left >>= 7)
            text_add_char(out, (char)(left | 0x80));
        text_add_char(out, (char)left);
    }
    text_add(out, s);
}

/* A field that is stored in no table (section 6.2.2). */
static void hpack_put_literal(struct text *out, const struct hpack_field *f)
{
    text_add_char(out, 0);
    put_string(out, f->name);
    put_string(out, f->value);
}

static bool has_capitals(struct slice name)
{
    for (size_t i = 0; i < name.len; ++i) {
        if (name.p[i] >= 'A' && name.p[i] <= 'Z')
            return true;
    }
    return false;
}

static void put(void *context, const struct hpack_field *f, bool *checked)
{
    struct both *b = context;

    (void)checked;
    b->capitals |= has_capitals(f->name);
    hpack_put_literal(&b->literals, f);
    hpack_encoder_field(&b->encoder, &b->written, f->name, f->value);
}

static void put_literal(void *out, const struct hpack_field *f, bool *checked)
{
    (void)checked;
    hpack_put_literal(out, f);
}

/* BLOCK must decode to the same as LITERALS. */
static void check_again(struct hpack *reader, struct slice block, struct slice literals)
{
    struct text again = {0};
    enum request_fault r = hpack_decode(reader, block, &limits, put_literal, &again);

    ASSERT(r == FAULT_NONE);
    ASSERT(slice_eq(text_slice(&again), literals));
    ASSERT(reader->bytes <= HPACK_TABLE_BYTES);
    text_fini(&again);
}

static void check_block(struct both *b, struct hpack *reader, enum request_fault r)
{
    struct text ignored = {0};
    struct hpack fresh;

    hpack_init(&fresh);
    if (r == FAULT_NONE)
        check_again(&fresh, text_slice(&b->literals), text_slice(&b->literals));
    ASSERT(fresh.count == 0);
    hpack_fini(&fresh);
    if (r == FAULT_NONE && !b->capitals) {
        check_again(reader, text_slice(&b->written), text_slice(&b->literals));
        return;
    }
    /* The reader's table has to follow all the same. */
    enum request_fault again =
        hpack_decode(reader, text_slice(&b->written), &limits, put_literal, &ignored);
    ASSERT(again == FAULT_NONE || r != FAULT_NONE);
    text_fini(&ignored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hpack h;
    struct hpack reader;
    struct both b = {0};
    enum request_fault r = FAULT_NONE;
    size_t at = 0;

    hpack_init(&h);
    hpack_init(&reader);
    hpack_encoder_init(&b.encoder);
    while (r == FAULT_NONE && size - at >= 2) {
        size_t len = (size_t)data[at] << 8 | data[at + 1];

        at += 2;
        len = len < size - at ? len : size - at;
        struct slice block = {(const char *)data + at, len};
        text_clear(&b.literals);
        text_clear(&b.written);
        b.capitals = false;
        hpack_encoder_begin(&b.encoder, &b.written);
        r = hpack_decode(&h, block, &limits, put, &b);
        at += len;
        ASSERT(h.bytes <= h.capacity);
        ASSERT(h.capacity <= HPACK_TABLE_BYTES);
        check_block(&b, &reader, r);
    }
    hpack_encoder_fini(&b.encoder);
    text_fini(&b.literals);
    text_fini(&b.written);
    hpack_fini(&h);
    hpack_fini(&reader);
    return 0;
}
