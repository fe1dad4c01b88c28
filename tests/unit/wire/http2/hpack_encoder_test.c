/* SPDX-License-Identifier: Apache-2.0
 *
 * Representations byte by byte, and sequences of random blocks with changes of the table's size,
 * which two decoders must follow: that of common/wire and that of python3-hpack.
 */
#include "common/wire/http2/hpack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct hpack_limits limits = {.list_bytes = 1 << 20, .fields = 1000};

/* A connection: the encoder of one end, the decoder of the other. */
struct pair {
    struct hpack_encoder encoder;
    struct hpack decoder;
    struct text block;
};

static int pair_init(void **state)
{
    struct pair *p = xcalloc(1, sizeof(*p));

    hpack_encoder_init(&p->encoder);
    hpack_init(&p->decoder);
    *state = p;
    return 0;
}

static int pair_fini(void **state)
{
    struct pair *p = *state;

    hpack_encoder_fini(&p->encoder);
    hpack_fini(&p->decoder);
    text_fini(&p->block);
    free(p);
    return 0;
}

static void note(void *text, const struct hpack_field *f, bool *checked)
{
    (void)checked;
    text_addf(text, "%.*s=%.*s ", SLICE_FMT(f->name), SLICE_FMT(f->value));
}

static void ignore(void *context, const struct hpack_field *f, bool *checked)
{
    (void)context;
    (void)f;
    (void)checked;
}

static void begin(struct pair *p)
{
    text_clear(&p->block);
    hpack_encoder_begin(&p->encoder, &p->block);
}

static void add(struct pair *p, const char *name, const char *value)
{
    hpack_encoder_field(&p->encoder, &p->block, slice_of(name), slice_of(value));
}

static void assert_bytes(const struct pair *p, struct slice bytes)
{
    assert_int_equal(p->block.len, bytes.len);
    assert_memory_equal(p->block.p, bytes.p, bytes.len);
}

static void assert_decodes(struct pair *p, const char *fields)
{
    struct text seen = {0};

    assert_int_equal(hpack_decode(&p->decoder, text_slice(&p->block), &limits, note, &seen),
                     FAULT_NONE);
    assert_string_equal(text_cstr(&seen), fields);
    text_fini(&seen);
}

static void field_is_inserted_when_it_occurs_for_the_second_time(void **state)
{
    struct pair *p = *state;

    begin(p);
    hpack_encoder_status(&p->encoder, &p->block, 200);
    add(p, "Cache-Control", "no-cache");
    /* RFC 7541 C.4.2 has the same value, coded. */
    assert_bytes(p, SLICE_LIT("\x88\x0f\x09\x86\xa8\xeb\x10\x64\x9c\xbf"));
    assert_decodes(p, ":status=200 cache-control=no-cache ");
    begin(p);
    add(p, "cache-control", "no-cache");
    assert_bytes(p, SLICE_LIT("\x58\x86\xa8\xeb\x10\x64\x9c\xbf"));
    assert_decodes(p, "cache-control=no-cache ");
    begin(p);
    add(p, "CACHE-CONTROL", "no-cache");
    assert_bytes(p, SLICE_LIT("\xbe"));
    assert_decodes(p, "cache-control=no-cache ");
    assert_int_equal(p->decoder.count, 1);
}

static void value_that_does_not_recur_stays_out_of_the_table(void **state)
{
    struct pair *p = *state;

    for (int i = 0; i < 50; ++i) {
        char value[16];

        snprintf(value, sizeof(value), "%d", i);
        begin(p);
        add(p, "x-id", value);
        char fields[32];
        snprintf(fields, sizeof(fields), "x-id=%d ", i);
        assert_decodes(p, fields);
    }
    /* A wrong guess is possible, with a probability of less than 50 in HPACK_SEEN_BITS each. */
    assert_true(p->decoder.count < 25);
}

static void credentials_are_never_indexed(void **state)
{
    struct pair *p = *state;

    for (int i = 0; i < 3; ++i) {
        begin(p);
        add(p, "Set-Cookie", "a=b; Path=/");
        assert_int_equal((unsigned char)p->block.p[0], 0x1f);
        assert_int_equal(p->block.p[1], 55 - 15);
        assert_decodes(p, "set-cookie=a=b; Path=/ ");
        begin(p);
        add(p, "authorization", "x");
        assert_int_equal((unsigned char)p->block.p[0], 0x1f);
        assert_decodes(p, "authorization=x ");
    }
    assert_int_equal(p->decoder.count, 0);
}

static void status_is_one_byte_or_a_field(void **state)
{
    struct pair *p = *state;

    for (int status = 100; status <= 999; ++status) {
        char fields[24];

        begin(p);
        hpack_encoder_status(&p->encoder, &p->block, status);
        snprintf(fields, sizeof(fields), ":status=%d ", status);
        assert_decodes(p, fields);
    }
    begin(p);
    hpack_encoder_status(&p->encoder, &p->block, 404);
    assert_bytes(p, SLICE_LIT("\x8d"));
}

static void size_changes_are_signaled_by_the_next_block(void **state)
{
    struct pair *p = *state;

    hpack_encoder_limit(&p->encoder, 65536);
    hpack_encoder_limit(&p->encoder, UINT32_MAX);
    begin(p);
    assert_bytes(p, SLICE_NULL);
    /* Changed twice: the lowest size first, then the final one. */
    hpack_encoder_limit(&p->encoder, 64);
    hpack_encoder_limit(&p->encoder, 1024);
    begin(p);
    assert_bytes(p, SLICE_LIT("\x3f\x21\x3f\xe1\x07"));
    assert_decodes(p, "");
    assert_int_equal(p->decoder.capacity, 1024);
    begin(p);
    assert_bytes(p, SLICE_NULL);
    hpack_encoder_limit(&p->encoder, 0);
    begin(p);
    assert_bytes(p, SLICE_LIT("\x20"));
    hpack_encoder_limit(&p->encoder, UINT32_MAX);
    begin(p);
    assert_bytes(p, SLICE_LIT("\x3f\xe1\x1f"));
}

static void entries_that_a_lower_size_evicts_do_not_return(void **state)
{
    struct pair *p = *state;

    for (int i = 0; i < 3; ++i) {
        begin(p);
        add(p, "x-a", "1");
        assert_decodes(p, "x-a=1 ");
    }
    assert_int_equal(p->block.len, 1);
    hpack_encoder_limit(&p->encoder, 35);
    hpack_encoder_limit(&p->encoder, 4096);
    begin(p);
    add(p, "x-a", "1");
    assert_true(p->block.len > 6);
    assert_decodes(p, "x-a=1 ");
    begin(p);
    add(p, "x-a", "1");
    assert_bytes(p, SLICE_LIT("\xbe"));
}

static void name_and_value_are_compared_apart(void **state)
{
    struct pair *p = *state;

    for (int i = 0; i < 3; ++i) {
        begin(p);
        add(p, "x-a", "bc");
        add(p, "x-ab", "c");
        assert_decodes(p, "x-a=bc x-ab=c ");
    }
    /* Their hashes are the same, so the second field was inserted first. */
    assert_bytes(p, SLICE_LIT("\xbe\xbf"));
}

static void field_of_more_than_half_the_table_is_not_inserted(void **state)
{
    struct pair *p = *state;
    char value[HPACK_TABLE_BYTES / 2] = {0};

    memset(value, 'a', sizeof(value) - HPACK_FIELD_OVERHEAD);
    for (int i = 0; i < 3; ++i) {
        begin(p);
        add(p, "n", value); /* a byte too many */
        assert_int_equal(hpack_decode(&p->decoder, text_slice(&p->block), &limits, ignore, NULL),
                         FAULT_NONE);
        assert_int_equal(p->decoder.count, 0);
    }
    value[sizeof(value) - HPACK_FIELD_OVERHEAD - 1] = '\0';
    for (int i = 0; i < 3; ++i) {
        begin(p);
        add(p, "n", value);
    }
    assert_bytes(p, SLICE_LIT("\xbe"));
}

static void table_of_no_bytes_is_not_used(void **state)
{
    struct pair *p = *state;

    hpack_encoder_limit(&p->encoder, 0);
    for (int i = 0; i < 3; ++i) {
        begin(p);
        add(p, "x-a", "1");
        assert_decodes(p, "x-a=1 ");
        assert_int_equal(p->decoder.count, 0);
    }
    assert_null(p->encoder.ring);
}

static void positions_begin_again_before_they_overflow(void **state)
{
    struct pair *p = *state;

    /* As after nearly 4 GiB of insertions. */
    p->encoder.total = p->encoder.floor = UINT32_MAX - 2 * HPACK_TABLE_BYTES - 1000;
    for (int i = 0; i < 600; ++i) {
        char value[16];
        char expected[24];

        snprintf(value, sizeof(value), "%d", i / 3);
        snprintf(expected, sizeof(expected), "x-a=%s ", value);
        begin(p);
        add(p, "x-a", value);
        assert_decodes(p, expected);
        if (i % 3 == 2 && p->encoder.total > 1 + HPACK_TABLE_BYTES)
            assert_int_equal(p->block.len, 1);
    }
    assert_true(p->encoder.total < 200 * 40);
}

/* ---- random blocks ---- */

/* A decoder of python3-hpack, which reads lines. Its exit status reports whether all agreed. */
static FILE *start_python(void)
{
    FILE *f = popen("/usr/bin/python3 -B " RLB_SOURCE_DIR "/tests/support/hpack_decode.py", "w");

    assert_non_null(f);
    return f;
}

static void put_hex(FILE *to, struct slice s)
{
    for (size_t i = 0; i < s.len; ++i)
        fprintf(to, "%02x", (unsigned char)s.p[i]);
    fputc('\n', to);
}

static uint64_t seed;

static unsigned pick(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (unsigned)(seed >> 33) % n;
}

static void random_value(struct text *out)
{
    unsigned len = pick(12) == 0 ? pick(2000) : pick(40);

    text_clear(out);
    for (unsigned i = 0; i < len; ++i) /* mostly digits, and all that the decoders accept */
        text_add_char(out, (char)(pick(3) == 0 ? 0x20 + (int)pick(0x5f) : '0' + (int)pick(10)));
}

static void random_field(struct pair *p, struct text *expected)
{
    static const char *const names[] = {"Content-Type", "Date",   "Server",        "Set-Cookie",
                                        "Location",     "X-Name", "Cache-Control", "ETag",
                                        "x-another",    "Vary",   "Content-Length"};
    struct text value = {0};
    struct slice name = slice_of(names[pick(ARRAY_LEN(names))]);

    if (pick(3) == 0)
        random_value(&value);
    else
        text_add_u64(&value, pick(30)); /* likely to recur */
    hpack_encoder_field(&p->encoder, &p->block, name, text_slice(&value));
    for (size_t i = 0; i < name.len; ++i)
        text_add_char(expected, ascii_lower(name.p[i]));
    text_addf(expected, "=%.*s ", SLICE_FMT(text_slice(&value)));
    text_fini(&value);
}

static void random_sizes(struct pair *p, FILE *python)
{
    static const uint32_t sizes[] = {0, 64, 1024, 4096, 65536, UINT32_MAX};

    for (unsigned n = pick(4); n != 0; --n) {
        uint32_t size = sizes[pick(ARRAY_LEN(sizes))];

        hpack_encoder_limit(&p->encoder, size);
        fprintf(python, "size %u\n", size);
    }
}

static void random_blocks_stay_in_step_with_two_decoders(void **state)
{
    enum { BLOCKS = 10000 };
    struct pair *p = *state;
    struct text expected = {0};
    FILE *python = start_python();
    size_t indexed_bytes = 0;

    seed = 1;
    for (int i = 0; i < BLOCKS; ++i) {
        if (pick(20) == 0)
            random_sizes(p, python);
        begin(p);
        text_clear(&expected);
        int status = pick(2) == 0 ? 200 : 100 + (int)pick(900);
        hpack_encoder_status(&p->encoder, &p->block, status);
        text_addf(&expected, ":status=%d ", status);
        for (unsigned n = pick(12); n != 0; --n)
            random_field(p, &expected);
        fputs("block ", python);
        put_hex(python, text_slice(&p->block));
        fputs("expect ", python);
        put_hex(python, text_slice(&expected));
        assert_decodes(p, text_cstr(&expected));
        assert_true(p->decoder.bytes <= p->encoder.capacity);
        indexed_bytes += p->decoder.bytes;
    }
    assert_int_equal(pclose(python), 0);
    assert_true(indexed_bytes / BLOCKS > 1000);
    assert_int_equal(p->encoder.ring_bytes, HPACK_TABLE_BYTES);
    text_fini(&expected);
}

static void keep_value(void *text, const struct hpack_field *f, bool *checked)
{
    (void)checked;
    text_add(text, f->value);
}

/* VALUE as a literal, as an insertion and as an index. */
static void assert_value_survives(struct pair *p, struct slice value)
{
    for (int i = 0; i < 3; ++i) {
        struct text seen = {0};

        begin(p);
        hpack_encoder_field(&p->encoder, &p->block, SLICE_LIT("n"), value);
        assert_int_equal(
            hpack_decode(&p->decoder, text_slice(&p->block), &limits, keep_value, &seen),
            FAULT_NONE);
        assert_true(slice_eq(text_slice(&seen), value));
        text_fini(&seen);
    }
    assert_int_equal(p->block.len, 1);
}

static void every_byte_is_coded_as_decoders_know_it(void **state)
{
    struct pair *p = *state;
    char value[200];

    for (int c = 0; c < 256; ++c) {
        for (size_t n = 0; n < 9; ++n) {
            memset(value, 'e', sizeof(value));
            value[n] = (char)c;
            assert_value_survives(p, (struct slice){value, 9});
        }
        memset(value, c, sizeof(value));
        assert_value_survives(p, (struct slice){value, 3});
        assert_value_survives(p, (struct slice){value, sizeof(value)});
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, pair_init, pair_fini)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(field_is_inserted_when_it_occurs_for_the_second_time),
        TEST(value_that_does_not_recur_stays_out_of_the_table),
        TEST(credentials_are_never_indexed),
        TEST(status_is_one_byte_or_a_field),
        TEST(size_changes_are_signaled_by_the_next_block),
        TEST(entries_that_a_lower_size_evicts_do_not_return),
        TEST(name_and_value_are_compared_apart),
        TEST(field_of_more_than_half_the_table_is_not_inserted),
        TEST(table_of_no_bytes_is_not_used),
        TEST(positions_begin_again_before_they_overflow),
        TEST(random_blocks_stay_in_step_with_two_decoders),
        TEST(every_byte_is_coded_as_decoders_know_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
