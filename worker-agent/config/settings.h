/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's settings as structs, generated from settings.def, the value of `address`, and the
 * agent's metrics, generated from stats.def. Settings are plain values, owned by the configuration
 * (agent_config.h) or, for live settings, by the application. Any thread.
 */
#pragma once

#include "common/config/settings.h"
#include "common/net/addr.h"
#include "common/program/program_config.h"
#include "common/stats/stats.h"

struct agent_settings {
#define PROGRAM(...) SETTINGS_FIELD(__VA_ARGS__)
#include "worker-agent/config/settings.def"
};
struct agent_tls_settings {
#define TLS(...) SETTINGS_FIELD(__VA_ARGS__)
#include "worker-agent/config/settings.def"
};
struct agent_app_settings {
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

/* Checks the rules across settings of an application, of YAML or tree. False: see WHY. */
bool app_settings_check(const struct agent_app_settings *s, char why[SETTINGS_WHY_ROOM]);

/* ---- the setting `address`: where an application's slots listen ---- */

/*
 *   127.0.0.1:9000+        slot n at port 9000+n (n from 0); [::1]:9000+ likewise
 *   127.0.0.1:0+           each slot at a free port
 *   unix:/run/shop/slot+   the slot's number in place of the one '+'
 *   127.0.0.1:9000         without '+': for an application with one slot
 */
struct slot_address {
    struct addr base;   /* host and first port; unset for unix */
    char *unix_pattern; /* "unix:/run/x-+.sock", or NULL */
    bool numbered;      /* has its '+' */
};

/*
 * Parses the address pattern TEXT, which must provide addresses for NSLOTS slots. On error, WHY is
 * set to the reason. Errors: ERR_SYNTAX, ERR_RANGE (ports run out), ERR_TOO_LARGE (unix path),
 * ERR_UNSUPPORTED (a host name, or an address that cannot be connected to).
 */
enum err slot_address_parse(struct slice text, unsigned nslots, struct slot_address *out,
                            char why[SETTINGS_WHY_ROOM]) must_check;
void slot_address_fini(struct slot_address *a);
/* Number of slots that it provides addresses for, at most APP_SLOTS_MAX. */
unsigned slot_address_room(const struct slot_address *a);
/* The address of slot N < slot_address_room(). */
void slot_address_of(const struct slot_address *a, unsigned n, struct addr *out);

/* ---- stats ---- */

enum agent_stat {
#define STAT(name, kind, unit, doc) AGENT_STAT_##name,
#include "worker-agent/config/stats.def"
    AGENT_STATS
};

extern const struct stats_table agent_stats_table;
/* Prefix of metric names. */
#define AGENT_STATS_PREFIX "resumelb_agent"
