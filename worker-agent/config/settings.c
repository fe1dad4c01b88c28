/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/config/settings.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/text.h"

static const struct setting_row agent_rows[] = {
#define PROGRAM(...) SETTINGS_ROW(struct agent_settings, __VA_ARGS__)
#include "worker-agent/config/settings.def"
};
static const struct setting_row tls_rows[] = {
#define TLS(...) SETTINGS_ROW(struct agent_tls_settings, __VA_ARGS__)
#include "worker-agent/config/settings.def"
};
static const struct setting_row admin_rows[] = {
#define ADMIN(...) SETTINGS_ROW(struct admin_settings, __VA_ARGS__)
#define ADMIN_ACTIONS(...) SETTINGS_ROW(struct admin_settings, __VA_ARGS__)
#include "common/program/admin_settings.def"
};
static const struct setting_row app_rows[] = {
#define APPLICATION(...) SETTINGS_ROW(struct agent_app_settings, __VA_ARGS__)
#include "worker-agent/config/settings.def"
};

#define TABLE(...) SETTINGS_TABLE_OF(agent_tables, AGENT_TABLES, __VA_ARGS__)
TABLE(agent, "PROGRAM", "the top of the file", struct agent_settings);
TABLE(tls, "TLS", "tls", struct agent_tls_settings);
TABLE(admin, "ADMIN", "admin", struct admin_settings);
TABLE(app, "APPLICATION", "applications.NAME", struct agent_app_settings);

const struct settings_table *const agent_tables[AGENT_TABLES] = {&agent_table, &tls_table,
                                                                 &admin_table, &app_table};

static const struct stat_row stat_rows[] = {
#define STAT(...) STATS_ROW(__VA_ARGS__)
#include "worker-agent/config/stats.def"
};

const struct stats_table agent_stats_table = {stat_rows, ARRAY_LEN(stat_rows)};

bool app_settings_check(const struct agent_app_settings *s, char why[SETTINGS_WHY_ROOM])
{
    const char *broken = NULL;

    if (s->respawn_delay_max_ms < s->respawn_delay_ms)
        broken = "respawn_delay_max is less than respawn_delay";
    else if (s->max_processes != 0 && s->max_processes < s->min_processes)
        broken = "max_processes is less than min_processes";
    else if (s->max_skills > s->max_classes)
        broken = "max_skills is more than max_classes";
    if (broken != NULL)
        snprintf(why, SETTINGS_WHY_ROOM, "%s", broken);
    return broken == NULL;
}

/* ---- the setting `address` ---- */

static enum err agent_reject(enum err e, char why[SETTINGS_WHY_ROOM], const char *reason)
{
    snprintf(why, SETTINGS_WHY_ROOM, "%s", reason);
    return e;
}

/* The address of slot N by PATTERN. Errors: as of addr_parse. */
static enum err unix_addr(const char *pattern, unsigned n, struct addr *out)
{
    const char *plus = strchrnul(pattern, '+');
    char *text = *plus == '\0' ? xstrdup(pattern)
                               : xasprintf("%.*s%u%s", (int)(plus - pattern), pattern, n, plus + 1);
    enum err e = addr_parse(slice_of(text), out);

    free(text);
    return e;
}

static enum err parse_unix(struct slice text, unsigned nslots, struct slot_address *out,
                           char why[SETTINGS_WHY_ROOM])
{
    struct addr last;
    size_t plus = slice_find(text, '+');

    if (plus == SIZE_MAX && nslots > 1)
        return agent_reject(ERR_SYNTAX, why,
                            "several slots need a '+' in it, for the slot's number");
    if (plus != SIZE_MAX &&
        slice_find((struct slice){text.p + plus + 1, text.len - plus - 1}, '+') != SIZE_MAX)
        return agent_reject(ERR_SYNTAX, why, "has more than one '+'");
    char *pattern = xslicedup(text);
    enum err e = unix_addr(pattern, nslots > 0 ? nslots - 1 : 0, &last);
    if (e == ERR_OK && last.un.sun_path[0] != '/')
        e = ERR_SYNTAX;
    if (e != ERR_OK) {
        free(pattern);
        return agent_reject(e, why,
                            e == ERR_TOO_LARGE ? "is too long for the path of a unix socket"
                                               : "is not unix: and an absolute path");
    }
    *out = (struct slot_address){.unix_pattern = pattern, .numbered = plus != SIZE_MAX};
    return ERR_OK;
}

enum err slot_address_parse(struct slice text, unsigned nslots, struct slot_address *out,
                            char why[SETTINGS_WHY_ROOM])
{
    struct slot_address a = {0};

    /* Text after the NUL would not be part of the path. */
    if (slice_find(text, '\0') != SIZE_MAX)
        return agent_reject(ERR_SYNTAX, why, "has a NUL in it");
    if (slice_starts(text, SLICE_LIT("unix:")))
        return parse_unix(text, nslots, out, why);
    a.numbered = slice_ends(text, SLICE_LIT("+"));
    if (a.numbered)
        --text.len;
    enum err e = addr_parse(text, &a.base);
    if (e == ERR_UNSUPPORTED)
        return agent_reject(e, why, "must be a numeric address: slots listen on it");
    if (e != ERR_OK)
        return agent_reject(e, why,
                            "expected 127.0.0.1:9000+, [::1]:9000+ or unix:/run/slot+.sock");
    if (addr_is_wildcard(&a.base))
        return agent_reject(
            ERR_UNSUPPORTED, why,
            "load balancers could not connect to it: use one of this host's addresses");
    if (!a.numbered && nslots > 1)
        return agent_reject(ERR_SYNTAX, why, "several slots need a '+' at its end");
    if (addr_port(&a.base) + (nslots > 0 ? nslots - 1 : 0) > 65535)
        return agent_reject(ERR_RANGE, why, "has not enough ports for all slots");
    *out = a;
    return ERR_OK;
}

void slot_address_fini(struct slot_address *a)
{
    free(a->unix_pattern);
    *a = (struct slot_address){0};
}

unsigned slot_address_room(const struct slot_address *a)
{
    unsigned room = APP_SLOTS_MAX;
    struct addr last;

    if (!a->numbered)
        return 1;
    if (a->unix_pattern == NULL) {
        unsigned ports = addr_port(&a->base) != 0 ? 65536 - addr_port(&a->base) : APP_SLOTS_MAX;

        return ports < room ? ports : room;
    }
    /* Fewer digits may fit where more do not. */
    while (room > 1 && unix_addr(a->unix_pattern, room - 1, &last) != ERR_OK)
        room /= 10;
    return room;
}

void slot_address_of(const struct slot_address *a, unsigned n, struct addr *out)
{
    if (a->unix_pattern != NULL) {
        enum err e = unix_addr(a->unix_pattern, n, out);

        ASSERT(e == ERR_OK);
        return;
    }
    *out = a->base;
    if (a->numbered && addr_port(&a->base) != 0)
        addr_set_port(out, addr_port(&a->base) + n);
}
