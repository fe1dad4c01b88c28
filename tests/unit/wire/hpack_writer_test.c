/* SPDX-License-Identifier: Apache-2.0
 *
 * A reader with a table of its own understands what is written for it, whatever the sender's table
 * has been through; tests/fuzz/hpack.c has more of that.
 */
#include "common/wire/hpack_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct hpack_limits limits = {.list_bytes = 100000, .fields = 300};

struct talk {
    struct hpack sender, reader;
    struct hpack_writer writer;
    struct text said, written, understood;
};

static void note_said(void *context, const struct hpack_field *f, const struct hpack_origin *o)
{
    struct talk *t = context;

    text_addf(&t->said, "%.*s=%.*s ", SLICE_FMT(f->name), SLICE_FMT(f->value));
    hpack_write(&t->writer, &t->written, f, o);
}

static void note_understood(void *context, const struct hpack_field *f,
                            const struct hpack_origin *o)
{
    struct talk *t = context;

    (void)o;
    text_addf(&t->understood, "%.*s=%.*s ", SLICE_FMT(f->name), SLICE_FMT(f->value));
}

static void start(struct talk *t)
{
    *t = (struct talk){0};
    hpack_init(&t->sender);
    hpack_init(&t->reader);
}

static void finish(struct talk *t)
{
    hpack_fini(&t->sender);
    hpack_fini(&t->reader);
    text_fini(&t->said);
    text_fini(&t->written);
    text_fini(&t->understood);
}

/* The sender's BLOCK, which the reader gets if PASS. */
static void say(struct talk *t, struct slice block, bool pass)
{
    text_clear(&t->said);
    text_clear(&t->written);
    text_clear(&t->understood);
    assert_int_equal(hpack_decode(&t->sender, block, &limits, note_said, t), HPACK_OK);
    if (!pass) {
        hpack_writer_forget(&t->writer);
        return;
    }
    assert_int_equal(hpack_decode(&t->reader, text_slice(&t->written), &limits, note_understood, t),
                     HPACK_OK);
    assert_string_equal(text_cstr(&t->understood), text_cstr(&t->said));
}

static void assert_written(const struct talk *t, struct slice want)
{
    assert_int_equal(t->written.len, want.len);
    assert_memory_equal(t->written.p, want.p, want.len);
}

static void a_field_is_told_once_and_then_by_its_index(void **state)
{
    struct talk t;

    (void)state;
    start(&t);
    say(&t, SLICE_LIT("\x82\x40\1a\1b\x41\1c\0\1d\1e"), true);
    assert_written(&t, SLICE_LIT("\x82\x40\1a\1b\x41\1c\0\1d\1e"));
    say(&t, SLICE_LIT("\xbf\xbe"), true);
    assert_written(&t, SLICE_LIT("\xbf\xbe"));
    finish(&t);
}

static void a_huffman_coded_string_is_written_as_it_is(void **state)
{
    struct talk t;

    (void)state;
    start(&t);
    say(&t, SLICE_LIT("\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"), true);
    assert_written(&t, SLICE_LIT("\x41\x0fwww.example.com"));
    finish(&t);
}

static void a_block_that_the_reader_does_not_get_changes_nothing_for_it(void **state)
{
    struct talk t;

    (void)state;
    start(&t);
    say(&t, SLICE_LIT("\x40\1a\1b"), true);
    say(&t, SLICE_LIT("\x40\1c\1d\xbf"), false);
    say(&t, SLICE_LIT("\xbf\xbe"), true);
    assert_string_equal(text_cstr(&t.understood), "a=b c=d ");
    assert_written(&t, SLICE_LIT("\x40\1a\1b\x40\1c\1d"));
    say(&t, SLICE_LIT("\xbf\xbe"), true);
    assert_written(&t, SLICE_LIT("\xbf\xbe"));
    finish(&t);
}

static void the_reader_keeps_what_the_sender_has_dropped(void **state)
{
    struct talk t;

    (void)state;
    start(&t);
    say(&t, SLICE_LIT("\x40\1a\1b"), true);
    say(&t, SLICE_LIT("\x20\x3f\xe1\x1f\x40\1c\1d"), true); /* a table of nothing, then of 4096 */
    assert_int_equal(t.sender.count, 1);
    assert_int_equal(t.reader.count, 2);
    say(&t, SLICE_LIT("\xbe"), true);
    finish(&t);
}

/* Long enough for both tables to be full many times, at moments of their own. */
static void both_tables_may_overflow(void **state)
{
    struct talk t;
    struct text block = {0};

    (void)state;
    start(&t);
    srand(7);
    for (int i = 0; i < 20000; ++i) {
        text_clear(&block);
        if (rand() % 97 == 0)
            text_add(&block, SLICE_LIT("\x3f\xe1\x07\x3f\xe1\x1f")); /* 1024, then 4096 */
        for (int n = rand() % 6; n > 0; --n) {
            int len = rand() % 9 == 0 ? 100 : rand() % 20;

            text_add_char(&block, rand() % 5 == 0 ? '\0' : '\x40');
            text_addf(&block, "%c%c%c", 1, 'a' + rand() % 26, len);
            for (int k = 0; k < len; ++k)
                text_add_char(&block, (char)('a' + rand() % 26));
        }
        for (size_t n = t.sender.count != 0 ? (size_t)rand() % 8 : 0; n > 0; --n)
            if (block.len == 0)
                text_add_char(&block, (char)(0x80 | (62 + (size_t)rand() % t.sender.count % 60)));
        say(&t, text_slice(&block), rand() % 50 != 0);
        assert_true(t.reader.bytes <= HPACK_TABLE_BYTES);
    }
    assert_true(t.writer.bytes > 100 * HPACK_TABLE_BYTES);
    text_fini(&block);
    finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_is_told_once_and_then_by_its_index),
        cmocka_unit_test(a_huffman_coded_string_is_written_as_it_is),
        cmocka_unit_test(a_block_that_the_reader_does_not_get_changes_nothing_for_it),
        cmocka_unit_test(the_reader_keeps_what_the_sender_has_dropped),
        cmocka_unit_test(both_tables_may_overflow),
    };

    return cmocka_run_group_tests_name("hpack_writer", tests, NULL, NULL);
}
