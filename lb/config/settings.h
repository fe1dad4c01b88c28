/* SPDX-License-Identifier: Apache-2.0
 *
 * The load balancer's settings as structs, made of settings.def, and the immutable snapshots in
 * which an application's live ones are published. A snapshot is reference counted; each loop holds
 * the one it works with and changes it between turns (application.h).
 */
#ifndef RLB_LB_CONFIG_SETTINGS_H
#define RLB_LB_CONFIG_SETTINGS_H

#include "common/config/settings.h"
#include "common/net/networks.h"
#include "common/program/program_config.h"
#include "common/wire/cache_rules.h"
#include "routing/pool.h"

struct program_settings {
#define PROGRAM(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/config/settings.def"
};
struct listen_settings {
#define LISTEN(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/config/settings.def"
};
struct tls_settings {
#define TLS(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/config/settings.def"
};
struct certificate_settings {
#define CERTIFICATE(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/config/settings.def"
};
/* Scopes APPLICATION and POOL in one struct: in the tree they stand side by side. */
struct app_settings {
#define APPLICATION(...) SETTINGS_FIELD(__VA_ARGS__)
#define POOL(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/config/settings.def"
};
struct worker_settings {
#define WORKER(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/config/settings.def"
};

struct worker_tls_settings {
#define WORKER_TLS(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/config/settings.def"
};

struct headers_settings {
#define HEADERS(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/config/settings.def"
};
struct header_settings {
#define HEADER(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/config/settings.def"
};

/* Scopes COUNTER and MATCH in one struct: in the tree they stand side by side. */
struct counter_settings {
#define COUNTER(...) SETTINGS_FIELD(__VA_ARGS__)
#define MATCH(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/config/settings.def"
};

struct rate_settings {
#define RATE(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/config/settings.def"
};

extern const struct settings_table program_table, listen_table, tls_table, certificate_table,
    admin_table, application_table, pool_table, worker_table, worker_tls_table, headers_table,
    header_table, counter_table, rate_settings_table, match_table;

enum { TLS_VERSION_12, TLS_VERSION_13 }; /* min_version */
enum { CLIENT_VERIFY_OFF, CLIENT_VERIFY_OPTIONAL, CLIENT_VERIFY_REQUIRED };
enum { WORKER_TLS_INHERIT, WORKER_TLS_ON, WORKER_TLS_OFF }; /* tls */
enum { FORWARDED_SET, FORWARDED_APPEND, FORWARDED_OFF };
enum { TRACE_CONTEXT_OFF, TRACE_CONTEXT_TRUSTED, TRACE_CONTEXT_JOIN }; /* trace_context */
enum { LIMIT_EACH, LIMIT_ANY };                                        /* mode */
enum { LIMIT_LOCAL, LIMIT_DAEMON };                                    /* where */
enum { LIMIT_ANSWER_ERROR, LIMIT_ANSWER_STALE };                       /* on_full, on_timeout */
enum { LIMIT_BUSY_WAIT, LIMIT_BUSY_STALE };                            /* on_busy */
enum { LIMIT_OPEN, LIMIT_CLOSED };                                     /* on_unreachable */
enum { RESUME_FROM_AUTO, RESUME_FROM_STREAM, RESUME_FROM_MEASURE };

/* Every table, in the order of the manual. */
#define SETTINGS_TABLES 14
extern const struct settings_table *const settings_tables[SETTINGS_TABLES];
/* Rows that one application has in all: those of application_table, then those of pool_table. */
size_t app_rows(void);
const struct setting_row *app_row(size_t i);
/* Index of the row called NAME among app_rows(), or SIZE_MAX. */
size_t app_row_find(struct slice name);

/* LOCAL rows that only snapshots carry, so that SIGHUP can change them with one. */
bool app_row_by_snapshot(const struct setting_row *row);

/* TO is overwritten (not freed); NODEs do not go along: they belong to a configuration file. */
void app_settings_copy(const struct app_settings *from, struct app_settings *to);
void app_settings_fini(struct app_settings *s);
/*
 * The rules across fields. False: WHY says which is broken.
 *   response_buffers_total  the program's setting, which bounds response_buffer
 */
bool app_settings_check(const struct app_settings *s, uint64_t response_buffers_total,
                        char why[SETTINGS_WHY_ROOM]);
/* Both scopes of it: defaults; TO is overwritten (not freed), NODEs do not go along. */
void counter_settings_defaults(struct counter_settings *s);
void counter_settings_copy(const struct counter_settings *from, struct counter_settings *to);
void counter_settings_fini(struct counter_settings *s);
void app_pool_settings(const struct app_settings *s, struct pool_settings *out);

struct header_rules;
struct limit_rules;
struct rate_rules;
struct app_snapshot {
    _Atomic unsigned refs;
    struct app_settings s;
    struct networks trusted;            /* of s.trusted_proxies */
    struct networks receipts;           /* of s.route_receipt */
    struct networks providers;          /* of s.provider_networks */
    struct cache_names private_headers; /* of s.private_headers */
    struct limit_rules *limits;         /* one reference, or NULL: no pool counters */
    struct header_rules *headers;       /* one reference, or NULL: no header rules */
    struct rate_rules *rates;           /* one reference, or NULL: no rates */
};
/* A copy of S with one reference; and with the rules of LIKE (NULL: none), one reference each. */
struct app_snapshot *app_snapshot_create(const struct app_settings *s,
                                         const struct app_snapshot *like);
struct app_snapshot *app_snapshot_ref(struct app_snapshot *s);
/* Any thread. NULL is fine. */
void app_snapshot_unref(struct app_snapshot *s);

#endif
