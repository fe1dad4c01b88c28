/* SPDX-License-Identifier: Apache-2.0
 *
 * Load for a pool counter daemon; bench/poolcounter.py runs it. One thread, epoll, no pipelining
 * (the original would lose lines). Prints one JSON object.
 *
 * poolcounter_load PORT PID SCENARIO CONNECTIONS [KEYS [SECONDS]]; the scenarios:
 *
 * - lock: each connection acquires a random key and releases it, in a closed loop.
 *
 * - herd (KEYS is "-"): one holds, the others wait (ACQ4ANY); its release wakes them all; repeated.
 *
 * - idle: each connection sends one request, then nothing.
 *
 * - hold: distinct keys, four per connection.
 *
 * - burst: all connect at the same time.
 *
 * PID is the process id of the daemon; its processor time and memory are read from /proc.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/base.h"

enum {
    EVENTS = 512,
    LINE = 256,
    LOCKS = 4,
    /* The number of ephemeral ports that are used per source address. */
    PORTS = 25000,
    STEPS_MS = 60000,
};

struct peer {
    int fd;
    bool holds;
    uint64_t sent_ns;
};

struct load {
    int port, pid, epoll;
    size_t npeers, keys;
    double seconds;
    struct peer *peers;
    uint64_t random;
    uint64_t ops;
};

/* ---- tools ---- */

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* xorshift64 (Marsaglia, 2003): sufficient for the choice of keys. */
static uint64_t next_random(struct load *l)
{
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    l->random ^= l->random << 17;
    return l->random;
}

static double cpu_seconds(int pid)
{
    char path[64];
    char line[1024] = "";
    unsigned long user = 0, system = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (f == NULL || fgets(line, sizeof(line), f) == NULL)
        die(path);
    fclose(f);
    /* After the name in brackets: state, ten numbers, utime and stime. */
    const char *at = strrchr(line, ')');
    if (at == NULL ||
        sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        die("stat");
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static long rss_kib(int pid)
{
    char path[64];
    char line[256];
    long kib = -1;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        die(path);
    while (fgets(line, sizeof(line), f) != NULL)
        sscanf(line, "VmRSS: %ld", &kib);
    fclose(f);
    return kib;
}

/* Connection I is from 127.1.0.N, so that ports do not run out. */
static int start_connecting(const struct load *l, size_t i, bool wait)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)l->port)};
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK), 0);

    from.sin_addr.s_addr = htonl(0x7f010001U + (uint32_t)(i / PORTS));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0)
        die("socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0)
        die("bind");
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 && errno != EINPROGRESS)
        die("connect");
    return fd;
}

static void watch(const struct load *l, struct peer *p)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};

    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, p->fd, &e) != 0)
        die("epoll_ctl");
}

static void connect_all(struct load *l)
{
    for (size_t i = 0; i < l->npeers; ++i)
        l->peers[i].fd = start_connecting(l, i, true);
}

static void say(struct peer *p, const char *line)
{
    size_t n = strlen(line);

    p->sent_ns = now_ns();
    if (send(p->fd, line, n, MSG_NOSIGNAL) != (ssize_t)n)
        die("send");
}

/* Reads one response; on loopback a line arrives in one piece. */
static const char *hear(const struct peer *p, char buf[LINE])
{
    ssize_t n = recv(p->fd, buf, LINE - 1, 0);

    if (n <= 0)
        die("recv");
    buf[n] = '\0';
    return buf;
}

static void expect(const struct peer *p, const char *wanted)
{
    char buf[LINE];

    if (strncmp(hear(p, buf), wanted, strlen(wanted)) != 0) {
        fprintf(stderr, "expected %s, got %s\n", wanted, buf);
        exit(1);
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The quantile Q [us] of N values [ns], which it sorts. */
static double quantile_us(uint64_t *values, size_t n, double q)
{
    if (n == 0)
        return 0;
    qsort(values, n, sizeof(*values), compare);
    return (double)values[(size_t)(q * (double)(n - 1))] / 1000;
}

/* ---- lock ---- */

static void next_command(struct load *l, struct peer *p)
{
    char line[LINE] = "RELEASE\n";

    if (!p->holds)
        snprintf(line, sizeof(line), "ACQ4ME bench:%" PRIu64 " 1000000 1000000 5\n",
                 next_random(l) % l->keys);
    p->holds = !p->holds;
    say(p, line);
}

static void run_lock(struct load *l)
{
    enum { SAMPLES = 1 << 20 };
    struct epoll_event events[EVENTS];
    uint64_t *samples = xcalloc(SAMPLES, sizeof(*samples));
    char buf[LINE];

    connect_all(l);
    for (size_t i = 0; i < l->npeers; ++i)
        watch(l, &l->peers[i]);
    double cpu = cpu_seconds(l->pid);
    uint64_t start = now_ns();
    uint64_t end = start + (uint64_t)(l->seconds * 1e9);
    for (size_t i = 0; i < l->npeers; ++i)
        next_command(l, &l->peers[i]);
    while (now_ns() < end) {
        int n = epoll_wait(l->epoll, events, EVENTS, 1000);
        for (int i = 0; i < n; ++i) {
            struct peer *p = events[i].data.ptr;

            (void)hear(p, buf);
            if (buf[0] != (p->holds ? 'L' : 'R'))
                die(buf);
            samples[l->ops++ % SAMPLES] = now_ns() - p->sent_ns;
            next_command(l, p);
        }
    }
    double elapsed = (double)(now_ns() - start) / 1e9;
    cpu = cpu_seconds(l->pid) - cpu;
    size_t n = l->ops < SAMPLES ? l->ops : SAMPLES;
    printf("{\"ops_per_s\": %.0f, \"cpu_us_per_op\": %.2f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n",
           (double)l->ops / elapsed, cpu * 1e6 / (double)l->ops, quantile_us(samples, n, 0.5),
           quantile_us(samples, n, 0.99));
    free(samples);
}

/* ---- herd ---- */

/* Polls, as the holder, until all other peers wait. */
static void wait_for_waiters(struct load *l)
{
    char wanted[64];
    char buf[LINE] = "";

    snprintf(wanted, sizeof(wanted), "waiting_workers: %zu\n", l->npeers - 1);
    while (strcmp(buf, wanted) != 0) {
        say(&l->peers[0], "STATS waiting_workers\n");
        (void)hear(&l->peers[0], buf);
    }
}

/* The time [ns] from the release until the last peer has read DONE. */
static uint64_t wave_ns(struct load *l)
{
    struct epoll_event events[EVENTS];
    size_t woken = 0;
    char buf[LINE];

    say(&l->peers[0], "ACQ4ANY bench 1 1000000 60\n");
    expect(&l->peers[0], "LOCKED");
    for (size_t i = 1; i < l->npeers; ++i)
        say(&l->peers[i], "ACQ4ANY bench 1 1000000 60\n");
    wait_for_waiters(l);
    uint64_t start = now_ns();
    say(&l->peers[0], "RELEASE\n");
    while (woken < l->npeers - 1) {
        int n = epoll_wait(l->epoll, events, EVENTS, STEPS_MS);
        for (int i = 0; i < n; ++i) {
            if (strcmp(hear(events[i].data.ptr, buf), "DONE\n") != 0)
                die(buf);
            ++woken;
        }
    }
    uint64_t ns = now_ns() - start;
    expect(&l->peers[0], "RELEASED");
    return ns;
}

static void run_herd(struct load *l)
{
    enum { WAVES_MAX = 10000 };
    uint64_t *waves = xcalloc(WAVES_MAX, sizeof(*waves));
    size_t n = 0;

    connect_all(l);
    for (size_t i = 1; i < l->npeers; ++i)
        watch(l, &l->peers[i]);
    double cpu = cpu_seconds(l->pid);
    uint64_t end = now_ns() + (uint64_t)(l->seconds * 1e9);
    while (now_ns() < end && n < WAVES_MAX)
        waves[n++] = wave_ns(l);
    cpu = cpu_seconds(l->pid) - cpu;
    printf("{\"wave_p50_us\": %.0f, \"wave_p99_us\": %.0f, \"cpu_us_per_waiter\": %.2f}\n",
           quantile_us(waves, n, 0.5), quantile_us(waves, n, 0.99),
           cpu * 1e6 / ((double)n * (double)(l->npeers - 1)));
    free(waves);
}

/* ---- memory ---- */

static void run_idle(struct load *l)
{
    long before = rss_kib(l->pid);

    connect_all(l);
    for (size_t i = 0; i < l->npeers; ++i) {
        say(&l->peers[i], "STATS hashtable_entries\n");
        expect(&l->peers[i], "hashtable_entries: 0\n");
    }
    long after = rss_kib(l->pid);
    double cpu = cpu_seconds(l->pid);
    sleep(2);
    cpu = cpu_seconds(l->pid) - cpu;
    printf("{\"rss_bytes_per_connection\": %.0f, \"idle_cpu\": %.3f}\n",
           (double)(after - before) * 1024 / (double)l->npeers, cpu / 2);
}

static void run_hold(struct load *l)
{
    size_t held = 0;
    char line[LINE];

    connect_all(l);
    for (size_t i = 0; i < l->npeers; ++i) {
        say(&l->peers[i], "STATS hashtable_entries\n");
        expect(&l->peers[i], "hashtable_entries: 0\n");
    }
    long before = rss_kib(l->pid);
    for (size_t i = 0; i < l->npeers; ++i) {
        for (size_t k = 0; k < LOCKS && held < l->keys; ++k) {
            snprintf(line, sizeof(line), "ACQ4ME bench:%zu 1 1 0\n", held++);
            say(&l->peers[i], line);
            expect(&l->peers[i], "LOCKED\n");
        }
    }
    printf("{\"keys\": %zu, \"rss_bytes_per_key\": %.0f}\n", held,
           (double)(rss_kib(l->pid) - before) * 1024 / (double)held);
}

/* ---- burst ---- */

static void run_burst(struct load *l)
{
    struct epoll_event events[EVENTS];
    uint64_t *times = xcalloc(l->npeers, sizeof(*times));
    size_t responded = 0;
    char buf[LINE];
    uint64_t start = now_ns();
    uint64_t end = start + (uint64_t)(l->seconds * 1e9);

    for (size_t i = 0; i < l->npeers; ++i) {
        struct epoll_event e = {.events = EPOLLOUT, .data.ptr = &l->peers[i]};

        l->peers[i].fd = start_connecting(l, i, false);
        if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->peers[i].fd, &e) != 0)
            die("epoll_ctl");
    }
    while (responded < l->npeers && now_ns() < end) {
        int n = epoll_wait(l->epoll, events, EVENTS, 100);
        for (int i = 0; i < n; ++i) {
            struct peer *p = events[i].data.ptr;
            struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};

            if ((events[i].events & EPOLLOUT) != 0) {
                say(p, "STATS connect_errors\n");
                epoll_ctl(l->epoll, EPOLL_CTL_MOD, p->fd, &e);
                continue;
            }
            (void)hear(p, buf);
            epoll_ctl(l->epoll, EPOLL_CTL_DEL, p->fd, NULL);
            times[responded++] = now_ns() - start;
        }
    }
    printf("{\"responded\": %zu, \"not_responded\": %zu, \"p50_ms\": %.1f, \"last_ms\": %.1f}\n",
           responded, l->npeers - responded, quantile_us(times, responded, 0.5) / 1000,
           quantile_us(times, responded, 1) / 1000);
    free(times);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct load *l);
    } scenarios[] = {
        {"lock", run_lock}, {"herd", run_herd},   {"idle", run_idle},
        {"hold", run_hold}, {"burst", run_burst},
    };
    struct rlimit files;
    struct load l = {.random = 88172645463325252U, .keys = 1, .seconds = 12};

    if (argc < 5) {
        fprintf(stderr, "usage: %s PORT PID SCENARIO CONNECTIONS [KEYS|- [SECONDS]]\n", argv[0]);
        return 2;
    }
    l.port = atoi(argv[1]);
    l.pid = atoi(argv[2]);
    l.npeers = strtoul(argv[4], NULL, 10);
    if (argc > 5 && argv[5][0] != '-')
        l.keys = strtoul(argv[5], NULL, 10);
    if (argc > 6)
        l.seconds = atof(argv[6]);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    l.peers = xcalloc(l.npeers, sizeof(*l.peers));
    l.epoll = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < ARRAY_LEN(scenarios); ++i) {
        if (strcmp(scenarios[i].name, argv[3]) != 0)
            continue;
        scenarios[i].run(&l);
        return 0;
    }
    fprintf(stderr, "unknown scenario %s\n", argv[3]);
    return 2;
}
