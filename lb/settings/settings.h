/* SPDX-License-Identifier: Apache-2.0
 *
 * The load balancer's settings as structs and tables, made of settings.def.
 */
#pragma once

#include "common/config/settings.h"

struct program_settings {
#define PROGRAM(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings/settings.def"
};
struct listen_settings {
#define LISTEN(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings/settings.def"
};
struct tls_settings {
#define TLS(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings/settings.def"
};
struct certificate_settings {
#define CERTIFICATE(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings/settings.def"
};
/* Scopes APPLICATION and POOL in one struct: in the tree they are properties of one node. */
struct app_settings {
#define APPLICATION(...) SETTINGS_FIELD(__VA_ARGS__)
#define POOL(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings/settings.def"
};
struct worker_settings {
#define WORKER(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings/settings.def"
};

struct worker_tls_settings {
#define WORKER_TLS(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings/settings.def"
};

struct headers_settings {
#define HEADERS(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings/settings.def"
};
struct header_settings {
#define HEADER(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings/settings.def"
};

/* Scopes LIMIT and MATCH in one struct: in the tree they are properties of one node. */
struct limit_settings {
#define LIMIT(...) SETTINGS_FIELD(__VA_ARGS__)
#define MATCH(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings/settings.def"
};

struct rate_settings {
#define RATE(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings/settings.def"
};

extern const struct settings_table program_table, listen_table, tls_table, certificate_table,
    admin_table, application_table, pool_table, worker_table, worker_tls_table, headers_table,
    header_table, limit_table, rate_settings_table, match_table;

enum { TLS_VERSION_12, TLS_VERSION_13 }; /* min_version */
enum { CLIENT_VERIFY_OFF, CLIENT_VERIFY_OPTIONAL, CLIENT_VERIFY_REQUIRED };
enum { WORKER_TLS_INHERIT, WORKER_TLS_ON, WORKER_TLS_OFF }; /* tls */
enum { WORKER_ADDRESSES_ALL, WORKER_ADDRESSES_FIRST };      /* addresses */
enum { WORKER_FAMILY_AUTO, WORKER_FAMILY_IPV4, WORKER_FAMILY_IPV6, WORKER_FAMILY_BOTH };
enum { FORWARDED_SET, FORWARDED_APPEND, FORWARDED_OFF };
enum { TRACE_CONTEXT_OFF, TRACE_CONTEXT_TRUSTED, TRACE_CONTEXT_JOIN }; /* trace_context */
enum { LIMIT_EACH, LIMIT_ANY };                                        /* mode */
enum { LIMIT_LOCAL, LIMIT_DAEMON };                                    /* where */
enum { LIMIT_RESPONSE_ERROR, LIMIT_RESPONSE_STALE };                   /* on_full, on_timeout */
enum { LIMIT_BUSY_WAIT, LIMIT_BUSY_STALE };                            /* on_busy */
enum { LIMIT_OPEN, LIMIT_CLOSED };                                     /* on_unreachable */
enum { RESUME_FROM_AUTO, RESUME_FROM_STREAM, RESUME_FROM_MEASURE };

/* Every table, in the order of the manual. */
#define SETTINGS_TABLES 14
extern const struct settings_table *const settings_tables[SETTINGS_TABLES];
/* Rows that one application has in all: those of application_table, then those of pool_table. */
size_t app_rows(void);
const struct setting_row *app_row(size_t i);

/* Whether a change of ROW needs a restart: it is LOCAL, and not used through snapshots only. */
bool app_row_frozen(const struct setting_row *row);

/* Whether A and B have the same values of the N rows NAMES of application_table. */
bool app_settings_same(const struct app_settings *a, const struct app_settings *b,
                       const char *const *names, size_t n);
/*
 * Calls PROBLEM for each item of L, the value of setting NAME, until it returns a problem (NULL:
 * none). Returns false if there is one: *AT is the index of its item, and WHY has the reason.
 */
bool settings_list_check(const char *name, const struct text_list *l,
                         const char *(*problem)(const struct text_list *l, size_t i), size_t *at,
                         char why[SETTINGS_WHY_ROOM]) must_check;
/* As settings_copy. */
void app_settings_copy(const struct app_settings *from, struct app_settings *to);
void app_settings_fini(struct app_settings *s);
/* Both scopes of it; rows of MATCH have no defaults. */
void limit_settings_copy(const struct limit_settings *from, struct limit_settings *to);
void limit_settings_fini(struct limit_settings *s);
