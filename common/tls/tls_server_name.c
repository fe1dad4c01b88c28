/* SPDX-License-Identifier: Apache-2.0
 *
 *   list length (2)  type (1) = host_name  name length (2)  name
 *
 * A list may hold one name of each type, and there is but one type.
 */
#include "common/tls/tls_server_name.h"

enum { LIST_HEAD = 2, ENTRY_HEAD = 3, TYPE_HOST_NAME = 0 };

static size_t two_bytes(const char *p)
{
    return (size_t)(unsigned char)p[0] << 8 | (unsigned char)p[1];
}

bool tls_server_name(struct slice extension, struct slice *name)
{
    const char *p = extension.p;
    size_t len = extension.len;

    if (len <= LIST_HEAD + ENTRY_HEAD || two_bytes(p) != len - LIST_HEAD)
        return false;
    p += LIST_HEAD;
    len -= LIST_HEAD;
    if (p[0] != TYPE_HOST_NAME || two_bytes(p + 1) != len - ENTRY_HEAD)
        return false;
    struct slice found = {p + ENTRY_HEAD, len - ENTRY_HEAD};
    if (found.len > TLS_NAME_MAX || memchr(found.p, '\0', found.len) != NULL)
        return false;
    *name = found;
    return true;
}
