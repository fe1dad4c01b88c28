/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's settings as structs, generated from settings.def, and its figures, generated from
 * stats.def. Settings are plain values, owned by the configuration (agent_config.h) or, for live
 * settings, by the application. Any thread.
 */
#ifndef RLB_AGENT_CONFIG_SETTINGS_H
#define RLB_AGENT_CONFIG_SETTINGS_H

#include "common/config/settings.h"
#include "common/program/program_config.h"
#include "common/stats/stats.h"

struct agent_settings {
#define PROGRAM(...) SETTINGS_FIELD(__VA_ARGS__)
#include "worker-agent/config/settings.def"
};
struct tls_settings {
#define TLS(...) SETTINGS_FIELD(__VA_ARGS__)
#include "worker-agent/config/settings.def"
};
struct app_settings {
#define APPLICATION(...) SETTINGS_FIELD(__VA_ARGS__)
#include "worker-agent/config/settings.def"
};

extern const struct settings_table agent_table, tls_table, admin_table, app_table;
/* All of them, in the order of the manual. */
#define AGENT_TABLES 4
extern const struct settings_table *const agent_tables[AGENT_TABLES];

enum { TLS_VERSION_12, TLS_VERSION_13 }; /* min_version */
enum { APP_SOCKET_UNIX, APP_SOCKET_TCP };
enum { APP_QUEUE_GLOBAL, APP_QUEUE_PRIVATE };
enum {
    /* Slots of one application: the largest max_processes. */
    APP_SLOTS_MAX = 1000,
    /* The largest concurrency, also used for "no limit". */
    APP_CONCURRENCY_MAX = 10000,
};

/* Whether a change of this row of agent_table takes effect only after a restart, not after SIGHUP.
 */
bool agent_setting_wants_restart(const struct setting_row *row);
/*
 * Checks the rules that span several settings of one application, for YAML and tree. Returns false
 * and sets WHY to the reason if one is violated.
 */
bool app_settings_check(const struct app_settings *s, char why[SETTINGS_WHY_ROOM]);

enum agent_stat {
#define STAT(name, kind, unit, doc) AGENT_STAT_##name,
#include "worker-agent/config/stats.def"
#undef STAT
    AGENT_STATS
};

extern const struct stats_table agent_stats_table;
/* Prefix of metric names. */
#define AGENT_STATS_PREFIX "resumelb_agent"

#endif
