/* SPDX-License-Identifier: Apache-2.0
 *
 * An address that is taken is printed so that it is taken again, as the same address.
 */
#include "common/net/addr.h"

#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct addr a = {.len = 0};
    struct addr again = {.len = 0};
    char text[ADDR_TEXT_MAX];
    char host[ADDR_TEXT_MAX];

    if (addr_parse((struct slice){(const char *)data, size}, &a) != ERR_OK) {
        ASSERT(a.len == 0);
        return 0;
    }
    ASSERT(a.len != 0);
    ASSERT(a.len <= sizeof(struct sockaddr_un));
    ASSERT(addr_port(&a) <= 65535);
    (void)addr_host(&a, host);
    (void)addr_is_loopback(&a);
    ASSERT(addr_parse(slice_of(addr_format(&a, text)), &again) == ERR_OK);
    ASSERT(addr_equal(&a, &again));
    return 0;
}
