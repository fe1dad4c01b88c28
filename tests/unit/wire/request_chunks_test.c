/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/text.h"
#include "common/wire/http1_chunked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* In pieces of at most PIECE bytes, each in a block of its own so that reading over it is noticed.
 */
static enum request_fault check(struct slice bytes, size_t piece, size_t *used, bool *ended)
{
    struct http1_chunked c = {0};
    enum request_fault f = FAULT_NONE;

    *used = 0;
    *ended = false;
    while (f == FAULT_NONE && !*ended && *used < bytes.len) {
        size_t n = bytes.len - *used < piece ? bytes.len - *used : piece;
        char *exact = xmalloc(n);
        size_t now;
        size_t data;

        memcpy(exact, bytes.p + *used, n);
        f = http1_chunked_take(&c, exact, n, &now, &data, ended);
        assert_in_range(now, 0, n);
        assert_in_range(data, 0, now);
        *used += now;
        free(exact);
    }
    return f;
}

static void assert_fault(struct slice body, enum request_fault expected, bool end)
{
    for (size_t piece = 1; piece <= body.len; piece = piece < 4 ? piece + 1 : piece * 3) {
        size_t used;
        bool ended;
        enum request_fault f = check(body, piece, &used, &ended);

        if (f != expected || ended != end)
            fail_msg("%.*s: %s, %s", SLICE_FMT(body), request_fault_text(f),
                     ended ? "ended" : "not ended");
    }
}

static void well_framed_bodies_end_where_they_state(void **state)
{
    static const char *const bodies[] = {
        "0\r\n\r\n",
        "3\r\nabc\r\n0\r\n\r\n",
        "00A\r\n0123456789\r\n1\r\nx\r\n0000\r\n\r\n",
        "1;a\r\nx\r\n0;b=c;d=\"e\\\"f g\";h\r\n\r\n",
        "1\r\nx\r\n0\r\nA: b\r\nC:\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bodies); ++i) {
        struct text more = {0};
        size_t used;
        bool ended;

        assert_fault(slice_of(bodies[i]), FAULT_NONE, true);
        text_add(&more, slice_of(bodies[i]));
        text_add(&more, SLICE_LIT("GET / HTTP/1.1\r\n"));
        assert_int_equal(check(text_slice(&more), 7, &used, &ended), FAULT_NONE);
        assert_int_equal(used, strlen(bodies[i]));
        text_fini(&more);
    }
}

static void invalid_chunks_are_rejected(void **state)
{
    static const struct {
        const char *body;
        enum request_fault fault;
    } cases[] = {
        {"\r\n", FAULT_CHUNK_SIZE},
        {"x\r\n", FAULT_CHUNK_SIZE},
        {" 1\r\nx\r\n", FAULT_CHUNK_SIZE},
        {"1 \r\nx\r\n", FAULT_CHUNK_SIZE},
        {"0x1\r\nx\r\n", FAULT_CHUNK_SIZE},
        {"+1\r\nx\r\n", FAULT_CHUNK_SIZE},
        {"-1\r\nx\r\n", FAULT_CHUNK_SIZE},
        {"3zz\r\nabc\r\n", FAULT_CHUNK_SIZE},
        {"1,1\r\nx\r\n", FAULT_CHUNK_SIZE},
        {"8000000000000000\r\n", FAULT_CHUNK_SIZE},
        {"00000000000000001\r\n", FAULT_CHUNK_SIZE},
        {"1\nx\r\n0\r\n\r\n", FAULT_BARE_LINE_END},
        {"1\r\nx\n0\r\n\r\n", FAULT_BARE_LINE_END},
        {"1\rx", FAULT_BARE_LINE_END},
        {"1\r\nxy\r\n", FAULT_CHUNK_END},
        {"1\r\nx\r\r\n", FAULT_BARE_LINE_END},
        {"1;\r\n", FAULT_CHUNK_EXTENSION},
        {"1; a\r\n", FAULT_CHUNK_EXTENSION},
        {"1;a=\r\n", FAULT_CHUNK_EXTENSION},
        {"1;a=\"b\r\n", FAULT_CHUNK_EXTENSION},
        {"1;a=\"b\"c\r\n", FAULT_CHUNK_EXTENSION},
        {"1;a\nx", FAULT_BARE_LINE_END},
        {"1;a=\"\n\"\r\n", FAULT_BARE_LINE_END},
        {"0\r\n: a\r\n\r\n", FAULT_TRAILER},
        {"0\r\nA\r\n\r\n", FAULT_TRAILER},
        {"0\r\n a: b\r\n\r\n", FAULT_TRAILER},
        {"0\r\nA : b\r\n\r\n", FAULT_TRAILER},
        {"0\r\nA: \001\r\n\r\n", FAULT_TRAILER},
        {"0\r\nA: b\n\r\n", FAULT_BARE_LINE_END},
        {"0\r\n\rX", FAULT_BARE_LINE_END},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i)
        assert_fault(slice_of(cases[i].body), cases[i].fault, false);
}

static void extensions_and_trailers_are_bounded_over_all_of_a_body(void **state)
{
    struct text t = {0};

    (void)state;
    for (int i = 0; i < 1000; ++i)
        text_add(&t, SLICE_LIT("1;abcd\r\nx\r\n"));
    assert_fault(text_slice(&t), FAULT_CHUNK_EXTENSION, false);
    text_clear(&t);
    text_add(&t, SLICE_LIT("0\r\n"));
    for (int i = 0; i < 33; ++i)
        text_add(&t, SLICE_LIT("A: b\r\n"));
    assert_fault(text_slice(&t), FAULT_TRAILERS_TOO_LARGE, false);
    text_clear(&t);
    text_add(&t, SLICE_LIT("0\r\nA:"));
    for (int i = 0; i < 10000; ++i)
        text_add_char(&t, 'x');
    assert_fault(text_slice(&t), FAULT_TRAILERS_TOO_LARGE, false);
    text_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_framed_bodies_end_where_they_state),
        cmocka_unit_test(invalid_chunks_are_rejected),
        cmocka_unit_test(extensions_and_trailers_are_bounded_over_all_of_a_body),
    };

    return cmocka_run_group_tests_name("request_chunks", tests, NULL, NULL);
}
