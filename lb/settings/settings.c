/* SPDX-License-Identifier: Apache-2.0
 *
 * Scopes APPLICATION and POOL are two tables over one struct: where something is done to "all rows
 * of an application" it goes through app_row().
 */
#include "lb/settings/settings.h"

#include "common/program/program_config.h"

static const struct setting_row program_rows[] = {
#define PROGRAM(...) SETTINGS_ROW(struct program_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};
static const struct setting_row listen_rows[] = {
#define LISTEN(...) SETTINGS_ROW(struct listen_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};
static const struct setting_row tls_rows[] = {
#define TLS(...) SETTINGS_ROW(struct tls_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};
static const struct setting_row certificate_rows[] = {
#define CERTIFICATE(...) SETTINGS_ROW(struct certificate_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};
static const struct setting_row admin_rows[] = {
#define ADMIN(...) SETTINGS_ROW(struct admin_settings, __VA_ARGS__)
#define ADMIN_ACTIONS(...) SETTINGS_ROW(struct admin_settings, __VA_ARGS__)
#include "common/program/admin_settings.def"
};
static const struct setting_row application_rows[] = {
#define APPLICATION(...) SETTINGS_ROW(struct app_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};
static const struct setting_row pool_rows[] = {
#define POOL(...) SETTINGS_ROW(struct app_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};
static const struct setting_row worker_rows[] = {
#define WORKER(...) SETTINGS_ROW(struct worker_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};
static const struct setting_row worker_tls_rows[] = {
#define WORKER_TLS(...) SETTINGS_ROW(struct worker_tls_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};
static const struct setting_row headers_rows[] = {
#define HEADERS(...) SETTINGS_ROW(struct headers_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};
static const struct setting_row header_rows[] = {
#define HEADER(...) SETTINGS_ROW(struct header_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};
static const struct setting_row limit_rows[] = {
#define LIMIT(...) SETTINGS_ROW(struct limit_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};
static const struct setting_row rate_settings_rows[] = {
#define RATE(...) SETTINGS_ROW(struct rate_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};
static const struct setting_row match_rows[] = {
#define MATCH(...) SETTINGS_ROW(struct limit_settings, __VA_ARGS__)
#include "lb/settings/settings.def"
};

#define TABLE(...) SETTINGS_TABLE_OF(settings_tables, SETTINGS_TABLES, __VA_ARGS__)
TABLE(program, "PROGRAM", "top of the file", struct program_settings);
TABLE(listen, "LISTEN", "an entry of listen", struct listen_settings);
TABLE(tls, "TLS", "tls of a listener", struct tls_settings);
TABLE(certificate, "CERTIFICATE", "an entry of certificates", struct certificate_settings);
TABLE(admin, "ADMIN", "admin", struct admin_settings);
TABLE(application, "APPLICATION", "applications.NAME", struct app_settings);
TABLE(pool, "POOL", "pool of an application", struct app_settings);
TABLE(worker, "WORKER", "an entry of workers", struct worker_settings);
TABLE(worker_tls, "WORKER_TLS", "worker_tls of an application", struct worker_tls_settings);
TABLE(headers, "HEADERS", "headers of an application", struct headers_settings);
TABLE(header, "HEADER", "headers.request and headers.response of an application",
      struct header_settings);
TABLE(limit, "LIMIT", "limits.NAME of an application", struct limit_settings);
TABLE(rate_settings, "RATE", "rates.NAME of an application", struct rate_settings);
TABLE(match, "MATCH", "match of a limit or a rate", struct limit_settings);

const struct settings_table *const settings_tables[SETTINGS_TABLES] = {
    &program_table,     &listen_table, &tls_table,           &certificate_table, &admin_table,
    &application_table, &pool_table,   &worker_table,        &worker_tls_table,  &headers_table,
    &header_table,      &limit_table,  &rate_settings_table, &match_table,
};

size_t app_rows(void)
{
    return application_table.n + pool_table.n;
}

const struct setting_row *app_row(size_t i)
{
    return i < application_table.n ? &application_rows[i] : &pool_rows[i - application_table.n];
}

bool app_row_frozen(const struct setting_row *row)
{
    /* These are used through snapshots only. */
    struct slice names = SLICE_LIT(
        "forwarded_for trusted_proxies route_trace methods via request_id trace_context "
        "trace_sample health_check_path health_check_host provider_networks stored_with_cookies "
        "stored_with_certificates private_headers");

    while (names.len != 0) {
        if (slice_is(slice_cut(&names, ' '), row->name))
            return false;
    }
    return row->when == SETTING_LOCAL;
}

bool settings_list_check(const char *name, const struct text_list *l,
                         const char *(*problem)(const struct text_list *l, size_t i), size_t *at,
                         char why[SETTINGS_WHY_ROOM])
{
    for (size_t i = 0; i < l->n; ++i) {
        const char *found = problem(l, i);

        if (found == NULL)
            continue;
        *at = i;
        snprintf(why, SETTINGS_WHY_ROOM, "%s: %.60s: %s", name, l->items[i], found);
        return false;
    }
    return true;
}

bool app_settings_same(const struct app_settings *a, const struct app_settings *b,
                       const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        if (!settings_same(settings_find(&application_table, slice_of(names[i])), a, b))
            return false;
    }
    return true;
}

void app_settings_copy(const struct app_settings *from, struct app_settings *to)
{
    settings_copy(&application_table, from, to);
    for (size_t i = 0; i < pool_table.n; ++i)
        settings_take(&pool_rows[i], from, to);
}

void app_settings_fini(struct app_settings *s)
{
    /* Pool rows own no memory: numbers, switches and choices all. */
    settings_fini(&application_table, s);
}

void limit_settings_copy(const struct limit_settings *from, struct limit_settings *to)
{
    settings_copy(&limit_table, from, to);
    for (size_t i = 0; i < match_table.n; ++i)
        settings_take(&match_rows[i], from, to);
}

void limit_settings_fini(struct limit_settings *s)
{
    settings_fini(&limit_table, s);
    settings_fini(&match_table, s);
}
