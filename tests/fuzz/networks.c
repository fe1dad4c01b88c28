/* SPDX-License-Identifier: Apache-2.0
 *
 * NETWORK \n ... \n\n X-Forwarded-For \n ...: networks that are taken have their own address; and a
 * client that is found is the peer, or an address that a trusted one has named: all but the last
 * named are trusted.
 */
#include "common/net/networks.h"

#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

static void add(struct networks *n, struct slice text)
{
    size_t before = n->n;
    enum err e = networks_add(n, text);

    ASSERT(n->n <= NETWORKS_MAX);
    ASSERT(e == ERR_OK ? n->n <= before + 1 : n->n == before);
    if (n->n == before)
        return;
    const struct network *one = &n->items[before];
    struct addr own = {.len = sizeof(own.in6)};
    own.sa.sa_family = (sa_family_t)one->family;
    if (one->family == AF_INET)
        memcpy(&own.in.sin_addr, one->bytes, 4);
    else
        memcpy(&own.in6.sin6_addr, one->bytes, 16);
    ASSERT(networks_have(n, &own));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = {(const char *)data, size};
    struct networks n = {0};
    struct client_search s = {.trusted = &n};
    struct slice line;

    while ((line = slice_cut(&rest, '\n')).len != 0)
        add(&n, line);
    ASSERT(addr_parse(SLICE_LIT("[::1]:1"), &s.client) == ERR_OK);
    while (rest.p != NULL) {
        bool more = client_addr_search(&s, slice_cut(&rest, '\n'));

        ASSERT(s.client.len != 0);
        ASSERT(s.client.sa.sa_family != AF_UNIX);
        ASSERT(s.hops <= CLIENT_HOPS_MAX + 1);
        if (!more)
            break;
        ASSERT(s.hops == 0 || networks_have(&n, &s.client));
    }
    networks_fini(&n);
    return 0;
}
