/* SPDX-License-Identifier: Apache-2.0
 *
 * What is taken is printed so that it is taken again, as the same value, in characters that can be
 * shown; what is rejected has a place within the text.
 */
#include "common/base/literal.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice s = {(const char *)data, size};
    size_t entries = 1000;
    size_t left = 1000;
    json_t *v = NULL;
    json_t *again = NULL;
    struct literal_problem p = {0};
    struct text printed = {0};

    if (literal_parse(s, &entries, &v, &p) != ERR_OK) {
        ASSERT(v == NULL);
        ASSERT(p.why != NULL);
        ASSERT(p.at <= size);
        ASSERT(entries == 1000);
        return 0;
    }
    ASSERT(entries < 1000);
    literal_print(v, &printed);
    ASSERT(literal_is_visible(text_slice(&printed)));
    ASSERT(literal_parse(text_slice(&printed), &left, &again, &p) == ERR_OK);
    ASSERT(json_equal(v, again));
    json_decref(again);
    json_decref(v);
    text_fini(&printed);
    return 0;
}
