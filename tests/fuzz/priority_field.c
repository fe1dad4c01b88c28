/* SPDX-License-Identifier: Apache-2.0
 *
 * The value of a priority field: the result is in range, and its printed form has the same result.
 */
#include "common/wire/priority_field.h"

#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct urgency u =
        priority_field_parse((struct slice){(const char *)data, size}, URGENCY_UNSTATED);
    struct text printed = {0};

    ASSERT(u.level < URGENCY_LEVELS);
    text_addf(&printed, "u=%u, i=?%d", u.level, u.incremental);
    struct urgency again = priority_field_parse(text_slice(&printed), URGENCY_UNSTATED);
    ASSERT(again.level == u.level);
    ASSERT(again.incremental == u.incremental);
    text_fini(&printed);
    return 0;
}
