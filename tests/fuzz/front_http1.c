/* SPDX-License-Identifier: Apache-2.0
 *
 * The front over HTTP/1, libh2o behind the tap.
 */
#include "tests/fuzz/front.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct front front;

    if (size < 1)
        return 0;
    if (front.loop == NULL)
        front_start(&front, false);
    front_talk(&front, SLICE_NULL, (struct slice){(const char *)data + 1, size - 1}, data[0]);
    return 0;
}
