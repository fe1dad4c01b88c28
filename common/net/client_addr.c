/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/client_addr.h"

#include "common/base/text.h"

enum {
    /* The longest address, in brackets and with a port. */
    ELEMENT_MAX = INET6_ADDRSTRLEN + 8,
};

enum err client_addr_parse(struct slice text, struct addr *out)
{
    struct text whole = {0};
    struct slice rest = text;
    struct addr a;

    if (text.len == 0 || text.len > ELEMENT_MAX || slice_starts(text, SLICE_LIT("unix:")))
        return ERR_SYNTAX;
    (void)slice_cut(&rest, ':');
    bool bare_ipv6 = text.p[0] != '[' && slice_find(rest, ':') != SIZE_MAX;
    bool ported = text.p[0] == '[' ? text.p[text.len - 1] != ']' : rest.p != NULL;

    text_add(&whole, bare_ipv6 ? SLICE_LIT("[") : SLICE_LIT(""));
    text_add(&whole, text);
    text_add(&whole, bare_ipv6 ? SLICE_LIT("]") : SLICE_LIT(""));
    text_add(&whole, bare_ipv6 || !ported ? SLICE_LIT(":0") : SLICE_LIT(""));
    enum err e = addr_parse(text_slice(&whole), &a);

    text_fini(&whole);
    if (e != ERR_OK)
        return ERR_SYNTAX;
    *out = a;
    return ERR_OK;
}

/* Cuts the last element off *LIST, which is p == NULL once it was the only one. */
static struct slice cut_last(struct slice *list)
{
    size_t at = list->len;

    while (at != 0 && list->p[at - 1] != ',')
        --at;
    struct slice last = {list->p + at, list->len - at};

    *list = at != 0 ? (struct slice){list->p, at - 1} : SLICE_NULL;
    return slice_trim(last);
}

bool client_addr_search(struct client_search *s, struct slice value)
{
    while (value.p != NULL) {
        struct slice last = cut_last(&value);

        /* RFC 9110 5.6.1.2: empty elements of a list are no elements. */
        if (last.len == 0)
            continue;
        if (s->hops++ == CLIENT_HOPS_MAX || client_addr_parse(last, &s->client) != ERR_OK)
            return false;
        if (!networks_have(s->trusted, &s->client))
            return false;
    }
    return true;
}
