/* SPDX-License-Identifier: Apache-2.0
 *
 * The front over HTTP/2, libh2o behind the tap: the input is what comes after the preface and an
 * empty SETTINGS frame.
 */
#include "tests/fuzz/front.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct front front;

    if (size < 1)
        return 0;
    if (front.loop == NULL)
        front_start(&front, true, false);
    front_talk(&front, SLICE_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"),
               (struct slice){(const char *)data + 1, size - 1}, data[0]);
    return 0;
}
