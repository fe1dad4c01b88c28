/* SPDX-License-Identifier: Apache-2.0 */
#include "poolcounter/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"

enum {
    /* The first of those that systemd passes: sd_listen_fds(3). */
    LISTEN_FDS_START = 3,
};

static int int_option(int fd, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

static bool listens(int fd)
{
    return int_option(fd, SO_TYPE) == SOCK_STREAM && int_option(fd, SO_ACCEPTCONN) == 1;
}

static bool is_socket(int fd)
{
    return int_option(fd, SO_TYPE) != -1;
}

static void take(struct sockets *out, int fd)
{
    if (!listens(fd) || out->n == LISTENERS_MAX) {
        log_warn(NULL, "descriptor-not-taken", "fd=%d reason=\"not a listening socket\"", fd);
        return;
    }
    int flags = fcntl(fd, F_GETFL);
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || flags < 0 ||
        fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        log_warn(NULL, "descriptor-not-taken", "fd=%d reason=\"%s\"", fd, strerror(errno));
        return;
    }
    out->fds[out->n++] = fd;
}

static void inherit_from_systemd(struct sockets *out)
{
    const char *pid_text = getenv("LISTEN_PID");
    const char *n_text = getenv("LISTEN_FDS");
    uint64_t pid = 0;
    uint64_t n = 0;

    if (pid_text != NULL && n_text != NULL && parse_u64(slice_of(pid_text), INT32_MAX, &pid) &&
        (pid_t)pid == getpid() && parse_u64(slice_of(n_text), LISTENERS_MAX, &n)) {
        for (uint64_t i = 0; i < n; ++i)
            take(out, LISTEN_FDS_START + (int)i);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
}

/* As the original has it. Moved, so that 0 is what it is in every other program. */
static void inherit_standard_input(struct sockets *out)
{
    int null;

    if (!is_socket(STDIN_FILENO))
        return;
    int fd = listens(STDIN_FILENO) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
    if (fd < 0) {
        log_warn(NULL, "descriptor-not-taken", "fd=0 reason=\"not a listening socket\"");
        return;
    }
    take(out, fd);
    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        close(null);
    }
}

void sockets_inherit(struct sockets *out)
{
    out->n = 0;
    inherit_from_systemd(out);
    if (out->n == 0)
        inherit_standard_input(out);
}

bool sockets_open(const struct addr *addresses, size_t n, int backlog, unsigned mode,
                  struct sockets *out)
{
    const struct addr_listen_options o = {.backlog = backlog, .mode = mode};
    char text[ADDR_TEXT_MAX];

    ASSERT(n <= LISTENERS_MAX);
    out->n = 0;
    for (size_t i = 0; i < n; ++i) {
        enum err e = addr_listen(&addresses[i], &o, &out->fds[out->n]);

        if (e == ERR_OK) {
            ++out->n;
            continue;
        }
        log_error(NULL, "cannot-listen", "address=%s reason=\"%s\"",
                  addr_format(&addresses[i], text),
                  e == ERR_SYSTEM ? strerror(errno) : err_text(e));
        while (out->n != 0)
            close(out->fds[--out->n]);
        return false;
    }
    return true;
}
