/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/text.h"
#include "common/wire/http2_uploads.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, CONTINUATION = 9 };
enum { END_STREAM = 1, END_HEADERS = 4 };

static void put_preface(struct text *t)
{
    text_add(t, SLICE_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
}

static void put_frame(struct text *t, unsigned type, unsigned flags, unsigned stream, size_t len)
{
    const char head[9] = {(char)(len >> 16),    (char)(len >> 8),    (char)len,
                          (char)type,           (char)flags,         (char)(stream >> 24),
                          (char)(stream >> 16), (char)(stream >> 8), (char)stream};

    text_add(t, (struct slice){head, sizeof(head)});
    for (size_t i = 0; i < len; ++i)
        text_add_char(t, '\1');
}

static struct http2_uploads follow(struct text *t, size_t piece)
{
    struct http2_uploads u = {0};

    for (size_t at = 0; at < t->len; at += piece) {
        size_t n = t->len - at < piece ? t->len - at : piece;
        http2_uploads_follow(&u, (struct slice){t->p + at, n}, 7);
    }
    return u;
}

static void bodies_are_counted_until_they_end(void **state)
{
    struct text t = {0};

    (void)state;
    put_preface(&t);
    put_frame(&t, HEADERS, END_HEADERS, 1, 5);
    put_frame(&t, HEADERS, END_HEADERS | END_STREAM, 3, 5);
    put_frame(&t, HEADERS, END_HEADERS, 5, 5);
    put_frame(&t, HEADERS, END_HEADERS, 7, 5);
    put_frame(&t, HEADERS, END_HEADERS, 9, 5);
    put_frame(&t, DATA, 0, 1, 300);
    put_frame(&t, DATA, 0, 1, 11);
    put_frame(&t, DATA, END_STREAM, 5, 20);
    put_frame(&t, RST_STREAM, 0, 7, 4);
    put_frame(&t, HEADERS, END_HEADERS | END_STREAM, 9, 3); /* trailers */
    put_frame(&t, DATA, 0, 3, 50);
    for (size_t piece = 1; piece <= t.len; piece = piece * 3 + 1) {
        struct http2_uploads u = follow(&t, piece);

        assert_int_equal(u.n, 1);
        assert_int_equal(u.items[0].stream, 1);
        assert_int_equal(u.items[0].bytes, 311);
        assert_int_equal(u.items[0].begun_ms, 7);
        assert_true(http2_uploads_between_frames(&u));
        http2_uploads_fini(&u);
    }
    text_fini(&t);
}

static void part_of_a_frame_counts_as_it_comes(void **state)
{
    struct text t = {0};

    (void)state;
    put_preface(&t);
    put_frame(&t, HEADERS, END_HEADERS, 1, 5);
    put_frame(&t, DATA, END_STREAM, 1, 100);
    t.len -= 40;
    struct http2_uploads u = follow(&t, 10);
    assert_int_equal(u.n, 1);
    assert_int_equal(u.items[0].bytes, 60);
    assert_false(http2_uploads_between_frames(&u));
    http2_uploads_fini(&u);
    text_fini(&t);
}

static void nothing_may_come_between_the_parts_of_a_header_block(void **state)
{
    struct text t = {0};

    (void)state;
    put_preface(&t);
    put_frame(&t, HEADERS, 0, 1, 5);
    struct http2_uploads u = follow(&t, SIZE_MAX);
    assert_false(http2_uploads_between_frames(&u));
    http2_uploads_fini(&u);
    put_frame(&t, CONTINUATION, END_HEADERS, 1, 5);
    u = follow(&t, SIZE_MAX);
    assert_true(http2_uploads_between_frames(&u));
    http2_uploads_fini(&u);
    text_fini(&t);
}

static void streams_beyond_the_room_are_not_followed(void **state)
{
    struct text t = {0};

    (void)state;
    put_preface(&t);
    for (unsigned i = 0; i < HTTP2_UPLOADS_MAX + 10; ++i)
        put_frame(&t, HEADERS, END_HEADERS, 2 * i + 1, 1);
    struct http2_uploads u = follow(&t, 1000);
    assert_int_equal(u.n, HTTP2_UPLOADS_MAX);
    http2_uploads_drop(&u, 0);
    assert_int_equal(u.n, HTTP2_UPLOADS_MAX - 1);
    assert_int_equal(u.items[0].stream, 2 * HTTP2_UPLOADS_MAX - 1);
    http2_uploads_fini(&u);
    text_fini(&t);
}

static void pace_is_an_average_over_each_grace_time_in_full(void **state)
{
    struct pace p = {0};

    (void)state;
    assert_false(pace_too_slow(&p, 0, 100, 1000, 5000));
    assert_false(pace_too_slow(&p, 0, 100, 1000, 5999));
    assert_false(pace_too_slow(&p, 100, 100, 1000, 6000));
    assert_false(pace_too_slow(&p, 100, 100, 1000, 6999));
    assert_true(pace_too_slow(&p, 199, 100, 1000, 7000));
    pace_rest(&p);
    assert_false(pace_too_slow(&p, 199, 100, 1000, 9000));
    assert_false(pace_too_slow(&p, 0, 100, 1000, 20000)); /* counts anew */
    assert_false(pace_too_slow(&p, 0, 0, 1000, 90000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_are_counted_until_they_end),
        cmocka_unit_test(part_of_a_frame_counts_as_it_comes),
        cmocka_unit_test(nothing_may_come_between_the_parts_of_a_header_block),
        cmocka_unit_test(streams_beyond_the_room_are_not_followed),
        cmocka_unit_test(pace_is_an_average_over_each_grace_time_in_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
