/* SPDX-License-Identifier: Apache-2.0
 *
 * A real pool counter daemon (Debian's poolcounterd) on a port of the loopback that is reserved for
 * it. It takes its listening socket as standard input, so connections wait rather than fail until
 * it runs. It dies with the test.
 */
#pragma once

#include "tests/support/raw_peer.h"

#include <sys/prctl.h>
#include <sys/wait.h>

struct poolcounterd {
    pid_t pid; /* 0: does not run */
    int port;  /* reserves it while the daemon does not run */
    struct addr addr;
};

/* At the same address as before, without any memory. */
static inline void poolcounterd_restart(struct poolcounterd *d)
{
    struct addr_listen_options o = {.backlog = 64};
    int listener = -1;

    assert_int_equal(d->pid, 0);
    assert_int_equal(addr_listen(&d->addr, &o, &listener), ERR_OK);
    d->pid = fork();
    assert_true(d->pid != -1);
    if (d->pid == 0) {
        char *argv[] = {(char[]){"poolcounterd"}, NULL};

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(listener, STDIN_FILENO);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(listener);
}

static inline void poolcounterd_start(struct poolcounterd *d)
{
    d->port = raw_reserve(&d->addr);
    poolcounterd_restart(d);
}

/* Returns when the process has ended and all its sockets are closed. */
static inline void poolcounterd_kill(struct poolcounterd *d)
{
    if (d->pid == 0)
        return;
    kill(d->pid, SIGKILL);
    assert_int_equal(waitpid(d->pid, NULL, 0), d->pid);
    d->pid = 0;
}

static inline void poolcounterd_end(struct poolcounterd *d)
{
    poolcounterd_kill(d);
    close(d->port);
}

/* Returns when it does nothing more; its connections stay. SIGCONT ends it. */
static inline void poolcounterd_stop(const struct poolcounterd *d)
{
    int status = 0;

    kill(d->pid, SIGSTOP);
    assert_int_equal(waitpid(d->pid, &status, WUNTRACED), d->pid);
    assert_true(WIFSTOPPED(status));
}
