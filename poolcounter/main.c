/* SPDX-License-Identifier: Apache-2.0
 *
 * As in the original, SIGTERM and SIGINT stop at once: connections are just closed; no
 * configuration is needed, and bad usage exits with 1.
 */
#include "poolcounter/program.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/http/http_server.h"
#include "common/program/privileges.h"

enum {
    /* Turns of the loop until the admin address's connections, which have been cut, are gone. */
    ADMIN_STOP_TURNS_MAX = 1000,
    /* The first of the descriptors that systemd passes: sd_listen_fds(3). */
    LISTEN_FDS_START = 3,
};

/* Name of the daemon's listening sockets when they are passed to a new process. */
#define LISTENER_NAME "listener"

/* ---- signals ---- */

static void on_pc_hup(void *context)
{
    struct poolcounter *p = context;
    struct diag d = {0};
    struct poolcounter_config *new = configuration_read(p->line->file, NULL, &d);
    struct poolcounter_config *old = p->config;

    daemon_notify("RELOADING=1");
    if (new == NULL) {
        daemon_reload_failed(p->line->file, &d);
    } else {
        config_warn_of_restart(&poolcounter_table, &old->s, &new->s, NULL);
        log_set_level((enum log_level) new->s.log_level);
        p->config = new;
        server_call(p->server, server_configure, new);
        configuration_destroy(old);
        config_warn_exposed(&new->yaml);
        log_info(NULL, "config-reloaded", "file=%s",
                 p->line->file != NULL ? p->line->file : "none");
    }
    diag_fini(&d);
    daemon_notify("READY=1");
}

static void on_stop(void *context)
{
    struct poolcounter *p = context;

    daemon_notify("STOPPING=1");
    loop_stop(p->loop);
}

static void on_usr2(void *context)
{
    struct poolcounter *p = context;
    const struct upgrade_options o = {.argv = p->line->argv,
                                      .nofile = daemon_descriptors(),
                                      .timeout_ms = p->config->s.upgrade_timeout_ms};

    upgrade_begin(&p->upgrade, &o);
}

/* ---- upgrade ---- */

static const char *pc_reject(void *context)
{
    const struct poolcounter *p = context;

    return p->handed_over ? "shutting down" : NULL;
}

static void pc_pass(void *context, struct upgrade *u)
{
    struct poolcounter *p = context;
    struct sockets sockets;

    server_call(p->server, server_sockets, &sockets);
    for (size_t i = 0; i < sockets.n; ++i)
        upgrade_pass(u, "socket", LISTENER_NAME, 0, sockets.fds[i]);
    admin_pass_sockets(p->admin, u);
}

/* All connections to the admin address have ended. */
static void on_admin_stopped(void *context)
{
    struct poolcounter *p = context;

    p->admin_stopped = true;
}

/* The new process has empty counters: locks of this one's clients remain here until they end, and
 * this process exits with its last client. The admin address belongs to the new process; pages that
 * are being sent are completed. */
static void pc_drain(void *context)
{
    struct poolcounter *p = context;

    p->handed_over = true;
    admin_stop(p->admin, on_admin_stopped, p);
    server_call(p->server, server_hand_over, NULL);
}

/* Both processes accept until the new one is ready. */
static const struct upgrade_ops upgrade_ops = {
    .reject = pc_reject, .pass = pc_pass, .drain = pc_drain};

static void on_pc_drained(struct loop_message *m)
{
    struct poolcounter *p = container_of(m, struct poolcounter, drained);

    log_info(NULL, "last-client-closed", "action=exit");
    loop_stop(p->loop);
}

/* ---- sockets ---- */

static int int_option(int fd, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

static bool is_listening(int fd)
{
    return int_option(fd, SO_TYPE) == SOCK_STREAM && int_option(fd, SO_ACCEPTCONN) == 1;
}

static void pc_take(struct sockets *out, int fd)
{
    if (!is_listening(fd) || out->n == LISTENERS_MAX) {
        log_warn(NULL, "inherited-descriptor-invalid", "fd=%d reason=\"not a listening socket\"",
                 fd);
        return;
    }
    int flags = fcntl(fd, F_GETFL);
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || flags < 0 ||
        fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        log_warn(NULL, "inherited-descriptor-invalid", "fd=%d reason=\"%s\"", fd, strerror(errno));
        return;
    }
    out->fds[out->n++] = fd;
}

/* Takes the sockets of LISTEN_FDS, which is removed from the environment. Sockets that do not
 * listen are ignored. */
static void inherit_from_systemd(struct sockets *out)
{
    uint64_t pid = 0;
    uint64_t n = 0;

    if (parse_u64(slice_of(getenv("LISTEN_PID")), INT32_MAX, &pid) && (pid_t)pid == getpid() &&
        parse_u64(slice_of(getenv("LISTEN_FDS")), LISTENERS_MAX, &n)) {
        for (uint64_t i = 0; i < n; ++i)
            pc_take(out, LISTEN_FDS_START + (int)i);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
}

/* Takes descriptor 0 if it is a listening socket, as in the original. It is duplicated, and
 * /dev/null becomes descriptor 0, as in other programs. */
static void inherit_standard_input(struct sockets *out)
{
    if (int_option(STDIN_FILENO, SO_TYPE) == -1)
        return;
    int fd = is_listening(STDIN_FILENO) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
    if (fd < 0) {
        log_warn(NULL, "inherited-descriptor-invalid", "fd=0 reason=\"not a listening socket\"");
        return;
    }
    pc_take(out, fd);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        close(null);
    }
}

/* Binds the configured addresses. Returns false, with none open, after a failure (logged). */
static bool bind_sockets(const struct poolcounter *p, struct sockets *out)
{
    const struct poolcounter_config *c = p->config;
    const struct command_line *l = p->listen;
    const struct addr *addresses = l->nlisten != 0 ? l->listen : c->listen;
    size_t n = l->nlisten != 0 ? l->nlisten : c->nlisten;
    const struct addr_listen_options o = {.backlog = (int)c->s.backlog, .mode = c->listen_mode};

    ASSERT(n <= LISTENERS_MAX);
    for (; out->n < n; ++out->n) {
        const struct addr *a = &addresses[out->n];
        enum err e = addr_listen(a, &o, &out->fds[out->n]);

        if (e == ERR_OK)
            continue;
        log_error(NULL, "listen-failed", "address=%s reason=\"%s\"", addr_text(a),
                  e == ERR_SYSTEM ? strerror(errno) : err_text(e));
        while (out->n != 0)
            close(out->fds[--out->n]);
        return false;
    }
    return true;
}

/* ---- start ---- */

/* Switches to the configured user. Must be called after binding all addresses, which may need
 * root. */
static bool pc_settle_rights(const struct poolcounter *p, const struct sockets *sockets)
{
    const struct poolcounter_config *c = p->config;
    struct privileges rights;
    bool change;

    if (!user_rights_find(c->s.user, c->s.group, &rights, &change))
        return false;
    if (!change)
        return true;
    for (size_t i = 0; i < c->admin.n; ++i) {
        if (!user_rights_chown_socket(&c->admin.addresses[i], &rights))
            return false;
    }
    for (size_t i = 0; i < sockets->n; ++i) {
        struct addr a;

        if (addr_of_socket(sockets->fds[i], &a) == ERR_OK && !user_rights_chown_socket(&a, &rights))
            return false;
    }
    return user_rights_drop(c->s.user, &rights);
}

/* Starts to serve clients. The admin address must be bound already. Returns false on failure. */
static bool start_server(struct poolcounter *p)
{
    struct sockets sockets;
    int *left;

    if (p->admin != NULL)
        status_add(p);
    /* The listeners are those of the old process, inherited ones, or those of the configuration. */
    sockets.n = inherited_take_listener(p->inherited, NULL, LISTENER_NAME, &left);
    ASSERT(sockets.n <= LISTENERS_MAX);
    if (sockets.n != 0)
        memcpy(sockets.fds, left, sockets.n * sizeof(int));
    free(left);
    if (sockets.n == 0)
        inherit_from_systemd(&sockets);
    if (sockets.n == 0)
        inherit_standard_input(&sockets);
    if (sockets.n == 0 && !bind_sockets(p, &sockets))
        return false;
    for (size_t i = 0; i < sockets.n; ++i) {
        struct addr a;

        if (addr_of_socket(sockets.fds[i], &a) == ERR_OK)
            log_info(NULL, "listening", "address=%s", addr_text(&a));
    }
    if (!pc_settle_rights(p, &sockets))
        return false;
    p->server = server_create(p->config, p->stats, &sockets, p->loop, &p->drained);
    if (p->server != NULL && !inherited_take_over(p->inherited))
        return false;
    if (p->server != NULL && server_start(p->server))
        return true;
    log_error(NULL, "server-start-failed", "reason=\"%s\"", strerror(errno));
    return false;
}

static void poolcounter_stop(struct poolcounter *p)
{
    upgrade_abandon(&p->upgrade);
    if (p->server != NULL)
        server_stop(p->server);
    /* Connections to the admin address are closed: pages are not needed any more at shutdown. */
    if (!p->handed_over)
        admin_stop(p->admin, on_admin_stopped, p);
    admin_cut(p->admin);
    for (unsigned turns = 0; !p->admin_stopped && turns < ADMIN_STOP_TURNS_MAX; ++turns)
        loop_turn(p->loop, 1);
    ASSERT(p->admin_stopped);
    admin_destroy(p->admin);
    server_destroy(p->server);
    daemon_signals_stop(p->signals);
    upgrade_fini(&p->upgrade);
    inherited_destroy(p->inherited);
    loop_destroy(p->loop);
    stats_destroy(p->stats);
    configuration_destroy(p->config);
}

/* LISTEN is a struct command_line. Takes ownership of CONFIG, a struct poolcounter_config. */
static int pc_run(void *listen, void *config, const struct daemon_line *line)
{
    struct poolcounter p = {.line = line, .listen = listen, .config = config};
    const struct daemon_signals signals = {.on_term = on_stop,
                                           .on_int = on_stop,
                                           .on_hup = on_pc_hup,
                                           .on_usr2 = on_usr2,
                                           .context = &p};
    int code = EXIT_FAILURE;

    daemon_prepare();
    p.drained.run = on_pc_drained;
    p.stats = stats_create(&poolcounter_stats_table, 1);
    p.loop = loop_create(0);
    upgrade_init(&p.upgrade, p.loop, &upgrade_ops, &p);
    if (inherited_begin(&p.inherited) &&
        admin_create(p.loop, &p.config->admin, p.inherited, &p.admin) == ERR_OK &&
        start_server(&p)) {
        p.signals = daemon_signals_start(p.loop, &signals);
        inherited_ready(&p.inherited, p.loop, NULL, NULL);
        loop_run(p.loop);
        code = EXIT_SUCCESS;
    }
    poolcounter_stop(&p);
    return code;
}

/* ---- the command line ---- */

static void *pc_read_configuration(const char *file, struct diag *d)
{
    struct poolcounter_config *c = configuration_read(file, NULL, d);

    if (c != NULL) {
        log_set_level((enum log_level)c->s.log_level);
        config_warn_exposed(&c->yaml);
    }
    return c;
}

static bool pc_describe(const char *what, FILE *out)
{
    if (strcmp(what, "settings") == 0)
        settings_describe(poolcounter_tables, POOLCOUNTER_TABLES, out);
    else if (strcmp(what, "stats") == 0)
        status_describe(out);
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"listen", required_argument, NULL, 'l'}, {"port", required_argument, NULL, 'p'}, {0}};
    struct command_line listen = {.naddresses = 0};
    const struct daemon_program program = {
        .name = "resumelb-poolcounter",
        .summary = "counts holders and waiters of named limits; speaks PoolCounter's protocol",
        .usage = "[-c FILE] [-l ADDRESS]... [-p PORT] [-t]",
        .subjects = "settings|stats",
        .signals = "TERM and INT stop at once, HUP re-reads the configuration, USR2 starts a\n"
                   "         new process on the same sockets; this one exits with its last "
                   "client",
        .read = pc_read_configuration,
        .destroy = configuration_destroy,
        .describe = pc_describe,
        .run = pc_run,
        .context = &listen,
        .letters = "l:p:",
        .options = options,
        .options_help = "  -l, --listen ADDRESS  listen here instead of at the configured "
                        "addresses: 127.0.0.1,\n"
                        "                        ::1, 127.0.0.1:7531, [::1]:7531 or unix:/path; "
                        "may be given\n"
                        "                        several times. A listening socket as standard "
                        "input is taken\n"
                        "                        instead of any address.\n"
                        "  -p, --port PORT       port of each -l that has none; default 7531\n",
        .option = command_line_option,
        .finish = command_line_finish,
        .lenient = true,
    };

    return daemon_main(&program, argc, argv);
}
