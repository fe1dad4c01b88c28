/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/process/proc_table.h"

#include <arpa/inet.h>
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

/* A listening socket at ADDRESS and some port. */
static int listen_at(const char *address, unsigned *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t len = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
    *port = ntohs(in.sin_port);
    return fd;
}

/* A process of GROUP (0: its own) that has FD (-1: nothing) open, until it is killed. */
static pid_t child_with(int fd, pid_t group)
{
    pid_t pid = fork();

    if (pid != 0) {
        assert_true(pid > 0);
        (void)setpgid(pid, group);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpgid(0, group);
    if (fd < 0)
        close_range(3, ~0U, 0);
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
        unsigned port;
        int fd = listen_at(addresses[i], &port);

        assert_int_equal(find(port, getpid()), PORT_OWN);
        close(fd);
        assert_int_equal(find(port, getpid()), PORT_NONE);
    }
}

static void a_process_of_its_group_may_listen_for_it(void **state)
{
    unsigned port;
    int fd = listen_at("127.0.0.1", &port);
    pid_t leader = child_with(-1, 0);
    pid_t other = child_with(fd, leader);

    (void)state;
    close(fd);
    while (find(port, leader) != PORT_OWN)
        usleep(1000);
    end(other);
    assert_int_equal(find(port, leader), PORT_NONE);
    end(leader);
}

static void another_process_that_listens_is_foreign(void **state)
{
    unsigned port;
    int fd = listen_at("127.0.0.1", &port);
    pid_t pid = child_with(-1, 0);

    (void)state;
    /* It has what its parent had until it has closed that. */
    while (find(port, pid) == PORT_OWN)
        usleep(1000);
    assert_int_equal(find(port, pid), PORT_FOREIGN);
    end(pid);
    close(fd);
}

static void a_listener_that_loopback_does_not_reach_does_not_count(void **state)
{
    unsigned port;
    int fd = listen_at("127.0.0.2", &port);

    (void)state;
    assert_int_equal(find(port, getpid()), PORT_NONE);
    close(fd);
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
