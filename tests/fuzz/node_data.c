/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes are properties, and the bytes that are made of these are the same properties.
 */
#include "common/tree/node_data.h"
#include "common/base/limits.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[JSON_WHY_ROOM];
    struct text bytes = {0};
    json_t *v = node_data_decode((struct slice){(const char *)data, size}, why);

    ASSERT(json_is_object(v));
    ASSERT(why[0] == '\0' || json_object_size(v) == 1);
    ASSERT(node_data_encode(v, false, NODE_BYTES_MAX, &bytes) == ERR_OK);
    json_t *again = node_data_decode(text_slice(&bytes), why);
    ASSERT(json_equal(v, again));
    json_decref(v);
    json_decref(again);
    text_fini(&bytes);
    return 0;
}
