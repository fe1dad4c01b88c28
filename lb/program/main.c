/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelb: command line, start, signals.
 *
 *   start    state directory, applications -> data loops -> connection pools -> fronts
 *            -> memberships -> all known workers have responded, or start_wait is over
 *            -> listeners, admin bound -> (permitted by the old process of an upgrade)
 *            -> accepting: READY
 *   stop     lb_stop.c
 */
#include "lb/program/lb_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "classifiers/registry.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/dns/resolver.h"
#include "common/net/addr.h"
#include "common/program/privileges.h"
#include "lb/backends/membership.h"
#include "lb/backends/peers.h"
#include "lb/backends/self_measure.h"
#include "lb/core/traffic.h"
#include "lb/request/front.h"
#include "lb/rules/advertise.h"
#include "lb/status/observer.h"
#include "lb/status/status.h"

enum {
    /* While starting: interval of the check whether all workers have responded. */
    START_CHECK_MS = 5,
    ADMIN_MODE = 0660,
    STATE_DIR_MODE = 0770,
};

/* ---- start ---- */

/* Sets where this process listens: as configured; once bound, with the actual ports. */
static void set_own_addresses(struct lb *lb)
{
    const struct lb_parts *p = lb->parts;
    size_t nlistens = p->config.nlistens;

    free(lb->own);
    lb->nown = nlistens + p->config.admin.n;
    lb->own = xcalloc(lb->nown + 1, sizeof(*lb->own));
    for (size_t i = 0; i < nlistens; ++i)
        lb->own[i] =
            p->listeners != NULL ? *listeners_address(p->listeners, i) : p->config.listens[i].addr;
    for (size_t i = 0; i < p->config.admin.n; ++i) {
        lb->own[nlistens + i] = p->config.admin.addresses[i];
        lb->admin_remote |= !addr_is_loopback(&lb->own[nlistens + i]);
        if (p->admin != NULL)
            admin_address(p->admin, i, &lb->own[nlistens + i]);
    }
}

static void fail_start(struct lb *lb)
{
    lb->parts->exit_code = EXIT_CONFIG;
    lb_drain(lb);
    lb_cut(lb);
}

static void lb_serve(struct lb *lb)
{
    struct lb_parts *p = lb->parts;
    size_t n = p->config.nlistens;
    struct text addresses = {0};
    struct text admin = {0};

    if (p->listeners == NULL)
        p->listeners = listeners_create(&p->config, lb->nloops, p->inherited);
    if (p->listeners == NULL ||
        admin_create(lb->control, &p->config.admin, p->inherited, &p->admin) != ERR_OK) {
        fail_start(lb);
        return;
    }
    if (p->admin != NULL)
        status_add(lb, p->admin);
    /* Until this process serves, the previous one responds to requests to the admin socket. */
    admin_hold(p->admin, true);
    if (!inherited_take_over(p->inherited) || !listeners_open(p->listeners, lb)) {
        fail_start(lb);
        return;
    }
    admin_hold(p->admin, false);
    lb->phase = LB_SERVING;
    set_own_addresses(lb);
    for (size_t i = 0; i < lb->nown; ++i)
        text_addf(i < n ? &addresses : &admin, "%s%s", i == 0 || i == n ? "" : ",",
                  addr_text(&lb->own[i]));
    log_info(NULL, "listening", "addresses=%s admin=%s threads=%u", text_cstr(&addresses),
             admin.len != 0 ? text_cstr(&admin) : "none", lb->nloops);
    text_fini(&addresses);
    text_fini(&admin);
    struct text_list names = advertise_names(&lb->settings.advertise, lb->own, n);
    for (size_t i = 0; i < lb->napplications; ++i) {
        membership_reread_calls(lb->applications[i]->membership);
        membership_recheck_providers(lb->applications[i]->membership);
        membership_register(lb->applications[i]->membership, names.items, names.n,
                            lb->nown > n ? addr_text(&lb->own[n]) : NULL);
    }
    text_list_fini(&names);
    inherited_ready(&p->inherited, lb->control, NULL, NULL);
}

static void on_lb_timer(struct timer *t)
{
    struct lb_parts *p = container_of(t, struct lb_parts, timer);
    struct lb *lb = p->lb;

    if (lb->phase == LB_DRAINING)
        lb_on_drain_timer(lb);
    if (lb->phase != LB_STARTING)
        return;
    bool settled = peers_settled(lb->peers);
    for (size_t i = 0; i < lb->napplications && settled; ++i)
        settled = membership_settled(lb->applications[i]->membership);
    if (settled || loop_now_ms(lb->control) >= p->listen_by_ms)
        lb_serve(lb);
    else
        timer_start(lb->control, &p->timer, START_CHECK_MS);
}

static void on_fronts_made(void *context)
{
    struct lb *lb = context;
    struct lb_parts *p = lb->parts;

    lb->fronts_up = true;
    if (lb->phase != LB_STARTING)
        return;
    set_own_addresses(lb);
    for (size_t i = 0; i < lb->napplications; ++i) {
        struct application *a = lb->applications[i];
        struct diag d = {0};
        enum err e = membership_start(a, &p->config.applications[i], &d);

        if (e != ERR_OK) {
            log_error(NULL, "tree-open-failed", "application=%s reason=\"%s\"", a->name,
                      d.text != NULL ? d.text : "cannot be opened");
            fail_start(lb);
        }
        diag_fini(&d);
        if (e != ERR_OK)
            return;
    }
    peers_start(lb->peers);
    p->listen_by_ms = loop_now_ms(lb->control) + lb->settings.start_wait_ms;
    timer_start(lb->control, &p->timer, 0);
}

/* On the loop. */
static void make_front(struct lb_loop *ll, void *context)
{
    struct lb *lb = context;
    struct http_server_options limits = lb_limits(&lb->settings, lb->nloops);

    data_loops_upkeep(ll);
    ll->front = front_create(ll, &limits);
}

/* ---- hot upgrade: both processes accept from the same sockets until the new one is ready ---- */

static const char *lb_reject(void *context)
{
    const struct lb *lb = context;

    if (lb->phase < LB_SERVING)
        return "starting";
    return lb->phase > LB_SERVING ? "shutting down" : NULL;
}

static void lb_pass(void *context, struct upgrade *u)
{
    const struct lb *lb = context;
    const struct lb_parts *p = lb->parts;
    int lock_fd = self_measure_lock(lb->self_measure);

    if (lock_fd >= 0)
        upgrade_pass(u, "lock", NULL, 0, lock_fd);
    listeners_pass(p->listeners, u);
    admin_pass_sockets(p->admin, u);
    self_measure_flush(lb->self_measure);
}

/* The new process reads resumes from their files. */
static bool are_resumes_written(void *context)
{
    return self_measure_flushed(((const struct lb *)context)->self_measure);
}

static const struct upgrade_ops upgrade_ops = {
    .reject = lb_reject, .pass = lb_pass, .written = are_resumes_written, .drain = lb_hand_over};

/* ---- signals ---- */

static void on_term(void *context)
{
    struct lb *lb = context;

    /* Only the second one cuts requests. */
    if (lb->phase == LB_DRAINING) {
        lb_drain_again(lb);
        return;
    }
    log_info(NULL, "stopping", "signal=TERM");
    lb_drain(lb);
}

static void on_int(void *context)
{
    struct lb *lb = context;

    log_info(NULL, "stopping", "signal=INT");
    lb_drain(lb);
    lb_cut(lb);
}

static void on_usr2(void *context)
{
    struct lb *lb = context;

    upgrade_begin(&lb->parts->upgrade,
                  &(struct upgrade_options){.argv = lb->parts->line->argv,
                                            .nofile = daemon_descriptors(),
                                            .timeout_ms = lb->settings.upgrade_timeout_ms});
}

/* Logs have been rotated. */
static void on_usr1(void *context)
{
    struct lb *lb = context;

    if (lb->access_log != NULL)
        access_log_reopen(lb->access_log);
}

static void on_lb_hup(void *context)
{
    struct lb *lb = context;

    if (lb->phase == LB_SERVING)
        (void)lb_reload(lb, NULL);
}

/* ---- rights and files, before any thread is there ---- */

static bool lb_settle_rights(struct lb *lb)
{
    const struct program_settings *s = &lb->settings;
    struct lb_parts *parts = lb->parts;
    struct privileges p;
    bool change;

    if (!user_rights_find(s->user, s->group, &p, &change))
        return false;
    if (!change)
        return true;
    /* Operations that require root come first (bind addresses, read keys, create state_dir). */
    parts->listeners = listeners_create(&parts->config, lb->nloops, parts->inherited);
    if (parts->listeners == NULL)
        return false;
    for (size_t i = 0; i < parts->config.nlistens; ++i) {
        if (!user_rights_chown_socket(listeners_address(parts->listeners, i), &p))
            return false;
    }
    for (size_t i = 0; i < parts->config.admin.n; ++i) {
        if (!inherited_listen(parts->inherited, &parts->config.admin.addresses[i], ADMIN_MODE, &p))
            return false;
    }
    return user_rights_make_directory(s->state_dir, STATE_DIR_MODE, &p) &&
           user_rights_drop(s->user, &p);
}

static bool open_state_dir(struct lb *lb)
{
    const char *directory = lb->settings.state_dir;
    int lock_fd = -1;

    if (directory != NULL)
        lock_fd = inherited_lock_directory(lb->parts->inherited, directory, STATE_DIR_MODE, "lock");
    if (directory != NULL && lock_fd < 0)
        return false;
    lb->self_measure = self_measure_create(directory, lock_fd);
    return true;
}

static bool open_access_log(struct lb *lb)
{
    const struct program_settings *s = &lb->settings;

    if (s->access_log == NULL)
        return true;
    struct access_options o = access_options_of(s);
    if (access_log_create(s->access_log, &o, lb->nloops, &lb->access_log) == ERR_OK)
        return true;
    log_error(NULL, "access-log-open-failed", "file=%s reason=\"%s\"", s->access_log,
              strerror(errno));
    return false;
}

/* ---- assembly ---- */

static void make_applications(struct lb *lb)
{
    struct configuration *c = &lb->parts->config;
    struct loop *loops[LOOPS_MAX];

    lb->applications = xcalloc(c->napplications, sizeof(struct application *));
    for (size_t i = 0; i < c->napplications; ++i) {
        lb->applications[i] = application_create(lb, &c->applications[i]);
        lb->applications[i]->number = (unsigned)i;
    }
    lb->index = application_index_create(lb->applications, c->napplications);
    data_loops_start(lb, &c->affinity);
    for (unsigned i = 0; i < lb->nloops; ++i)
        loops[i] = lb->loops[i].loop;
    for (size_t i = 0; i < c->napplications; ++i)
        application_attach(lb->applications[i], loops, lb->nloops);
    lb->napplications = c->napplications;
    lb->observer = observer_create(lb);
    lb->responses = shared_responses_create();
}

static struct lb *lb_create(struct configuration *config, const struct daemon_line *line)
{
    struct lb *lb = xcalloc(1, sizeof(*lb));

    lb->parts = xcalloc(1, sizeof(*lb->parts));
    lb->parts->lb = lb;
    lb->parts->line = line;
    lb->parts->config = *config;
    lb->upgrade = &lb->parts->upgrade;
    lb->origins = lb->parts->config.program_origins;
    lb->file = line->file;
    lb->reload = lb_reload;
    timer_init(&lb->parts->timer, on_lb_timer);
    settings_copy(&program_table, &config->program, &lb->settings);
    lb->nloops = config->nloops;
    lb->addresses = address_counts_create(ADDRESS_COUNTS_OF_CLIENTS);
    lb->balance = http_balance_create(lb->nloops);
    lb->started_ms = clock_mono_us() / 1000;
    daemon_random_id(lb->instance);
    atomic_init(&lb->response_buffers_total, config->program.response_buffers_total_bytes);
    lb_set_body_totals(lb, &config->program);
    atomic_init(&lb->spill_space.bytes.max, config->program.response_spill_total_bytes);
    lb->spill_space.files = &lb->body_totals.files;
    lb->spill_space.directory = lb->settings.response_spill_dir != NULL
                                    ? lb->settings.response_spill_dir
                                    : lb->settings.spill_dir;
    return lb;
}

static void lb_destroy(struct lb *lb)
{
    struct lb_parts *p = lb->parts;

    daemon_signals_stop(p->signals);
    inherited_destroy(p->inherited);
    upgrade_fini(&p->upgrade);
    resolver_destroy(lb->resolver);
    admin_destroy(p->admin);
    peers_destroy(lb->peers);
    if (lb->control != NULL) {
        /* Frees objects that were deferred in the last turn. */
        loop_settle(lb->control);
    }
    observer_destroy(lb->observer);
    shared_responses_destroy(lb->responses);
    for (unsigned i = 0; lb->loops != NULL && i < lb->nloops; ++i)
        traffic_destroy(lb->loops[i].traffic);
    access_log_destroy(lb->access_log);
    self_measure_destroy(lb->self_measure);
    listeners_destroy(p->listeners);
    for (size_t i = 0; i < lb->napplications; ++i)
        application_destroy(lb->applications[i]);
    application_index_destroy(lb->index);
    free(lb->own);
    free(lb->applications);
    free(lb->loops);
    loop_destroy(lb->control);
    settings_fini(&program_table, &lb->settings);
    configuration_fini(&p->config);
    fair_shares_fini(&lb->spill_space.bytes);
    body_totals_fini(&lb->body_totals);
    address_counts_destroy(lb->addresses);
    http_balance_destroy(lb->balance);
    free(p);
    free(lb);
}

/* Takes CONFIG, a struct configuration. CONTEXT is not used. */
static int lb_run(unused_ void *context, void *config, const struct daemon_line *line)
{
    daemon_prepare();
    struct lb *lb = lb_create(config, line);
    free(config);
    struct lb_parts *p = lb->parts;
    const struct daemon_signals signals = {.on_term = on_term,
                                           .on_int = on_int,
                                           .on_hup = on_lb_hup,
                                           .on_usr1 = on_usr1,
                                           .on_usr2 = on_usr2,
                                           .context = lb};

    p->exit_code = EXIT_CONFIG;
    if (inherited_begin(&p->inherited) && lb_settle_rights(lb) && open_state_dir(lb) &&
        open_access_log(lb)) {
        p->exit_code = EXIT_SUCCESS;
        lb->control = loop_create(lb->nloops);
        upgrade_init(&p->upgrade, lb->control, &upgrade_ops, lb);
        char *servers = lb_name_servers(&lb->settings);
        lb->resolver = resolver_create(lb->control, servers);
        free(servers);
        lb->admin_token = p->config.admin.s.token;
        lb->peers = peers_create(lb);
        make_applications(lb);
        p->signals = daemon_signals_start(lb->control, &signals);
        data_loops_call(lb, make_front, on_fronts_made, lb);
        loop_run(lb->control);
    }
    int code = p->exit_code;
    log_info(NULL, "stopped", "exit=%d", code);
    lb_destroy(lb);
    return code;
}

/* ---- the command line ---- */

static void *lb_read_configuration(const char *file, struct diag *d)
{
    struct configuration *c = xmalloc(sizeof(*c));

    if (!configuration_read(file, c, d)) {
        free(c);
        return NULL;
    }
    log_set_level((enum log_level)c->program.log_level);
    config_warn_exposed(&c->file);
    return c;
}

static void destroy_configuration(void *config)
{
    configuration_fini(config);
    free(config);
}

static void describe_outcomes(FILE *out)
{
    fputs("# Outcomes\n\nEvery request ends in exactly one of these. It is in the access log, in "
          "`/status.json`\nand in `resumelb_outcomes_total`.\n\n"
          "| outcome | status | retried | meaning |\n| --- | --- | --- | --- |\n",
          out);
#define OUTCOME(name, text, status, retry, doc)                                                    \
    if ((status) != 0)                                                                             \
        fprintf(out, "| `%s` | %d | %s | %s |\n", text, status, (retry) ? "yes" : "no", doc);      \
    else                                                                                           \
        fprintf(out, "| `%s` | the worker's | %s | %s |\n", text, (retry) ? "yes" : "no", doc);
#include "lb/core/outcome.def"
    fputs("\n## Why a worker was selected\n\n| reason | meaning |\n| --- | --- |\n", out);
#define REASON(name, text, doc) fprintf(out, "| `%s` | %s |\n", text, doc);
#include "routing/pick_reason.def"
}

static bool lb_describe(const char *what, FILE *out)
{
    struct slice w = slice_of(what);

    if (slice_is(w, "settings")) {
        settings_describe(settings_tables, SETTINGS_TABLES, out);
        fputc('\n', out);
        settings_describe(classifier_tables, CLASSIFIER_TABLES, out);
    } else if (slice_is(w, "stats")) {
        status_metrics_describe(out);
    } else if (slice_is(w, "outcomes")) {
        describe_outcomes(out);
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct daemon_program program = {
        .name = "resumelb",
        .summary = "a resume-based HTTP load balancer",
        .usage = "-c FILE [-t]",
        .subjects = "settings|stats|outcomes",
        .signals =
            "TERM drains and exits, INT stops at once, HUP re-reads the configuration\n"
            "         USR1 reopens logs, USR2 starts a new process on the same sockets, and drains",
        .read = lb_read_configuration,
        .destroy = destroy_configuration,
        .describe = lb_describe,
        .run = lb_run,
    };

    return daemon_main(&program, argc, argv);
}
