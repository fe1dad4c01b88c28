/* SPDX-License-Identifier: Apache-2.0
 *
 * A process between ZooKeeper's client and server that breaks the connection at responses over a
 * limit, as clients and proxies with a buffer of 1 MiB do. Ends with the test's process.
 */
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RESPONSE_LIMIT = 1 << 20 };

/* How far into the present response the stream is. */
struct response_meter {
    unsigned char head[4];
    size_t got, left;
};

/* False: a response over the limit begins in BYTES. */
static inline bool response_meter_pass(struct response_meter *m, const unsigned char *bytes,
                                       size_t n)
{
    while (n != 0) {
        size_t take = m->left < n ? m->left : n;

        m->left -= take;
        bytes += take;
        n -= take;
        if (m->left != 0 || n == 0)
            continue;
        m->head[m->got++] = *bytes++;
        --n;
        if (m->got < sizeof(m->head))
            continue;
        m->got = 0;
        uint32_t len;
        memcpy(&len, m->head, sizeof(len));
        m->left = ntohl(len);
        if (m->left > RESPONSE_LIMIT)
            return false;
    }
    return true;
}

static inline bool send_all(int fd, const unsigned char *bytes, size_t n)
{
    while (n != 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        bytes += sent;
        n -= (size_t)sent;
    }
    return true;
}

static inline void carry(int client, int server)
{
    struct pollfd fds[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    struct response_meter meter = {.got = 0};
    static unsigned char buf[65536];

    while (poll(fds, 2, -1) > 0) {
        for (int i = 0; i < 2; ++i) {
            if (fds[i].revents == 0)
                continue;
            ssize_t n = recv(fds[i].fd, buf, sizeof(buf), 0);
            if (n <= 0 || (i == 1 && !response_meter_pass(&meter, buf, (size_t)n)) ||
                !send_all(fds[1 - i].fd, buf, (size_t)n))
                return;
        }
    }
}

/* A listening socket on 127.0.0.1, and its port. */
static inline int listen_anywhere(unsigned *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        abort();
    *port = ntohs(a.sin_port);
    return fd;
}

/* Start one before "127.0.0.1:PORT"; returns its process, and its port in *PORT. */
static inline pid_t response_limit_proxy(const char *server, unsigned *port)
{
    int listener = listen_anywhere(port);
    pid_t pid = fork();

    if (pid != 0) {
        close(listener);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    a.sin_port = htons((uint16_t)atoi(strrchr(server, ':') + 1));
    for (;;) {
        int client = accept(listener, NULL, NULL);
        int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (client >= 0 && connect(to, (struct sockaddr *)&a, sizeof(a)) == 0)
            carry(client, to);
        close(client);
        close(to);
    }
}
