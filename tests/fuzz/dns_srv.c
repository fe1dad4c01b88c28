/* SPDX-License-Identifier: Apache-2.0
 *
 * Of any message, the targets are names that can be looked up and logged, and they are the same
 * when bytes follow.
 */
#include "common/wire/dns_srv.h"

#include <stdlib.h>

#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dns_srv *found = xcalloc(DNS_SRV_MAX, sizeof(*found));
    uint32_t ttl_s;
    size_t n;

    if (dns_srv_parse((struct slice){(const char *)data, size}, found, &n, &ttl_s)) {
        char *longer = xcalloc(size + 7, 1);
        uint32_t ttl_again_s;
        size_t again;

        ASSERT(n <= DNS_SRV_MAX);
        for (size_t i = 0; i < n; ++i) {
            struct slice target = slice_of(found[i].target);
            bool usual = slice_is_word(target, "-_.");

            ASSERT(usual);
            ASSERT(target.len != 0);
            ASSERT(target.len <= DNS_NAME_MAX);
            ASSERT(found[i].port != 0);
        }
        memcpy(longer, data, size);
        bool good = dns_srv_parse((struct slice){longer, size + 7}, found, &again, &ttl_again_s);
        ASSERT(good);
        ASSERT(again == n);
        ASSERT(ttl_again_s == ttl_s);
        free(longer);
    }
    free(found);
    return 0;
}
