/* SPDX-License-Identifier: Apache-2.0
 *
 * Text forms are strict, and each address has exactly one: addr_parse() accepts what addr_format()
 * writes, except names of unix sockets with control characters, which other programs can create.
 * Zone ids, service names and unbracketed IPv6 are rejected.
 */
#include "common/net/addr.h"
#include "common/base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PORT_MAX = 65535,
    PORT_DIGITS_MAX = 5,
    NAME_MAX_BYTES = 253, /* a DNS name, RFC 1035 section 2.3.4 */
    LABEL_MAX_BYTES = 63,
    RESOLVED_MAX = 1024, /* maximum number of entries of an answer that are examined */
    UNIX_PATH_MAX_BYTES = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1,
    UNIX_PATH_OFFSET = offsetof(struct sockaddr_un, sun_path),
};

/* ---- parse ---- */

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

static enum err parse_unix(struct slice path, struct addr *out)
{
    struct addr a = {.un.sun_family = AF_UNIX};
    bool abstract = path.len != 0 && path.p[0] == '@';

    if (path.len == 0 || (!abstract && path.p[0] != '/') || (abstract && path.len == 1))
        return ERR_SYNTAX;
    for (size_t i = 0; i < path.len; ++i) {
        if (is_control(path.p[i]))
            return ERR_SYNTAX;
    }
    if (path.len > UNIX_PATH_MAX_BYTES)
        return ERR_TOO_LARGE;
    memcpy(a.un.sun_path, path.p, path.len);
    if (abstract)
        a.un.sun_path[0] = '\0';
    /* The length of a path includes its NUL; an abstract name has no NUL at its end. */
    a.len = (socklen_t)(UNIX_PATH_OFFSET + path.len + (abstract ? 0 : 1));
    *out = a;
    return ERR_OK;
}

/* Splits "HOST:PORT", and removes the brackets of "[HOST]:PORT". */
static bool split_port(struct slice text, struct slice *host, bool *bracketed, uint16_t *port)
{
    const char *colon = text.len != 0 ? memrchr(text.p, ':', text.len) : NULL;
    uint64_t n;

    if (colon == NULL)
        return false;
    *host = (struct slice){text.p, (size_t)(colon - text.p)};
    *bracketed = host->len >= 2 && text.p[0] == '[' && colon[-1] == ']';
    if (*bracketed)
        *host = (struct slice){text.p + 1, host->len - 2};
    struct slice digits = {colon + 1, text.len - (size_t)(colon + 1 - text.p)};
    if (host->len == 0 || digits.len > PORT_DIGITS_MAX || (digits.len > 1 && digits.p[0] == '0') ||
        !parse_u64(digits, PORT_MAX, &n))
        return false;
    *port = (uint16_t)n;
    return true;
}

/*
 * A name has labels of letters, digits, '-' and '_', and the last one is not a number such as "256"
 * or "0x7f": "10.0.0.256" is an invalid address, which a resolver might convert to another one.
 */
static bool is_name(struct slice s)
{
    struct slice label = SLICE_NULL;

    if (s.len != 0 && s.p[s.len - 1] == '.')
        --s.len;
    if (s.len == 0 || s.len > NAME_MAX_BYTES)
        return false;
    while (s.p != NULL) {
        label = slice_cut(&s, '.');
        if (label.len == 0 || label.len > LABEL_MAX_BYTES || label.p[0] == '-' ||
            label.p[label.len - 1] == '-' || !slice_is_word(label, "-_"))
            return false;
    }
    bool hex = slice_starts(label, SLICE_LIT("0x")) || slice_starts(label, SLICE_LIT("0X"));
    for (size_t i = hex ? 2 : 0; i < label.len; ++i) {
        int digit = ascii_hex_digit(label.p[i]);

        if (digit < 0 || (!hex && digit > 9))
            return true;
    }
    return false;
}

bool addr_parse_ip(struct slice text, int family, struct addr *out)
{
    struct addr a = {.len = family == AF_INET ? sizeof(a.in) : sizeof(a.in6)};

    a.sa.sa_family = (sa_family_t)family;
    if (!parse_ip(text, family, family == AF_INET ? (void *)&a.in.sin_addr : &a.in6.sin6_addr))
        return false;
    *out = a;
    return true;
}

void addr_set_port(struct addr *a, unsigned port)
{
    if (a->sa.sa_family == AF_INET)
        a->in.sin_port = htons((uint16_t)port);
    else
        a->in6.sin6_port = htons((uint16_t)port);
}

enum err addr_parse(struct slice text, struct addr *out)
{
    struct slice host;
    bool bracketed;
    uint16_t port;

    if (slice_starts(text, SLICE_LIT("unix:")))
        return parse_unix((struct slice){text.p + 5, text.len - 5}, out);
    if (!split_port(text, &host, &bracketed, &port))
        return ERR_SYNTAX;
    if (!addr_parse_ip(host, bracketed ? AF_INET6 : AF_INET, out))
        return !bracketed && is_name(host) ? ERR_UNSUPPORTED : ERR_SYNTAX;
    addr_set_port(out, port);
    return ERR_OK;
}

/* ---- print ---- */

/* AF_UNSPEC if A is not set. */
static int family_of(const struct addr *a)
{
    return a->len != 0 ? a->sa.sa_family : AF_UNSPEC;
}

/* The bytes of the address: of an IP address without port; of a unix socket its path without NUL,
 * or its abstract name with the leading NUL. */
static struct slice bytes_of(const struct addr *a)
{
    size_t room = a->len > UNIX_PATH_OFFSET ? a->len - UNIX_PATH_OFFSET : 0;

    switch (family_of(a)) {
    case AF_INET:
        return (struct slice){(const char *)&a->in.sin_addr, sizeof(a->in.sin_addr)};
    case AF_INET6:
        return (struct slice){(const char *)&a->in6.sin6_addr, sizeof(a->in6.sin6_addr)};
    case AF_UNIX:
        if (room > sizeof(a->un.sun_path))
            room = sizeof(a->un.sun_path);
        if (room != 0 && a->un.sun_path[0] != '\0')
            room = strnlen(a->un.sun_path, room);
        return (struct slice){a->un.sun_path, room};
    default:
        return SLICE_NULL;
    }
}

const char *addr_format(const struct addr *a, char out[ADDR_TEXT_MAX])
{
    int family = family_of(a);
    struct slice bytes = bytes_of(a);
    char host[INET6_ADDRSTRLEN];

    if (family == AF_INET || family == AF_INET6) {
        inet_ntop(family, bytes.p, host, sizeof(host));
        snprintf(out, ADDR_TEXT_MAX, family == AF_INET ? "%s:%u" : "[%s]:%u", host, addr_port(a));
        return out;
    }
    size_t n = (size_t)snprintf(out, ADDR_TEXT_MAX, family == AF_UNIX ? "unix:" : "unknown");
    /* The name of a socket may contain any bytes; control bytes become %XX so that they do not
     * break lines. */
    for (size_t i = 0; i < bytes.len; ++i) {
        ASSERT(n + 4 <= ADDR_TEXT_MAX); /* 5 + 3 * 108 bytes fit */
        if (i == 0 && bytes.p[0] == '\0')
            out[n++] = '@';
        else if (is_control(bytes.p[i]))
            n += (size_t)snprintf(out + n, 4, "%%%02X", (unsigned)(unsigned char)bytes.p[i]);
        else
            out[n++] = bytes.p[i];
    }
    out[n] = '\0';
    return out;
}

struct slice addr_host_slice(const struct addr *a, char out[ADDR_TEXT_MAX])
{
    int family = family_of(a);

    /* inet_ntop() is slower because it formats with printf(): this is called for each request. */
    if (family == AF_INET) {
        const unsigned char *bytes = (const unsigned char *)&a->in.sin_addr;
        char *at = out;

        for (size_t i = 0; i < sizeof(a->in.sin_addr); ++i) {
            if (bytes[i] >= 100)
                *at++ = (char)('0' + bytes[i] / 100);
            if (bytes[i] >= 10)
                *at++ = (char)('0' + bytes[i] / 10 % 10);
            *at++ = (char)('0' + bytes[i] % 10);
            *at++ = '.';
        }
        *--at = '\0';
        return (struct slice){out, (size_t)(at - out)};
    }
    if (family == AF_INET6)
        inet_ntop(AF_INET6, &a->in6.sin6_addr, out, ADDR_TEXT_MAX);
    else
        snprintf(out, ADDR_TEXT_MAX, family == AF_UNIX ? "unix:" : "unknown");
    return slice_of(out);
}

unsigned addr_port(const struct addr *a)
{
    int family = family_of(a);

    return family == AF_INET    ? ntohs(a->in.sin_port)
           : family == AF_INET6 ? ntohs(a->in6.sin6_port)
                                : 0;
}

/* ---- compare ---- */

int addr_compare(const void *x, const void *y)
{
    const struct addr *a = x;
    const struct addr *b = y;
    int order = family_of(a) - family_of(b);

    if (order == 0)
        order = slice_compare(bytes_of(a), bytes_of(b));
    if (order == 0 && family_of(a) == AF_INET6)
        order = compare_u64(a->in6.sin6_scope_id, b->in6.sin6_scope_id);
    return order != 0 ? order : compare_u64(addr_port(a), addr_port(b));
}

bool addr_equal(const struct addr *a, const struct addr *b)
{
    return addr_compare(a, b) == 0;
}

bool addr_same_host(const struct addr *a, const struct addr *b)
{
    int family = family_of(a);

    return (family == AF_INET || family == AF_INET6) && family == family_of(b) &&
           slice_eq(bytes_of(a), bytes_of(b));
}

struct addr addr_plain(const struct addr *a)
{
    struct addr plain = {.in.sin_family = AF_INET, .len = sizeof(plain.in)};

    if (family_of(a) != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr))
        return *a;
    memcpy(&plain.in.sin_addr, &a->in6.sin6_addr.s6_addr[12], sizeof(plain.in.sin_addr));
    plain.in.sin_port = a->in6.sin6_port;
    return plain;
}

bool addr_overlaps(const struct addr *a, const struct addr *b)
{
    if (a->len == 0 || a->sa.sa_family != b->sa.sa_family)
        return false;
    if (a->sa.sa_family == AF_UNIX)
        return addr_equal(a, b);
    return addr_port(a) != 0 && addr_port(a) == addr_port(b) &&
           (addr_equal(a, b) || addr_is_wildcard(a) || addr_is_wildcard(b));
}

bool addr_is_wildcard(const struct addr *a)
{
    struct addr plain = addr_plain(a);

    if (family_of(&plain) == AF_INET)
        return plain.in.sin_addr.s_addr == htonl(INADDR_ANY);
    return family_of(&plain) == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&plain.in6.sin6_addr);
}

bool addr_is_loopback(const struct addr *a)
{
    struct addr plain = addr_plain(a);

    if (family_of(&plain) == AF_INET)
        return ntohl(plain.in.sin_addr.s_addr) >> 24 == 127;
    if (family_of(&plain) == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&plain.in6.sin6_addr);
    return family_of(&plain) == AF_UNIX;
}

/* ---- resolve ---- */

enum err addr_resolve(struct slice text, struct addr *out, size_t *n)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *answer = NULL;
    struct slice host;
    bool bracketed;
    uint16_t port;

    ASSERT(*n != 0);
    enum err e = addr_parse(text, out);
    if (e == ERR_OK) {
        *n = 1;
        return ERR_OK;
    }
    if (e != ERR_UNSUPPORTED || !split_port(text, &host, &bracketed, &port))
        return ERR_SYNTAX;
    char *name = xslicedup(host);
    int failed = getaddrinfo(name, NULL, &hints, &answer);
    free(name);
    if (failed != 0)
        return ERR_NOT_FOUND;
    struct addr *all = xcalloc(RESOLVED_MAX, sizeof(*all));
    size_t nall = 0;
    size_t kept = 0;
    for (const struct addrinfo *i = answer; i != NULL && nall < RESOLVED_MAX; i = i->ai_next) {
        struct addr a = {.len = i->ai_addrlen};

        if ((i->ai_family != AF_INET && i->ai_family != AF_INET6) || i->ai_addrlen > sizeof(a.in6))
            continue;
        memcpy(&a.sa, i->ai_addr, i->ai_addrlen);
        addr_set_port(&a, port);
        all[nall++] = a;
    }
    freeaddrinfo(answer);
    qsort(all, nall, sizeof(*all), addr_compare);
    for (size_t i = 0; i < nall && kept < *n; ++i) {
        if (kept == 0 || !addr_equal(&out[kept - 1], &all[i]))
            out[kept++] = all[i];
    }
    free(all);
    if (kept == 0)
        return ERR_NOT_FOUND;
    *n = kept;
    return ERR_OK;
}

/* ---- sockets ---- */

/*
 * Checks whether the unix socket of A is stale: the process that created it has exited, and no
 * process listens. Errors: ERR_BUSY if a process listens; ERR_SYSTEM if that cannot be determined
 * or the file is not a socket.
 */
static enum err check_stale(const struct addr *a)
{
    struct stat st;

    if (lstat(a->un.sun_path, &st) == -1)
        return errno == ENOENT ? ERR_OK : ERR_SYSTEM;
    if (!S_ISSOCK(st.st_mode)) {
        errno = ENOTSOCK;
        return ERR_SYSTEM;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1)
        return ERR_SYSTEM;
    int failed = connect(fd, &a->sa, a->len) == 0 ? 0 : errno;
    close(fd);
    if (failed == ECONNREFUSED || failed == ENOENT)
        return ERR_OK;
    errno = failed;
    /* The socket is in use if it connected, its queue is full, or it has another type. */
    return failed == 0 || failed == EAGAIN || failed == EPROTOTYPE ? ERR_BUSY : ERR_SYSTEM;
}

static enum err bind_socket(int fd, const struct addr *a, bool is_path)
{
    if (bind(fd, &a->sa, a->len) == 0)
        return ERR_OK;
    if (errno == EADDRINUSE && is_path) {
        enum err e = check_stale(a);

        if (e != ERR_OK)
            return e;
        if (unlink(a->un.sun_path) == -1 && errno != ENOENT)
            return ERR_SYSTEM;
        if (bind(fd, &a->sa, a->len) == 0)
            return ERR_OK;
    }
    return errno == EADDRINUSE ? ERR_BUSY : ERR_SYSTEM;
}

static bool set_options(int fd, const struct addr *a, const struct addr_listen_options *o)
{
    int on = 1;

    /* The file is created with the mode of the socket (less the umask), so access is never wider
     * than that. */
    if (a->sa.sa_family == AF_UNIX)
        return o->mode == 0 || fchmod(fd, o->mode) == 0;
    return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
           (a->sa.sa_family != AF_INET6 ||
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0) &&
           (!o->reuse_port || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0);
}

bool addr_tune_socket(int fd, int idle_s, int interval_s, int probes)
{
    const int options[][3] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},       {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, idle_s}, {IPPROTO_TCP, TCP_KEEPINTVL, interval_s},
        {IPPROTO_TCP, TCP_KEEPCNT, probes},
    };
    bool all = true;

    for (size_t i = 0; i < (idle_s != 0 ? ARRAY_LEN(options) : 1); ++i)
        all &= setsockopt(fd, options[i][0], options[i][1], &options[i][2], sizeof(int)) == 0;
    return all;
}

enum err addr_start_listening(int fd, int backlog)
{
    if (listen(fd, backlog != 0 ? backlog : 1024) == 0)
        return ERR_OK;
    /* With SO_REUSEADDR, two sockets can be bound to a port; only the second listen() fails. */
    return errno == EADDRINUSE ? ERR_BUSY : ERR_SYSTEM;
}

/* The inode is opened first, so that the checks and the connection are about the same socket. */
static int connect_to_owner(int fd, const struct addr *a)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t len = sizeof(peer);
    struct stat st;
    int error = EPERM;
    int inode = open(a->un.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    if (inode < 0)
        return errno;
    snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d", inode);
    if (fstat(inode, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == a->owner) {
        if (connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
            error = errno;
        else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == a->owner)
            error = 0;
    }
    close(inode);
    return error;
}

int addr_connect(int fd, const struct addr *a)
{
    if (a->owner != 0)
        return connect_to_owner(fd, a);
    return connect(fd, &a->sa, a->len) == 0 ? 0 : errno;
}

enum err addr_listen(const struct addr *a, const struct addr_listen_options *o, int *fd)
{
    bool is_path = a->sa.sa_family == AF_UNIX && a->un.sun_path[0] != '\0';

    ASSERT(a->len != 0);
    int s = socket(a->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s == -1)
        return ERR_SYSTEM;
    enum err e = set_options(s, a, o) ? bind_socket(s, a, is_path) : ERR_SYSTEM;
    /* A user that can write the directory may have put a link in the socket's place. */
    if (e == ERR_OK && is_path && o->mode != 0 &&
        fchmodat(AT_FDCWD, a->un.sun_path, o->mode, AT_SYMLINK_NOFOLLOW) == -1)
        e = ERR_SYSTEM;
    if (e == ERR_OK && !o->bound_only)
        e = addr_start_listening(s, o->backlog);
    if (e != ERR_OK) {
        int saved = errno;
        close(s);
        errno = saved;
        return e;
    }
    *fd = s;
    return ERR_OK;
}

enum err addr_of_socket(int fd, struct addr *out)
{
    struct addr a = {.un = {0}};
    socklen_t len = sizeof(a.un);

    if (getsockname(fd, &a.sa, &len) == -1)
        return ERR_SYSTEM;
    /* For a path of maximum length the kernel returns a length that includes a NUL beyond the
     * struct. */
    a.len = len < (socklen_t)sizeof(a.un) ? len : (socklen_t)sizeof(a.un);
    *out = a;
    return ERR_OK;
}

enum err addr_of_listener(int fd, struct addr *out)
{
    int on = 0;
    socklen_t len = sizeof(on);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) != 0)
        return ERR_SYSTEM;
    return on != 0 ? addr_of_socket(fd, out) : ERR_UNSUPPORTED;
}
