/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGHUP. The file is read and checked whole, certificates included; only then is anything changed.
 * Settings that need a restart are unchanged, and logged, one line each.
 */
#include "lb/program/lb_parts.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/dns/resolver.h"
#include "lb/backends/membership.h"
#include "lb/request/front.h"

/* ---- limits of the parts, at start too ---- */

enum {
    /* Descriptors of listeners, logs, the tree and operators; and of each loop. */
    DESCRIPTORS_BASE = 17,
    DESCRIPTORS_PER_LOOP = 5,
    /* Maximum number reserved for workers: 64 connections to each of 64 workers. */
    DESCRIPTORS_FOR_WORKERS = 4096,
};

/* Clients must not take the last descriptors, as each may need a worker: half of them are reserved
 * for workers, if not fewer suffice, and a part of the rest for bodies (body_files_max). */
static size_t descriptors_left(unsigned nloops)
{
    size_t limit = daemon_descriptors().rlim_cur;
    size_t base = DESCRIPTORS_BASE + (size_t)DESCRIPTORS_PER_LOOP * nloops;
    size_t left = limit > base ? limit - base : 0;

    return left - (left / 2 < DESCRIPTORS_FOR_WORKERS ? left / 2 : DESCRIPTORS_FOR_WORKERS);
}

void lb_set_body_totals(struct lb *lb, const struct program_settings *s)
{
    body_totals_set(&lb->body_totals, s->request_buffers_total_bytes, s->body_spill_total_bytes,
                    body_files_max(descriptors_left(lb->nloops)));
}

struct http_server_options lb_limits(const struct program_settings *s, unsigned nloops)
{
    ASSERT(nloops != 0);
    size_t connections = (size_t)s->max_client_connections;
    size_t room = descriptors_left(nloops);

    room -= body_files_max(room);
    if (connections > room) {
        room = room < nloops ? nloops : room / nloops * nloops;
        log_warn(NULL, "descriptor-limit-low",
                 "limit=%zu max_client_connections=%zu allowed=%zu action=\"accept fewer "
                 "connections\" hint=\"raise RLIMIT_NOFILE\"",
                 (size_t)daemon_descriptors().rlim_cur, connections, room);
        connections = room;
    }
    return (struct http_server_options){
        .max.body_bytes = s->max_body_bytes,
        .max.head_bytes = s->max_header_size_bytes,
        .max.fields = (size_t)s->max_headers,
        .max_connections = connections,
        .max_connections_per_address = (size_t)s->max_connections_per_address,
        .header_timeout_ms = s->header_timeout_ms,
        .body_timeout_ms = s->body_timeout_ms,
        .keep_alive_timeout_ms = s->keep_alive_timeout_ms,
        .send_timeout_ms = s->send_timeout_ms,
        .min_body_rate = s->min_body_rate_bytes,
        .min_body_rate_grace_ms = s->min_body_rate_grace_ms,
        .min_send_rate = s->min_send_rate_bytes,
        .min_send_rate_grace_ms = s->min_send_rate_grace_ms,
        .http2_pings = (uint32_t)s->http2_pings,
        .http2_priorities = (uint32_t)s->http2_priorities,
        .http2_window_updates = (uint32_t)s->http2_window_updates,
        .http2_resets = (uint32_t)s->http2_resets,
        .http2_unknown_frames = (uint32_t)s->http2_unknown_frames,
        .http2_requests = (uint32_t)s->http2_requests,
        .http2_abandoned = (uint32_t)s->http2_abandoned,
        .sinks = {.memory_bytes = s->body_spill_bytes, .directory = s->spill_dir},
        .server_name = slice_of(s->server_name),
    };
}

char *lb_name_servers(const struct program_settings *s)
{
    struct text all = {0};

    for (size_t i = 0; i < s->resolvers.n; ++i) {
        if (i > 0)
            text_add_char(&all, ',');
        text_add(&all, slice_of(s->resolvers.items[i]));
    }
    char *servers = all.len != 0 ? xslicedup(text_slice(&all)) : NULL;
    text_fini(&all);
    return servers;
}

/* ---- what can be changed, and what cannot ---- */

static void log_restart_required(const char *application, const char *what)
{
    log_warn(NULL, "config-restart-required", "application=%s setting=%s", application, what);
}

static void take_program(struct lb *lb, const struct configuration *fresh)
{
    for (size_t i = 0; i < program_table.n; ++i) {
        const struct setting_row *row = &program_table.rows[i];

        if (row->when == SETTING_RELOAD)
            settings_take(row, &fresh->program, &lb->settings);
        else if (row->type != SETTING_NODE &&
                 (row->when == SETTING_BOOT || row->when == SETTING_LOCAL) &&
                 !settings_same(row, &lb->settings, &fresh->program))
            log_restart_required("-", row->name);
    }
    if (!listeners_match(lb->parts->listeners, fresh))
        log_restart_required("-", "listen");
    if (!admin_config_same_addresses(&lb->parts->config.admin, &fresh->admin))
        log_restart_required("-", "admin");
    log_set_level((enum log_level)lb->settings.log_level);
    atomic_store_explicit(&lb->response_buffers_total, lb->settings.response_buffers_total_bytes,
                          memory_order_relaxed);
    atomic_store_explicit(&lb->spill_space.bytes.max, lb->settings.response_spill_total_bytes,
                          memory_order_relaxed);
    char *servers = lb_name_servers(&lb->settings);
    resolver_set_servers(lb->resolver, servers);
    free(servers);
    if (lb->access_log != NULL) {
        struct access_options o = access_options_of(&lb->settings);

        access_log_set(lb->access_log, &o);
        access_log_reopen(lb->access_log);
    }
    /* Its texts are of BOOT and LOCAL rows, which a reload does not change. */
    struct http_server_options *limits = xmalloc(sizeof(*limits));
    lb_set_body_totals(lb, &lb->settings);
    *limits = lb_limits(&lb->settings, lb->nloops);
    data_loops_call(lb, front_set, free, limits);
}

static void take_applications(struct lb *lb, struct configuration *fresh)
{
    size_t found = 0;

    for (size_t i = 0; i < lb->napplications; ++i) {
        struct application *a = lb->applications[i];
        struct application_config *c = NULL;

        for (size_t k = 0; k < fresh->napplications && c == NULL; ++k) {
            if (strcmp(fresh->applications[k].name, a->name) == 0)
                c = &fresh->applications[k];
        }
        if (c == NULL) {
            log_restart_required(a->name, "applications");
            continue;
        }
        ++found;
        for (size_t k = 0; k < app_rows(); ++k) {
            const struct setting_row *row = app_row(k);

            if (row->type != SETTING_NODE && app_row_frozen(row) &&
                !settings_same(row, &a->settings->s, &c->s))
                log_restart_required(a->name, row->name);
        }
        if (strcmp(classifier_fingerprint(a->classifier), classifier_fingerprint(c->classifier)) !=
            0)
            log_restart_required(a->name, "classifier");
        membership_reload(a->membership, c);
    }
    if (found != fresh->napplications)
        log_restart_required("-", "applications");
}

bool lb_reload(struct lb *lb, struct text *why)
{
    struct configuration fresh;
    struct diag d = {0};

    daemon_notify("RELOADING=1");
    bool taken = configuration_read(lb->file, &fresh, &d);
    if (taken) {
        take_program(lb, &fresh);
        listeners_take_certificates(lb->parts->listeners, &fresh);
        take_applications(lb, &fresh);
        config_warn_exposed(&fresh.file);
        log_info(NULL, "config-reloaded", "file=%s", lb->file);
        configuration_fini(&fresh);
    } else {
        daemon_reload_failed(lb->file, &d);
        /* Logs have been rotated all the same. */
        if (lb->access_log != NULL)
            access_log_reopen(lb->access_log);
        if (why != NULL)
            text_add(why, slice_of(d.text));
    }
    diag_fini(&d);
    daemon_notify("READY=1");
    return taken;
}
