/* SPDX-License-Identifier: Apache-2.0
 *
 * In this order: configuration, lock, supervisor (which may have to be forked, so before any
 * thread), then everything else on one loop.
 *
 * Setting `user`: operations that require root come first (keys are read with the configuration,
 * addresses bound, state_dir created), then the agent switches to that user, before any other
 * thread exists.
 * If no application has another user, the agent drops its rights, then forks the supervisor, which
 * is that user's, too. Otherwise it forks the supervisor, then drops its rights: the supervisor
 * stays root, and starts processes of the configuration's users alone (supervisor_rights.h);
 * state_dir is root's. A new agent after SIGUSR2 runs as that user from its start, and takes over
 * the old agent's supervisor.
 */
#include "worker-agent/program/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/program/privileges.h"
#include "common/upstream/http1_client.h"
#include "version.h"
#include "worker-agent/config/supervisor_rights.h"
#include "worker-agent/pool/slot.h"

enum {
    /* Processes of other users have their sockets below it: they may traverse, not list it. */
    STATE_DIR_MODE = 0711,
    SOCKET_MODE = 0660,
    /* The agent's group may create files. The directory is owned by root and has the sticky bit, so
       the group cannot replace root's files, which are the supervisor's. */
    SHARED_STATE_DIR_MODE = 01771,
};

/* ---- --describe ---- */

static bool agent_describe(const char *what, FILE *out)
{
    if (strcmp(what, "settings") == 0) {
        settings_describe(agent_tables, AGENT_TABLES, out);
    } else if (strcmp(what, "stats") == 0) {
        status_metrics_describe(out);
    } else if (strcmp(what, "outcomes") == 0) {
        fputs("| response | status | header | meaning |\n| --- | --- | --- | --- |\n", out);
#define NOTE_NONE ""
#define NOTE_UNPROCESSED "`Resumelb-Unprocessed: 1`"
#define NOTE_FAILED "`Resumelb-Failed: 1`"
#define OUTCOME(name, status, note, figure, text, doc)                                             \
    fprintf(out, "| %s | %d | %s | %s |\n", text, status, NOTE_##note, doc);
#include "worker-agent/config/outcome.def"
#undef NOTE_NONE
#undef NOTE_UNPROCESSED
#undef NOTE_FAILED
    } else {
        return false;
    }
    return true;
}

/* ---- state_dir ---- */

static bool make_directories(const struct agent_config *c)
{
    bool made = true;

    for (size_t i = 0; i < c->napps && made; ++i) {
        char *path = xasprintf("%s/%s", c->s.state_dir, c->apps[i]->name);

        made = mkdir(path, 0750) == 0 || errno == EEXIST;
        if (!made)
            log_error(NULL, "directory-create-failed", "directory=%s reason=\"%s\"", path,
                      strerror(errno));
        free(path);
    }
    return made;
}

/* ---- user and addresses ---- */

static bool bind_at(struct agent *a, const struct addr *address, const struct privileges *p)
{
    /* With port 0 any port is acceptable, also when it is bound later. */
    bool any_port = address->sa.sa_family != AF_UNIX && addr_port(address) == 0;

    return any_port || inherited_listen(a->pool.inherited, address, SOCKET_MODE, p);
}

static bool bind_all(struct agent *a, const struct privileges *p)
{
    const struct agent_config *c = a->config;
    bool bound = true;

    for (size_t i = 0; i < c->admin.n && bound; ++i)
        bound = bind_at(a, &c->admin.addresses[i], p);
    for (size_t i = 0; i < c->napps && bound; ++i) {
        const struct app_config *app = c->apps[i];

        for (unsigned n = 0; app->has_address && n < app->nslots && bound; ++n) {
            struct addr address;

            slot_address_of(&app->address, n, &address);
            bound = bind_at(a, &address, p);
        }
        for (size_t n = 0; n < app->nlisten_addrs && bound; ++n)
            bound = bind_at(a, &app->listen_addrs[n], p);
    }
    return bound;
}

/* ---- state_dir, for an agent with a user and a supervisor of root ---- */

static bool log_insecure(const char *path, const char *why)
{
    log_error(NULL, "state-dir-insecure", "directory=%s reason=\"%s\"", path, why);
    return false;
}

/* Whether only root can replace entries of PATH and its ancestors. Modifies PATH; logs why not. */
static bool only_root_can_replace(char *path)
{
    for (;;) {
        struct stat st;

        if (lstat(path, &st) != 0)
            return log_insecure(path, strerror(errno));
        if (!S_ISDIR(st.st_mode))
            return log_insecure(path, "a link, or not a directory");
        if (st.st_uid != 0 || ((st.st_mode & 022) != 0 && (st.st_mode & S_ISVTX) == 0))
            return log_insecure(path, "other users can write it, and the supervisor stays root");
        if (path[1] == '\0')
            return true;
        path = dirname(path);
    }
}

/* Makes root the owner, as of the supervisor's files in it; the group may create files. */
static bool share_state_dir(const char *state_dir, const struct privileges *p)
{
    char *directory = xstrdup(state_dir);
    char *above = xstrdup(state_dir);
    int fd = -1;
    bool done = false;

    /* With a slash at its end a link would be followed. */
    for (size_t n = strlen(directory); n > 1 && directory[n - 1] == '/'; --n)
        directory[n - 1] = '\0';
    if (only_root_can_replace(dirname(above))) {
        if (mkdir(directory, STATE_DIR_MODE) == 0 || errno == EEXIST)
            fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        done = fd >= 0 && fchown(fd, 0, p->gid) == 0 && fchmod(fd, SHARED_STATE_DIR_MODE) == 0;
        if (!done)
            (void)log_insecure(directory, strerror(errno));
    }
    if (fd >= 0)
        close(fd);
    free(directory);
    free(above);
    return done;
}

static bool log_not_dropped(const struct agent *a, const char *why)
{
    log_error(NULL, "privileges-drop-failed", "user=%s reason=\"%s\"", a->config->s.user, why);
    return false;
}

/* Requires the configuration and inherited_begin(). Returns false on failure (logged). */
static bool agent_settle_rights(struct agent *a)
{
    const struct agent_settings *s = &a->config->s;
    bool from_old = inherited_from_old(a->pool.inherited);
    struct privileges p;
    bool change;

    if (!user_rights_find(s->user, s->group, &p, &change))
        return false;
    if (!supervisor_rights_has_others(a->config->users))
        return !change || (user_rights_make_directory(s->state_dir, STATE_DIR_MODE, &p) &&
                           bind_all(a, &p) && user_rights_drop(s->user, &p));
    /* The agent before has given up its rights; its supervisor has not. */
    if (!change && from_old)
        return true;
    if (!change)
        return log_not_dropped(a, "only root can start processes of other users");
    if (from_old)
        return log_not_dropped(a, "the old agent has another user: restart");
    /* After the supervisor is forked, which stays root. */
    a->drop_later = true;
    return share_state_dir(s->state_dir, &p) && bind_all(a, &p);
}

/* ---- signals ---- */

static void reload_config(struct agent *a)
{
    struct diag d = {0};
    struct agent_config *c = agent_config_read(a->line->file, &d);
    bool same = c != NULL && c->napps == a->config->napps;

    for (size_t i = 0; same && i < c->napps; ++i)
        same = agent_config_app(c, a->config->apps[i]->name) != NULL;
    if (c == NULL) {
        daemon_reload_failed(a->line->file, &d);
    } else if (!same) {
        log_error(NULL, "config-reload-failed",
                  "reason=\"applications were added or removed: restart\" action=\"keep current "
                  "configuration\"");
        agent_config_destroy(c);
    } else if (!supervisor_rights_cover(a->first->users, c->users)) {
        log_error(NULL, "config-reload-failed",
                  "reason=\"user or group of the agent was changed, or an application has one that "
                  "none had at the start: restart\" action=\"keep current configuration\"");
        agent_config_destroy(c);
    } else {
        struct agent_config *old = a->config;

        config_warn_of_restart(&agent_table, &old->s, &c->s, "allow");
        log_set_level((enum log_level)c->s.log_level);
        front_configure(a->front, c);
        app_pool_configure(&a->pool, c);
        a->config = c;
        if (old != a->first)
            agent_config_destroy(old);
        config_warn_exposed(&c->yaml);
        log_info(NULL, "config-reloaded", "file=%s", a->line->file);
    }
    diag_fini(&d);
}

static void on_agent_hup(void *context)
{
    const struct agent *a = context;

    trace_log_reopen(a->trace);
    if (a->upgrade.stage != UPGRADE_NONE) {
        log_warn(NULL, "reload-ignored",
                 "reason=\"upgrade in progress: the new process reads the configuration\"");
        return;
    }
    daemon_notify("RELOADING=1");
    reload_config(context);
    daemon_notify("READY=1");
}

static void on_usr1(void *context)
{
    trace_log_reopen(((const struct agent *)context)->trace);
}

static void on_int(void *context)
{
    agent_stop_at_once(context, EXIT_SUCCESS);
}

/* ---- start ---- */

static void on_each_second(struct timer *t)
{
    struct agent *a = container_of(t, struct agent, each_second);

    conn_pool_recycle(a->pool.conn_pool, a->loop);
    if (a->front->tls != NULL)
        tls_listener_poll(a->front->tls, "all", loop_now_ms(a->loop));
    timer_start(a->loop, t, 1000);
}

static bool open_tree(struct agent *a)
{
    struct diag d = {0};
    const struct agent_settings *s = &a->config->s;
    const char *url = s->tree;
    const struct tree_options o = {.auth_file = s->zookeeper_auth,
                                   .session_timeout_ms = s->zookeeper_session_timeout_ms};

    if (url == NULL)
        return true;
    enum err e = tree_open(a->loop, slice_of(url), &o, &a->pool.tree, &d);
    if (e != ERR_OK)
        log_error(NULL, "tree-open-failed", "tree=%s reason=\"%s\"", url,
                  d.text != NULL ? d.text : err_text(e));
    diag_fini(&d);
    return e == ERR_OK;
}

static bool open_supervisor(struct agent *a, struct adoptable_list *adopted)
{
    const struct supervisor_options o = {.state_dir = a->first->s.state_dir,
                                         .nofile = a->nofile,
                                         .rights = a->first->users,
                                         .follow = inherited_from_old(a->pool.inherited),
                                         .adopt_timeout_ms = a->first->s.adopt_timeout_ms};

    a->pool.supervisor = supervisor_link_open(&o, adopted);
    return a->pool.supervisor != NULL;
}

static void on_old_message(void *context, const char *op)
{
    struct agent *a = context;

    if (strcmp(op, "sealed") != 0)
        return;
    log_info(NULL, "old-agent-drained", "action=\"stop leftover processes\"");
    app_pool_old_agent_exited(&a->pool);
}

static void on_old_agent_exited(void *context)
{
    struct agent *a = context;

    log_info(NULL, "old-agent-exited", "upgrade=complete");
    inherited_destroy(a->pool.inherited);
    a->pool.inherited = NULL;
    app_pool_old_agent_exited(&a->pool);
}

static const struct inherited_events inherited_events = {on_old_message, on_old_agent_exited};

/* Starts everything except the configuration, the lock and the supervisor, which exist (the
 * supervisor: unless an agent releases it now). */
static bool agent_start(struct agent *a, struct adoptable_list *adopted)
{
    struct app_pool *pool = &a->pool;
    const struct agent_config *c = a->config;
    char host[256] = "";

    a->loop = pool->loop = loop_create(0);
    app_pool_init(pool);
    agent_stop_init(a);
    a->started_ms = loop_now_ms(a->loop);
    timer_init(&a->each_second, on_each_second);
    timer_start(a->loop, &a->each_second, 1000);
    if (gethostname(host, sizeof(host) - 1) != 0)
        snprintf(host, sizeof(host), "localhost");
    /* It goes into JSON, which wants UTF-8. */
    ascii_clean(host);
    pool->agent_name = xasprintf("%s/%ld", host, (long)getpid());
    pool->conn_pool = conn_pool_create(&http1_client_pool_ops, &a->loop, 1);
    if (c->s.trace_log != NULL && trace_log_create(c->s.trace_log, &a->trace) != ERR_OK) {
        log_error(NULL, "trace-log-open-failed", "file=%s reason=\"%s\"", c->s.trace_log,
                  strerror(errno));
        return false;
    }
    a->front = pool->front = front_create(a->loop, a->config, a->trace);
    pool->listen = front_listen;
    pool->supervisor_lost = agent_supervisor_lost;
    pool->context = a;
    if (!open_tree(a) || !inherited_take_over(pool->inherited))
        return false;
    bool from_old = inherited_from_old(pool->inherited);
    if (from_old && !open_supervisor(a, adopted))
        return false;
    /* Of an upgrade: requests in progress continue in the old agent. */
    trace_log_mark(a->trace, from_old ? '-' : 'S', from_old ? "resumelb.upgraded" : NULL);
    pool->old_agent_sends = from_old;
    if (!app_pool_start(pool, c, adopted) ||
        admin_create(a->loop, &c->admin, pool->inherited, &a->admin) != ERR_OK)
        return false;
    if (a->admin != NULL)
        agent_status_add(a);
    return true;
}

static void agent_drop(struct agent *a)
{
    daemon_signals_stop(a->signals);
    timer_stop(&a->each_second);
    if (a->upgrade.stage == UPGRADE_HANDED_OVER)
        app_pool_each_process(&a->pool, app_process_release);
    else
        trace_log_mark(a->trace, 'X', NULL);
    upgrade_fini(&a->upgrade);
    inherited_destroy(a->pool.inherited);
    admin_destroy(a->admin);
    front_destroy(a->front);
    trace_log_destroy(a->trace);
    app_pool_fini(&a->pool);
    tree_close(a->pool.tree);
    conn_pool_close_loop(a->pool.conn_pool, a->loop);
    /* Frees deferred objects, and what they refer to. */
    loop_settle(a->loop);
    conn_pool_destroy(a->pool.conn_pool);
    supervisor_link_destroy(a->pool.supervisor);
    loop_destroy(a->loop);
    close(a->lock_fd);
    if (a->config != a->first)
        agent_config_destroy(a->config);
    agent_config_destroy(a->first);
}

/* Takes CONFIG, a struct agent_config. CONTEXT is not used. */
static int agent_run(unused_ void *context, void *config, const struct daemon_line *line)
{
    /* Application processes get the agent's own limit of descriptors, before it raises that. */
    struct agent a = {.line = line,
                      .first = config,
                      .config = config,
                      .nofile = daemon_descriptors(),
                      .lock_fd = -1};
    struct adoptable_list adopted;
    const struct daemon_signals signals = {.on_term = agent_drain,
                                           .on_int = on_int,
                                           .on_hup = on_agent_hup,
                                           .on_usr1 = on_usr1,
                                           .on_usr2 = agent_upgrade,
                                           .context = &a};

    srandom((unsigned)getpid() ^ (unsigned)time(NULL));
    if (!inherited_begin(&a.pool.inherited) || !agent_settle_rights(&a))
        return EXIT_CONFIG;
    a.lock_fd = inherited_lock_directory(a.pool.inherited, a.first->s.state_dir, STATE_DIR_MODE,
                                         AGENT_LOCK_NAME);
    if (a.lock_fd < 0 ||
        (!inherited_from_old(a.pool.inherited) && !open_supervisor(&a, &adopted)) ||
        (a.drop_later && !user_rights_drop(a.config->s.user, &a.config->own)) ||
        !make_directories(a.config))
        return EXIT_CONFIG;
    daemon_prepare();
    if (!agent_start(&a, &adopted)) {
        /* For the supervisor the agent died: adopted processes wait adopt_timeout for another. */
        log_error(NULL, "agent-start-failed", "hint=\"see the messages above\"");
        return EXIT_CONFIG;
    }
    free(adopted.items);
    a.signals = daemon_signals_start(a.loop, &signals);
    log_info(NULL, "agent-started", "version=%s pid=%ld supervisor=%ld processes_adopted=%zu",
             RLB_VERSION, (long)getpid(), (long)supervisor_link_pid(a.pool.supervisor), adopted.n);
    inherited_ready(&a.pool.inherited, a.loop, &inherited_events, &a);
    loop_run(a.loop);
    agent_drop(&a);
    return a.exit_code;
}

/* ---- the command line ---- */

static void *agent_read_configuration(const char *file, struct diag *d)
{
    struct agent_config *c = agent_config_read(file, d);

    if (c != NULL) {
        log_set_level((enum log_level)c->s.log_level);
        config_warn_exposed(&c->yaml);
    }
    return c;
}

static void destroy_configuration(void *config)
{
    agent_config_destroy(config);
}

int main(int argc, char **argv)
{
    static const struct daemon_program program = {
        .name = "resumelb-agent",
        .summary = "runs application processes, measures them, and publishes what they are good at",
        .usage = "-c FILE [-t]",
        .subjects = "settings|stats|outcomes",
        .signals = "TERM drains and exits, INT stops at once, HUP re-reads the configuration\n"
                   "         USR2 starts a new process, which takes over sockets and application "
                   "processes",
        .read = agent_read_configuration,
        .destroy = destroy_configuration,
        .describe = agent_describe,
        .run = agent_run,
    };

    return daemon_main(&program, argc, argv);
}
