/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses are judged by where a connection to them ends: IPv4 within IPv6 is IPv4, a wildcard is
 * loopback, a unix path is the socket that it leads to.
 */
#include "lb/rules/provider_limits.h"

#include <sys/stat.h>
#include <unistd.h>

static bool is_own(const struct addr *own, const struct addr *a)
{
    struct addr plain = addr_plain(own);
    struct addr from;
    struct stat x;
    struct stat y;

    if (plain.len == 0 || plain.sa.sa_family != a->sa.sa_family)
        return false;
    if (a->sa.sa_family == AF_UNIX)
        /* Abstract names have no file. */
        return addr_equal(&plain, a) ||
               (plain.un.sun_path[0] != '\0' && a->un.sun_path[0] != '\0' &&
                stat(plain.un.sun_path, &x) == 0 && stat(a->un.sun_path, &y) == 0 &&
                x.st_dev == y.st_dev && x.st_ino == y.st_ino);
    if (addr_port(&plain) == 0 || addr_port(&plain) != addr_port(a))
        return false;
    if (!addr_is_wildcard(&plain))
        return addr_same_host(&plain, a);
    /*
     * A is an address of this machine if for packets to it, the kernel would select it, or
     * loopback, as the source address. (Binding to it shows less: net.ipv4.ip_nonlocal_bind permits
     * every address.) Nothing is sent.
     */
    int fd = socket(a->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true; /* unknown: rather no worker than this process itself */
    bool local = connect(fd, &a->sa, a->len) == 0 && addr_of_socket(fd, &from) == ERR_OK &&
                 (addr_is_loopback(&from) || addr_same_host(&from, a));
    close(fd);
    return local;
}

const char *provider_limits_rejection(const struct provider_limits *l, const struct addr *a)
{
    struct addr there = addr_plain(a);
    bool inet = there.sa.sa_family == AF_INET;

    if (addr_is_wildcard(&there) && inet)
        there.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (addr_is_wildcard(&there))
        there.in6.sin6_addr = in6addr_loopback;
    if (l->networks != NULL && !networks_have(l->networks, &there))
        return "its address is not in provider_networks";
    if (l->networks == NULL && l->remote) {
        if (there.sa.sa_family == AF_UNIX)
            return "its address is a unix socket, and provider_networks does not allow that";
        if (addr_is_loopback(&there))
            return "its address is loopback, and provider_networks does not allow that";
        if (inet ? ntohl(there.in.sin_addr.s_addr) >> 16 == 0xa9fe /* 169.254.0.0/16 */
                 : IN6_IS_ADDR_LINKLOCAL(&there.in6.sin6_addr))
            return "its address is link-local, and provider_networks does not allow that";
    }
    for (size_t i = 0; i < l->nown; ++i) {
        if (is_own(&l->own[i], &there))
            return "its address is one of this load balancer's listeners";
    }
    return NULL;
}
