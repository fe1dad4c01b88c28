/* SPDX-License-Identifier: Apache-2.0
 *
 * The client library takes the part after the last colon of a host as its port, in any base (010 is
 * 8), and does not support brackets: so every host is rewritten here, with a decimal port.
 */
#include "common/zookeeper/zookeeper_url.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static enum err add_host(struct slice whole, struct text *out, struct diag *d)
{
    bool in_brackets = whole.len != 0 && whole.p[0] == '[';
    size_t end = slice_find(whole, in_brackets ? ']' : ':');
    struct in6_addr unused;
    uint64_t port = ZOOKEEPER_PORT;

    if (end == SIZE_MAX)
        end = whole.len;
    struct slice host = {whole.p + in_brackets, end - in_brackets};
    bool valid = host.len != 0 && host.len <= ZOOKEEPER_HOST_MAX;
    if (in_brackets) {
        valid = end != whole.len && parse_ip(host, AF_INET6, &unused);
    } else {
        /* Letters, digits, '-', '_' in labels between dots; an IPv4 address is such a name too. */
        for (struct slice rest = host; valid && rest.len != 0;) {
            struct slice label = slice_cut(&rest, '.');

            valid = label.len != 0 && slice_is_word(label, "-_");
        }
    }
    if (!valid) {
        diag_add(d, NULL, 0, 0,
                 "zookeeper: '%.*s' is not a valid host: expected NAME:PORT, ADDRESS:PORT or "
                 "[IPV6]:PORT",
                 SLICE_FMT(whole));
        return ERR_SYNTAX;
    }
    end += in_brackets;
    if (end != whole.len) {
        struct slice digits = {whole.p + end + 1, whole.len - end - 1};

        if (whole.p[end] != ':' || !parse_u64(digits, 65535, &port) || port == 0) {
            diag_add(d, NULL, 0, 0, "zookeeper: '%.*s': expected a port of 1-65535 after the host",
                     SLICE_FMT(whole));
            return ERR_RANGE;
        }
    }
    text_addf(out, "%s%.*s:%u", out->len != 0 ? "," : "", SLICE_FMT(host), (unsigned)port);
    return ERR_OK;
}

static enum err add_hosts(struct slice hosts, struct text *out, struct diag *d)
{
    enum err e = ERR_OK;
    size_t n = 0;

    if (hosts.len == 0) {
        diag_add(d, NULL, 0, 0, "zookeeper: no host: expected zookeeper://HOST:PORT/PATH");
        return ERR_SYNTAX;
    }
    for (bool more = true; more && e == ERR_OK;) {
        /* An empty one behind the last comma is a mistake as well. */
        more = slice_find(hosts, ',') != SIZE_MAX;
        if (++n > ZOOKEEPER_HOSTS_MAX) {
            diag_add(d, NULL, 0, 0, "zookeeper: more than %d hosts", ZOOKEEPER_HOSTS_MAX);
            return ERR_TOO_LARGE;
        }
        e = add_host(slice_cut(&hosts, ','), out, d);
    }
    return e;
}

static enum err add_path(struct slice path, struct text *out, struct diag *d)
{
    struct slice whole = path;

    for (size_t i = 0; i < path.len; ++i) {
        if (path.p[i] <= ' ' || path.p[i] > '~') {
            diag_add(d, NULL, 0, 0,
                     "zookeeper: byte 0x%02x in the path: only visible ASCII is permitted",
                     (unsigned char)path.p[i]);
            return ERR_SYNTAX;
        }
    }
    while (path.len != 0) {
        struct slice name = slice_cut(&path, '/');

        if (name.len == 0)
            continue;
        if (slice_is(name, ".") || slice_is(name, "..")) {
            diag_add(d, NULL, 0, 0, "zookeeper: path '%.*s': '.' and '..' are not valid names",
                     SLICE_FMT(whole));
            return ERR_SYNTAX;
        }
        text_add_char(out, '/');
        text_add(out, name);
    }
    if (out->len > ZOOKEEPER_TOP_MAX) {
        diag_add(d, NULL, 0, 0, "zookeeper: path of more than %d bytes", ZOOKEEPER_TOP_MAX);
        return ERR_TOO_LARGE;
    }
    return ERR_OK;
}

enum err zookeeper_url_parse(struct slice location, char **hosts, char **top, struct diag *d)
{
    struct text list = {0};
    struct text path = {0};

    if (!slice_starts(location, SLICE_LIT("//"))) {
        diag_add(d, NULL, 0, 0, "zookeeper: expected zookeeper://HOST:PORT,HOST:PORT/PATH");
        return ERR_SYNTAX;
    }
    struct slice rest = {location.p + 2, location.len - 2};
    enum err e = add_hosts(slice_cut(&rest, '/'), &list, d);
    if (e == ERR_OK)
        e = add_path(rest, &path, d);
    if (e == ERR_OK) {
        *hosts = xslicedup(text_slice(&list));
        *top = xslicedup(text_slice(&path));
    }
    text_fini(&list);
    text_fini(&path);
    return e;
}

enum err zookeeper_auth_read(const char *file, char **identity, struct diag *d)
{
    /* The line, its end, and one byte that shows that it is longer. */
    char bytes[ZOOKEEPER_AUTH_MAX + 3];
    int fd = open(file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    enum err e = ERR_UNSUPPORTED;
    struct stat st;
    ssize_t len = 0;

    if (fd < 0) {
        diag_add(d, file, 0, 0, "%s", strerror(errno));
        return ERR_SYSTEM;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        diag_add(d, file, 0, 0, "not a plain file");
    } else if ((st.st_mode & (S_IROTH | S_IWOTH)) != 0) {
        diag_add(d, file, 0, 0, "contains a secret and is accessible to all users: chmod o-rw it");
    } else if ((len = read(fd, bytes, sizeof(bytes))) < 0) {
        diag_add(d, file, 0, 0, "%s", strerror(errno));
        e = ERR_SYSTEM;
    } else {
        e = ERR_OK;
    }
    close(fd);
    if (e == ERR_OK) {
        struct slice rest = {bytes, (size_t)len};
        struct slice line = slice_cut(&rest, '\n');

        if (slice_ends(line, SLICE_LIT("\r")))
            --line.len;
        size_t colon = slice_find(line, ':');
        bool control = false;
        for (size_t i = 0; i < line.len; ++i)
            control = control || (unsigned char)line.p[i] < 0x20 || line.p[i] == 0x7f;
        /* The messages reveal nothing of its contents. */
        e = ERR_SYNTAX;
        if (line.len > ZOOKEEPER_AUTH_MAX) {
            diag_add(d, file, 0, 0, "its first line is longer than %d bytes", ZOOKEEPER_AUTH_MAX);
            e = ERR_TOO_LARGE;
        } else if (colon == SIZE_MAX || colon == 0 || colon + 1 == line.len) {
            diag_add(d, file, 0, 0, "expected USER:PASSWORD in the first line");
        } else if (control) {
            diag_add(d, file, 0, 0, "a control byte in its first line");
        } else {
            if (identity != NULL)
                *identity = xslicedup(line);
            e = ERR_OK;
        }
    }
    explicit_bzero(bytes, sizeof(bytes));
    return e;
}
