/* SPDX-License-Identifier: Apache-2.0
 *
 * A wildcard becomes all of the machine's addresses, as programs with zc.zk register ":port"; but
 * for those of IPv6 that mean something on one link only.
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

static void add_addr(struct text_list *names, const struct addr *a)
{
    char text[ADDR_TEXT_MAX];

    add_name(names, addr_format(a, text));
}

/* The address of an interface with PORT. False: none that others could connect to. */
static bool addr_of_interface(const struct ifaddrs *i, int family, unsigned port, struct addr *out)
{
    struct addr a = {0};

    if (i->ifa_addr == NULL || i->ifa_addr->sa_family != family || (i->ifa_flags & IFF_UP) == 0)
        return false;
    a.len = family == AF_INET ? sizeof(a.in) : sizeof(a.in6);
    memcpy(&a.sa, i->ifa_addr, a.len);
    if (family == AF_INET6) {
        if (IN6_IS_ADDR_LINKLOCAL(&a.in6.sin6_addr))
            return false;
        a.in6.sin6_scope_id = 0;
    }
    addr_set_port(&a, port);
    *out = a;
    return true;
}

static void add_machine(struct text_list *names, int family, unsigned port)
{
    struct ifaddrs *all = NULL;
    size_t before = names->n;

    if (getifaddrs(&all) != 0)
        log_warn(NULL, "interfaces-not-listed", "reason=\"%s\"", strerror(errno));
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        struct addr a;

        if (addr_of_interface(i, family, port, &a) && !addr_is_loopback(&a))
            add_addr(names, &a);
    }
    if (all != NULL)
        freeifaddrs(all);
    if (names->n == before) {
        char text[32];

        snprintf(text, sizeof(text), family == AF_INET ? "127.0.0.1:%u" : "[::1]:%u", port);
        add_name(names, text);
    }
}

/* Returns "HOST:PORT", or NULL if HOST is not a host. */
static char *with_port(const char *host, unsigned port)
{
    char *text = xasprintf("%s:%u", host, port);
    struct addr a;
    enum err e = addr_parse(slice_of(text), &a);

    if (e == ERR_OK || e == ERR_UNSUPPORTED)
        return text;
    free(text);
    return NULL;
}

static bool machine_port(const char *text, uint64_t *port)
{
    return text[0] == ':' && parse_u64(slice_of(text + 1), 65535, port) && *port != 0;
}

bool advertise_good(const char *text)
{
    struct addr a;
    uint64_t port;
    enum err e = addr_parse(slice_of(text), &a);

    if (e == ERR_UNSUPPORTED || machine_port(text, &port))
        return true;
    if (e == ERR_OK)
        return !addr_is_wildcard(&a) && (a.sa.sa_family == AF_UNIX || addr_port(&a) != 0);
    char *whole = with_port(text, 1);
    bool good =
        whole != NULL && !(addr_parse(slice_of(whole), &a) == ERR_OK && addr_is_wildcard(&a));
    free(whole);
    return good;
}

static void add_configured(struct text_list *names, const char *text, unsigned listen_port)
{
    struct addr a;
    uint64_t port = 0;
    enum err e = addr_parse(slice_of(text), &a);

    if (machine_port(text, &port)) {
        add_machine(names, AF_INET, (unsigned)port);
    } else if (e == ERR_OK || e == ERR_UNSUPPORTED) {
        add_name(names, text);
    } else if (listen_port != 0) {
        char *whole = with_port(text, listen_port);

        if (whole != NULL)
            add_name(names, whole);
        free(whole);
    }
}

struct text_list advertise_names(const struct text_list *configured, const struct addr *listeners,
                                 size_t n)
{
    struct text_list names = {0};
    unsigned port = 0;

    for (size_t i = 0; i < n && port == 0; ++i)
        port = addr_port(&listeners[i]);
    for (size_t i = 0; i < configured->n; ++i)
        add_configured(&names, configured->items[i], port);
    for (size_t i = 0; i < n && configured->n == 0; ++i) {
        if (addr_is_wildcard(&listeners[i]))
            add_machine(&names, addr_plain(&listeners[i]).sa.sa_family, addr_port(&listeners[i]));
        else
            add_addr(&names, &listeners[i]);
    }
    return names;
}
