/* SPDX-License-Identifier: Apache-2.0
 *
 * What is taken is printed so that it is taken again, as the same value.
 */
#include "common/base/json.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_BYTES = 64 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *v = NULL;
    json_t *again = NULL;
    struct text printed = {0};
    char why[JSON_WHY_ROOM] = "";
    enum err e = json_parse((struct slice){(const char *)data, size}, MAX_BYTES, &v, why);

    if (e != ERR_OK) {
        ASSERT(v == NULL);
        ASSERT(why[0] != '\0');
        return 0;
    }
    json_print(v, &printed);
    /* Numbers may get longer: 1e22 has fewer bytes than what a double says of it. */
    ASSERT(json_parse(text_slice(&printed), (size_t)MAX_BYTES * 8, &again, why) == ERR_OK);
    ASSERT(json_equal(v, again));
    json_decref(again);
    json_decref(v);
    text_fini(&printed);
    return 0;
}
