/* SPDX-License-Identifier: Apache-2.0
 *
 * The least that waking many waiters over TCP can take on this machine: one process sends a short
 * line on each of N connections, another reads them by epoll; nothing else is done. What a pool
 * counter daemon takes for it is to be seen beside this.
 * wake_floor [N [ROUNDS]]
 */
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAITERS = 999, WAITERS_MAX = 9000, ROUNDS = 51, EVENTS = 512, PAUSE_US = 20000 };

static int here[WAITERS_MAX], there[WAITERS_MAX];

static void expect(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void connect_all(int n)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    expect(bind(listener, (struct sockaddr *)&a, len) == 0, "bind");
    expect(getsockname(listener, (struct sockaddr *)&a, &len) == 0, "getsockname");
    expect(listen(listener, n) == 0, "listen");
    for (int i = 0; i < n; ++i) {
        there[i] = socket(AF_INET, SOCK_STREAM, 0);
        expect(connect(there[i], (struct sockaddr *)&a, len) == 0, "connect");
        here[i] = accept(listener, NULL, NULL);
        expect(here[i] >= 0, "accept");
    }
}

/* The waiters: tells when all have been woken, each round. */
static void read_all(int n, int rounds, int tell)
{
    struct epoll_event events[EVENTS];
    int epoll = epoll_create1(0);

    for (int i = 0; i < n; ++i) {
        struct epoll_event e = {.events = EPOLLIN, .data.fd = there[i]};

        expect(epoll_ctl(epoll, EPOLL_CTL_ADD, there[i], &e) == 0, "epoll_ctl");
    }
    while (rounds-- > 0) {
        for (int got = 0; got < n;) {
            int k = epoll_wait(epoll, events, EVENTS, -1);
            char line[64];

            for (int i = 0; i < k; ++i)
                got += recv(events[i].data.fd, line, sizeof(line), 0) > 0;
        }
        double at_us = now_us();
        expect(write(tell, &at_us, sizeof(at_us)) == sizeof(at_us), "write");
    }
}

static int by_value(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;

    return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
    static double sent_us[ROUNDS], woken_us[ROUNDS];
    int n = argc > 1 ? atoi(argv[1]) : WAITERS;
    int rounds = argc > 2 ? atoi(argv[2]) : ROUNDS;
    int told[2];

    expect(n > 0 && n <= WAITERS_MAX && rounds > 0 && rounds <= ROUNDS, "arguments");
    expect(pipe(told) == 0, "pipe");
    connect_all(n);
    pid_t child = fork();
    expect(child >= 0, "fork");
    if (child == 0) {
        read_all(n, rounds, told[1]);
        return 0;
    }
    for (int r = 0; r < rounds; ++r) {
        double all_us;

        usleep(PAUSE_US);
        double start_us = now_us();
        for (int i = 0; i < n; ++i)
            expect(send(here[i], "DONE\n", 5, MSG_NOSIGNAL) == 5, "send");
        sent_us[r] = now_us() - start_us;
        expect(read(told[0], &all_us, sizeof(all_us)) == sizeof(all_us), "read");
        woken_us[r] = all_us - start_us;
    }
    waitpid(child, NULL, 0);
    qsort(sent_us, (size_t)rounds, sizeof(double), by_value);
    qsort(woken_us, (size_t)rounds, sizeof(double), by_value);
    printf("%d waiters, median of %d: sent in %.2f ms, all read after %.2f ms\n", n, rounds,
           sent_us[rounds / 2] / 1e3, woken_us[rounds / 2] / 1e3);
    return 0;
}
