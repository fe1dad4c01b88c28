/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

void output_fill_standard(void)
{
    for (int fd = 0; fd < 3; ++fd) {
        /* The lowest free number is what open() takes. */
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

struct output output_open(int fd)
{
    struct output o = {.fd = -1, .kind = OUTPUT_NON_BLOCKING};
    struct stat st;
    char path[40];

    if (fstat(fd, &st) != 0)
        return o;
    bool waits = S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (waits)
        o.fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (o.fd >= 0)
        return o;
    o.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (waits)
        o.kind = OUTPUT_POLLED;
    else if (S_ISSOCK(st.st_mode))
        o.kind = OUTPUT_SOCKET;
    return o;
}

bool output_wait(const struct output *o, int ms)
{
    struct pollfd p = {.fd = o->fd, .events = POLLOUT};

    return TEMP_FAILURE_RETRY(poll(&p, 1, ms)) > 0;
}

ssize_t output_write(const struct output *o, struct slice s)
{
    if (o->fd < 0)
        return (ssize_t)s.len;
    if (o->kind == OUTPUT_SOCKET)
        return TEMP_FAILURE_RETRY(send(o->fd, s.p, s.len, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (o->kind == OUTPUT_POLLED) {
        /* A pipe that can be written has room for PIPE_BUF bytes. */
        if (!output_wait(o, 0)) {
            errno = EAGAIN;
            return -1;
        }
        s.len = s.len < PIPE_BUF ? s.len : PIPE_BUF;
    }
    return TEMP_FAILURE_RETRY(write(o->fd, s.p, s.len));
}
