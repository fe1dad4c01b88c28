/* SPDX-License-Identifier: Apache-2.0
 *
 * In this order: configuration, lock, supervisor (which may have to be forked, so before any
 * thread), then everything else on one loop.
 */
#include "worker-agent/program/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/upstream/http1_client.h"
#include "version.h"
#include "worker-agent/config/supervisor_rights.h"
#include "worker-agent/pool/resume_store.h"

/* ---- what main.c needs without running ---- */

static void describe_outcomes(FILE *out)
{
    fputs("| answer | status | header | meaning |\n| --- | --- | --- | --- |\n", out);
#define NOTE_NONE ""
#define NOTE_UNPROCESSED "`Resumelb-Unprocessed: 1`"
#define NOTE_FAILED "`Resumelb-Failed: 1`"
#define OUTCOME(name, status, note, figure, text, doc)                                             \
    fprintf(out, "| %s | %d | %s | %s |\n", text, status, NOTE_##note, doc);
#include "worker-agent/config/outcome.def"
#undef OUTCOME
#undef NOTE_NONE
#undef NOTE_UNPROCESSED
#undef NOTE_FAILED
}

bool agent_describe(const char *what, FILE *out)
{
    if (strcmp(what, "settings") == 0)
        settings_describe(agent_tables, AGENT_TABLES, out);
    else if (strcmp(what, "stats") == 0)
        status_metrics_describe(out);
    else if (strcmp(what, "outcomes") == 0)
        describe_outcomes(out);
    else
        return false;
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

static bool lock_state_dir(struct agent *a)
{
    a->lock_fd = inherited_lock_directory(a->pool.inherited, a->config->s.state_dir,
                                          AGENT_STATE_DIR_MODE, AGENT_LOCK_NAME);
    return a->lock_fd >= 0;
}

/* ---- SIGHUP ---- */

static bool same_applications(const struct agent_config *a, const struct agent_config *b)
{
    for (size_t i = 0; i < a->napps; ++i) {
        if (agent_config_app(b, a->apps[i]->name) == NULL)
            return false;
    }
    return a->napps == b->napps;
}

/* Logs the changes that have no effect until a restart. */
static void warn_of_restart(const struct agent_config *old, const struct agent_config *new)
{
    for (size_t i = 0; i < agent_table.n; ++i) {
        const struct setting_row *row = &agent_table.rows[i];

        if (row->type == SETTING_NODE || !agent_setting_wants_restart(row))
            continue;
        if (!settings_same(row, &old->s, &new->s))
            log_warn(NULL, "config-restart-required", "setting=%s", row->name);
    }
}

static void reload(struct agent *a)
{
    struct diag d = {0};
    struct agent_config *c = agent_config_read(a->line->file, &d);

    if (c == NULL) {
        log_error(NULL, "config-reload-failed",
                  "file=%s errors=%u action=\"keep current configuration\"", a->line->file,
                  d.errors);
        daemon_log_problems(&d);
    } else if (!same_applications(a->config, c)) {
        log_error(NULL, "config-reload-failed",
                  "reason=\"applications were added or removed: restart\" action=\"keep current "
                  "configuration\"");
        agent_config_destroy(c);
    } else if (!supervisor_rights_cover(a->config->users, c->users)) {
        log_error(NULL, "config-reload-failed",
                  "reason=\"user or group of the agent was changed, or an application has one that "
                  "none had at the start: restart\" action=\"keep current configuration\"");
        agent_config_destroy(c);
    } else {
        struct agent_config *old = a->config;

        /* The users that were passed to the supervisor at the start. */
        free(c->users);
        c->users = old->users;
        old->users = NULL;
        warn_of_restart(old, c);
        log_set_level((enum log_level)c->s.log_level);
        front_configure(a->front, c);
        app_pool_configure(&a->pool, c);
        a->config = c;
        agent_config_destroy(old);
        config_warn_exposed(&c->yaml);
        log_info(NULL, "config-reloaded", "file=%s", a->line->file);
    }
    diag_fini(&d);
}

static void on_hup(void *context)
{
    const struct agent *a = context;

    trace_log_reopen(a->trace);
    if (a->upgrade.stage != UPGRADE_NONE) {
        log_warn(NULL, "reload-ignored",
                 "reason=\"upgrade in progress: the new process reads the configuration\"");
        return;
    }
    daemon_notify("RELOADING=1");
    reload(context);
    daemon_notify("READY=1");
}

static void on_usr1(void *context)
{
    const struct agent *a = context;

    trace_log_reopen(a->trace);
}

static void on_usr2(void *context)
{
    agent_upgrade_begin(context);
}

static void on_term(void *context)
{
    agent_drain(context);
}

static void on_int(void *context)
{
    agent_stop_at_once(context, EXIT_SUCCESS);
}

/* ---- start ---- */

static void on_each_second(struct timer *t)
{
    struct agent *a = container_of(t, struct agent, each_second);

    conn_pool_recycle(a->conn_pool, a->loop);
    front_look(a->front);
    timer_start(a->loop, t, 1000);
}

static void on_supervisor_lost(void *context)
{
    agent_supervisor_lost(context);
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
    enum err e = tree_open(a->loop, slice_of(url), &o, &a->tree, &d);
    if (e != ERR_OK)
        log_error(NULL, "tree-open-failed", "tree=%s reason=\"%s\"", url,
                  d.text != NULL ? d.text : err_text(e));
    diag_fini(&d);
    return e == ERR_OK;
}

static bool open_admin(struct agent *a)
{
    const struct admin_config *c = &a->config->admin;

    if (c->n == 0)
        return true;
    if (admin_create(a->loop, c, a->pool.inherited, &a->admin) != ERR_OK)
        return false;
    agent_status_add(a);
    return true;
}

static bool open_trace_log(struct agent *a)
{
    const char *file = a->config->s.trace_log;

    if (file == NULL)
        return true;
    if (trace_log_create(file, &a->trace) != ERR_OK) {
        log_error(NULL, "trace-log-open-failed", "file=%s reason=\"%s\"", file, strerror(errno));
        return false;
    }
    front_trace(a->front, a->trace);
    return true;
}

static void name_agent(struct agent *a)
{
    char host[256] = "";

    if (gethostname(host, sizeof(host) - 1) != 0)
        snprintf(host, sizeof(host), "localhost");
    /* It goes into JSON, which wants UTF-8. */
    ascii_clean(host);
    a->name = xasprintf("%s/%ld", host, (long)getpid());
}

static void set_up_pool(struct agent *a)
{
    a->pool.loop = a->loop;
    a->pool.supervisor = a->supervisor;
    a->pool.store = a->store;
    a->pool.tree = a->tree;
    a->pool.conn_pool = a->conn_pool;
    a->pool.front = a->front;
    a->pool.listen = front_listen;
    a->pool.agent_name = a->name;
    /* The configuration may be replaced; the directory stays. */
    a->pool.state_dir = a->state_dir;
    a->pool.tree_url = a->tree_url;
    a->pool.admin = a->admin_text;
    a->pool.tree_start_wait_ms = a->config->s.tree_start_wait_ms;
    a->pool.settings_hold_ms = a->config->s.settings_hold_ms;
    a->pool.supervisor_lost = on_supervisor_lost;
    a->pool.before_sends = inherited_from_old(a->pool.inherited);
    a->pool.context = a;
    app_pool_init(&a->pool);
}

static bool open_supervisor(struct agent *a, struct kept_list *adopted)
{
    const struct supervisor_options o = {.state_dir = a->state_dir,
                                         .nofile = a->nofile,
                                         .rights = a->config->users,
                                         .follow = inherited_from_old(a->pool.inherited)};

    a->supervisor = supervisor_link_open(&o, a->config->s.adopt_timeout_ms, adopted);
    return a->supervisor != NULL;
}

static void on_old_message(void *context, const char *op)
{
    struct agent *a = context;

    if (strcmp(op, "sealed") != 0)
        return;
    log_info(NULL, "old-agent-drained", "action=\"stop all processes\"");
    app_pool_before_gone(&a->pool);
}

static void on_old_gone(void *context)
{
    struct agent *a = context;

    log_info(NULL, "old-agent-exited", "upgrade=complete");
    inherited_destroy(a->pool.inherited);
    a->pool.inherited = NULL;
    app_pool_before_gone(&a->pool);
}

static const struct inherited_events inherited_events = {on_old_message, on_old_gone};

/* Starts everything except the configuration, the lock and the supervisor, which exist (the
 * supervisor: unless an agent releases it now). */
static bool start(struct agent *a, struct kept_list *adopted)
{
    char admin[ADDR_TEXT_MAX];

    a->loop = loop_create(0);
    agent_upgrade_init(a);
    a->started_ms = loop_now_ms(a->loop);
    timer_init(&a->each_second, on_each_second);
    timer_start(a->loop, &a->each_second, 1000);
    name_agent(a);
    a->tree_url = xstrdup(a->config->s.tree);
    if (a->config->admin.n > 0)
        a->admin_text = xstrdup(addr_format(&a->config->admin.addresses[0], admin));
    a->store = resume_store_create();
    a->conn_pool = conn_pool_create(&http1_conn_pool_ops, &a->loop, 1);
    a->front = front_create(a->loop, a->config);
    if (!open_trace_log(a) || !open_tree(a))
        return false;
    if (!inherited_take_over(a->pool.inherited) ||
        (inherited_from_old(a->pool.inherited) && !open_supervisor(a, adopted)))
        return false;
    /* Of an upgrade: requests in progress continue in the old agent. */
    if (inherited_from_old(a->pool.inherited))
        trace_log_note(a->trace, "resumelb.upgraded", SLICE_NULL);
    else
        trace_log_started(a->trace);
    set_up_pool(a);
    supervisor_link_start(a->supervisor, a->loop, &app_pool_supervisor_events, &a->pool);
    return app_pool_start(&a->pool, a->config, adopted) && open_admin(a);
}

static void drop(struct agent *a)
{
    daemon_signals_stop(a->signals);
    timer_stop(&a->each_second);
    if (agent_handed_over(a))
        app_pool_let_go(&a->pool);
    else
        trace_log_ended(a->trace);
    upgrade_fini(&a->upgrade);
    inherited_destroy(a->pool.inherited);
    admin_destroy(a->admin);
    front_destroy(a->front);
    trace_log_destroy(a->trace);
    app_pool_fini(&a->pool);
    tree_close(a->tree);
    conn_pool_close_loop(a->conn_pool, a->loop);
    /* Frees deferred objects. */
    loop_turn(a->loop, 0);
    conn_pool_destroy(a->conn_pool);
    resume_store_destroy(a->store);
    supervisor_link_destroy(a->supervisor);
    loop_destroy(a->loop);
    free(a->name);
    free(a->admin_text);
    free(a->tree_url);
    free(a->state_dir);
    close(a->lock_fd);
    agent_config_destroy(a->config);
}

int agent_run(void *context, void *config, const struct daemon_line *line)
{
    /* Application processes get the limit of descriptors that the agent got, which it raises for
     * itself. */
    struct agent a = {
        .line = line, .config = config, .nofile = daemon_descriptors(), .lock_fd = -1};
    struct kept_list adopted;
    const struct daemon_signals signals = {.on_term = on_term,
                                           .on_int = on_int,
                                           .on_hup = on_hup,
                                           .on_usr1 = on_usr1,
                                           .on_usr2 = on_usr2,
                                           .context = &a};

    (void)context;
    a.state_dir = xstrdup(a.config->s.state_dir);
    srandom((unsigned)getpid() ^ (unsigned)time(NULL));
    if (!inherited_begin(&a.pool.inherited) || !agent_rights_settle(&a) || !lock_state_dir(&a) ||
        (!inherited_from_old(a.pool.inherited) && !open_supervisor(&a, &adopted)) ||
        !agent_rights_drop(&a) || !make_directories(a.config))
        return EXIT_CONFIG;
    daemon_prepare();
    if (!start(&a, &adopted)) {
        /* The supervisor takes it for the agent's death; processes adopted have adopt_timeout for
         * another try. */
        log_error(NULL, "agent-start-failed", "hint=\"see the messages above\"");
        return EXIT_CONFIG;
    }
    free(adopted.items);
    a.signals = daemon_signals_start(a.loop, &signals);
    log_info(NULL, "agent-started", "version=%s pid=%ld supervisor=%ld processes_adopted=%zu",
             RLB_VERSION, (long)getpid(), (long)supervisor_link_pid(a.supervisor), adopted.n);
    inherited_ready(&a.pool.inherited, a.loop, &inherited_events, &a);
    loop_run(a.loop);
    drop(&a);
    return a.exit_code;
}
