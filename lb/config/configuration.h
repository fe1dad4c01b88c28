/* SPDX-License-Identifier: Apache-2.0
 *
 * A configuration file. It is read and checked completely: every error is reported with its place,
 * and nothing else starts before there are no errors. A plain value, owned by its reader (main.c at
 * start, reload.c at SIGHUP), which moves out what outlives it (classifiers, error pages) before
 * configuration_fini. Control thread.
 */
#pragma once

#include "classifiers/registry.h"
#include "common/counters/pool_counter_client.h"
#include "common/net/addr.h"
#include "common/net/networks.h"
#include "common/program/program_config.h"
#include "common/wire/cache_rules.h"
#include "lb/access/access_log.h"
#include "lb/config/cpu_affinity.h"
#include "lb/config/tls_config.h"
#include "lb/rules/error_page.h"
#include "lb/settings/settings.h"

struct listen_config {
    struct addr addr;
    char *text; /* as written */
    bool http2;
    bool defer_accept;
    bool proxied;               /* each connection begins with a PROXY header */
    struct networks proxy_from; /* the peers that may send it */
    unsigned redirect_https;    /* the port; 0: requests are served */
    unsigned mode;              /* permission bits of a unix socket; 0: as the umask determines */
    struct tls_listener *tls;   /* NULL: plain */
};

struct worker_config {
    struct worker_settings s; /* address: canonical unless it is a name; resume: resolved */
    struct addr addr;
    bool named;          /* a host name or a service: resolved while running */
    struct addr standby; /* len 0: none */
};
void worker_configs_free(struct worker_config *workers, size_t n);

/* One limit, page file included. */
struct limit_config {
    char *name;
    struct limit_settings s;
    enum setting_origin *origins; /* rows of limit_table, then those of match_table */
    struct text page;             /* what s.page names; empty: nothing */
};

struct limit_configs {
    struct limit_config *items; /* in the file's order */
    size_t n;
};

struct application_config {
    char *name;
    struct app_settings s;
    enum setting_origin *origins; /* per app_row() */
    struct slice path;            /* s.path without its trailing slash; "" is everything */
    struct classifier *classifier;
    struct tls_workers worker_tls;
    struct worker_config *workers;
    size_t nworkers;
    struct error_pages error_pages;
    struct limit_configs limits;
    struct rate_rules *rates;     /* one reference, or NULL */
    struct header_rules *headers; /* one reference, or NULL */
    struct config_node *node;     /* its map in the file; NULL after configuration_read */
};

struct configuration {
    struct config file;
    struct program_settings program;
    enum setting_origin *program_origins; /* by row of program_table */
    unsigned nloops;
    struct cpu_affinity affinity;
    struct listen_config *listens;
    size_t nlistens;
    struct admin_config admin;
    struct application_config *applications;
    size_t napplications;
};

/* Reports every problem to D. False if there was any: OUT must then not be used or freed. */
bool configuration_read(const char *file, struct configuration *out, struct diag *d) must_check;
void configuration_fini(struct configuration *c);
/* The settings `access_log_*`, which have been checked, as options of the access log. */
struct access_options access_options_of(const struct program_settings *s);

/*
 * Adds the networks that the setting NAME lists to OUT (zero; needs networks_fini in any case).
 * Returns false if item *AT is invalid, with the reason in WHY. Any thread.
 */
bool config_networks(const char *name, const struct text_list *list, struct networks *out,
                     size_t *at, char why[SETTINGS_WHY_ROOM]) must_check;

/* ---- application_config.c ---- */

enum { PRIVATE_HEADER_MAX = 128 /* bytes of a name of private_headers */ };

/*
 * For settings_list_check: why item I cannot be in the setting private_headers, or NULL. It has at
 * most CACHE_NAMES_MAX field names, each once, and none for which there is another setting or that
 * never comes from a client. Any thread.
 */
const char *private_header_problem(const struct text_list *list, size_t i);

/* Reads application NAME from MAP; problems to D. OUT (zero) needs application_config_fini. */
void application_config_read(struct configuration *c, const char *name, struct config_node *map,
                             struct application_config *out, struct diag *d);
/*
 * The rules across fields. Returns false, with the broken rule in WHY.
 *   response_buffers_total  the program's setting, which bounds response_buffer
 */
bool app_settings_check(const struct app_settings *s, uint64_t response_buffers_total,
                        char why[SETTINGS_WHY_ROOM]);
/* No two applications may have the same host and path. */
void application_configs_check(const struct configuration *c, struct diag *d);
void application_config_fini(struct application_config *a);
/*
 * Parses L, a valid pool_counter_servers, into OUT; returns the number. Keys are distributed by the
 * names, borrowed from L as they are written: all load balancers that share daemons must write them
 * in the same way.
 */
size_t limit_servers(const struct text_list *l,
                     struct pool_counter_server_address out[POOL_COUNTER_SERVERS_MAX]);
