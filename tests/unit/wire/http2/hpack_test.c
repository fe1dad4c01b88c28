/* SPDX-License-Identifier: Apache-2.0
 *
 * The examples of RFC 7541 appendix C, and what must not decode.
 */
#include "common/wire/http2/hpack.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct hpack_limits limits = {.list_bytes = 1000, .fields = 10};

static void note(void *text, const struct hpack_field *f, bool *checked)
{
    (void)checked;
    text_addf(text, "%.*s=%.*s ", SLICE_FMT(f->name), SLICE_FMT(f->value));
}

static enum request_fault decode(struct hpack *h, struct slice block, const char *fields)
{
    struct text seen = {0};
    enum request_fault r = hpack_decode(h, block, &limits, note, &seen);

    assert_string_equal(text_cstr(&seen), fields);
    text_fini(&seen);
    return r;
}

static void requests_with_the_huffman_code_decode_as_the_standard_states(void **state)
{
    struct hpack h;

    (void)state;
    hpack_init(&h);
    assert_int_equal(decode(&h,
                            SLICE_LIT("\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90"
                                      "\xf4\xff"),
                            ":method=GET :scheme=http :path=/ :authority=www.example.com "),
                     FAULT_NONE);
    assert_int_equal(h.bytes, 57);
    assert_int_equal(decode(&h, SLICE_LIT("\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf"),
                            ":method=GET :scheme=http :path=/ :authority=www.example.com "
                            "cache-control=no-cache "),
                     FAULT_NONE);
    assert_int_equal(decode(&h,
                            SLICE_LIT("\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f"
                                      "\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf"),
                            ":method=GET :scheme=https :path=/index.html "
                            ":authority=www.example.com custom-key=custom-value "),
                     FAULT_NONE);
    assert_int_equal(h.bytes, 164);
    assert_int_equal(h.count, 3);
    hpack_fini(&h);
}

static void blocks_that_the_standard_forbids_are_malformed(void **state)
{
    static const struct slice blocks[] = {
        {"\x80", 1}, /* index 0 */
        {"\xbe", 1}, /* of an empty table */
        {"\xff\x80\x80\x80\x80\x80\x80\x1", 8},
        {"\xff\x80", 2},                  /* cut short */
        {"\x40", 1},                      /* no name */
        {"\0\1a", 3},                     /* no value */
        {"\0\1a\5b", 5},                  /* value cut short */
        {"\x3f\xe2\x1f", 3},              /* a table of 4097 */
        {"\x82\x20", 2},                  /* its size after a field */
        {"\x20\x20\x20", 3},              /* too often */
        {"\0\1a\x82\x1f\xff", 6},         /* padding of 11 bits */
        {"\0\1a\x81\x18", 5},             /* of zeros */
        {"\0\1a\x84\xff\xff\xff\xff", 8}, /* EOS */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(blocks); ++i) {
        struct hpack h;
        struct text seen = {0};

        hpack_init(&h);
        assert_int_equal(hpack_decode(&h, blocks[i], &limits, note, &seen),
                         FAULT_HTTP2_COMPRESSION);
        hpack_fini(&h);
        text_fini(&seen);
    }
}

static void every_byte_can_be_huffman_coded(void **state)
{
    /* \377 has a code of 26 bits, 'a' one of 5, '{' one of 15: all lengths are found by bits. */
    struct hpack h;

    (void)state;
    hpack_init(&h);
    assert_int_equal(decode(&h, SLICE_LIT("\0\1a\x84\xff\xff\xfb\xbf"), "a=\377 "), FAULT_NONE);
    assert_int_equal(decode(&h, SLICE_LIT("\0\1a\x82\xff\xfd"), "a={ "), FAULT_NONE);
    assert_int_equal(decode(&h, SLICE_LIT("\0\1a\x80"), "a= "), FAULT_NONE);
    hpack_fini(&h);
}

static void a_small_block_does_not_become_a_large_list(void **state)
{
    struct hpack h;
    struct text block = {0};
    struct text seen = {0};

    (void)state;
    hpack_init(&h);
    text_add(&block, SLICE_LIT("\x40\1x\x7f\x49")); /* a value of 200 bytes */
    for (int i = 0; i < 200; ++i)
        text_add_char(&block, 'y');
    for (int i = 0; i < 100; ++i)
        text_add_char(&block, (char)0xbe);
    assert_int_equal(hpack_decode(&h, text_slice(&block), &limits, note, &seen),
                     FAULT_HEADERS_TOO_LARGE);
    assert_int_equal(seen.len, 4 * 203); /* of 233 each, as lists are counted */
    assert_int_equal(decode(&h, SLICE_LIT("\x82\x82\x82\x82\x82\x82\x82\x82\x82\x82\x82"),
                            ":method=GET :method=GET :method=GET :method=GET :method=GET "
                            ":method=GET :method=GET :method=GET :method=GET :method=GET "),
                     FAULT_HEADERS_TOO_LARGE);
    hpack_fini(&h);
    text_fini(&block);
    text_fini(&seen);
}

static void the_table_keeps_what_fits_into_it(void **state)
{
    struct hpack h;

    (void)state;
    hpack_init(&h);
    /* 70 bytes of table: two entries of 34 each. */
    assert_int_equal(decode(&h, SLICE_LIT("\x3f\x27\x40\1a\1b\x40\1c\1d\x40\1e\1f\xbe\xbf"),
                            "a=b c=d e=f e=f c=d "),
                     FAULT_NONE);
    assert_int_equal(h.count, 2);
    assert_int_equal(decode(&h, SLICE_LIT("\xc0"), ""), FAULT_HTTP2_COMPRESSION);
    /* Its name is that of an entry which makes room for it. */
    assert_int_equal(decode(&h, SLICE_LIT("\x3f\3\x7e\1g\xbe"), "e=g e=g "), FAULT_NONE);
    hpack_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_with_the_huffman_code_decode_as_the_standard_states),
        cmocka_unit_test(blocks_that_the_standard_forbids_are_malformed),
        cmocka_unit_test(every_byte_can_be_huffman_coded),
        cmocka_unit_test(a_small_block_does_not_become_a_large_list),
        cmocka_unit_test(the_table_keeps_what_fits_into_it),
    };

    return cmocka_run_group_tests_name("hpack", tests, NULL, NULL);
}
