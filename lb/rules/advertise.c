/* SPDX-License-Identifier: Apache-2.0
 *
 * A wildcard becomes all of the machine's addresses, as programs with zc.zk register ":port",
 * except loopback and link-local IPv6 addresses.
 */
#include "lb/rules/advertise.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/text.h"

static void add_name(struct text_list *names, const char *name)
{
    for (size_t i = 0; i < names->n; ++i) {
        if (strcmp(names->items[i], name) == 0)
            return;
    }
    if (names->n == ADVERTISE_MAX) {
        log_warn(NULL, "address-not-advertised", "name=%s reason=\"more than %d names\"", name,
                 ADVERTISE_MAX);
        return;
    }
    text_list_add(names, slice_of(name));
}

static void add_machine(struct text_list *names, int family, unsigned port)
{
    struct ifaddrs *all = NULL;
    size_t before = names->n;
    char text[ADDR_TEXT_MAX];

    if (getifaddrs(&all) != 0)
        log_warn(NULL, "interfaces-not-listed", "reason=\"%s\"", strerror(errno));
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        struct addr a = {.len = family == AF_INET ? sizeof(a.in) : sizeof(a.in6)};

        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != family || (i->ifa_flags & IFF_UP) == 0)
            continue;
        memcpy(&a.sa, i->ifa_addr, a.len);
        if (addr_is_loopback(&a) || (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a.in6.sin6_addr)))
            continue;
        if (family == AF_INET6)
            a.in6.sin6_scope_id = 0;
        addr_set_port(&a, port);
        add_name(names, addr_format(&a, text));
    }
    if (all != NULL)
        freeifaddrs(all);
    if (names->n == before) {
        snprintf(text, sizeof(text), family == AF_INET ? "127.0.0.1:%u" : "[::1]:%u", port);
        add_name(names, text);
    }
}

/* Returns TEXT, with PORT (0: none) if it is a host alone; or NULL if it is neither. */
static char *with_port(const char *text, unsigned port)
{
    struct addr a;
    enum err e = addr_parse(slice_of(text), &a);
    bool whole = e == ERR_OK || e == ERR_UNSUPPORTED;
    char *name = whole ? xstrdup(text) : xasprintf("%s:%u", text, port);

    e = addr_parse(slice_of(name), &a);
    if ((whole || port != 0) && (e == ERR_OK || e == ERR_UNSUPPORTED))
        return name;
    free(name);
    return NULL;
}

static bool machine_port(const char *text, uint64_t *port)
{
    return text[0] == ':' && parse_u64(slice_of(text + 1), 65535, port) && *port != 0;
}

bool advertise_valid(const char *text)
{
    struct addr a;
    uint64_t port;
    char *name = with_port(text, 1);
    enum err e = name != NULL ? addr_parse(slice_of(name), &a) : ERR_SYNTAX;

    free(name);
    if (e == ERR_UNSUPPORTED || machine_port(text, &port))
        return true;
    return e == ERR_OK && !addr_is_wildcard(&a) &&
           (a.sa.sa_family == AF_UNIX || addr_port(&a) != 0);
}

struct text_list advertise_names(const struct text_list *configured, const struct addr *listeners,
                                 size_t n)
{
    struct text_list names = {0};
    unsigned port = 0;

    for (size_t i = 0; i < n && port == 0; ++i)
        port = addr_port(&listeners[i]);
    for (size_t i = 0; i < configured->n; ++i) {
        const char *text = configured->items[i];
        char *name = with_port(text, port);
        uint64_t own_port = 0;

        if (machine_port(text, &own_port))
            add_machine(&names, AF_INET, (unsigned)own_port);
        else if (name != NULL)
            add_name(&names, name);
        free(name);
    }
    for (size_t i = 0; i < n && configured->n == 0; ++i) {
        if (addr_is_wildcard(&listeners[i]))
            add_machine(&names, addr_plain(&listeners[i]).sa.sa_family, addr_port(&listeners[i]));
        else
            add_name(&names, addr_text(&listeners[i]));
    }
    return names;
}
