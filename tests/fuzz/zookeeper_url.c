/* SPDX-License-Identifier: Apache-2.0
 *
 * The address of a tree in ZooKeeper: rejected with a reason, or hosts that the client library
 * cannot take otherwise than we do, and a path without doubled slashes; and both say the same
 * again.
 */
#include "common/zookeeper/zookeeper_url.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static void check_hosts(const char *hosts)
{
    struct slice rest = slice_of(hosts);
    size_t n = 0;

    while (rest.len != 0) {
        struct slice one = slice_cut(&rest, ',');
        const char *colon = one.len != 0 ? memrchr(one.p, ':', one.len) : NULL;
        uint64_t port;

        ASSERT(colon != NULL && colon != one.p);
        ASSERT(parse_u64((struct slice){colon + 1, one.len - (size_t)(colon + 1 - one.p)}, 65535,
                         &port));
        /* No leading zero, which other parsers read as octal. */
        ASSERT(port != 0 && colon[1] != '0');
        ++n;
    }
    ASSERT(n >= 1 && n <= ZOOKEEPER_HOSTS_MAX);
    ASSERT(strpbrk(hosts, "[]/ \t\n") == NULL);
}

static void check_prefix(const char *prefix)
{
    size_t n = strlen(prefix);

    ASSERT(n <= ZOOKEEPER_TOP_MAX);
    ASSERT(n == 0 || (prefix[0] == '/' && n > 1 && prefix[n - 1] != '/'));
    ASSERT(strstr(prefix, "//") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *hosts = NULL;
    char *prefix = NULL;
    struct diag d = {0};

    if (zookeeper_url_parse((struct slice){(const char *)data, size}, &hosts, &prefix, &d) !=
        ERR_OK) {
        ASSERT(d.errors != 0);
        ASSERT(hosts == NULL && prefix == NULL);
    } else {
        ASSERT(d.errors == 0);
        check_hosts(hosts);
        check_prefix(prefix);
        free(hosts);
        free(prefix);
    }
    diag_fini(&d);
    return 0;
}
