/* SPDX-License-Identifier: Apache-2.0
 *
 * What the reader gets of what a client sends; tests/e2e/http2_cases.py has the standard, row by
 * row.
 */
#include "common/wire/http2_intake.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\4\0\0\0\0\0"
#define REQUEST "\x82\x84\x87\x41\1a" /* GET / https a, by the static table */

static const struct http2_limits limits = {
    .per_second = {10, 10, 10, 10, 10, 10, 10, 10},
    .block_frames = 4,
    .block_bytes = 1000,
    .list = {.list_bytes = 2000, .fields = 20},
    .requests = 3,
    .body_bytes = 100000,
    .memory_bytes = 50000,
};

struct talk {
    struct text stored; /* of any stream's body */
    uint32_t amounts;   /* of the events that had it */
    uint64_t before;
    struct http2_intake *in;
    struct http2_room room;
    struct text out;
    struct http2_event event; /* the last that was one */
    bool known;
};

static bool is_known(void *context, uint32_t stream)
{
    const struct talk *t = context;

    return t->known && stream != 0;
}

static enum request_fault hear(struct talk *t, struct slice bytes, uint64_t now_ms)
{
    enum request_fault f = FAULT_NONE;

    text_clear(&t->out);
    while (f == FAULT_NONE && bytes.len != 0) {
        struct http2_event e;

        f = http2_intake_take(t->in, &limits, &bytes, now_ms, &t->out, &e);
        if (e.kind != HTTP2_NOTHING)
            t->event = e;
        if (e.kind != HTTP2_BODY)
            continue;
        if (t->amounts == 0)
            t->before = e.before;
        t->amounts += e.amount;
        text_add(&t->stored, e.bytes);
    }
    return f;
}

static void start(struct talk *t)
{
    *t = (struct talk){.in = http2_intake_create(&t->room, is_known, t), .known = true};
    assert_int_equal(hear(t, SLICE_LIT(PREFACE SETTINGS), 0), FAULT_NONE);
    assert_true(slice_eq(text_slice(&t->out), SLICE_LIT(PREFACE SETTINGS)));
}

static void finish(struct talk *t)
{
    http2_intake_destroy(t->in);
    http2_room_fini(&t->room);
    text_fini(&t->out);
    text_fini(&t->stored);
}

static void assert_out(const struct talk *t, struct slice want)
{
    assert_int_equal(t->out.len, want.len);
    assert_memory_equal(t->out.p, want.p, want.len);
}

static void put_frame(struct text *t, unsigned type, unsigned flags, size_t len, unsigned stream)
{
    const char head[9] = {
        (char)(len >> 16), (char)(len >> 8), (char)len, (char)type, (char)flags, 0, 0, 0,
        (char)stream};

    text_add(t, (struct slice){head, sizeof(head)});
    for (size_t i = 0; i < len; ++i)
        text_add_char(t, '\6'); /* which would be a PING, were it taken for a type */
}

static void a_request_is_written_as_one_block(void **state)
{
    static const struct slice ways[] = {
        SLICE_LIT("\0\0\6\1\5\0\0\0\1" REQUEST),
        SLICE_LIT("\0\0\x9\1\x0d\0\0\0\1\2" REQUEST "\0\0"),
        SLICE_LIT("\0\0\2\1\1\0\0\0\1\x82\x84\0\0\0\x9\0\0\0\0\1\0\0\4\x9\4\0\0\0\1\x87\x41\1a"),
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ways); ++i) {
        struct talk t;

        start(&t);
        assert_int_equal(hear(&t, ways[i], 0), FAULT_NONE);
        assert_out(&t, SLICE_LIT("\0\0\6\1\5\0\0\0\1" REQUEST));
        finish(&t);
    }
}

static void extensions_and_trailers_are_left_out(void **state)
{
    struct talk t;

    (void)state;
    start(&t);
    assert_int_equal(hear(&t,
                          SLICE_LIT("\0\0\3\x42\xff\0\0\0\1abc"
                                    "\0\0\6\1\4\0\0\0\1" REQUEST "\0\0\1\0\0\0\0\0\1x"
                                    "\0\0\5\1\5\0\0\0\1\0\1a\1b"),
                          0),
                     FAULT_NONE);
    assert_out(&t, SLICE_LIT("\0\0\6\1\4\0\0\0\1" REQUEST "\0\0\1\0\0\0\0\0\1x"
                             "\0\0\0\0\1\0\0\0\1"));
    assert_false(http2_intake_busy(t.in));
    finish(&t);
}

static void a_malformed_request_is_not_written_and_its_body_given_back(void **state)
{
    struct talk t;

    (void)state;
    start(&t);
    assert_int_equal(hear(&t, SLICE_LIT("\0\0\2\1\4\0\0\0\1\x82\x84"), 0), FAULT_NONE);
    assert_out(&t, SLICE_LIT(""));
    assert_int_equal(t.event.kind, HTTP2_MALFORMED);
    assert_int_equal(t.event.fault, FAULT_PSEUDO_FIELD);
    assert_int_equal(hear(&t, SLICE_LIT("\0\0\3\0\0\0\0\0\1abc\0\0\4\3\0\0\0\0\1\0\0\0\0"), 0),
                     FAULT_NONE);
    assert_out(&t, SLICE_LIT(""));
    assert_int_equal(t.event.kind, HTTP2_SWALLOWED);
    assert_int_equal(t.event.amount, 3);
    assert_int_equal(hear(&t, SLICE_LIT("\0\0\3\0\0\0\0\0\1abc"), 0), FAULT_HTTP2_CLOSED);
    finish(&t);
}

static void what_the_reader_did_not_get_is_told_in_full_later(void **state)
{
    struct talk t;

    (void)state;
    start(&t);
    /* No path: its authority is in the client's table all the same. */
    assert_int_equal(hear(&t, SLICE_LIT("\0\0\5\1\5\0\0\0\1\x82\x87\x41\1a"), 0), FAULT_NONE);
    assert_out(&t, SLICE_LIT(""));
    assert_int_equal(hear(&t, SLICE_LIT("\0\0\4\1\5\0\0\0\3\x82\x84\x87\xbe"), 0), FAULT_NONE);
    assert_out(&t, SLICE_LIT("\0\0\6\1\5\0\0\0\3" REQUEST));
    assert_int_equal(hear(&t, SLICE_LIT("\0\0\4\1\5\0\0\0\5\x82\x84\x87\xbe"), 0), FAULT_NONE);
    assert_out(&t, SLICE_LIT("\0\0\4\1\5\0\0\0\5\x82\x84\x87\xbe"));
    finish(&t);
}

static void a_field_that_the_client_repeats_is_still_looked_at_for_what_it_means(void **state)
{
    struct talk t;

    (void)state;
    start(&t);
    /* A length of 3, in the table; then twice in one request; then where there is no body. */
    assert_int_equal(hear(&t,
                          SLICE_LIT("\0\0\x9\1\4\0\0\0\1" REQUEST "\x5c\1\x33"
                                    "\0\0\3\0\1\0\0\0\1abc"),
                          0),
                     FAULT_NONE);
    assert_int_equal(t.event.kind, HTTP2_NOTHING);
    assert_int_equal(hear(&t, SLICE_LIT("\0\0\6\1\4\0\0\0\3\x82\x84\x87\xbf\xbe\xbe"), 0),
                     FAULT_NONE);
    assert_int_equal(t.event.kind, HTTP2_MALFORMED);
    assert_int_equal(t.event.fault, FAULT_LENGTH_REPEATED);
    assert_int_equal(hear(&t, SLICE_LIT("\0\0\5\1\5\0\0\0\5\x82\x84\x87\xbf\xbe"), 0), FAULT_NONE);
    assert_int_equal(t.event.fault, FAULT_BODY_LENGTH);
    finish(&t);
}

static void a_body_that_is_too_long_is_taken_back_from_the_reader(void **state)
{
    struct talk t;

    (void)state;
    start(&t);
    assert_int_equal(hear(&t,
                          SLICE_LIT("\0\0\x0a\1\4\0\0\0\1" REQUEST "\x0f\x0d\1"
                                    "2\0\0\1\0\0\0\0\0\1x"),
                          0),
                     FAULT_NONE);
    assert_true(http2_intake_busy(t.in));
    assert_int_equal(hear(&t, SLICE_LIT("\0\0\2\0\0\0\0\0\1yz"), 0), FAULT_NONE);
    assert_out(&t, SLICE_LIT("\0\0\4\3\0\0\0\0\1\0\0\0\1"));
    assert_int_equal(t.event.kind, HTTP2_MALFORMED);
    assert_int_equal(t.event.fault, FAULT_BODY_LENGTH);
    assert_int_equal(t.event.amount, 2);
    assert_false(http2_intake_busy(t.in));
    finish(&t);
}

static void a_body_over_the_limit_is_ended_for_the_reader_and_swallowed(void **state)
{
    struct talk t;
    struct text big = {0};

    (void)state;
    start(&t);
    assert_int_equal(hear(&t,
                          SLICE_LIT("\0\0\x0f\1\4\0\0\0\1" REQUEST "\x0f\x0d\6"
                                    "100001"),
                          0),
                     FAULT_NONE);
    assert_memory_equal(t.out.p + t.out.len - 9, "\0\0\0\0\1\0\0\0\1", 9);
    assert_int_equal(http2_intake_fault(t.in, 1), FAULT_BODY_TOO_LARGE);
    assert_int_equal(hear(&t, SLICE_LIT("\0\0\6\1\4\0\0\0\3" REQUEST), 0), FAULT_NONE);
    for (int i = 0; i < 7; ++i) {
        text_clear(&big);
        put_frame(&big, 0, 0, 16384, 3);
        assert_int_equal(hear(&t, text_slice(&big), 0), FAULT_NONE);
    }
    assert_out(&t, SLICE_LIT("\0\0\0\0\1\0\0\0\3"));
    assert_int_equal(http2_intake_fault(t.in, 3), FAULT_BODY_TOO_LARGE);
    assert_int_equal(t.event.kind, HTTP2_SWALLOWED);
    assert_int_equal(t.event.amount, 16384);
    text_fini(&big);
    finish(&t);
}

static void a_body_too_large_for_memory_is_the_owners_after_its_first_frame(void **state)
{
    static const size_t pieces[] = {1, 7, 1000, SIZE_MAX};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pieces); ++i) {
        struct text bytes = {0};
        struct talk t;

        start(&t);
        /* content-length: 60000 */
        text_add(&bytes, SLICE_LIT("\0\0\xe\1\4\0\0\0\1" REQUEST "\x0f\xd\x05"
                                   "60000"));
        put_frame(&bytes, 0, 0, 15000, 1);
        put_frame(&bytes, 0, 0, 15000, 1);
        put_frame(&bytes, 0, 8, 15007, 1); /* six bytes of padding, and how many */
        put_frame(&bytes, 0, 1, 15000, 1);
        size_t ends = 0;
        for (size_t at = 0; at < bytes.len;) {
            size_t n = bytes.len - at < pieces[i] ? bytes.len - at : pieces[i];

            assert_int_equal(hear(&t, (struct slice){bytes.p + at, n}, 0), FAULT_NONE);
            at += n;
            ends += t.out.len >= 9 && memcmp(t.out.p + t.out.len - 9, "\0\0\0\0\1\0\0\0\1", 9) == 0;
        }
        assert_int_equal(ends, 1);
        assert_int_equal(t.stored.len, 45000);
        assert_int_equal(t.amounts, 45007);
        assert_int_equal(t.before, 15000);
        assert_false(http2_intake_busy(t.in));
        text_fini(&bytes);
        finish(&t);
    }
}

static void a_body_that_cannot_be_stored_is_ended_for_the_reader_and_swallowed(void **state)
{
    struct text bytes = {0};
    struct text out = {0};
    struct talk t;

    (void)state;
    start(&t);
    text_add(&bytes, SLICE_LIT("\0\0\6\1\4\0\0\0\1" REQUEST));
    for (int i = 0; i < 4; ++i)
        put_frame(&bytes, 0, 0, 16000, 1);
    assert_int_equal(hear(&t, text_slice(&bytes), 0), FAULT_NONE);
    assert_int_equal(t.event.kind, HTTP2_BODY);
    assert_int_equal(t.before, 48000);
    http2_intake_give_up(t.in, 1, FAULT_BODY_NO_ROOM, &out);
    assert_true(slice_eq(text_slice(&out), SLICE_LIT("\0\0\0\0\1\0\0\0\1")));
    assert_int_equal(http2_intake_fault(t.in, 1), FAULT_BODY_NO_ROOM);
    text_clear(&bytes);
    put_frame(&bytes, 0, 1, 16000, 1);
    assert_int_equal(hear(&t, text_slice(&bytes), 0), FAULT_NONE);
    assert_int_equal(t.out.len, 0);
    assert_int_equal(t.event.kind, HTTP2_SWALLOWED);
    assert_int_equal(t.event.amount, 16000);
    text_fini(&bytes);
    text_fini(&out);
    finish(&t);
}

static void what_comes_of_a_body_is_counted_as_it_comes(void **state)
{
    struct talk t;

    (void)state;
    start(&t);
    assert_int_equal(hear(&t, SLICE_LIT("\0\0\6\1\4\0\0\0\1" REQUEST "\0\0\4\0\1\0\0\0\1xy"), 7),
                     FAULT_NONE);
    const struct http2_stream *s = http2_streams_find(&t.in->streams, 1);
    assert_non_null(s);
    assert_int_equal(s->begun_ms, 7);
    assert_int_equal(s->bytes, 2);
    assert_int_equal(hear(&t, SLICE_LIT("z"), 8), FAULT_NONE);
    assert_int_equal(s->bytes, 3);
    assert_int_equal(hear(&t, SLICE_LIT("!"), 9), FAULT_NONE);
    assert_null(http2_streams_find(&t.in->streams, 1));
    finish(&t);
}

static void after_the_last_request_no_more_are_written(void **state)
{
    struct talk t;

    (void)state;
    start(&t);
    assert_int_equal(hear(&t,
                          SLICE_LIT("\0\0\6\1\5\0\0\0\1" REQUEST "\0\0\6\1\5\0\0\0\3" REQUEST
                                    "\0\0\6\1\5\0\0\0\5" REQUEST),
                          0),
                     FAULT_NONE);
    assert_int_equal(t.event.kind, HTTP2_LAST);
    assert_int_equal(t.event.stream, 5);
    assert_int_equal(hear(&t, SLICE_LIT("\0\0\6\1\4\0\0\0\7" REQUEST "\0\0\1\0\1\0\0\0\7x"), 0),
                     FAULT_NONE);
    assert_out(&t, SLICE_LIT(""));
    finish(&t);
}

static void streams_that_the_reader_has_ended_are_forgotten_for_new_ones(void **state)
{
    struct http2_streams s = {.is_known = is_known};
    struct talk t = {.known = true};

    (void)state;
    s.context = &t;
    for (uint32_t i = 0; i < HTTP2_OPEN_MAX; ++i)
        assert_non_null(http2_streams_add(&s, 2 * i + 1, 0));
    assert_null(http2_streams_add(&s, 9999, 0));
    assert_true(http2_streams_busy(&s));
    t.known = false;
    assert_false(http2_streams_busy(&s));
    assert_non_null(http2_streams_add(&s, 9999, 0));
    assert_int_equal(s.nopen, 1);
    assert_null(http2_streams_find(&s, 1));
    http2_streams_fini(&s);
}

static void each_kind_of_frame_is_limited_by_itself(void **state)
{
    static const struct {
        unsigned type, flags;
        size_t len;
        enum request_fault fault;
    } kinds[] = {
        {6, 0, 8, FAULT_FRAMES_PING},
        {4, 1, 0, FAULT_FRAMES_SETTINGS},
        {0, 0, 0, FAULT_FRAMES_EMPTY_DATA},
        {2, 0, 5, FAULT_FRAMES_PRIORITY},
        {8, 0, 4, FAULT_FRAMES_WINDOW_UPDATE},
        {3, 0, 4, FAULT_FRAMES_RST_STREAM},
        {16, 0, 7, FAULT_FRAMES_UNKNOWN},
        {5, 0, 7, FAULT_FRAMES_UNKNOWN},
        {0, 1, 0, FAULT_NONE},
        {0, 0, 1, FAULT_NONE},
        {1, 4, 20, FAULT_NONE},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(kinds); ++i) {
        struct http2_meter m = {0};
        enum request_fault f = FAULT_NONE;

        for (int n = 0; n < 10; ++n) {
            f = http2_meter_count(&m, limits.per_second, kinds[i].type, kinds[i].flags,
                                  kinds[i].len, 5000);
            assert_int_equal(f, FAULT_NONE);
        }
        /* A second later as many again. */
        struct http2_meter later = m;
        f = http2_meter_count(&later, limits.per_second, kinds[i].type, kinds[i].flags,
                              kinds[i].len, 6000);
        assert_int_equal(f, FAULT_NONE);
        f = http2_meter_count(&m, limits.per_second, kinds[i].type, kinds[i].flags, kinds[i].len,
                              5999);
        assert_int_equal(f, kinds[i].fault);
    }
}

static void header_blocks_end(void **state)
{
    struct text bytes = {0};
    struct talk t;

    (void)state;
    start(&t);
    put_frame(&bytes, 1, 0, 10, 1);
    for (int k = 0; k < 4; ++k)
        put_frame(&bytes, 9, 0, 10, 1);
    assert_int_equal(hear(&t, text_slice(&bytes), 1000), FAULT_NONE);
    text_clear(&bytes);
    put_frame(&bytes, 9, 0, 0, 1);
    assert_int_equal(hear(&t, text_slice(&bytes), 3000), FAULT_FRAMES_CONTINUATION);
    finish(&t);

    start(&t);
    text_clear(&bytes);
    put_frame(&bytes, 1, 0, 500, 1);
    put_frame(&bytes, 9, 0, 500, 1);
    assert_int_equal(hear(&t, text_slice(&bytes), 1000), FAULT_NONE);
    text_clear(&bytes);
    put_frame(&bytes, 9, 0, 1, 1);
    assert_int_equal(hear(&t, text_slice(&bytes), 1000), FAULT_HEADERS_TOO_LARGE);
    finish(&t);
    text_fini(&bytes);
}

static void a_preface_reaches_the_reader_whole_or_not_at_all(void **state)
{
    (void)state;
    for (size_t wrong = 0; wrong <= HTTP2_PREFACE_BYTES; ++wrong) {
        struct talk t = {.in = http2_intake_create(&t.room, is_known, &t), .known = true};
        char bytes[] = PREFACE;

        bytes[wrong] ^= 1; /* the last time the zero behind it */
        for (size_t i = 0; i < HTTP2_PREFACE_BYTES; ++i) {
            enum request_fault f = hear(&t, (struct slice){bytes + i, 1}, 0);
            bool whole = i != wrong && i == HTTP2_PREFACE_BYTES - 1;

            assert_int_equal(f, i == wrong ? FAULT_HTTP2_PREFACE : FAULT_NONE);
            assert_int_equal(http2_intake_has_preface(t.in), whole);
            if (f != FAULT_NONE)
                break;
            assert_out(&t, whole ? SLICE_LIT(PREFACE) : SLICE_LIT(""));
        }
        finish(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_preface_reaches_the_reader_whole_or_not_at_all),
        cmocka_unit_test(a_request_is_written_as_one_block),
        cmocka_unit_test(extensions_and_trailers_are_left_out),
        cmocka_unit_test(a_malformed_request_is_not_written_and_its_body_given_back),
        cmocka_unit_test(what_the_reader_did_not_get_is_told_in_full_later),
        cmocka_unit_test(a_field_that_the_client_repeats_is_still_looked_at_for_what_it_means),
        cmocka_unit_test(a_body_that_is_too_long_is_taken_back_from_the_reader),
        cmocka_unit_test(a_body_over_the_limit_is_ended_for_the_reader_and_swallowed),
        cmocka_unit_test(a_body_too_large_for_memory_is_the_owners_after_its_first_frame),
        cmocka_unit_test(a_body_that_cannot_be_stored_is_ended_for_the_reader_and_swallowed),
        cmocka_unit_test(what_comes_of_a_body_is_counted_as_it_comes),
        cmocka_unit_test(after_the_last_request_no_more_are_written),
        cmocka_unit_test(streams_that_the_reader_has_ended_are_forgotten_for_new_ones),
        cmocka_unit_test(each_kind_of_frame_is_limited_by_itself),
        cmocka_unit_test(header_blocks_end),
    };

    return cmocka_run_group_tests_name("http2_intake", tests, NULL, NULL);
}
