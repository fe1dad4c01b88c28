/* SPDX-License-Identifier: Apache-2.0 */
#include "common/program/upgrade.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/program/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PASSED_FD = 3,
    /* Exit status if the file cannot be executed, as of shells. */
    EXIT_NOT_EXECUTED = 127,
};

/* ---- the new process: finding it ---- */

static bool is_program(const char *file)
{
    struct stat st;

    return stat(file, &st) == 0 && S_ISREG(st.st_mode) && access(file, X_OK) == 0;
}

char *program_find(const char *name, const char *path)
{
    struct slice rest = slice_of(path != NULL ? path : "/usr/bin:/bin");

    if (strchr(name, '/') != NULL)
        return is_program(name) ? xstrdup(name) : NULL;
    while (rest.len > 0) {
        struct slice directory = slice_cut(&rest, ':');
        char *file = xasprintf("%.*s/%s", (int)directory.len, directory.p, name);

        /* An empty entry would mean the current directory, which must not be searched. */
        if (directory.len > 0 && is_program(file))
            return file;
        free(file);
    }
    return NULL;
}

/* ---- the new process: starting it ---- */

/*
 * Runs in the child of a process with threads, so it makes only system calls. Signals remain
 * blocked until the program reads them: one that arrives before is pending.
 */
static no_return void exec_program(const char *file, char *const *argv, char *const *env,
                                   const struct rlimit *nofile, int pass)
{
    if (pass == PASSED_FD)
        fcntl(PASSED_FD, F_SETFD, 0);
    else
        dup2(pass, PASSED_FD);
    close_range(PASSED_FD + 1, ~0U, 0);
    setrlimit(RLIMIT_NOFILE, nofile);
    signal(SIGPIPE, SIG_DFL);
    execve(file, argv, env);
    _exit(EXIT_NOT_EXECUTED);
}

enum err program_start(char *const *argv, const struct rlimit *nofile, int pass,
                       struct program *out)
{
    static char variable[] = UPGRADE_VARIABLE "=3"; /* PASSED_FD */
    char *file = program_find(argv[0], getenv("PATH"));
    size_t nenv = 0;

    if (file == NULL)
        return ERR_NOT_FOUND;
    while (environ[nenv] != NULL)
        ++nenv;
    char **env = xcalloc(nenv + 2, sizeof(char *));
    memcpy(env, environ, nenv * sizeof(char *));
    env[nenv] = variable;
    pid_t pid = fork();
    if (pid == 0)
        exec_program(file, argv, env, nofile, pass);
    free(env);
    free(file);
    if (pid < 0)
        return ERR_SYSTEM;
    *out = (struct program){.pid = pid, .pidfd = pidfd_open(pid, 0)};
    if (out->pidfd >= 0)
        return ERR_OK;
    char how[40];
    int saved = errno;
    (void)program_end(out, true, how);
    errno = saved;
    return ERR_SYSTEM;
}

int program_end(struct program *p, bool kill_it, char out[40])
{
    int status = 0;

    if (kill_it)
        kill(p->pid, SIGKILL);
    (void)TEMP_FAILURE_RETRY(waitpid(p->pid, &status, 0));
    if (p->pidfd >= 0)
        close(p->pidfd);
    *p = (struct program){.pid = 0, .pidfd = -1};
    if (WIFEXITED(status))
        snprintf(out, 40, "exit %d", WEXITSTATUS(status));
    else
        snprintf(out, 40, "signal %d", WTERMSIG(status));
    return status;
}

/* ---- the end of an upgrade ---- */

enum { TICK_MS = 10 };

static const char *const stage_texts[] = {"none", "starting", "handing over", "handed over"};

static void close_channel(struct upgrade *u)
{
    watch_stop(u->channel);
    u->channel = NULL;
    packet_queue_close(&u->out);
}

/* Must be called before the descriptor of the program is closed. */
static void stop_watching(struct upgrade *u)
{
    watch_stop(u->exited);
    u->exited = NULL;
}

static void release_program(struct upgrade *u)
{
    stop_watching(u);
    if (u->program.pidfd >= 0)
        close(u->program.pidfd);
    u->program = (struct program){.pid = 0, .pidfd = -1};
}

static void upgrade_stop(struct upgrade *u)
{
    timer_stop(&u->tick);
    close_channel(u);
    u->stage = UPGRADE_NONE;
}

static void upgrade_fail(struct upgrade *u, const char *reason)
{
    enum upgrade_stage stage = u->stage;
    char how[40] = "";

    stop_watching(u);
    if (u->program.pid > 0)
        (void)program_end(&u->program, true, how);
    log_error(NULL, "upgrade-failed",
              "stage=\"%s\" reason=\"%s\" how=\"%s\" action=\"continue serving\"",
              stage_texts[stage], reason, how);
    upgrade_stop(u);
    if (stage > UPGRADE_STARTING && u->ops->resume != NULL)
        u->ops->resume(u->context, stage == UPGRADE_HANDED_OVER);
}

void upgrade_abandon(struct upgrade *u)
{
    if (u->stage == UPGRADE_HANDING_OVER && u->ops->release == NULL) {
        /* The new process may have accepted connections, so it is not killed. */
        kill(u->program.pid, SIGTERM);
        release_program(u);
        upgrade_stop(u);
    } else if (u->stage == UPGRADE_STARTING || u->stage == UPGRADE_HANDING_OVER) {
        upgrade_fail(u, "shutdown requested");
    }
}

void upgrade_fini(struct upgrade *u)
{
    if (u->loop == NULL)
        return;
    release_program(u);
    upgrade_stop(u);
}

/* ---- messages ---- */

static void upgrade_flush(struct upgrade *u)
{
    /* The rest is sent at the next tick. Reading detects that the process has exited. */
    if (u->out.fd >= 0)
        (void)!packet_queue_flush(&u->out);
}

void upgrade_pass(struct upgrade *u, const char *op, const char *name, int number, int fd)
{
    if (u->out.fd < 0)
        return;
    json_t *m = name != NULL
                    ? json_pack("{s:s, s:s, s:i}", "op", op, "name", name, "number", number)
                    : json_pack("{s:s}", "op", op);
    packet_queue_add(&u->out, m, fd);
}

void upgrade_pass_text(struct upgrade *u, const char *op, const char *name, int number,
                       struct slice text)
{
    int fd = memfd_create(op, MFD_CLOEXEC);

    if (fd >= 0 && write(fd, text.p, text.len) == (ssize_t)text.len)
        upgrade_pass(u, op, name, number, fd);
    else
        log_warn(NULL, "upgrade-state-not-sent", "op=%s name=%s number=%d reason=\"%s\"", op, name,
                 number, strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void upgrade_enter(struct upgrade *u, enum upgrade_stage stage)
{
    u->stage = stage;
    log_info(NULL, "upgrade-stage", "stage=\"%s\" pid=%ld", stage_texts[stage],
             (long)u->program.pid);
}

static void on_upgrade_message(struct upgrade *u, const json_t *m)
{
    if (packet_is(m, "prepared") && u->stage == UPGRADE_STARTING && u->begun) {
        upgrade_enter(u, UPGRADE_HANDING_OVER);
        if (u->release_ms != 0)
            u->until_ms = loop_active_ms(u->loop) + u->release_ms;
        if (u->ops->release != NULL)
            u->ops->release(u->context, u);
        upgrade_pass(u, "go", NULL, 0, -1);
        upgrade_flush(u);
    } else if (packet_is(m, "ready") && u->stage == UPGRADE_HANDING_OVER) {
        char *main_pid = xasprintf("MAINPID=%ld\nREADY=1", (long)u->program.pid);

        upgrade_enter(u, UPGRADE_HANDED_OVER);
        if (u->ops->tick == NULL)
            timer_stop(&u->tick);
        daemon_notify(main_pid);
        free(main_pid);
        u->ops->drain(u->context);
    } else {
        upgrade_fail(u, "unexpected message from the new process");
    }
}

static void on_upgrade_readable(void *context)
{
    struct upgrade *u = context;

    while (u->out.fd >= 0) {
        json_t *m;
        int passed;
        enum err e = packet_receive(u->out.fd, &m, &passed);

        if (e == ERR_BUSY)
            return;
        if (e != ERR_OK) {
            /* After the hand-over the exit status decides (on_program_exited). */
            if (u->stage == UPGRADE_HANDED_OVER)
                close_channel(u);
            else
                upgrade_fail(u, "the new process exited, see its messages");
            return;
        }
        if (passed >= 0)
            close(passed);
        on_upgrade_message(u, m);
        json_decref(m);
    }
}

static void on_program_exited(void *context)
{
    struct upgrade *u = context;
    char how[40];

    if (u->stage != UPGRADE_HANDED_OVER) {
        upgrade_fail(u, "the new process exited, see its messages");
        return;
    }
    stop_watching(u);
    int status = program_end(&u->program, false, how);
    if (status != 0 && u->ops->resume != NULL)
        upgrade_fail(u, how);
    else
        log_warn(NULL, "new-process-exited", "how=\"%s\" action=\"drain\"", how);
}

static void on_upgrade_tick(struct timer *t)
{
    struct upgrade *u = container_of(t, struct upgrade, tick);

    timer_start(u->loop, t, TICK_MS);
    if (!u->begun && (u->ops->written == NULL || u->ops->written(u->context))) {
        u->begun = true;
        packet_queue_add(&u->out, json_pack("{s:s, s:i}", "op", "begin", "v", UPGRADE_VERSION), -1);
    }
    if (u->stage != UPGRADE_HANDED_OVER && loop_active_ms(u->loop) >= u->until_ms)
        upgrade_fail(u, "not ready in time");
    else if (u->stage != UPGRADE_STARTING && u->ops->tick != NULL)
        u->ops->tick(u->context, u);
    upgrade_flush(u);
}

/* ---- the beginning ---- */

void upgrade_init(struct upgrade *u, struct loop *l, const struct upgrade_ops *ops, void *context)
{
    *u = (struct upgrade){.ops = ops, .context = context, .loop = l, .program.pidfd = -1};
    packet_queue_init(&u->out, -1);
    timer_init(&u->tick, on_upgrade_tick);
}

void upgrade_begin(struct upgrade *u, const struct upgrade_options *o)
{
    const char *why = u->ops->reject(u->context);
    int pair[2];

    if (why == NULL && u->stage != UPGRADE_NONE)
        why = "an upgrade is in progress";
    if (why == NULL && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        why = strerror(errno);
    if (why != NULL) {
        log_warn(NULL, "upgrade-ignored", "reason=\"%s\"", why);
        return;
    }
    u->stage = UPGRADE_STARTING;
    u->begun = false;
    packet_queue_init(&u->out, pair[0]);
    enum err e = program_start(o->argv, &o->nofile, pair[1], &u->program);
    why = e == ERR_SYSTEM ? strerror(errno) : "executable not found";
    close(pair[1]);
    if (e != ERR_OK) {
        u->program = (struct program){.pid = 0, .pidfd = -1};
        upgrade_fail(u, why);
        return;
    }
    upgrade_enter(u, UPGRADE_STARTING);
    u->until_ms = loop_active_ms(u->loop) + o->timeout_ms;
    u->release_ms = o->release_ms;
    u->exited = watch_start(u->loop, u->program.pidfd, on_program_exited, u);
    u->channel = watch_start(u->loop, pair[0], on_upgrade_readable, u);
    u->ops->pass(u->context, u);
    on_upgrade_tick(&u->tick);
}
