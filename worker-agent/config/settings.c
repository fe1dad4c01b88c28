/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/config/settings.h"

static const struct setting_row agent_rows[] = {
#define PROGRAM(...) SETTINGS_ROW(struct agent_settings, __VA_ARGS__)
#include "worker-agent/config/settings.def"
};
static const struct setting_row tls_rows[] = {
#define TLS(...) SETTINGS_ROW(struct tls_settings, __VA_ARGS__)
#include "worker-agent/config/settings.def"
};
static const struct setting_row admin_rows[] = {
#define ADMIN(...) SETTINGS_ROW(struct admin_settings, __VA_ARGS__)
#define ADMIN_ACTIONS(...) SETTINGS_ROW(struct admin_settings, __VA_ARGS__)
#include "common/program/admin_settings.def"
};
static const struct setting_row app_rows[] = {
#define APPLICATION(...) SETTINGS_ROW(struct app_settings, __VA_ARGS__)
#include "worker-agent/config/settings.def"
};

#define TABLE(...) SETTINGS_TABLE_OF(agent_tables, AGENT_TABLES, __VA_ARGS__)
TABLE(agent, "PROGRAM", "the top of the file", struct agent_settings);
TABLE(tls, "TLS", "tls", struct tls_settings);
TABLE(admin, "ADMIN", "admin", struct admin_settings);
TABLE(app, "APPLICATION", "applications.NAME", struct app_settings);

const struct settings_table *const agent_tables[AGENT_TABLES] = {&agent_table, &tls_table,
                                                                 &admin_table, &app_table};

static const struct stat_row stat_rows[] = {
#define STAT(...) STATS_ROW(__VA_ARGS__)
#include "worker-agent/config/stats.def"
#undef STAT
};

const struct stats_table agent_stats_table = {stat_rows, ARRAY_LEN(stat_rows)};

bool agent_setting_wants_restart(const struct setting_row *row)
{
    return (row->when == SETTING_BOOT || row->when == SETTING_LOCAL) &&
           strcmp(row->name, "allow") != 0;
}

bool app_settings_check(const struct app_settings *s, char why[SETTINGS_WHY_ROOM])
{
    if (s->respawn_delay_max_ms < s->respawn_delay_ms) {
        snprintf(why, SETTINGS_WHY_ROOM, "respawn_delay_max is less than respawn_delay");
        return false;
    }
    if (s->max_processes != 0 && s->max_processes < s->min_processes) {
        snprintf(why, SETTINGS_WHY_ROOM, "max_processes is less than min_processes");
        return false;
    }
    if (s->max_skills > s->max_classes) {
        snprintf(why, SETTINGS_WHY_ROOM, "max_skills is more than max_classes");
        return false;
    }
    return true;
}
