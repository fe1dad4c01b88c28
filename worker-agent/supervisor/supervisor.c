/* SPDX-License-Identifier: Apache-2.0
 *
 * One loop over poll(2). Descriptors: the agents (none, one, or two during an upgrade), the
 * listening socket for the next agent, connections to it that have not sent "hello", and signalfd.
 *
 *   one agent --- its socket closes ---> waiting for the next one --- adopt_timeout ---+
 *     ^   |                                  |                                         v
 *     |   +--- hello of another --+          |                  bye ------------->  ending: TERM,
 *     |                           v          |                                      KILL at each
 *     +--- either's closes --- two agents    |                                      stop_timeout,
 *     +------------ hello -------------------+                                      exit
 */
#include "worker-agent/supervisor/supervisor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/net/packet.h"

enum {
    /* Maximum number of connections that have not sent "hello", and their time limit. */
    PENDING_MAX = 4,
    PENDING_MS = 5000,
    /* The agent that is obeyed, and the old one. */
    AGENTS_MAX = 2,
};

struct agent_end {
    struct packet_queue out; /* bounded by the number of processes: a few messages each */
    uint64_t number;         /* sequence number among the agents that sent "hello" */
};

struct pending {
    int fd; /* -1: free */
    uint64_t until_ms;
};

struct supervisor {
    struct spawner spawner;
    char *socket_path;
    int signals_fd, listen_fd;
    struct agent_end *agents[AGENTS_MAX]; /* the last is obeyed */
    size_t nagents;
    uint64_t agents_so_far;
    struct pending pending[PENDING_MAX];
    struct list children; /* struct child */
    uint64_t adopt_timeout_ms;
    uint64_t adopt_until_ms; /* without an agent */
    bool ending;
};

static uint64_t now_ms(void)
{
    return clock_mono_us() / 1000;
}

/* ---- to the agents ---- */

static bool is_obeyed(const struct supervisor *k, size_t i)
{
    return i + 1 == k->nagents;
}

/* Takes ownership of MESSAGE; PASS is borrowed. A closed connection is detected by reading. */
static void send_to(struct agent_end *a, json_t *message, int pass)
{
    packet_queue_add(&a->out, message, pass);
    (void)!packet_queue_flush(&a->out);
}

/* Sends MESSAGE to the agent that is obeyed, if there is one. */
static void send_message(struct supervisor *k, json_t *message, int pass)
{
    ASSERT(message != NULL);
    if (k->nagents > 0)
        send_to(k->agents[k->nagents - 1], message, pass);
    else
        json_decref(message);
}

static void add_agent(struct supervisor *k, int fd)
{
    struct agent_end *a = xcalloc(1, sizeof(*a));

    packet_queue_init(&a->out, fd);
    a->number = ++k->agents_so_far;
    k->agents[k->nagents++] = a;
}

static void send_busy(struct supervisor *k, const struct child *p)
{
    send_message(k, json_pack("{s:s, s:s, s:i}", "op", "busy", "id", p->id, "n", (int)p->busy), -1);
}

static void agent_lost(struct supervisor *k, size_t i)
{
    bool was_obeyed = is_obeyed(k, i);
    uint64_t number = k->agents[i]->number;
    struct child *p;

    packet_queue_close(&k->agents[i]->out);
    free(k->agents[i]);
    --k->nagents;
    for (; i < k->nagents; ++i)
        k->agents[i] = k->agents[i + 1];
    if (k->nagents == 0) {
        list_for_each_entry (p, &k->children, node)
            child_set_busy(p, 0);
        k->adopt_until_ms = now_ms() + k->adopt_timeout_ms;
        if (!k->ending)
            log_warn(NULL, "supervisor-agent-exited", "processes=%zu adopt_timeout_ms=%llu",
                     list_length(&k->children), (unsigned long long)k->adopt_timeout_ms);
    } else if (was_obeyed) {
        /* The new agent has died: the old one is obeyed again and gets the new one's processes. */
        log_warn(NULL, "supervisor-old-agent-restored", "processes=%zu", list_length(&k->children));
        list_for_each_entry (p, &k->children, node) {
            p->term_deferred = false;
            p->busy = 0;
            if (p->agent == number)
                send_message(k, child_message(p, now_ms()), p->spawned.output_fd);
        }
    } else {
        /* The old agent of an upgrade has finished, or died: no process is busy any more. */
        log_info(NULL, "supervisor-old-agent-detached", "processes=%zu", list_length(&k->children));
        list_for_each_entry (p, &k->children, node) {
            if (p->busy == 0)
                continue;
            child_set_busy(p, 0);
            send_busy(k, p);
        }
    }
}

/* ---- processes ---- */

static void on_spawn(struct supervisor *k, size_t from, json_t *message)
{
    struct spawn_request r = {0};
    struct spawned spawned;
    char why[SUPERVISOR_WHY_MAX] = "";
    const struct child *p = NULL;
    bool valid = spawn_request_parse(message, &r, why) && !k->ending;

    if (valid && !is_obeyed(k, from))
        snprintf(why, SUPERVISOR_WHY_MAX, "another agent has taken over");
    else if (valid && list_length(&k->children) >= SUPERVISOR_PROCESSES_MAX)
        snprintf(why, SUPERVISOR_WHY_MAX, "at most %d processes per supervisor",
                 SUPERVISOR_PROCESSES_MAX);
    else if (valid && spawner_start(&k->spawner, &r, &spawned, why) == ERR_OK)
        p = child_add(&k->children, &r, &spawned, k->agents[from]->number, now_ms());
    if (p != NULL)
        send_to(k->agents[from],
                json_pack("{s:s, s:s, s:I, s:s}", "op", "spawned", "id", p->id, "pid",
                          (json_int_t)p->spawned.pid, "address", p->spawned.address),
                p->spawned.output_fd);
    else
        send_to(k->agents[from],
                json_pack("{s:s, s:s, s:s}", "op", "rejected", "id", message_string(message, "id"),
                          "why", why),
                -1);
}

static void end_all(struct supervisor *k)
{
    if (k->ending)
        return;
    k->ending = true;
    children_end_all(&k->children, now_ms());
}

/* ---- from the agents ---- */

static void on_hello(struct supervisor *k, const json_t *message)
{
    json_int_t v = json_integer_value(json_object_get(message, "v"));
    json_int_t timeout = json_integer_value(json_object_get(message, "adopt_timeout_ms"));
    struct child *p;
    const struct supervisor_rights *rights = k->spawner.rights;
    bool allowed =
        rights == NULL || supervisor_rights_allow_all(rights, json_object_get(message, "users"));

    if (!allowed)
        log_warn(NULL, "supervisor-users-rejected",
                 "reason=\"the agent has applications of other users than at the start\"");
    if (v != SUPERVISOR_VERSION || k->ending || !allowed) {
        /* Not a usable supervisor: the agent will send BYE, or disconnect if it follows another. */
        send_message(k,
                     json_pack("{s:s, s:i, s:i}", "op", "hello", "v",
                               k->ending || !allowed ? 0 : SUPERVISOR_VERSION, "processes", 0),
                     -1);
        return;
    }
    if (timeout >= 0)
        k->adopt_timeout_ms = (uint64_t)timeout;
    send_message(k,
                 json_pack("{s:s, s:i, s:I, s:I, s:b}", "op", "hello", "v", SUPERVISOR_VERSION,
                           "pid", (json_int_t)getpid(), "processes",
                           (json_int_t)list_length(&k->children), "limited", rights != NULL),
                 -1);
    list_for_each_entry (p, &k->children, node)
        send_message(k, child_message(p, now_ms()), p->spawned.output_fd);
}

static void on_supervisor_message(struct supervisor *k, size_t from, json_t *message)
{
    const char *op = message_string(message, "op");
    const char *note = json_string_value(json_object_get(message, "note"));
    json_int_t n = json_integer_value(json_object_get(message, "n"));
    json_int_t number = json_integer_value(json_object_get(message, "signal"));
    struct child *p = child_of_message(&k->children, message);

    if (strcmp(op, "spawn") == 0) {
        on_spawn(k, from, message);
    } else if (strcmp(op, "busy") == 0) {
        if (p == NULL || n < 0 || n > INT_MAX)
            return;
        child_set_busy(p, (unsigned)n);
        /* From the old agent, during an upgrade. */
        if (!is_obeyed(k, from))
            send_busy(k, p);
    } else if (!is_obeyed(k, from)) {
        /* The other messages are accepted from the agent that is obeyed only. */
        return;
    } else if (strcmp(op, "hello") == 0) {
        on_hello(k, message);
    } else if (strcmp(op, "signal") == 0) {
        if (p != NULL && (number == SIGTERM || number == SIGKILL))
            child_signal(p, (int)number);
    } else if (strcmp(op, "note") == 0) {
        if (p == NULL || note == NULL || strlen(note) > SUPERVISOR_WHY_MAX)
            return;
        free(p->note);
        p->note = xstrdup(note);
    } else if (strcmp(op, "bye") == 0) {
        end_all(k);
    }
}

/* Handles at most AT_MOST messages of agent I, which may disconnect meanwhile. */
static void read_agent(struct supervisor *k, size_t i, int at_most)
{
    for (int n = 0; n < at_most; ++n) {
        json_t *message;
        int passed;
        enum err e = packet_receive(k->agents[i]->out.fd, &message, &passed);

        if (e == ERR_BUSY)
            return;
        if (e == ERR_PEER_CLOSED) {
            agent_lost(k, i);
            return;
        }
        if (e != ERR_OK)
            continue;
        if (passed >= 0)
            close(passed);
        on_supervisor_message(k, i, message);
        json_decref(message);
    }
}

/* ---- the next agent ---- */

static void accept_pending(struct supervisor *k)
{
    int fd = accept4(k->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    const struct supervisor_rights *rights = k->spawner.rights;
    size_t i = 0;
    while (i < PENDING_MAX && k->pending[i].fd >= 0)
        ++i;
    if (i < PENDING_MAX && packet_peer_is(fd, rights != NULL ? rights->users[0].uid : geteuid()))
        k->pending[i] = (struct pending){fd, now_ms() + PENDING_MS};
    else
        close(fd);
}

/*
 * A new agent has connected. An attached agent may be dead, or may have started the new one
 * (SIGUSR2): its earlier messages are handled first, and it stays attached to finish its requests.
 * In both cases the new agent has the lock on state_dir.
 */
static void read_pending(struct supervisor *k, struct pending *s)
{
    json_t *message;
    int passed;
    enum err e = packet_receive(s->fd, &message, &passed);

    if (e == ERR_BUSY)
        return;
    if (e != ERR_OK) {
        close(s->fd);
        s->fd = -1;
        return;
    }
    if (passed >= 0)
        close(passed);
    if (k->nagents > 0)
        read_agent(k, k->nagents - 1, 4 * SUPERVISOR_PROCESSES_MAX);
    if (k->nagents == AGENTS_MAX)
        agent_lost(k, 0);
    add_agent(k, s->fd);
    s->fd = -1;
    log_info(NULL, "supervisor-agent-attached", "processes=%zu agents=%zu",
             list_length(&k->children), k->nagents);
    on_supervisor_message(k, k->nagents - 1, message);
    json_decref(message);
}

/* ---- the loop ---- */

/* Returns true if SIGTERM was among them. */
static bool on_signals(struct supervisor *k)
{
    struct signalfd_siginfo si;
    bool term = false;

    while (read(k->signals_fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
        term |= si.ssi_signo == SIGTERM;
    for (;;) {
        siginfo_t dead = {0};
        char how[SUPERVISOR_WHY_MAX];

        if (waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT) != 0 || dead.si_pid == 0)
            return term;
        struct child *p = child_of_pid(&k->children, dead.si_pid);
        if (p == NULL) {
            waitpid(dead.si_pid, NULL, 0); /* an orphan of one of them */
            continue;
        }
        /* Its exit status, its signal, or why it could not be started (the error pipe). */
        ssize_t n = read(p->spawned.error_fd, how, sizeof(how) - 1);
        if (n > 0) {
            how[n] = '\0';
            /* A path in it may be invalid UTF-8, which JSON does not permit. */
            ascii_clean(how);
        } else {
            snprintf(how, sizeof(how), dead.si_code == CLD_EXITED ? "exit %d" : "signal %d",
                     dead.si_status);
        }
        spawner_clean_up(&p->spawned);
        waitpid(p->spawned.pid, NULL, 0);
        for (size_t i = 0; i < k->nagents; ++i)
            send_to(k->agents[i],
                    json_pack("{s:s, s:s, s:s}", "op", "died", "id", p->id, "how", how), -1);
        child_remove(p);
    }
}

static void set_earlier(uint64_t *at, uint64_t other)
{
    if (other < *at)
        *at = other;
}

static int wait_ms(const struct supervisor *k)
{
    enum { LONGEST_MS = 60000 };
    uint64_t now = now_ms();
    uint64_t at = now + LONGEST_MS;
    const struct child *p;

    if (k->nagents == 0 && !k->ending)
        set_earlier(&at, k->adopt_until_ms);
    for (size_t i = 0; i < PENDING_MAX; ++i) {
        if (k->pending[i].fd >= 0)
            set_earlier(&at, k->pending[i].until_ms);
    }
    if (k->ending) {
        list_for_each_entry (p, &k->children, node)
            set_earlier(&at, p->kill_ms);
    }
    return at <= now ? 1 : (int)(at - now);
}

static void run_turn(struct supervisor *k)
{
    enum { AT_ONCE = 64 };
    struct pollfd fds[2 + AGENTS_MAX + PENDING_MAX] = {
        {.fd = k->signals_fd, .events = POLLIN},
        {.fd = k->listen_fd, .events = POLLIN},
    };
    struct pollfd *agents = fds + 2;
    struct pollfd *pending = agents + AGENTS_MAX;

    for (size_t i = 0; i < AGENTS_MAX; ++i) {
        agents[i] =
            (struct pollfd){.fd = i < k->nagents ? k->agents[i]->out.fd : -1, .events = POLLIN};
        if (i < k->nagents && !list_empty(&k->agents[i]->out.items))
            agents[i].events |= POLLOUT;
    }
    for (size_t i = 0; i < PENDING_MAX; ++i)
        pending[i] = (struct pollfd){.fd = k->pending[i].fd, .events = POLLIN};
    if (poll(fds, ARRAY_LEN(fds), wait_ms(k)) < 0)
        return;
    bool term = fds[0].revents != 0 && on_signals(k);
    /* In reverse order: the loss of an agent moves those after it. */
    for (size_t i = AGENTS_MAX; i-- > 0;) {
        if (agents[i].fd < 0 || (agents[i].revents == 0 && !term))
            continue;
        (void)!packet_queue_flush(&k->agents[i]->out);
        read_agent(k, i, AT_ONCE);
    }
    /* SIGTERM to the whole service: an existing agent arranges the shutdown. An agent that was
     * killed before has just been removed, by reading. */
    if (term && k->nagents == 0)
        end_all(k);
    for (size_t i = 0; i < PENDING_MAX; ++i) {
        if (pending[i].revents != 0 && k->pending[i].fd >= 0)
            read_pending(k, &k->pending[i]);
    }
    if (fds[1].revents != 0)
        accept_pending(k);
    for (size_t i = 0; i < PENDING_MAX; ++i) {
        if (k->pending[i].fd >= 0 && now_ms() >= k->pending[i].until_ms) {
            close(k->pending[i].fd);
            k->pending[i].fd = -1;
        }
    }
    if (k->nagents == 0 && !k->ending && now_ms() >= k->adopt_until_ms) {
        log_warn(NULL, "supervisor-exiting",
                 "reason=\"no agent within adopt_timeout\" processes=%zu",
                 list_length(&k->children));
        end_all(k);
    }
    if (k->ending)
        children_kill_overdue(&k->children, now_ms());
}

/* ---- files in state_dir ---- */

/* Creates the directory, which must not be a link, or deletes the sockets that a previous
 * supervisor left in it. Requires the lock. Errors are logged. */
static bool make_run_dir(const char *path)
{
    struct dirent *entry;
    struct stat opened;
    struct stat there;
    DIR *dir = NULL;
    int fd = -1;

    /* Processes of other users have their sockets in it: they may traverse, not list it. */
    if (mkdir(path, 0711) != 0 && errno != EEXIST)
        goto failed;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchown(fd, geteuid(), getegid()) != 0 || fchmod(fd, 0711) != 0 ||
        fstat(fd, &opened) != 0 || lstat(path, &there) != 0)
        goto failed;
    /* FD must be what is at PATH, and belong to the process's user. */
    errno = EPERM;
    if (opened.st_dev != there.st_dev || opened.st_ino != there.st_ino || there.st_uid != geteuid())
        goto failed;
    dir = fdopendir(fd);
    if (dir == NULL)
        goto failed;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' || unlinkat(fd, entry->d_name, 0) == 0 ||
            (errno != EISDIR && errno != EPERM))
            continue;
        /* A directory with nothing but a socket in it. */
        int directory = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (directory >= 0) {
            unlinkat(directory, "s", 0);
            close(directory);
        }
        unlinkat(fd, entry->d_name, AT_REMOVEDIR);
    }
    closedir(dir);
    return true;
failed:
    log_error(NULL, "supervisor-directory-failed", "directory=%s reason=\"%s\"", path,
              strerror(errno));
    if (fd >= 0)
        close(fd);
    return false;
}

/* The socket for the next agent: the first user of RIGHTS, or ours. Needs the lock. Logs errors. */
static bool listen_for_agents(const char *path, const struct supervisor_rights *rights, int *fd)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(a.sun_path)) {
        errno = ENAMETOOLONG;
        goto failed;
    }
    memcpy(a.sun_path, path, strlen(path) + 1);
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        goto failed;
    unlink(path);
    /* The agent's group may connect; the user is checked at each connection. */
    if (bind(*fd, (struct sockaddr *)&a, sizeof(a)) != 0 ||
        (rights != NULL && lchown(path, geteuid(), rights->users[0].gid) != 0) ||
        chmod(path, rights != NULL ? 0660 : 0600) != 0 || listen(*fd, 8) != 0)
        goto failed;
    return true;
failed:
    log_error(NULL, "supervisor-socket-failed", "file=%s reason=\"%s\"", path, strerror(errno));
    return false;
}

/* Kills what application processes have left behind outside of their process groups. */
static void end_orphans(void)
{
    struct text list = {0};
    char path[64];
    char *end;

    snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)getpid());
    if (file_read(path, 65536, &list) != ERR_OK)
        return;
    const char *at = text_cstr(&list);
    for (;;) {
        long pid = strtol(at, &end, 10);

        if (end == at || pid <= 0)
            break;
        kill((pid_t)pid, SIGKILL);
        at = end;
    }
    text_fini(&list);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

/* ---- start ---- */

void supervisor_run(int agent_fd, int lock_fd, const struct supervisor_options *o)
{
    enum { AGENT_FD = 3, LOCK_FD = 4, ABOVE = 10 };
    /* Rights are retained only for processes of users other than the agent's own. */
    const struct supervisor_rights *rights =
        supervisor_rights_has_others(o->rights) ? o->rights : NULL;
    struct supervisor k = {.spawner = {.nofile = o->nofile, .rights = rights},
                           .adopt_timeout_ms = 10000};
    sigset_t mask;

    list_init(&k.children);
    for (size_t i = 0; i < PENDING_MAX; ++i)
        k.pending[i].fd = -1;
    /* Everything is closed but 0, 1, 2 and these two. */
    agent_fd = fcntl(agent_fd, F_DUPFD_CLOEXEC, ABOVE);
    lock_fd = fcntl(lock_fd, F_DUPFD_CLOEXEC, ABOVE);
    int agent_copy = dup3(agent_fd, AGENT_FD, O_CLOEXEC);
    int lock_copy = dup3(lock_fd, LOCK_FD, O_CLOEXEC);
    ASSERT(agent_copy == AGENT_FD && lock_copy == LOCK_FD);
    close_range(LOCK_FD + 1, ~0U, 0);
    /* There is no thread to write the log: lines without room are dropped at once. */
    log_open(0);
    add_agent(&k, AGENT_FD);
    prctl(PR_SET_NAME, "resumelb-super"); /* the kernel cuts names at 15 bytes */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* Signals of a terminal to its foreground group are for the agent only. */
    setpgid(0, 0);
    k.spawner.supervisor = getpid();
    k.spawner.umask = umask(0077);
    sigfillset(&mask);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    k.signals_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    ASSERT(k.signals_fd >= 0);
    k.spawner.run_dir = xasprintf("%s/%s", o->state_dir, SUPERVISOR_RUN_NAME);
    k.socket_path = xasprintf("%s/%s", o->state_dir, SUPERVISOR_SOCKET_NAME);
    if (!make_run_dir(k.spawner.run_dir) || !listen_for_agents(k.socket_path, rights, &k.listen_fd))
        _exit(1);
    while (!k.ending || !list_empty(&k.children))
        run_turn(&k);
    end_orphans();
    unlink(k.socket_path);
    /* The closed sockets notify the agents that all processes have ended. */
    _exit(0);
}
