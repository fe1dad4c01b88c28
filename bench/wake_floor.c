/* SPDX-License-Identifier: Apache-2.0
 *
 * The least time in which many waiters can be woken over TCP on this machine. It listens on
 * standard input and responses only the commands of `poolcounter_load herd`, with one recv per
 * request, one send per response, and no counting, keys, timers or metrics. The first client holds
 * the lock, later ones wait, RELEASE wakes them all. It is the baseline for the pool counter daemon
 * (bench/poolcounter.py --only herd runs both alternately).
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS_MAX = 20000, EVENTS = 256, LINE_MAX_BYTES = 1024 };

static int waiting[CLIENTS_MAX];
static int nwaiting;
static bool held;

static void expect(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

static void response(int fd, const char *line, size_t len)
{
    expect(send(fd, line, len, MSG_NOSIGNAL) == (ssize_t)len, "send");
}

static void acquire(int fd)
{
    if (held) {
        expect(nwaiting < CLIENTS_MAX, "too many wait");
        waiting[nwaiting++] = fd;
        return;
    }
    held = true;
    response(fd, "LOCKED\n", 7);
}

static void release(int fd)
{
    for (int i = 0; i < nwaiting; ++i)
        response(waiting[i], "DONE\n", 5);
    nwaiting = 0;
    held = false;
    response(fd, "RELEASED\n", 9);
}

/* The load generator has one request in flight on a connection: it arrives in one piece. */
static void serve(int fd)
{
    char line[LINE_MAX_BYTES];
    char figure[64];
    ssize_t n = recv(fd, line, sizeof(line), 0);

    if (n <= 0) {
        close(fd);
        return;
    }
    if (line[0] == 'A') {
        acquire(fd);
    } else if (line[0] == 'R') {
        release(fd);
    } else {
        int len = snprintf(figure, sizeof(figure), "waiting_workers: %d\n", nwaiting);

        response(fd, figure, (size_t)len);
    }
}

static void welcome(int epoll)
{
    int fd = accept4(STDIN_FILENO, NULL, NULL, SOCK_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

    expect(fd >= 0, "accept");
    expect(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0, "epoll_ctl");
}

int main(void)
{
    struct epoll_event events[EVENTS];
    struct epoll_event listener = {.events = EPOLLIN, .data.fd = STDIN_FILENO};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int on = 1;

    expect(epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &listener) == 0, "standard input");
    expect(setsockopt(STDIN_FILENO, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0, "nodelay");
    /* The daemon's setting; ignored if the kernel does not permit it. */
    (void)setsockopt(STDIN_FILENO, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);

        for (int i = 0; i < n; ++i) {
            if (events[i].data.fd == STDIN_FILENO)
                welcome(epoll);
            else
                serve(events[i].data.fd);
        }
    }
}
