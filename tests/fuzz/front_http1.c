/* SPDX-License-Identifier: Apache-2.0
 *
 * The front over HTTP/1, libh2o behind the tap, and the short way past it,
 * with TLS or without.
 */
#include "tests/fuzz/front.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct front fronts[2];

    if (size < 1)
        return 0;
    bool long_way = (data[0] & FRONT_LONG_WAY) != 0;
    struct front *front = &fronts[long_way];
    if (front->loop == NULL)
        front_start(front, false, long_way);
    front_talk(front, SLICE_NULL, (struct slice){(const char *)data + 1, size - 1}, data[0]);
    return 0;
}
