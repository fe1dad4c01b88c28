/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/supervisor/supervisor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/net/packet.h"

enum {
    /* How long a supervisor that is there may take to answer; one just forked may have to wait for
       the lock of the one before, which is ending its processes. */
    HELLO_MS = 5000,
    FORKED_HELLO_MS = 70000,
    /* Until a full socket is tried again. */
    RETRY_MS = 5,
};

struct supervisor_link {
    struct packet_queue out; /* bounded by what the processes there may be need: a few each */
    pid_t pid;
    struct loop *loop;
    struct watch *watch;
    struct timer retry;
    const struct supervisor_link_events *events;
    void *context;
};

/* ---- opening: blocking ---- */

static json_t *hello_message(const struct supervisor_options *o, uint64_t adopt_timeout_ms)
{
    json_t *m = json_pack("{s:s, s:i, s:I}", "op", "hello", "v", SUPERVISOR_VERSION,
                          "adopt_timeout_ms", (json_int_t)adopt_timeout_ms);

    if (o->rights != NULL)
        json_object_set_new(m, "users", supervisor_rights_message(o->rights));
    return m;
}

/* A supervisor without a list of users starts processes of any user, root's too: that would leave
 * the agent with root's rights after all. */
static bool is_acceptable(const struct supervisor_options *o, const json_t *answer)
{
    return json_integer_value(json_object_get(answer, "v")) == SUPERVISOR_VERSION &&
           (!supervisor_rights_has_others(o->rights) ||
            json_is_true(json_object_get(answer, "limited")));
}

/* The text NAME of M; "" if there is none. */
static const char *text_of(const json_t *m, const char *name)
{
    const char *text = json_string_value(json_object_get(m, name));

    return text != NULL ? text : "";
}

static unsigned requests_of(const json_t *m, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(m, name));

    return n > 0 && n <= INT_MAX ? (unsigned)n : 0;
}

static void read_process(const json_t *m, int output_fd, struct adoptable_process *p)
{
    *p = (struct adoptable_process){.output_fd = output_fd, .busy = requests_of(m, "busy")};
    (void)message_text(m, "id", p->id, sizeof(p->id));
    (void)message_text(m, "application", p->application, sizeof(p->application));
    (void)message_text(m, "spec", p->spec, sizeof(p->spec));
    (void)message_text(m, "address", p->address, sizeof(p->address));
    (void)message_text(m, "note", p->note, sizeof(p->note));
    p->slot = (unsigned)json_integer_value(json_object_get(m, "slot"));
    p->pid = (pid_t)json_integer_value(json_object_get(m, "pid"));
    p->age_ms = (uint64_t)json_integer_value(json_object_get(m, "age_ms"));
}

static void drop_list(struct adoptable_list *list)
{
    for (size_t i = 0; i < list->n; ++i) {
        if (list->items[i].output_fd >= 0)
            close(list->items[i].output_fd);
    }
    free(list->items);
    *list = (struct adoptable_list){0};
}

/* The whole list that follows a hello. */
static bool receive_list(int fd, size_t n, uint64_t until_us, struct adoptable_list *out)
{
    out->items = xcalloc(n + 1, sizeof(*out->items));
    for (size_t i = 0; i < n; ++i) {
        int output_fd;
        json_t *m;

        if (packet_await(fd, until_us, &m, &output_fd) != ERR_OK) {
            drop_list(out);
            return false;
        }
        read_process(m, output_fd, &out->items[out->n++]);
        json_decref(m);
    }
    return true;
}

/* Sends HELLO on FD. Returns the supervisor's pid, or 0. */
static pid_t greet(int fd, const struct supervisor_options *o, uint64_t adopt_timeout_ms,
                   uint64_t wait_ms, struct adoptable_list *out)
{
    uint64_t until_us = clock_mono_us() + wait_ms * 1000;
    json_t *hello = hello_message(o, adopt_timeout_ms);
    enum err e = packet_send(fd, hello, -1);
    json_t *answer;
    int passed;
    pid_t pid = 0;

    json_decref(hello);
    if (e != ERR_OK || packet_await(fd, until_us, &answer, &passed) != ERR_OK)
        return 0;
    json_int_t n = json_integer_value(json_object_get(answer, "processes"));
    if (is_acceptable(o, answer) && n >= 0 && n <= SUPERVISOR_PROCESSES_MAX &&
        receive_list(fd, (size_t)n, until_us, out))
        pid = (pid_t)json_integer_value(json_object_get(answer, "pid"));
    json_decref(answer);
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

static void dismiss(int fd)
{
    log_warn(NULL, "supervisor-replaced",
             "reason=\"it is ending, of another version, or has other users; its processes are "
             "ended and "
             "started again\"");
    if (packet_say(fd, "bye") != ERR_OK)
        log_warn(NULL, "supervisor-unresponsive", "action=\"wait for its adopt_timeout\"");
    close(fd);
}

static int fork_supervisor(const struct supervisor_options *o)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        log_error(NULL, "supervisor-socket-failed", "reason=\"%s\"", strerror(errno));
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0)
        supervisor_run(pair[1], o);
    if (pid < 0)
        log_error(NULL, "supervisor-fork-failed", "reason=\"%s\"", strerror(errno));
    close(pair[1]);
    if (pid > 0)
        return pair[0];
    close(pair[0]);
    return -1;
}

/* Find one, or (unless it is to be there) fork one. *PID is 0: neither. The socket to it. */
static int reach_supervisor(const struct supervisor_options *o, uint64_t adopt_timeout_ms,
                            pid_t *pid, struct adoptable_list *out)
{
    int fd = connect_to_supervisor(o->state_dir);

    *pid = fd >= 0 ? greet(fd, o, adopt_timeout_ms, HELLO_MS, out) : 0;
    if (*pid != 0)
        return fd;
    if (o->follow) {
        log_error(NULL, "supervisor-join-failed",
                  "reason=\"it is not there, is ending, of another version, or may not become the "
                  "applications' users: restart\"");
        return fd;
    }
    if (fd >= 0)
        dismiss(fd);
    fd = fork_supervisor(o);
    if (fd < 0)
        return fd;
    *pid = greet(fd, o, adopt_timeout_ms, FORKED_HELLO_MS, out);
    if (*pid == 0)
        log_error(NULL, "supervisor-start-failed",
                  "reason=\"not started\" hint=\"see its messages\"");
    return fd;
}

struct supervisor_link *supervisor_link_open(const struct supervisor_options *o,
                                             uint64_t adopt_timeout_ms, struct adoptable_list *out)
{
    int bytes = 4 * PACKET_BYTES_MAX;
    struct supervisor_link *k;
    pid_t pid;

    *out = (struct adoptable_list){0};
    int fd = reach_supervisor(o, adopt_timeout_ms, &pid, out);
    if (pid == 0) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    /* As large as the system permits; a message must fit at least. */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    k = xcalloc(1, sizeof(*k));
    k->pid = pid;
    packet_queue_init(&k->out, fd);
    return k;
}

/* ---- running ---- */

static void lost(struct supervisor_link *k)
{
    watch_stop(k->watch);
    k->watch = NULL;
    timer_stop(&k->retry);
    /* Reaps a supervisor that was forked here and has exited. */
    waitpid(k->pid, NULL, WNOHANG);
    k->events->lost(k->context);
}

static void on_message(struct supervisor_link *k, const json_t *m, int passed)
{
    const char *op = json_string_value(json_object_get(m, "op"));
    const char *id = json_string_value(json_object_get(m, "id"));

    if (op == NULL || id == NULL) {
        log_warn(NULL, "supervisor-message-invalid", "reason=\"op or id missing\"");
    } else if (strcmp(op, "spawned") == 0) {
        k->events->spawned(k->context, id, (pid_t)json_integer_value(json_object_get(m, "pid")),
                           text_of(m, "address"), passed);
        return;
    } else if (strcmp(op, "refused") == 0) {
        k->events->refused(k->context, id, text_of(m, "why"));
    } else if (strcmp(op, "died") == 0) {
        k->events->died(k->context, id, text_of(m, "how"));
    } else if (strcmp(op, "busy") == 0) {
        k->events->busy(k->context, id, requests_of(m, "n"));
    } else if (strcmp(op, "process") == 0) {
        struct adoptable_process p;

        read_process(m, passed, &p);
        k->events->left(k->context, &p);
        passed = p.output_fd;
    }
    if (passed >= 0)
        close(passed);
}

static void on_readable(void *context)
{
    struct supervisor_link *k = context;

    while (k->watch != NULL) {
        json_t *message;
        int passed;
        enum err e = packet_receive(k->out.fd, &message, &passed);

        if (e == ERR_BUSY)
            return;
        if (e == ERR_PEER_CLOSED) {
            lost(k);
            return;
        }
        if (e != ERR_OK) {
            log_warn(NULL, "supervisor-message-invalid", "reason=\"%s\"", err_text(e));
            continue;
        }
        on_message(k, message, passed);
        json_decref(message);
    }
}

static void flush(struct supervisor_link *k)
{
    /* Its exit is detected by reading. */
    if (packet_queue_flush(&k->out) == ERR_BUSY)
        timer_start(k->loop, &k->retry, RETRY_MS);
}

static void on_retry(struct timer *t)
{
    flush(container_of(t, struct supervisor_link, retry));
}

void supervisor_link_send(struct supervisor_link *k, json_t *message)
{
    packet_queue_add(&k->out, message, -1);
    flush(k);
}

void supervisor_link_start(struct supervisor_link *k, struct loop *l,
                           const struct supervisor_link_events *e, void *context)
{
    k->loop = l;
    k->events = e;
    k->context = context;
    timer_init(&k->retry, on_retry);
    k->watch = watch_start(l, k->out.fd, on_readable, k);
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

void supervisor_link_bye(struct supervisor_link *k)
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
