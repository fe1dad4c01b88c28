/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses are judged by where a connection to them ends: IPv4 within IPv6 is IPv4, a wildcard is
 * loopback, a unix path is the socket that it leads to.
 */
#include "lb/rules/provider_limits.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The address that is reached by connecting to A: loopback for a wildcard. */
static struct addr reached(const struct addr *a)
{
    struct addr plain = addr_plain(a);

    if (!addr_is_wildcard(&plain))
        return plain;
    if (plain.sa.sa_family == AF_INET)
        plain.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        plain.in6.sin6_addr = in6addr_loopback;
    return plain;
}

static bool is_link_local(const struct addr *a)
{
    if (a->sa.sa_family == AF_INET)
        return ntohl(a->in.sin_addr.s_addr) >> 16 == 0xa9fe; /* 169.254.0.0/16 */
    return a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a->in6.sin6_addr);
}

static const char *outside(const struct provider_limits *l, const struct addr *a)
{
    if (l->networks != NULL)
        return networks_have(l->networks, a) ? NULL : "its address is not in provider_networks";
    if (!l->remote)
        return NULL;
    if (a->sa.sa_family == AF_UNIX)
        return "its address is a unix socket, and provider_networks does not allow that";
    if (addr_is_loopback(a))
        return "its address is loopback, and provider_networks does not allow that";
    if (is_link_local(a))
        return "its address is link-local, and provider_networks does not allow that";
    return NULL;
}

/*
 * Whether A is an address of this machine: for packets to it, the kernel would select it, or
 * loopback, as the source address. (Binding to it shows less: net.ipv4.ip_nonlocal_bind permits
 * every address.) Nothing is sent.
 */
static bool is_local(const struct addr *a)
{
    struct addr from;
    int fd = socket(a->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return true; /* unknown: rather no worker than this process itself */
    bool local = connect(fd, &a->sa, a->len) == 0 && addr_of_socket(fd, &from) == ERR_OK &&
                 (addr_is_loopback(&from) || addr_same_host(&from, a));
    close(fd);
    return local;
}

static bool same_socket(const struct addr *a, const struct addr *b)
{
    struct stat x;
    struct stat y;

    if (addr_equal(a, b))
        return true;
    /* Abstract names have no file. */
    return a->un.sun_path[0] != '\0' && b->un.sun_path[0] != '\0' &&
           stat(a->un.sun_path, &x) == 0 && stat(b->un.sun_path, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

static bool is_own(const struct addr *own, const struct addr *a)
{
    struct addr plain = addr_plain(own);

    if (plain.len == 0 || plain.sa.sa_family != a->sa.sa_family)
        return false;
    if (a->sa.sa_family == AF_UNIX)
        return same_socket(&plain, a);
    if (addr_port(&plain) == 0 || addr_port(&plain) != addr_port(a))
        return false;
    return addr_is_wildcard(&plain) ? is_local(a) : addr_same_host(&plain, a);
}

const char *provider_limits_refusal(const struct provider_limits *l, const struct addr *a)
{
    struct addr there = reached(a);
    const char *why = outside(l, &there);

    for (size_t i = 0; i < l->nown && why == NULL; ++i) {
        if (is_own(&l->own[i], &there))
            why = "its address is one of this load balancer's listeners";
    }
    return why;
}
