/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/text.h"
#include "common/wire/http2_frames.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct http2_frame_limits limits = {
    .per_second = {10, 10, 10, 10, 10, 10, 10, 10},
    .block_frames = 4,
    .block_bytes = 1000,
};

static void put_preface(struct text *t)
{
    text_add(t, SLICE_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
}

static void put_frame(struct text *t, unsigned type, unsigned flags, size_t len)
{
    const char head[9] = {
        (char)(len >> 16), (char)(len >> 8), (char)len, (char)type, (char)flags, 0, 0, 0, 1};

    text_add(t, (struct slice){head, sizeof(head)});
    for (size_t i = 0; i < len; ++i)
        text_add_char(t, '\6'); /* which would be a PING, were it taken for a type */
}

static void each_kind_is_limited_by_itself(void **state)
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
        struct http2_frames m = {0};
        struct text t = {0};

        put_preface(&t);
        for (int n = 0; n < 10; ++n)
            put_frame(&t, kinds[i].type, kinds[i].flags, kinds[i].len);
        assert_int_equal(http2_frames_check(&m, &limits, text_slice(&t), 5000), FAULT_NONE);
        text_clear(&t);
        put_frame(&t, kinds[i].type, kinds[i].flags, kinds[i].len);
        /* A second later as many again. */
        struct http2_frames later = m;
        assert_int_equal(http2_frames_check(&later, &limits, text_slice(&t), 6000), FAULT_NONE);
        assert_int_equal(http2_frames_check(&m, &limits, text_slice(&t), 5999), kinds[i].fault);
        text_fini(&t);
    }
}

static void header_blocks_end(void **state)
{
    struct text t = {0};
    struct http2_frames m = {0};

    (void)state;
    put_preface(&t);
    for (int i = 0; i < 2; ++i) {
        put_frame(&t, 1, 0, 10);
        for (int k = 0; k < 4; ++k)
            put_frame(&t, 9, 0, 10);
    }
    assert_int_equal(http2_frames_check(&m, &limits, text_slice(&t), 1000), FAULT_NONE);
    text_clear(&t);
    put_frame(&t, 9, 0, 0);
    assert_int_equal(http2_frames_check(&m, &limits, text_slice(&t), 3000),
                     FAULT_FRAMES_CONTINUATION);

    m = (struct http2_frames){0};
    text_clear(&t);
    put_preface(&t);
    put_frame(&t, 1, 0, 500);
    put_frame(&t, 9, 0, 500);
    assert_int_equal(http2_frames_check(&m, &limits, text_slice(&t), 1000), FAULT_NONE);
    text_clear(&t);
    put_frame(&t, 9, 0, 1);
    assert_int_equal(http2_frames_check(&m, &limits, text_slice(&t), 1000),
                     FAULT_HEADERS_TOO_LARGE);
    text_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_is_limited_by_itself),
        cmocka_unit_test(header_blocks_end),
    };

    return cmocka_run_group_tests_name("http2_frames", tests, NULL, NULL);
}
