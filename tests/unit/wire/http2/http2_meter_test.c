/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/wire/http2/http2_reader.h"

static const uint32_t limits[HTTP2_TYPES + 1] = {10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10};

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
        {16, 0, 7, FAULT_FRAMES_PRIORITY},
        {17, 0, 7, FAULT_FRAMES_UNKNOWN},
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
            f = http2_meter_count(&m, limits, kinds[i].type, kinds[i].flags, kinds[i].len, 5000);
            assert_int_equal(f, FAULT_NONE);
        }
        /* A second later as many again. */
        struct http2_meter later = m;
        f = http2_meter_count(&later, limits, kinds[i].type, kinds[i].flags, kinds[i].len, 6000);
        assert_int_equal(f, FAULT_NONE);
        f = http2_meter_count(&m, limits, kinds[i].type, kinds[i].flags, kinds[i].len, 5999);
        assert_int_equal(f, kinds[i].fault);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_frame_is_limited_by_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
