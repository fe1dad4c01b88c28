/* SPDX-License-Identifier: Apache-2.0
 *
 * A name that is taken lies within the extension and fills it to its end.
 */
#include "common/tls/tls_names.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice extension = {(const char *)data, size};
    struct slice name = {NULL, 0};

    if (!tls_server_name(extension, &name)) {
        ASSERT(name.p == NULL);
        return 0;
    }
    ASSERT(name.len != 0);
    ASSERT(name.len <= TLS_NAME_MAX);
    ASSERT(name.p > extension.p);
    ASSERT(name.p + name.len == extension.p + extension.len);
    ASSERT(memchr(name.p, '\0', name.len) == NULL);
    return 0;
}
