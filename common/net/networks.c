/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/networks.h"
#include "common/base/text.h"

#include <stdlib.h>

static unsigned family_bits(int family)
{
    return family == AF_INET ? 32 : 128;
}

static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

enum err networks_add(struct networks *n, struct slice text)
{
    struct network one = {0};
    struct slice rest = text;
    struct slice address = slice_cut(&rest, '/');
    uint64_t bits;

    bool loopback = slice_is(text, "loopback");
    bool unix_peers = slice_is(text, "unix");
    n->loopback |= loopback;
    n->unix_peers |= unix_peers;
    if (loopback || unix_peers)
        return ERR_OK;
    if (n->n == NETWORKS_MAX)
        return ERR_TOO_LARGE;
    one.family = slice_find(address, ':') != SIZE_MAX ? AF_INET6 : AF_INET;
    if (!parse_ip(address, one.family, one.bytes))
        return ERR_SYNTAX;
    bits = family_bits(one.family);
    if (address.len != text.len && !parse_u64(rest, family_bits(one.family), &bits))
        return ERR_SYNTAX;
    one.bits = (unsigned)bits;
    /* "::ffff:10.0.0.0/104" is stored as 10.0.0.0/8, as such peers are compared as IPv4. */
    if (one.family == AF_INET6 && one.bits >= 96 && memcmp(one.bytes, mapped, 12) == 0) {
        one.family = AF_INET;
        one.bits -= 96;
        memmove(one.bytes, one.bytes + 12, 4);
    }
    for (unsigned bit = one.bits; bit < family_bits(one.family); ++bit) {
        if (one.bytes[bit / 8] & 0x80U >> (bit % 8))
            return ERR_RANGE;
    }
    n->items = xrealloc(n->items, (n->n + 1) * sizeof(*n->items));
    n->items[n->n++] = one;
    return ERR_OK;
}

bool networks_equal(const struct networks *a, const struct networks *b)
{
    return a->n == b->n && a->loopback == b->loopback && a->unix_peers == b->unix_peers &&
           (a->n == 0 || memcmp(a->items, b->items, a->n * sizeof(*a->items)) == 0);
}

void networks_fini(struct networks *n)
{
    free(n->items);
    *n = (struct networks){0};
}

bool networks_contain_(const struct networks *n, const struct addr *peer)
{
    struct addr a = addr_plain(peer);
    int family = a.sa.sa_family;

    if (family == AF_UNIX)
        return n->unix_peers;
    if (n->loopback && addr_is_loopback(&a))
        return true;
    const unsigned char *bytes = family == AF_INET ? (const unsigned char *)&a.in.sin_addr
                                                   : (const unsigned char *)&a.in6.sin6_addr;
    for (size_t i = 0; i < n->n; ++i) {
        const struct network *one = &n->items[i];
        unsigned whole = one->bits / 8;
        unsigned mask = 0xff00U >> (one->bits % 8) & 0xffU;

        if (one->family == family && memcmp(one->bytes, bytes, whole) == 0 &&
            (mask == 0 || ((one->bytes[whole] ^ bytes[whole]) & mask) == 0))
            return true;
    }
    return false;
}

/* ---- clients behind trusted proxies ---- */

bool client_addr_parse(struct slice text, struct addr *out)
{
    bool bracketed = text.len > 1 && text.p[0] == '[' && text.p[text.len - 1] == ']';
    struct slice bare = bracketed ? (struct slice){text.p + 1, text.len - 2} : text;
    struct addr a;

    bool ip = (!bracketed && addr_parse_ip(bare, AF_INET, &a)) || addr_parse_ip(bare, AF_INET6, &a);

    if (!ip && (addr_parse(text, &a) != ERR_OK || a.sa.sa_family == AF_UNIX))
        return false;
    *out = addr_plain(&a);
    return true;
}

bool client_addr_search(struct client_search *s, struct slice value)
{
    while (value.p != NULL) {
        size_t at = value.len;

        while (at != 0 && value.p[at - 1] != ',')
            --at;
        struct slice last = slice_trim((struct slice){value.p + at, value.len - at});

        value = at != 0 ? (struct slice){value.p, at - 1} : SLICE_NULL;
        /* RFC 9110 5.6.1.2: empty elements of a list are ignored. */
        if (last.len == 0)
            continue;
        if (s->hops++ == CLIENT_HOPS_MAX || !client_addr_parse(last, &s->client) ||
            !networks_have(s->trusted, &s->client))
            return false;
    }
    return true;
}
