/* SPDX-License-Identifier: Apache-2.0
 *
 *   supervisor                 child
 *   socket, pipes; fork   ->   own process group, signals as at birth;
 *                              0 /dev/null, 1 and 2 the output pipe, 3 the listening socket,
 *                              all other descriptors closed; user; directory;
 *                              dies with the supervisor (PR_SET_PDEATHSIG);
 *                              LISTEN_PID, exec; or why not, into the error pipe
 *
 * The supervisor keeps the listening socket, so that it can empty the backlog when the process is
 * dead: a descendant that escaped from the process group may still hold the same socket.
 */
#include "worker-agent/supervisor/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/text.h"
#include "common/net/addr.h"

/* ---- requests ---- */

json_t *spawn_request_message(const struct app_config *c, unsigned slot, const char *id,
                              uint64_t stop_timeout_ms)
{
    json_t *m = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:o, s:o, s:s, s:b, s:I}", "op", "spawn",
                          "id", id, "application", c->name, "spec", c->spec, "slot", (int)slot,
                          "listen", (int)c->listen, "words", command_words(c), "env",
                          command_environment(c), "root", c->s.root, "switch_user",
                          (int)c->user.required, "stop_timeout_ms", (json_int_t)stop_timeout_ms);

    supervisor_user_put(&c->user, m);
    return m;
}

bool message_text(const json_t *m, const char *name, char *out, size_t room)
{
    const char *s = json_string_value(json_object_get(m, name));

    if (s == NULL || strlen(s) >= room)
        return false;
    memcpy(out, s, strlen(s) + 1);
    return true;
}

static bool is_text_list(const json_t *list)
{
    size_t i;
    json_t *item;

    json_array_foreach (list, i, item) {
        if (!json_is_string(item))
            return false;
    }
    return json_is_array(list) && i <= (size_t)2 * APP_WORDS_MAX;
}

bool spawn_request_parse(json_t *m, struct spawn_request *out, char why[SUPERVISOR_WHY_MAX])
{
    json_int_t slot = -1;
    json_int_t listen = -1;
    json_int_t stop = -1;
    int switch_user = 0;
    bool good = supervisor_user_parse(m, &out->user) &&
                json_unpack(m, "{s:I, s:I, s:I, s:o, s:o, s:s, s?b}", "slot", &slot, "listen",
                            &listen, "stop_timeout_ms", &stop, "words", &out->words, "env",
                            &out->env, "root", &out->root, "switch_user", &switch_user) == 0 &&
                message_text(m, "id", out->id, sizeof(out->id)) &&
                message_text(m, "application", out->application, sizeof(out->application)) &&
                message_text(m, "spec", out->spec, sizeof(out->spec));

    /* The id becomes a file's name. */
    if (!good || strlen(out->id) < 16 || strspn(out->id, "0123456789abcdef") != strlen(out->id) ||
        slot < 0 || slot > INT32_MAX || listen < 0 || listen > LISTEN_BY_SOCKET || stop < 0 ||
        !is_text_list(out->words) || json_array_size(out->words) == 0 || !is_text_list(out->env)) {
        snprintf(why, SUPERVISOR_WHY_MAX, "the request to spawn is not complete");
        return false;
    }
    out->user.required = switch_user != 0;
    out->slot = (unsigned)slot;
    out->listen = (enum listen_mode)listen;
    out->stop_timeout_ms = (uint64_t)stop;
    return true;
}

/* ---- sockets ---- */

/* ID_SHOWN: bytes of an instance in a file's name. */
enum { ID_SHOWN = 16, PORT_TRIES = 32 };

static enum err spawner_fail(char why[SUPERVISOR_WHY_MAX], const char *what)
{
    snprintf(why, SUPERVISOR_WHY_MAX, "%s: %s", what, strerror(errno));
    return ERR_SYSTEM;
}

static enum err bind_listening(const char *text, struct spawned *p, char why[SUPERVISOR_WHY_MAX])
{
    struct addr a;
    struct addr bound;
    /* Requests wait in the slot's queue: the backlog is small, and its connections may be lost. */
    const struct addr_listen_options o = {.backlog = 128, .mode = 0600};

    if (addr_parse(slice_of(text), &a) != ERR_OK) {
        snprintf(why, SUPERVISOR_WHY_MAX, "not an address to listen on: %.100s", text);
        return ERR_SYNTAX;
    }
    if (addr_listen(&a, &o, &p->listen_fd) != ERR_OK ||
        addr_of_socket(p->listen_fd, &bound) != ERR_OK)
        return spawner_fail(why, "listen");
    /* Servers that call accept(2) without poll(2) would otherwise spin or fail. */
    int flags = fcntl(p->listen_fd, F_GETFL);
    fcntl(p->listen_fd, F_SETFL, flags & ~O_NONBLOCK);
    addr_format(&bound, p->address);
    return ERR_OK;
}

/* A free port that none of the last processes had: clients may still be connected to theirs. */
static enum err choose_port(struct spawner *s, struct spawned *p, char why[SUPERVISOR_WHY_MAX])
{
    const struct addr_listen_options o = {.backlog = 1};

    for (int i = 0; i < PORT_TRIES; ++i) {
        struct addr a;
        int fd;

        if (addr_parse(SLICE_LIT("127.0.0.1:0"), &a) != ERR_OK ||
            addr_listen(&a, &o, &fd) != ERR_OK)
            return spawner_fail(why, "find a free port");
        enum err e = addr_of_socket(fd, &a);
        bool lately_given = false;

        close(fd);
        for (size_t k = 0; k < ARRAY_LEN(s->last_ports); ++k)
            lately_given |= s->last_ports[k] == addr_port(&a);
        if (e != ERR_OK || lately_given)
            continue;
        s->last_ports[s->next_port++ % ARRAY_LEN(s->last_ports)] = addr_port(&a);
        addr_format(&a, p->address);
        return ERR_OK;
    }
    errno = EADDRINUSE;
    return spawner_fail(why, "find a free port");
}

static enum err make_socket(struct spawner *s, const struct spawn_request *r, struct spawned *p,
                            char why[SUPERVISOR_WHY_MAX])
{
    if (r->listen == LISTEN_INHERITED_TCP)
        return bind_listening("127.0.0.1:0", p, why);
    if (r->listen == LISTEN_BY_PORT)
        return choose_port(s, p, why);
    char *path = xasprintf("%s/%.*s", s->run_dir, ID_SHOWN, r->id);
    if (r->listen == LISTEN_BY_SOCKET) {
        if (mkdir(path, 0700) != 0) {
            free(path);
            return spawner_fail(why, "mkdir for its socket");
        }
        p->directory = path;
        if (r->user.required && lchown(path, r->user.uid, r->user.gid) != 0)
            return spawner_fail(why, "chown of the directory for its socket");
        p->path = xasprintf("%s/s", path);
        snprintf(p->address, sizeof(p->address), "unix:%s", p->path);
        return ERR_OK;
    }
    char *text = xasprintf("unix:%s", path);
    enum err e = bind_listening(text, p, why);
    free(text);
    if (e != ERR_OK) {
        free(path);
        return e;
    }
    p->path = path;
    /* No other user can replace the file: the directory is the supervisor's. */
    if (s->rights != NULL && lchown(path, s->rights->users[0].uid, s->rights->users[0].gid) != 0)
        return spawner_fail(why, "chown of its socket");
    return ERR_OK;
}

/* ---- the child ---- */

static no_return void child_fail(int error_fd, const char *what)
{
    char text[SUPERVISOR_WHY_MAX];
    int n = snprintf(text, sizeof(text), "%.120s: %s", what, strerror(errno));

    if (n > 0 && write(error_fd, text, strnlen(text, sizeof(text))) < 0)
        _exit(126);
    _exit(127);
}

/* Sets up descriptors 0 to 3 and closes all others but the error pipe, which it returns. */
static int arrange_descriptors(const struct spawned *p, int output_fd, int error_fd)
{
    enum { ABOVE = 10, LISTEN_FD = 3 };
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* Moved above first: each may have the number that another one needs. */
    int out = fcntl(output_fd, F_DUPFD_CLOEXEC, ABOVE);
    int error = fcntl(error_fd, F_DUPFD_CLOEXEC, ABOVE);
    int listening = p->listen_fd >= 0 ? fcntl(p->listen_fd, F_DUPFD_CLOEXEC, ABOVE) : -1;
    int error_at = p->listen_fd >= 0 ? LISTEN_FD + 1 : LISTEN_FD;

    if (null < 0 || out < 0 || error < 0 || (p->listen_fd >= 0 && listening < 0))
        child_fail(error_fd, "descriptors");
    if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        child_fail(error, "standard descriptors");
    if (listening >= 0 && dup2(listening, LISTEN_FD) < 0)
        child_fail(error, "listening socket");
    if (dup3(error, error_at, O_CLOEXEC) < 0)
        child_fail(error, "error pipe");
    close_range((unsigned)error_at + 1, ~0U, 0);
    return error_at;
}

/* The texts of LIST, with {port} or {socket} replaced; NULL-terminated. */
static char **fill_in(const json_t *list, const struct spawned *p, enum listen_mode mode)
{
    char **out = xcalloc(json_array_size(list) + 1, sizeof(char *));

    for (size_t i = 0; i < json_array_size(list); ++i) {
        const char *text = json_string_value(json_array_get(list, i));

        if (mode == LISTEN_BY_PORT)
            out[i] = command_replace(text, "{port}", strrchr(p->address, ':') + 1);
        else if (mode == LISTEN_BY_SOCKET)
            out[i] = command_replace(text, "{socket}", p->path);
        else
            out[i] = xstrdup(text);
    }
    return out;
}

static no_return void child_run(const struct spawner *s, const struct spawn_request *r,
                                const struct spawned *p, int output_fd, int error_fd)
{
    sigset_t none;

    setpgid(0, 0);
    umask(s->umask);
    for (int n = 1; n < NSIG; ++n)
        (void)signal(n, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    error_fd = arrange_descriptors(p, output_fd, error_fd);
    setrlimit(RLIMIT_NOFILE, &s->nofile);
    /* A supervisor that runs as the agent's user cannot switch to another one. */
    if (r->user.required && (geteuid() == 0 || privileges_differ(&r->user))) {
        const char *failed = privileges_switch(&r->user);

        if (failed != NULL)
            child_fail(error_fd, failed);
        /* The agent chooses the command: it must not get more rights by it than the user's. */
        if (s->rights != NULL && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
            child_fail(error_fd, "no_new_privs");
    }
    /* Set after the change of user, which clears it. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        child_fail(error_fd, "PR_SET_PDEATHSIG");
    if (getppid() != s->supervisor)
        _exit(127);
    if (chdir(r->root) != 0)
        child_fail(error_fd, r->root);
    char **words = fill_in(r->words, p, r->listen);
    environ = fill_in(r->env, p, r->listen);
    if (p->listen_fd >= 0) {
        putenv(xasprintf("LISTEN_PID=%ld", (long)getpid()));
        putenv(xstrdup("LISTEN_FDS=1"));
    }
    execvp(words[0], words);
    child_fail(error_fd, words[0]);
}

/* ---- the supervisor's side ---- */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void remove_files(struct spawned *p)
{
    if (p->path != NULL)
        unlink(p->path);
    if (p->directory != NULL)
        rmdir(p->directory);
    free(p->path);
    free(p->directory);
    p->path = NULL;
    p->directory = NULL;
}

enum err spawner_start(struct spawner *s, const struct spawn_request *r, struct spawned *out,
                       char why[SUPERVISOR_WHY_MAX])
{
    struct spawned p = {.listen_fd = -1, .output_fd = -1, .error_fd = -1};
    int output[2] = {-1, -1};
    int error[2] = {-1, -1};

    if (s->rights != NULL && !(r->user.required && supervisor_rights_allow(s->rights, &r->user))) {
        snprintf(why, SUPERVISOR_WHY_MAX,
                 "uid %ld, gid %ld, with its groups, is not a user of an application known at the "
                 "start: "
                 "restart the agent",
                 (long)r->user.uid, (long)r->user.gid);
        return ERR_UNSUPPORTED;
    }
    enum err e = make_socket(s, r, &p, why);
    if (e != ERR_OK)
        goto failed;
    e = ERR_SYSTEM;
    if (pipe2(output, O_CLOEXEC) != 0 || pipe2(error, O_CLOEXEC) != 0) {
        (void)spawner_fail(why, "pipe");
        goto failed;
    }
    p.pid = fork();
    if (p.pid == 0)
        child_run(s, r, &p, output[1], error[1]);
    if (p.pid < 0) {
        (void)spawner_fail(why, "fork");
        goto failed;
    }
    /* Called in parent and child, so that the group exists for signals regardless of the order. */
    setpgid(p.pid, p.pid);
    close(output[1]);
    close(error[1]);
    fcntl(output[0], F_SETFL, O_NONBLOCK);
    fcntl(error[0], F_SETFL, O_NONBLOCK);
    p.output_fd = output[0];
    p.error_fd = error[0];
    *out = p;
    return ERR_OK;
failed:
    for (int i = 0; i < 2; ++i) {
        close_fd(&output[i]);
        close_fd(&error[i]);
    }
    close_fd(&p.listen_fd);
    remove_files(&p);
    return e;
}

void spawner_clean_up(struct spawned *p)
{
    kill(-p->pid, SIGKILL);
    if (p->listen_fd >= 0) {
        int fd;

        /* Prevents further connections through any descriptor; resets the connections in TCP's
         * backlog. The others are accepted and closed. */
        shutdown(p->listen_fd, SHUT_RDWR);
        fcntl(p->listen_fd, F_SETFL, O_NONBLOCK);
        while ((fd = accept4(p->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0 || errno == EINTR ||
               errno == ECONNABORTED)
            close_fd(&fd);
    }
    close_fd(&p->listen_fd);
    close_fd(&p->output_fd);
    close_fd(&p->error_fd);
    remove_files(p);
}

/* ---- the existing processes ---- */

struct child *child_add(struct list *all, const struct spawn_request *r,
                        const struct spawned *spawned, uint64_t agent, uint64_t now_ms)
{
    struct child *p = xcalloc(1, sizeof(*p));

    memcpy(p->id, r->id, sizeof(p->id));
    memcpy(p->application, r->application, sizeof(p->application));
    memcpy(p->spec, r->spec, sizeof(p->spec));
    p->note = xstrdup("");
    p->slot = r->slot;
    p->stop_timeout_ms = r->stop_timeout_ms;
    p->started_ms = now_ms;
    p->agent = agent;
    p->spawned = *spawned;
    list_push_back(all, &p->node);
    return p;
}

void child_remove(struct child *p)
{
    list_remove(&p->node);
    free(p->note);
    free(p);
}

struct child *child_of_message(const struct list *all, const json_t *message)
{
    const char *id = json_string_value(json_object_get(message, "id"));
    struct child *p;

    list_for_each_entry (p, all, node) {
        if (id != NULL && strcmp(p->id, id) == 0)
            return p;
    }
    return NULL;
}

struct child *child_of_pid(const struct list *all, pid_t pid)
{
    struct child *p;

    list_for_each_entry (p, all, node) {
        if (p->spawned.pid == pid)
            return p;
    }
    return NULL;
}

void child_signal(struct child *p, int signal_number)
{
    p->term_deferred = signal_number == SIGTERM && p->busy > 0;
    /* To the group, which includes a shell that started the program, and a master's children. */
    if (!p->term_deferred)
        kill(-p->spawned.pid, signal_number);
}

void child_set_busy(struct child *p, unsigned busy)
{
    p->busy = busy;
    if (busy == 0 && p->term_deferred)
        child_signal(p, SIGTERM);
}

json_t *child_message(const struct child *p, uint64_t now_ms)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:I, s:s, s:s, s:I, s:i}", "op", "process", "id",
                     p->id, "application", p->application, "slot", (int)p->slot, "spec", p->spec,
                     "pid", (json_int_t)p->spawned.pid, "address", p->spawned.address, "note",
                     p->note, "age_ms", (json_int_t)(now_ms - p->started_ms), "busy", (int)p->busy);
}

void children_end_all(const struct list *all, uint64_t now_ms)
{
    struct child *p;

    list_for_each_entry (p, all, node) {
        child_signal(p, SIGTERM);
        p->kill_ms = now_ms + p->stop_timeout_ms;
    }
}

void children_kill_overdue(const struct list *all, uint64_t now_ms)
{
    struct child *p;

    list_for_each_entry (p, all, node) {
        if (now_ms >= p->kill_ms)
            child_signal(p, SIGKILL);
    }
}
