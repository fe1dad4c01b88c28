/* SPDX-License-Identifier: Apache-2.0
 *
 * One loop over poll(2). Descriptors: the agent (if there is one), the listening socket for the
 * next one, those who connected to it and have not said hello, and signalfd.
 *
 *      agent there --- its socket closes ---> waiting for the next one --- adopt_timeout ---+
 *           ^                                    |                                          v
 *           +------------ hello -----------------+                  bye ------------->  ending:
 * TERM, KILL at each stop_timeout, exit
 */
#include "worker-agent/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/list.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/net/addr.h"
#include "worker-agent/keeper_files.h"
#include "worker-agent/spawner.h"

enum {
    /* Who connected and has not said hello; and how long they may take. */
    STRANGERS_MAX = 4,
    STRANGER_MS = 5000,
    /* How long the one before us may take to let go of its lock. */
    LOCK_WAIT_MS = 60000,
};

struct kept { /* one process */
    struct list node;
    char id[INCARNATION_MAX + 1];
    char application[APP_NAME_MAX + 1];
    char spec[FINGERPRINT_LEN + 1];
    char *note;
    unsigned slot;
    uint64_t stop_timeout_ms;
    uint64_t started_ms;
    uint64_t kill_ms; /* while ending: when SIGTERM turns into SIGKILL */
    struct spawned spawned;
};

struct outgoing { /* a message that the agent's socket had no room for */
    struct list node;
    json_t *message;
    int pass;
};

struct stranger {
    int fd; /* -1: free */
    uint64_t until_ms;
};

struct keeper {
    struct spawner spawner;
    const char *state_dir;
    char *socket_path;
    int signals_fd, listen_fd, lock_fd;
    int agent_fd; /* -1: none */
    struct list outgoing;
    struct stranger strangers[STRANGERS_MAX];
    struct list kept;
    size_t nkept;
    uint64_t adopt_timeout_ms;
    uint64_t adopt_until_ms; /* without an agent */
    bool ending;
};

static uint64_t now_ms(void)
{
    return clock_mono_us() / 1000;
}

/* ---- to the agent ---- */

static void outgoing_free(struct outgoing *o)
{
    json_decref(o->message);
    if (o->pass >= 0)
        close(o->pass);
    free(o);
}

static void agent_gone(struct keeper *k)
{
    struct list *node;

    close(k->agent_fd);
    k->agent_fd = -1;
    while ((node = list_pop_front(&k->outgoing)) != NULL)
        outgoing_free(list_entry(node, struct outgoing, node));
    k->adopt_until_ms = now_ms() + k->adopt_timeout_ms;
    if (!k->ending)
        log_warn(NULL, "keeper-agent-gone", "processes=%zu adopt_timeout_ms=%llu", k->nkept,
                 (unsigned long long)k->adopt_timeout_ms);
}

static void flush(struct keeper *k)
{
    struct list *node;

    while ((node = list_pop_front(&k->outgoing)) != NULL) {
        struct outgoing *o = list_entry(node, struct outgoing, node);
        enum err e = keeper_send(k->agent_fd, o->message, o->pass);

        if (e == ERR_BUSY) {
            list_push_front(&k->outgoing, node);
            return;
        }
        outgoing_free(o);
        if (e == ERR_PEER_CLOSED) {
            agent_gone(k);
            return;
        }
    }
}

/* Takes MESSAGE. PASS is borrowed. The queue is bounded by the number of processes: four messages
 * each. */
static void tell(struct keeper *k, json_t *message, int pass)
{
    struct outgoing *o;

    ASSERT(message != NULL);
    if (k->agent_fd < 0) {
        json_decref(message);
        return;
    }
    o = xcalloc(1, sizeof(*o));
    o->message = message;
    o->pass = pass >= 0 ? fcntl(pass, F_DUPFD_CLOEXEC, 3) : -1;
    list_push_back(&k->outgoing, &o->node);
    flush(k);
}

/* ---- processes ---- */

static struct kept *find_id(struct keeper *k, const json_t *message)
{
    const char *id = json_string_value(json_object_get(message, "id"));
    struct list *it;

    list_for_each (it, &k->kept) {
        struct kept *p = list_entry(it, struct kept, node);

        if (id != NULL && strcmp(p->id, id) == 0)
            return p;
    }
    return NULL;
}

static struct kept *find_pid(struct keeper *k, pid_t pid)
{
    struct list *it;

    list_for_each (it, &k->kept) {
        struct kept *p = list_entry(it, struct kept, node);

        if (p->spawned.pid == pid)
            return p;
    }
    return NULL;
}

static void kept_free(struct keeper *k, struct kept *p)
{
    list_remove(&p->node);
    --k->nkept;
    free(p->note);
    free(p);
}

static enum err spawn(struct keeper *k, const struct spawn_request *r, char why[KEEPER_WHY_MAX])
{
    struct kept *p;

    if (k->nkept >= KEEPER_PROCESSES_MAX) {
        snprintf(why, KEEPER_WHY_MAX, "%d processes are all that one keeper has",
                 KEEPER_PROCESSES_MAX);
        return ERR_TOO_LARGE;
    }
    p = xcalloc(1, sizeof(*p));
    enum err e = spawner_start(&k->spawner, r, &p->spawned, why);
    if (e != ERR_OK) {
        free(p);
        return e;
    }
    memcpy(p->id, r->id, sizeof(p->id));
    memcpy(p->application, r->application, sizeof(p->application));
    memcpy(p->spec, r->spec, sizeof(p->spec));
    p->note = xstrdup("");
    p->slot = r->slot;
    p->stop_timeout_ms = r->stop_timeout_ms;
    p->started_ms = now_ms();
    list_push_back(&k->kept, &p->node);
    ++k->nkept;
    return ERR_OK;
}

static void on_spawn(struct keeper *k, const json_t *message)
{
    struct spawn_request r = {0};
    char why[KEEPER_WHY_MAX] = "";
    const char *id = json_string_value(json_object_get(message, "id"));
    bool good = spawn_request_parse(message, &r, why) && !k->ending;

    if (good && spawn(k, &r, why) == ERR_OK) {
        struct kept *p = list_entry(k->kept.prev, struct kept, node);

        tell(k,
             json_pack("{s:s, s:s, s:I, s:s}", "op", "spawned", "id", p->id, "pid",
                       (json_int_t)p->spawned.pid, "address", p->spawned.address),
             p->spawned.output_fd);
    } else {
        tell(k,
             json_pack("{s:s, s:s, s:s}", "op", "refused", "id", id != NULL ? id : "", "why", why),
             -1);
    }
    spawn_request_fini(&r);
}

/* What it died of: its exit or signal, or why it never came to be (from the error pipe). */
static void describe_death(const struct kept *p, const siginfo_t *si, char out[KEEPER_WHY_MAX])
{
    ssize_t n = read(p->spawned.error_fd, out, KEEPER_WHY_MAX - 1);

    if (n > 0) {
        out[n] = '\0';
        /* A path in it may be no UTF-8, which JSON has to be. */
        ascii_clean(out);
    } else if (si->si_code == CLD_EXITED)
        snprintf(out, KEEPER_WHY_MAX, "exit %d", si->si_status);
    else
        snprintf(out, KEEPER_WHY_MAX, "signal %d", si->si_status);
}

static void bury(struct keeper *k, struct kept *p, const siginfo_t *si)
{
    char how[KEEPER_WHY_MAX];

    describe_death(p, si, how);
    spawner_bury(&p->spawned);
    waitpid(p->spawned.pid, NULL, 0);
    tell(k, json_pack("{s:s, s:s, s:s}", "op", "died", "id", p->id, "how", how), -1);
    kept_free(k, p);
}

static void reap(struct keeper *k)
{
    for (;;) {
        siginfo_t si = {0};

        if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) != 0 || si.si_pid == 0)
            return;
        struct kept *p = find_pid(k, si.si_pid);
        if (p != NULL)
            bury(k, p, &si);
        else
            waitpid(si.si_pid, NULL, 0); /* an orphan of one of them */
    }
}

static void end_all(struct keeper *k)
{
    struct list *it;

    if (k->ending)
        return;
    k->ending = true;
    list_for_each (it, &k->kept) {
        struct kept *p = list_entry(it, struct kept, node);

        kill(-p->spawned.pid, SIGTERM);
        p->kill_ms = now_ms() + p->stop_timeout_ms;
    }
}

static void kill_overdue(struct keeper *k)
{
    struct list *it;

    list_for_each (it, &k->kept) {
        struct kept *p = list_entry(it, struct kept, node);

        if (now_ms() >= p->kill_ms)
            kill(-p->spawned.pid, SIGKILL);
    }
}

/* ---- from the agent ---- */

static void send_list(struct keeper *k)
{
    struct list *it;

    tell(k,
         json_pack("{s:s, s:i, s:I, s:I}", "op", "hello", "v", KEEPER_VERSION, "pid",
                   (json_int_t)getpid(), "processes", (json_int_t)k->nkept),
         -1);
    list_for_each (it, &k->kept) {
        struct kept *p = list_entry(it, struct kept, node);

        tell(k,
             json_pack("{s:s, s:s, s:s, s:i, s:s, s:I, s:s, s:s, s:I}", "op", "process", "id",
                       p->id, "application", p->application, "slot", (int)p->slot, "spec", p->spec,
                       "pid", (json_int_t)p->spawned.pid, "address", p->spawned.address, "note",
                       p->note, "age_ms", (json_int_t)(now_ms() - p->started_ms)),
             p->spawned.output_fd);
    }
}

static void on_hello(struct keeper *k, const json_t *message)
{
    json_int_t v = json_integer_value(json_object_get(message, "v"));
    json_int_t timeout = json_integer_value(json_object_get(message, "adopt_timeout_ms"));

    if (v != KEEPER_VERSION || k->ending) {
        /* Another version of us: it will say bye. */
        tell(k,
             json_pack("{s:s, s:i, s:i}", "op", "hello", "v", k->ending ? 0 : KEEPER_VERSION,
                       "processes", 0),
             -1);
        return;
    }
    if (timeout >= 0)
        k->adopt_timeout_ms = (uint64_t)timeout;
    send_list(k);
}

static void on_signal(struct keeper *k, const json_t *message)
{
    struct kept *p = find_id(k, message);
    json_int_t signal_number = json_integer_value(json_object_get(message, "signal"));

    /* The group: a shell before the program, or a master's own processes, are meant as well. */
    if (p != NULL && (signal_number == SIGTERM || signal_number == SIGKILL))
        kill(-p->spawned.pid, (int)signal_number);
}

static void on_note(struct keeper *k, const json_t *message)
{
    struct kept *p = find_id(k, message);
    const char *note = json_string_value(json_object_get(message, "note"));

    if (p == NULL || note == NULL || strlen(note) > KEEPER_WHY_MAX)
        return;
    free(p->note);
    p->note = xstrdup(note);
}

static void on_message(struct keeper *k, const json_t *message)
{
    const char *op = json_string_value(json_object_get(message, "op"));

    if (op == NULL)
        return;
    if (strcmp(op, "hello") == 0)
        on_hello(k, message);
    else if (strcmp(op, "spawn") == 0)
        on_spawn(k, message);
    else if (strcmp(op, "signal") == 0)
        on_signal(k, message);
    else if (strcmp(op, "note") == 0)
        on_note(k, message);
    else if (strcmp(op, "bye") == 0)
        end_all(k);
}

static void read_agent(struct keeper *k)
{
    enum { AT_ONCE = 64 };

    for (int i = 0; i < AT_ONCE && k->agent_fd >= 0; ++i) {
        json_t *message;
        int passed;
        enum err e = keeper_receive(k->agent_fd, &message, &passed);

        if (e == ERR_BUSY)
            return;
        if (e == ERR_PEER_CLOSED) {
            agent_gone(k);
            return;
        }
        if (e != ERR_OK)
            continue;
        if (passed >= 0)
            close(passed);
        on_message(k, message);
        json_decref(message);
    }
}

/* ---- the next agent ---- */

static void accept_stranger(struct keeper *k)
{
    int fd = accept4(k->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    for (size_t i = 0; keeper_peer_is_ours(fd) && i < STRANGERS_MAX; ++i) {
        if (k->strangers[i].fd >= 0)
            continue;
        k->strangers[i] = (struct stranger){fd, now_ms() + STRANGER_MS};
        return;
    }
    close(fd);
}

/*
 * The agent before may look alive for a moment longer; as it held the lock on state_dir that the
 * new one has now, it is not.
 */
static void read_stranger(struct keeper *k, struct stranger *s)
{
    json_t *message;
    int passed;
    enum err e = keeper_receive(s->fd, &message, &passed);

    if (e == ERR_BUSY)
        return;
    if (e != ERR_OK) {
        close(s->fd);
        s->fd = -1;
        return;
    }
    if (passed >= 0)
        close(passed);
    if (k->agent_fd >= 0)
        agent_gone(k);
    k->agent_fd = s->fd;
    s->fd = -1;
    log_info(NULL, "keeper-has-new-agent", "processes=%zu", k->nkept);
    on_message(k, message);
    json_decref(message);
}

/* ---- the loop ---- */

static void on_signals(struct keeper *k)
{
    struct signalfd_siginfo si;

    while (read(k->signals_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
        /* SIGTERM to all of a service: while there is an agent, the end is its to arrange. */
        if (si.ssi_signo == SIGTERM && k->agent_fd < 0)
            end_all(k);
    }
    reap(k);
}

static void sooner(uint64_t *at, uint64_t other)
{
    if (other < *at)
        *at = other;
}

static int wait_ms(const struct keeper *k)
{
    enum { LONGEST_MS = 60000 };
    uint64_t now = now_ms();
    uint64_t at = now + LONGEST_MS;
    struct list *it;

    if (k->agent_fd < 0 && !k->ending)
        sooner(&at, k->adopt_until_ms);
    for (size_t i = 0; i < STRANGERS_MAX; ++i) {
        if (k->strangers[i].fd >= 0)
            sooner(&at, k->strangers[i].until_ms);
    }
    if (k->ending) {
        list_for_each (it, &k->kept)
            sooner(&at, list_entry(it, struct kept, node)->kill_ms);
    }
    return at <= now ? 1 : (int)(at - now);
}

static void look_at_clock(struct keeper *k)
{
    for (size_t i = 0; i < STRANGERS_MAX; ++i) {
        if (k->strangers[i].fd >= 0 && now_ms() >= k->strangers[i].until_ms) {
            close(k->strangers[i].fd);
            k->strangers[i].fd = -1;
        }
    }
    if (k->agent_fd < 0 && !k->ending && now_ms() >= k->adopt_until_ms) {
        log_warn(NULL, "keeper-ends", "reason=\"no agent within adopt_timeout\" processes=%zu",
                 k->nkept);
        end_all(k);
    }
    if (k->ending)
        kill_overdue(k);
}

static void turn(struct keeper *k)
{
    struct pollfd fds[3 + STRANGERS_MAX] = {
        {.fd = k->signals_fd, .events = POLLIN},
        {.fd = k->listen_fd, .events = POLLIN},
        {.fd = k->agent_fd, .events = POLLIN},
    };

    if (!list_empty(&k->outgoing))
        fds[2].events |= POLLOUT;
    for (size_t i = 0; i < STRANGERS_MAX; ++i)
        fds[3 + i] = (struct pollfd){.fd = k->strangers[i].fd, .events = POLLIN};
    if (poll(fds, ARRAY_LEN(fds), wait_ms(k)) < 0)
        return;
    if (fds[0].revents != 0)
        on_signals(k);
    if (fds[2].revents != 0 && k->agent_fd >= 0)
        read_agent(k);
    if (k->agent_fd >= 0)
        flush(k);
    for (size_t i = 0; i < STRANGERS_MAX; ++i) {
        if (fds[3 + i].revents != 0 && k->strangers[i].fd >= 0)
            read_stranger(k, &k->strangers[i]);
    }
    if (fds[1].revents != 0)
        accept_stranger(k);
    look_at_clock(k);
}

/* ---- start ---- */

static void set_up_process(struct keeper *k)
{
    sigset_t mask;

    prctl(PR_SET_NAME, "resumelb-keeper");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* What a terminal sends to all of its foreground group is meant for the agent. */
    setpgid(0, 0);
    k->spawner.keeper = getpid();
    k->spawner.umask = umask(0077);
    sigfillset(&mask);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    k->signals_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    ASSERT(k->signals_fd >= 0);
}

void keeper_run(int agent_fd, const struct keeper_options *o)
{
    struct keeper k = {.state_dir = o->state_dir,
                       .agent_fd = agent_fd,
                       .spawner = {.nofile = o->nofile},
                       .adopt_timeout_ms = 10000};

    list_init(&k.outgoing);
    list_init(&k.kept);
    for (size_t i = 0; i < STRANGERS_MAX; ++i)
        k.strangers[i].fd = -1;
    agent_fd = fcntl(agent_fd, F_DUPFD_CLOEXEC, 3);
    k.agent_fd = agent_fd;
    keeper_files_only(agent_fd);
    set_up_process(&k);
    k.spawner.run_dir = xasprintf("%s/%s", k.state_dir, KEEPER_RUN_NAME);
    k.socket_path = xasprintf("%s/%s", k.state_dir, KEEPER_SOCKET_NAME);
    if (!keeper_files_lock(k.state_dir, LOCK_WAIT_MS, &k.lock_fd) ||
        !keeper_files_run_dir(k.spawner.run_dir) ||
        !keeper_files_listen(k.socket_path, &k.listen_fd))
        _exit(1);
    while (!k.ending || k.nkept > 0)
        turn(&k);
    keeper_files_end_orphans();
    unlink(k.socket_path);
    /* The agent sees its socket close: the sign that all is done. */
    _exit(0);
}
