/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/process/proc_table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/*
 * A port that no other process can listen on, as far as loopback reaches it: one socket is bound to
 * it at an address of IPv4, another one at all addresses of IPv6. Neither listens.
 */
struct port {
    int fd, fd6; /* fd6: -1 without IPv6 */
    unsigned number;
};

/* Binds a socket to A and sets the port of A. Returns -1 if it is in use, or without the family. */
static int bind_to(struct addr *a)
{
    int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int only6 = 1;

    if (fd < 0)
        return -1;
    if (a->sa.sa_family == AF_INET6)
        assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only6, sizeof(only6)), 0);
    if (bind(fd, &a->sa, a->len) != 0) {
        assert_int_equal(errno, EADDRINUSE);
        close(fd);
        return -1;
    }
    assert_int_equal(getsockname(fd, &a->sa, &a->len), 0);
    return fd;
}

static struct addr at(const char *address, unsigned port)
{
    struct addr a = {.len = sizeof(a.in)};

    a.in.sin_family = AF_INET;
    assert_int_equal(inet_pton(AF_INET, address, &a.in.sin_addr), 1);
    addr_set_port(&a, port);
    return a;
}

static struct port reserve(const char *address)
{
    for (;;) {
        struct addr all = {.len = sizeof(all.in6)};
        struct port p;

        all.in6.sin6_family = AF_INET6;
        p.fd6 = bind_to(&all);
        struct addr a = at(address, addr_port(&all));
        p.fd = bind_to(&a);
        p.number = addr_port(&a);
        if (p.fd >= 0)
            return p;
        close(p.fd6);
    }
}

static void release(struct port *p)
{
    close(p->fd);
    if (p->fd6 >= 0)
        close(p->fd6);
}

/* A process of GROUP (0: its own), until it is killed. It has open what is open now. */
static pid_t child_of(pid_t group)
{
    pid_t pid = fork();

    if (pid != 0) {
        assert_true(pid > 0);
        (void)setpgid(pid, group);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpgid(0, group);
    for (;;)
        pause();
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static enum port_owner find(unsigned port, pid_t pid)
{
    uid_t foreign;

    return port_owner_find("/proc", port, pid, geteuid(), &foreign);
}

static void the_process_that_listens_owns_the_port(void **state)
{
    static const char *const addresses[] = {"127.0.0.1", "0.0.0.0"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(addresses); ++i) {
        struct port p = reserve(addresses[i]);

        assert_int_equal(find(p.number, getpid()), PORT_NONE);
        assert_int_equal(listen(p.fd, 1), 0);
        assert_int_equal(find(p.number, getpid()), PORT_OWN);
        release(&p);
    }
}

/* This process has the listener open too, so that the port stays reserved. */
static void a_process_of_its_group_may_listen_for_it(void **state)
{
    pid_t leader = child_of(0);
    struct port p = reserve("127.0.0.1");

    (void)state;
    assert_int_equal(listen(p.fd, 1), 0);
    assert_int_equal(find(p.number, leader), PORT_FOREIGN);
    pid_t other = child_of(leader);
    assert_int_equal(find(p.number, leader), PORT_OWN);
    end(other);
    assert_int_equal(find(p.number, leader), PORT_FOREIGN);
    end(leader);
    release(&p);
}

static void another_process_that_listens_is_foreign(void **state)
{
    pid_t pid = child_of(0);
    struct port p = reserve("127.0.0.1");

    (void)state;
    assert_int_equal(listen(p.fd, 1), 0);
    assert_int_equal(find(p.number, pid), PORT_FOREIGN);
    end(pid);
    release(&p);
}

/* Only this test uses the address, so that the reserved port is free there. */
static void a_listener_that_loopback_does_not_reach_does_not_count(void **state)
{
    struct port p = reserve("127.0.0.1");
    struct addr a = at("127.83.76.66", p.number);
    int fd = bind_to(&a);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(find(p.number, getpid()), PORT_NONE);
    close(fd);
    release(&p);
}

static void write_file(const char *directory, const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void where_descriptors_are_not_reported_the_user_decides(void **state)
{
    char directory[] = RLB_TEST_DIR "/port-owner-XXXXXX";
    char net[64];
    char pid[64];
    uid_t foreign = 0;

    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(port_owner_find(directory, 80, 7, 33, &foreign), PORT_UNKNOWN);
    snprintf(net, sizeof(net), "%s/net", directory);
    snprintf(pid, sizeof(pid), "%s/7", directory);
    assert_int_equal(mkdir(net, 0700), 0);
    assert_int_equal(mkdir(pid, 0700), 0);
    write_file(net, "tcp",
               "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
               "   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33"
               "        0 1234 1 0000000000000000 100 0 0 10 0\n"
               "   1: 0100007F:0051 0100007F:0050 01 00000000:00000000 00:00000000 00000000    34"
               "        0 1235 1 0000000000000000 100 0 0 10 0\n");
    /* A file where the descriptors are: it cannot be opened as a directory. */
    write_file(pid, "fd", "");
    assert_int_equal(port_owner_find(directory, 80, 7, 33, &foreign), PORT_OWN);
    assert_int_equal(port_owner_find(directory, 80, 7, 34, &foreign), PORT_FOREIGN);
    assert_int_equal(foreign, 33);
    assert_int_equal(port_owner_find(directory, 81, 7, 34, &foreign), PORT_NONE);
    snprintf(net, sizeof(net), "rm -r %s", directory);
    assert_int_equal(system(net), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_process_that_listens_owns_the_port),
        cmocka_unit_test(a_process_of_its_group_may_listen_for_it),
        cmocka_unit_test(another_process_that_listens_is_foreign),
        cmocka_unit_test(a_listener_that_loopback_does_not_reach_does_not_count),
        cmocka_unit_test(where_descriptors_are_not_reported_the_user_decides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
