/* SPDX-License-Identifier: Apache-2.0
 *
 * A threshold of a monitor: what is taken means something for every number, and the same when it is
 * printed and read again.
 */
#include "ctl/inspect/inspect.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static void compare(const struct check_range *a, const struct check_range *b)
{
    static const double values[] = {-1e300, -10, -1, 0, 0.5, 1, 3, 9.5, 10, 20, 1e9, 1e300};

    for (size_t i = 0; i < ARRAY_LEN(values); ++i)
        ASSERT(check_range_alerts(a, values[i]) == check_range_alerts(b, values[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xslicedup((struct slice){(const char *)data, size});
    struct check_range r;
    struct check_range again;
    struct text printed = {0};

    for (int bare = CHECK_BARE_HIGH; bare <= CHECK_BARE_LOW; ++bare) {
        if (!check_range_parse(text, (enum check_bare)bare, &r))
            continue;
        ASSERT(r.set);
        ASSERT(r.low <= r.high);
        text_clear(&printed);
        check_range_print(&r, &printed);
        ASSERT(check_range_parse(text_cstr(&printed), (enum check_bare)bare, &again));
        compare(&r, &again);
    }
    text_fini(&printed);
    free(text);
    return 0;
}
