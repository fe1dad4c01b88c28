/* SPDX-License-Identifier: Apache-2.0
 *
 * A header is read the same however it comes in, and nothing behind it changes what it says.
 */
#include "common/wire/proxy_line.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {(const char *)data, size};
    struct proxy_line whole;
    struct proxy_line cut;
    enum request_fault f = proxy_line_check(bytes, &whole);
    enum request_fault g = FAULT_NONE;
    size_t n = 0;

    ASSERT(whole.bytes <= size);
    ASSERT(whole.bytes <= PROXY_LINE_BINARY_MAX);
    ASSERT(whole.bytes == 0 || f == FAULT_NONE);
    ASSERT(size < PROXY_LINE_BINARY_MAX || f != FAULT_NONE || whole.bytes != 0);
    cut = whole;
    for (; n <= size && n <= PROXY_LINE_BINARY_MAX; ++n) {
        g = proxy_line_check((struct slice){bytes.p, n}, &cut);
        if (g != FAULT_NONE || cut.bytes != 0)
            break;
    }
    ASSERT(g == f);
    ASSERT(cut.bytes == whole.bytes);
    ASSERT(memcmp(&cut.source, &whole.source, sizeof(cut.source)) == 0);
    ASSERT(memcmp(&cut.destination, &whole.destination, sizeof(cut.destination)) == 0);
    ASSERT(cut.family == whole.family);
    ASSERT(cut.tls == whole.tls);
    ASSERT(!whole.tls || whole.family != PROXY_UNKNOWN);
    ASSERT(cut.source_port == whole.source_port);
    ASSERT(cut.destination_port == whole.destination_port);
    return 0;
}
