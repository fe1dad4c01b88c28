/* SPDX-License-Identifier: Apache-2.0
 *
 * Started by posix_spawn, on the server's thread, as that alone knows its sockets. The child has
 * copies of all descriptors until its exec is done, which is later than posix_spawn returns:
 * whoever is closed meanwhile is taken out of epoll first (client_close).
 */
#include "poolcounter/successor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/server/http_server.h"

struct successor {
    struct program *program;
    pid_t pid;
    int ready_fd; /* it writes a byte; its end closes it */
    struct watch *watch;
    struct timer late;
};

/* ---- starting it ---- */

struct start {
    struct program *program;
    int ready_fd; /* its end */
    struct sockets sockets, admin;
    pid_t pid;
    int error;
};

static void add_socket(void *context, int fd, void *tag)
{
    struct sockets *admin = context;

    (void)tag;
    if (admin->n < LISTENERS_MAX)
        admin->fds[admin->n++] = fd;
}

/* "NAME=3,5"; the caller frees it. */
static char *variable(const char *name, const int *fds, size_t n)
{
    struct text t = {0};

    text_addf(&t, "%s=", name);
    for (size_t i = 0; i < n; ++i)
        text_addf(&t, "%s%d", i == 0 ? "" : ",", fds[i]);
    char *out = xstrdup(text_cstr(&t));
    text_fini(&t);
    return out;
}

/* A descriptor that is duplicated to its own number stays open across exec. */
static int pass(posix_spawn_file_actions_t *actions, const int *fds, size_t n)
{
    int failed = 0;

    for (size_t i = 0; i < n && failed == 0; ++i)
        failed = posix_spawn_file_actions_adddup2(actions, fds[i], fds[i]);
    return failed;
}

static char **environment_with(char *const *more, size_t nmore)
{
    size_t n = 0;

    while (environ[n] != NULL)
        ++n;
    char **env = xcalloc(n + nmore + 1, sizeof(*env));
    memcpy(env, environ, n * sizeof(*env));
    memcpy(env + n, more, nmore * sizeof(*env));
    return env;
}

static void spawn(struct start *st)
{
    posix_spawn_file_actions_t actions;
    char *more[] = {
        variable(SOCKETS_VARIABLE, st->sockets.fds, st->sockets.n),
        variable(SUCCESSOR_ADMIN_VARIABLE, st->admin.fds, st->admin.n),
        variable(SUCCESSOR_READY_VARIABLE, &st->ready_fd, 1),
    };
    char **env = environment_with(more, ARRAY_LEN(more));

    st->error = posix_spawn_file_actions_init(&actions);
    if (st->error == 0) {
        st->error = pass(&actions, st->sockets.fds, st->sockets.n);
        if (st->error == 0)
            st->error = pass(&actions, st->admin.fds, st->admin.n);
        if (st->error == 0)
            st->error = pass(&actions, &st->ready_fd, 1);
        if (st->error == 0)
            st->error = posix_spawnp(&st->pid, st->program->argv[0], &actions, NULL,
                                     st->program->argv, env);
        posix_spawn_file_actions_destroy(&actions);
    }
    for (size_t i = 0; i < ARRAY_LEN(more); ++i)
        free(more[i]);
    free(env);
}

static void start_on_server(struct server *s, void *context)
{
    struct start *st = context;

    st->sockets.n = server_sockets(s, st->sockets.fds);
    spawn(st);
}

/* ---- how it goes ---- */

static void forget(struct successor *h)
{
    watch_stop(h->watch);
    close(h->ready_fd);
    timer_stop(&h->late);
    h->program->successor = NULL;
    free(h);
}

static void give_up(struct successor *h, const char *reason)
{
    int status = 0;

    kill(h->pid, SIGKILL);
    while (waitpid(h->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    log_error(NULL, "new-process-failed", "pid=%ld reason=\"%s\" action=\"this one goes on\"",
              (long)h->pid, reason);
    forget(h);
}

static void on_late(struct timer *t)
{
    give_up(container_of(t, struct successor, late), "not ready in handover_timeout");
}

static void on_ready(void *context)
{
    struct successor *h = context;
    struct program *p = h->program;
    char state[64];
    char byte;
    ssize_t n = read(h->ready_fd, &byte, 1);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != 1) {
        give_up(h, "it has ended");
        return;
    }
    log_info(NULL, "new-process-serves", "pid=%ld", (long)h->pid);
    snprintf(state, sizeof(state), "MAINPID=%ld", (long)h->pid);
    daemon_notify(state);
    forget(h);
    program_hand_over(p);
}

static void follow(struct program *p, pid_t pid, int ready_fd)
{
    struct successor *h = xcalloc(1, sizeof(*h));

    h->program = p;
    h->pid = pid;
    h->ready_fd = ready_fd;
    h->watch = watch_start(p->loop, ready_fd, on_ready, h);
    timer_init(&h->late, on_late);
    timer_start(p->loop, &h->late, p->config->s.handover_timeout_ms);
    p->successor = h;
}

void successor_start(struct program *p)
{
    struct start st = {.program = p};
    int ends[2];

    if (p->successor != NULL || p->handed_over) {
        log_info(NULL, "new-process-not-started", "reason=\"there is one already\"");
        return;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        log_error(NULL, "new-process-not-started", "errno=%d", errno);
        return;
    }
    st.ready_fd = ends[1];
    if (p->admin != NULL)
        http_server_each_socket(admin_server(p->admin), add_socket, &st.admin);
    server_ask(p->server, start_on_server, &st);
    close(ends[1]);
    if (st.error != 0) {
        close(ends[0]);
        log_error(NULL, "new-process-not-started", "program=%s error=\"%s\"", p->argv[0],
                  strerror(st.error));
        return;
    }
    log_info(NULL, "new-process-started", "pid=%ld", (long)st.pid);
    follow(p, st.pid, ends[0]);
}

void successor_abandon(struct program *p)
{
    if (p->successor != NULL)
        give_up(p->successor, "this one is told to end");
}

void successor_say_ready(void)
{
    const char *text = getenv(SUCCESSOR_READY_VARIABLE);
    uint64_t fd;

    if (text == NULL || !parse_u64(slice_of(text), INT32_MAX, &fd))
        return;
    while (write((int)fd, "R", 1) < 0 && errno == EINTR)
        continue;
    close((int)fd);
    unsetenv(SUCCESSOR_READY_VARIABLE);
}
