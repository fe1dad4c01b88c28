/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/config/limit_servers.h"

#include <stdio.h>

static const char *parse(const char *text, struct addr *out)
{
    switch (addr_parse(slice_of(text), out)) {
    case ERR_OK:
        break;
    case ERR_UNSUPPORTED:
        return "a host name cannot be used here; give a numeric address";
    case ERR_TOO_LARGE:
        return "the path of a unix socket may have at most 107 bytes";
    default:
        return "expected HOST:PORT, [IPV6]:PORT or unix:/path";
    }
    if (out->sa.sa_family != AF_UNIX && addr_port(out) == 0)
        return "a server has a port";
    return NULL;
}

/* What is wrong with item N of SERVERS, of which those before it are good; or NULL. */
static const char *check(const char *text, struct counter_server_address *servers, size_t n)
{
    if (n == COUNTER_SERVERS_MAX)
        return "one too many";
    const char *problem = parse(text, &servers[n].addr);
    if (problem != NULL)
        return problem;
    servers[n].name = slice_of(text);
    for (size_t i = 0; i < n; ++i) {
        if (addr_equal(&servers[i].addr, &servers[n].addr))
            return "is a duplicate";
    }
    return counter_client_check(servers, n + 1) == ERR_OK ? NULL
                                                          : "only visible ASCII may stand here";
}

bool limit_servers_check(const struct text_list *l, size_t *at, char why[SETTINGS_WHY_ROOM])
{
    struct counter_server_address servers[COUNTER_SERVERS_MAX];

    for (size_t i = 0; i < l->n; ++i) {
        const char *problem = check(l->items[i], servers, i);

        if (problem == NULL)
            continue;
        *at = i;
        snprintf(why, SETTINGS_WHY_ROOM, "pool_counter_servers: %.60s: %s", l->items[i], problem);
        return false;
    }
    return true;
}

size_t limit_servers(const struct text_list *l,
                     struct counter_server_address out[COUNTER_SERVERS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < l->n && n < COUNTER_SERVERS_MAX; ++i) {
        out[n].name = slice_of(l->items[i]);
        if (addr_parse(out[n].name, &out[n].addr) == ERR_OK)
            ++n;
    }
    return n;
}
