/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses: IPv4 "10.0.0.1:80", IPv6 "[::1]:80", unix "unix:/run/x.sock" (or "unix:@abstract"),
 * and names "host.example:80", which resolve to several. Values; any thread.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/limits.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

struct addr {
    socklen_t len; /* 0: not set */
    /* Of a unix socket to connect to, in a directory that this user can write: see addr_connect().
     * 0: connect to whatever the path leads to. Not a part of the address. */
    uid_t owner;
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
    };
};

/*
 * Parses a numeric or unix address. Errors: ERR_SYNTAX; ERR_TOO_LARGE (unix path over 107 bytes);
 * ERR_UNSUPPORTED: a well-formed name:port, which addr_resolve() can resolve.
 */
enum err addr_parse(struct slice text, struct addr *out) must_check;
/* Parses an IP address of FAMILY without port and brackets; the port is 0. Returns false, without
 * changing OUT, for anything else. */
bool addr_parse_ip(struct slice text, int family, struct addr *out) must_check;
/* Writes the canonical text with a NUL, and returns OUT. An unnamed unix peer is "unix:". */
const char *addr_format(const struct addr *a, char out[ADDR_TEXT_MAX]);
/* The same, in memory that is valid until the end of the block. */
#define addr_text(a) addr_format((a), (char[ADDR_TEXT_MAX]){""})
/* Writes the address without port and with a NUL, as in REMOTE_ADDR and X-Forwarded-For:
 * "127.0.0.1", "::1", "unix:". */
struct slice addr_host_slice(const struct addr *a, char out[ADDR_TEXT_MAX]);
static inline const char *addr_host(const struct addr *a, char out[ADDR_TEXT_MAX])
{
    return addr_host_slice(a, out).p;
}
unsigned addr_port(const struct addr *a); /* 0 for unix */
/* A must be an IP address. */
void addr_set_port(struct addr *a, unsigned port);
/* For qsort() of struct addr: by family, then address, then port. */
int addr_compare(const void *a, const void *b);
bool addr_equal(const struct addr *a, const struct addr *b);
/* Returns true if A and B are equal IP addresses, regardless of ports and scopes. */
bool addr_same_host(const struct addr *a, const struct addr *b);
/* Returns A, or the IPv4 address in an IPv4-mapped one ("[::ffff:10.0.0.1]:80"). */
struct addr addr_plain(const struct addr *a);
/*
 * Returns true if sockets cannot listen at both addresses: they are equal (except for port 0, which
 * is a new port each time), or they have the same family and port, and one of them is the wildcard.
 */
bool addr_overlaps(const struct addr *a, const struct addr *b);
bool addr_is_wildcard(const struct addr *a); /* "0.0.0.0", "[::]": all addresses of the machine */
bool addr_is_loopback(const struct addr *a); /* true for unix addresses as well */

/*
 * Resolves name:port by getaddrinfo(). Blocks, so it must not be called on a data loop. Fills at
 * most *N entries, sorted so that equal answers compare equal, and sets *N. Errors: ERR_NOT_FOUND,
 * ERR_SYNTAX.
 */
enum err addr_resolve(struct slice text, struct addr *out, size_t *n) must_check;

struct addr_listen_options {
    int backlog;     /* 0: 1024 */
    bool reuse_port; /* SO_REUSEPORT, so that each loop has a listener of its own */
    unsigned mode;   /* unix: mode of the socket file; 0: the default */
    bool bound_only; /* connections are rejected until addr_start_listening */
};
/*
 * Creates a bound, listening, non-blocking, close-on-exec socket. A stale unix socket file (without
 * a listener) is removed first; one that is in use yields ERR_BUSY. Errors: ERR_SYSTEM with errno
 * set, ERR_BUSY.
 */
enum err addr_listen(const struct addr *a, const struct addr_listen_options *o, int *fd) must_check;
/* Makes the bound socket FD listen; BACKLOG is as in addr_listen_options. Errors: ERR_SYSTEM with
 * errno set; ERR_BUSY if another socket listens at the address. */
enum err addr_start_listening(int fd, int backlog) must_check;
/* Sets TCP options of FD: no delay and, unless IDLE_S is 0, up to PROBES keep-alive probes, every
 * INTERVAL_S [s], of a peer that is silent for IDLE_S [s]. Returns false with errno set if some
 * were rejected, as those of TCP are by a unix socket. */
bool addr_tune_socket(int fd, int idle_s, int interval_s, int probes);
/*
 * Connects FD to A as connect(2) does, and returns 0 or errno. If A has an owner, the path itself
 * must be a socket of that user, not a link, and its listener must run as that user; EPERM
 * otherwise. So the owner of the directory gets no connection that it could not make itself.
 */
int addr_connect(int fd, const struct addr *a) must_check;
/* Returns the address that a socket is bound to, with the actual port if 0 was requested. */
enum err addr_of_socket(int fd, struct addr *out) must_check;
/* The same for a listening socket. Errors: ERR_SYSTEM; ERR_UNSUPPORTED if FD does not listen. */
enum err addr_of_listener(int fd, struct addr *out) must_check;
