/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/supervisor/supervisor.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/net/packet.h"

enum {
    /* Maximum time for an existing supervisor to respond, and for one that was forked here. */
    HELLO_MS = 5000,
    FORKED_HELLO_MS = 60000,
    /* Maximum time for the previous supervisor to release its lock: it is ending its processes. */
    LOCK_WAIT_MS = 60000,
    LOCK_STEP_MS = 20,
    /* Until a full socket is tried again. */
    RETRY_MS = 5,
};

struct supervisor_link {
    struct packet_queue out; /* bounded by the number of processes: a few messages each */
    pid_t pid;
    struct loop *loop;
    struct watch *watch;
    struct timer retry;
    const struct supervisor_link_events *events;
    void *context;
};

/* ---- opening: blocking ---- */

const char *message_string(const json_t *m, const char *name)
{
    const char *text = json_string_value(json_object_get(m, name));

    return text != NULL ? text : "";
}

unsigned message_count(const json_t *m, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(m, name));

    return n > 0 && n <= INT_MAX ? (unsigned)n : 0;
}

void adoptable_process_read(const json_t *m, int output_fd, struct adoptable_process *p)
{
    *p = (struct adoptable_process){.output_fd = output_fd, .busy = message_count(m, "busy")};
    (void)message_text(m, "id", p->id, sizeof(p->id));
    (void)message_text(m, "application", p->application, sizeof(p->application));
    (void)message_text(m, "spec", p->spec, sizeof(p->spec));
    (void)message_text(m, "address", p->address, sizeof(p->address));
    (void)message_text(m, "note", p->note, sizeof(p->note));
    p->slot = (unsigned)json_integer_value(json_object_get(m, "slot"));
    p->pid = (pid_t)json_integer_value(json_object_get(m, "pid"));
    p->age_ms = (uint64_t)json_integer_value(json_object_get(m, "age_ms"));
}

/* Receives the list of N processes that follows a hello. OUT is empty on failure. */
static bool receive_list(int fd, size_t n, uint64_t until_us, struct adoptable_list *out)
{
    json_t *m;
    int output_fd;

    out->items = xcalloc(n + 1, sizeof(*out->items));
    while (out->n < n && packet_await(fd, until_us, &m, &output_fd) == ERR_OK) {
        adoptable_process_read(m, output_fd, &out->items[out->n++]);
        json_decref(m);
    }
    if (out->n == n)
        return true;
    for (size_t i = 0; i < out->n; ++i) {
        if (out->items[i].output_fd >= 0)
            close(out->items[i].output_fd);
    }
    free(out->items);
    *out = (struct adoptable_list){0};
    return false;
}

/* Sends HELLO on FD. Returns the supervisor's pid, or 0. */
static pid_t greet_supervisor(int fd, const struct supervisor_options *o, uint64_t wait_ms,
                              struct adoptable_list *out)
{
    uint64_t until_us = clock_mono_us() + wait_ms * 1000;
    json_t *hello = json_pack("{s:s, s:i, s:I}", "op", "hello", "v", SUPERVISOR_VERSION,
                              "adopt_timeout_ms", (json_int_t)o->adopt_timeout_ms);
    json_t *response;
    int passed;
    pid_t pid = 0;

    if (o->rights != NULL)
        json_object_set_new(hello, "users", supervisor_rights_message(o->rights));
    enum err e = packet_send(fd, hello, -1);
    json_decref(hello);
    if (e != ERR_OK || packet_await(fd, until_us, &response, &passed) != ERR_OK)
        return 0;
    json_int_t n = json_integer_value(json_object_get(response, "processes"));
    /* A supervisor without a list of users starts processes of any user, root's too: that would
     * leave the agent with root's rights after all. */
    bool acceptable = json_integer_value(json_object_get(response, "v")) == SUPERVISOR_VERSION &&
                      (!supervisor_rights_has_others(o->rights) ||
                       json_is_true(json_object_get(response, "limited")));
    if (acceptable && n >= 0 && n <= SUPERVISOR_PROCESSES_MAX &&
        receive_list(fd, (size_t)n, until_us, out))
        pid = (pid_t)json_integer_value(json_object_get(response, "pid"));
    json_decref(response);
    return pid;
}

static int connect_to_supervisor(const char *state_dir)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s", state_dir, SUPERVISOR_SOCKET_NAME);
    int fd = -1;

    if (n < 0 || (size_t)n >= sizeof(a.sun_path))
        return -1;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        (connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || !packet_peer_is(fd, geteuid()))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int fork_supervisor(const struct supervisor_options *o, int lock_fd)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        log_error(NULL, "supervisor-socket-failed", "reason=\"%s\"", strerror(errno));
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0)
        supervisor_run(pair[1], lock_fd, o);
    if (pid < 0)
        log_error(NULL, "supervisor-fork-failed", "reason=\"%s\"", strerror(errno));
    close(pair[1]);
    if (pid > 0)
        return pair[0];
    close(pair[0]);
    return -1;
}

/* Signals are blocked until the agent's loop runs: one that ends the agent ends a wait before. */
static bool is_to_end(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/*
 * Takes the lock of a new supervisor into *LOCK_FD, and returns -1. While another process holds it,
 * which may be a supervisor that does not listen yet, connects to its socket again, unless it was
 * DISMISSED: returns that connection. Both are -1 on failure (logged).
 */
static int lock_or_connect(const struct supervisor_options *o, bool dismissed, int *lock_fd)
{
    uint64_t until_us = clock_mono_us() + (uint64_t)LOCK_WAIT_MS * 1000;
    char *path = xasprintf("%s/%s", o->state_dir, SUPERVISOR_LOCK_NAME);
    bool waits = false;
    int fd = -1;

    while ((*lock_fd = file_lock(path, 0)) < 0) {
        int error = errno;

        if (is_to_end())
            error = EINTR;
        if (error != EWOULDBLOCK || clock_mono_us() > until_us) {
            log_error(NULL, "supervisor-lock-failed", "file=%s reason=\"%s\"", path,
                      strerror(error));
            break;
        }
        if (!waits)
            log_info(NULL, "supervisor-awaited", "file=%s for_ms=%d", path, (int)LOCK_WAIT_MS);
        waits = true;
        fd = dismissed ? -1 : connect_to_supervisor(o->state_dir);
        if (fd >= 0)
            break;
        poll(NULL, 0, LOCK_STEP_MS);
    }
    free(path);
    return fd;
}

/* Forks a supervisor that gets LOCK_FD. Returns its pid; 0 on failure (logged). */
static pid_t start_supervisor(const struct supervisor_options *o, int lock_fd,
                              struct adoptable_list *out, int *fd)
{
    pid_t pid = 0;

    *fd = fork_supervisor(o, lock_fd);
    /* The supervisor has the lock by its own descriptor. */
    close(lock_fd);
    if (*fd >= 0)
        pid = greet_supervisor(*fd, o, FORKED_HELLO_MS, out);
    if (*fd >= 0 && pid == 0)
        log_error(NULL, "supervisor-start-failed",
                  "reason=\"not started\" hint=\"see its messages\"");
    return pid;
}

static void dismiss_supervisor(int fd)
{
    log_warn(NULL, "supervisor-replaced",
             "reason=\"it is ending, of another version, or has other users; its processes are "
             "ended and started again\"");
    if (packet_send_op(fd, "bye") != ERR_OK)
        log_warn(NULL, "supervisor-unresponsive", "action=\"wait for its adopt_timeout\"");
    close(fd);
}

struct supervisor_link *supervisor_link_open(const struct supervisor_options *o,
                                             struct adoptable_list *out)
{
    int bytes = 4 * PACKET_BYTES_MAX;
    int lock_fd = -1;

    *out = (struct adoptable_list){0};
    int fd = connect_to_supervisor(o->state_dir);
    if (fd < 0 && !o->follow)
        fd = lock_or_connect(o, false, &lock_fd);
    pid_t pid = fd >= 0 ? greet_supervisor(fd, o, HELLO_MS, out) : 0;
    if (pid == 0 && o->follow) {
        log_error(NULL, "supervisor-join-failed",
                  "reason=\"it is not there, is ending, of another version, or may not become the "
                  "applications' users: restart\"");
    } else if (pid == 0) {
        if (fd >= 0) {
            dismiss_supervisor(fd);
            fd = lock_or_connect(o, true, &lock_fd);
        }
        if (lock_fd >= 0)
            pid = start_supervisor(o, lock_fd, out, &fd);
    }
    if (pid == 0) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    /* As large as the system permits; a message must fit at least. */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    struct supervisor_link *k = xcalloc(1, sizeof(*k));
    k->pid = pid;
    packet_queue_init(&k->out, fd);
    return k;
}

/* ---- running ---- */

static void on_link_readable(void *context)
{
    struct supervisor_link *k = context;

    while (k->watch != NULL) {
        json_t *message;
        int passed;
        enum err e = packet_receive(k->out.fd, &message, &passed);

        if (e == ERR_BUSY)
            return;
        if (e == ERR_PEER_CLOSED) {
            watch_stop(k->watch);
            k->watch = NULL;
            timer_stop(&k->retry);
            /* Reaps a supervisor that was forked here and has exited. */
            waitpid(k->pid, NULL, WNOHANG);
            k->events->lost(k->context);
            return;
        }
        if (e != ERR_OK) {
            log_warn(NULL, "supervisor-message-invalid", "reason=\"%s\"", err_text(e));
            continue;
        }
        const char *op = json_string_value(json_object_get(message, "op"));
        const char *id = json_string_value(json_object_get(message, "id"));
        if (op == NULL || id == NULL)
            log_warn(NULL, "supervisor-message-invalid", "reason=\"op or id missing\"");
        else
            k->events->message(k->context, op, id, message, &passed);
        if (passed >= 0)
            close(passed);
        json_decref(message);
    }
}

static void link_flush(struct supervisor_link *k)
{
    /* Its exit is detected by reading. */
    if (packet_queue_flush(&k->out) == ERR_BUSY)
        timer_start(k->loop, &k->retry, RETRY_MS);
}

static void on_link_retry(struct timer *t)
{
    link_flush(container_of(t, struct supervisor_link, retry));
}

void supervisor_link_send(struct supervisor_link *k, json_t *message)
{
    packet_queue_add(&k->out, message, -1);
    link_flush(k);
}

void supervisor_link_start(struct supervisor_link *k, struct loop *l,
                           const struct supervisor_link_events *e, void *context)
{
    k->loop = l;
    k->events = e;
    k->context = context;
    timer_init(&k->retry, on_link_retry);
    k->watch = watch_start(l, k->out.fd, on_link_readable, k);
}

void supervisor_link_signal(struct supervisor_link *k, const char *id, int signal_number)
{
    supervisor_link_send(
        k, json_pack("{s:s, s:s, s:i}", "op", "signal", "id", id, "signal", signal_number));
}

void supervisor_link_note(struct supervisor_link *k, const char *id, const char *note)
{
    supervisor_link_send(k, json_pack("{s:s, s:s, s:s}", "op", "note", "id", id, "note", note));
}

void supervisor_link_busy(struct supervisor_link *k, const char *id, unsigned n)
{
    supervisor_link_send(k, json_pack("{s:s, s:s, s:i}", "op", "busy", "id", id, "n", (int)n));
}

void supervisor_link_detach(struct supervisor_link *k)
{
    supervisor_link_send(k, json_pack("{s:s}", "op", "bye"));
}

void supervisor_link_destroy(struct supervisor_link *k)
{
    if (k == NULL)
        return;
    watch_stop(k->watch);
    timer_stop(&k->retry);
    packet_queue_close(&k->out);
    free(k);
}

pid_t supervisor_link_pid(const struct supervisor_link *k)
{
    return k->pid;
}
