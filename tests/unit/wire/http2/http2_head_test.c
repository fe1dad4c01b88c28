/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/http2/http2_head.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>

#define REQUEST "\x82\x84\x87\x41\1a" /* GET / https a, by the static table */

static const struct hpack_limits large = {.list_bytes = 1 << 20, .fields = 1000};

static void a_large_section_is_whole_and_can_be_moved(void **state)
{
    struct http2_scratch scratch = {0};
    struct text block = {0};
    struct hpack table;

    (void)state;
    text_add(&block, SLICE_LIT(REQUEST));
    for (unsigned i = 0; i < 600; ++i) {
        struct text value = {0};

        text_addf(&value, "%u-%0*u", i, (int)(i % 90), 7U);
        text_addf(&block, "%c%c%c%c", 0x40, 2, 'x', 'a' + (int)(i % 26));
        text_add_char(&block, (char)value.len);
        text_add(&block, text_slice(&value));
        text_fini(&value);
    }
    hpack_init(&table);
    struct http2_head head = {.stream = 9, .side.ended = true};
    enum request_fault malformed;
    assert_int_equal(
        http2_head_decode(&scratch, &table, text_slice(&block), &large, &head, &malformed),
        FAULT_NONE);
    assert_int_equal(malformed, FAULT_NONE);
    char *own = xmalloc(head.bytes.len);
    http2_head_move(&head, own);
    memset(scratch.bytes, 'z', scratch.room);
    assert_int_equal(head.stream, 9);
    assert_true(slice_is(head.method, "GET"));
    assert_true(slice_is(head.authority, "a"));
    assert_true(slice_is(head.path, "/"));
    assert_null(head.host.p);
    assert_int_equal(head.nfields, 600);
    assert_int_equal(head.kinds, FIELD_BIT(FIELD_OTHER));
    size_t bytes = 7 + 3 + 5 + 1 + 7 + 5 + 10 + 1 + 604 * HPACK_FIELD_OVERHEAD;
    for (unsigned i = 0; i < 600; ++i) {
        struct text value = {0};

        text_addf(&value, "%u-%0*u", i, (int)(i % 90), 7U);
        assert_int_equal(head.fields[i].name.len, 2);
        assert_int_equal(head.fields[i].name.p[1], 'a' + (int)(i % 26));
        assert_true(slice_eq(head.fields[i].value, text_slice(&value)));
        bytes += 2 + value.len;
        text_fini(&value);
    }
    assert_int_equal(head.list_bytes, bytes);
    http2_head_release(&scratch);
    assert_int_equal(scratch.room, 0); /* so much is not retained */
    http2_scratch_fini(&scratch);
    hpack_fini(&table);
    text_fini(&block);
    free(own);
}

static void memory_is_used_again_by_the_next_section(void **state)
{
    struct http2_scratch scratch = {0};
    struct hpack table;
    const char *first = NULL;

    (void)state;
    hpack_init(&table);
    for (int i = 0; i < 3; ++i) {
        struct http2_head head = {.stream = 1};
        enum request_fault malformed;

        assert_int_equal(http2_head_decode(&scratch, &table, SLICE_LIT(REQUEST "\x40\1x\1y"),
                                           &large, &head, &malformed),
                         FAULT_NONE);
        assert_int_equal(malformed, FAULT_NONE);
        assert_true(slice_is(head.fields[0].value, "y"));
        assert_true(first == NULL || first == head.bytes.p);
        first = head.bytes.p;
        http2_head_release(&scratch);
    }
    http2_scratch_fini(&scratch);
    hpack_fini(&table);
}

static void one_value_may_be_larger_than_all_before(void **state)
{
    enum { BYTES = 50000 };
    struct http2_scratch scratch = {0};
    struct http2_head head = {.stream = 1};
    struct text block = {0};
    struct hpack table;
    enum request_fault malformed;

    (void)state;
    hpack_init(&table);
    text_add(&block, SLICE_LIT(REQUEST "\0\1x\x7f"));
    for (size_t left = BYTES - 0x7f; left != 0; left >>= 7)
        text_add_char(&block, (char)((left & 0x7f) | (left >= 0x80 ? 0x80 : 0)));
    for (int i = 0; i < BYTES; ++i)
        text_add_char(&block, 'v');
    assert_int_equal(
        http2_head_decode(&scratch, &table, text_slice(&block), &large, &head, &malformed),
        FAULT_NONE);
    assert_int_equal(malformed, FAULT_NONE);
    assert_true(slice_is(head.method, "GET"));
    assert_true(slice_is(head.fields[0].name, "x"));
    assert_int_equal(head.fields[0].value.len, BYTES);
    assert_int_equal(head.fields[0].value.p[BYTES - 1], 'v');
    http2_head_release(&scratch);
    http2_scratch_fini(&scratch);
    hpack_fini(&table);
    text_fini(&block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_section_is_whole_and_can_be_moved),
        cmocka_unit_test(memory_is_used_again_by_the_next_section),
        cmocka_unit_test(one_value_may_be_larger_than_all_before),
    };

    return cmocka_run_group_tests_name("http2_head", tests, NULL, NULL);
}
