/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of one connection, each after its length in two bytes. What was decoded, put as literals,
 * decodes to the same, and so does what is written for a reader with a table; lists stay within
 * their limits, and the tables within theirs.
 */
#include "common/wire/hpack_writer.h"
#include "tests/fuzz/fuzz.h"

static const struct hpack_limits limits = {.list_bytes = 20000, .fields = 300};

/* Of one connection: what its sender says, what a reader is told, and the reader's table. */
struct both {
    struct hpack_writer writer;
    struct text literals, written;
};

static void put(void *context, const struct hpack_field *f, const struct hpack_origin *o)
{
    struct both *b = context;

    hpack_put_literal(&b->literals, f);
    hpack_write(&b->writer, &b->written, f, o);
}

static void put_literal(void *out, const struct hpack_field *f, const struct hpack_origin *o)
{
    (void)o;
    hpack_put_literal(out, f);
}

/* BLOCK must say what LITERALS do. */
static void check_again(struct hpack *reader, struct slice block, struct slice literals)
{
    struct text again = {0};
    enum hpack_result r = hpack_decode(reader, block, &limits, put_literal, &again);

    ASSERT(r == HPACK_OK);
    ASSERT(slice_eq(text_slice(&again), literals));
    ASSERT(reader->bytes <= HPACK_TABLE_BYTES);
    text_fini(&again);
}

/* Of what was decoded before a fault the reader gets nothing. */
static void check_block(struct both *b, struct hpack *reader, enum hpack_result r, bool drop)
{
    struct hpack fresh;

    hpack_init(&fresh);
    if (r == HPACK_OK)
        check_again(&fresh, text_slice(&b->literals), text_slice(&b->literals));
    ASSERT(fresh.count == 0);
    hpack_fini(&fresh);
    if (r == HPACK_OK && !drop)
        check_again(reader, text_slice(&b->written), text_slice(&b->literals));
    else
        hpack_writer_forget(&b->writer);
}

/* A block whose length is odd is one that the reader does not get. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hpack h;
    struct hpack reader;
    struct both b = {0};
    enum hpack_result r = HPACK_OK;
    size_t at = 0;

    hpack_init(&h);
    hpack_init(&reader);
    while (r == HPACK_OK && size - at >= 2) {
        size_t len = (size_t)data[at] << 8 | data[at + 1];

        at += 2;
        len = len < size - at ? len : size - at;
        struct slice block = {(const char *)data + at, len};
        text_clear(&b.literals);
        text_clear(&b.written);
        r = hpack_decode(&h, block, &limits, put, &b);
        at += len;
        ASSERT(h.bytes <= h.capacity);
        ASSERT(h.capacity <= HPACK_TABLE_BYTES);
        check_block(&b, &reader, r, len % 2 != 0);
    }
    text_fini(&b.literals);
    text_fini(&b.written);
    hpack_fini(&h);
    hpack_fini(&reader);
    return 0;
}
