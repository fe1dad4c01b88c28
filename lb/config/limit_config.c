/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/config/configuration.h"

#include <stdio.h>
#include <stdlib.h>

#include "lb/limits/limit_rule.h"

/* Where ROW of the counter at MAP stands, or the counter itself. */
static const struct config_node *place(const struct config_node *map, const char *row)
{
    if (map->kind != CONFIG_MAP)
        return map;
    const struct config_node *match = config_get(map, "match");
    const struct config_node *at = config_get(map, row);

    if (at == NULL && match != NULL && match->kind == CONFIG_MAP)
        at = config_get(match, row);
    return at != NULL ? at : map;
}

/* Scope MATCH goes into the same struct: read aside, then taken over row by row. */
static void read_match(const struct configuration *c, struct limit_config *l, struct diag *d)
{
    struct counter_settings match;

    settings_read(&match_table, &c->file, l->s.match, &match, l->origins + counter_table.n, d);
    for (size_t i = 0; i < match_table.n; ++i)
        settings_take(&match_table.rows[i], &match, &l->s);
    settings_fini(&match_table, &match);
}

static void check_rule(const struct configuration *c, const struct application_config *a,
                       const struct config_node *map, const struct limit_config *l, struct diag *d)
{
    struct limit_rule rule;
    struct limit_problem p;

    if (!limit_rule_compile(l->name, &l->s, &rule, &p)) {
        config_complain(&c->file, place(map, p.row), d, "%s", p.why);
        return;
    }
    limit_rule_fini(&rule);
    if (l->s.where == LIMIT_DAEMON && a->s.pool_counter_servers.n == 0)
        config_complain(&c->file, place(map, "where"), d,
                        "where: daemon, and the application has no pool_counter_servers");
}

static void read_counter(struct configuration *c, const struct application_config *a,
                         const struct config_node *key, const struct config_node *map,
                         struct limit_config *out, struct diag *d)
{
    unsigned before = d->errors;

    out->name = xslicedup(key->text);
    out->origins = xcalloc(counter_table.n + match_table.n, sizeof(*out->origins));
    if (!limit_name_is_good(key->text)) {
        config_complain(&c->file, key, d,
                        "pool_counters: a name consists of letters, digits, . _ - (at most %d, not "
                        "beginning with a dot)",
                        LIMIT_NAME_MAX);
    }
    settings_read(&counter_table, &c->file, map, &out->s, out->origins, d);
    read_match(c, out, d);
    config_read_page(&c->file, place(map, "page"), "page", out->s.page, &out->page, d);
    if (d->errors == before)
        check_rule(c, a, map, out, d);
}

/* ---- their daemons ---- */

static const char *parse_server(const char *text, struct addr *out)
{
    switch (addr_parse(slice_of(text), out)) {
    case ERR_OK:
        break;
    case ERR_UNSUPPORTED:
        return "a host name is not permitted here; use a numeric address";
    case ERR_TOO_LARGE:
        return "the path of a unix socket may have at most 107 bytes";
    default:
        return "expected HOST:PORT, [IPV6]:PORT or unix:/path";
    }
    if (out->sa.sa_family != AF_UNIX && addr_port(out) == 0)
        return "a server needs a port";
    return NULL;
}

/* The error of item N of SERVERS, where all previous items are valid; or NULL. */
static const char *check_server(const char *text, struct counter_server_address *servers, size_t n)
{
    if (n == COUNTER_SERVERS_MAX)
        return "too many entries";
    const char *problem = parse_server(text, &servers[n].addr);
    if (problem != NULL)
        return problem;
    servers[n].name = slice_of(text);
    for (size_t i = 0; i < n; ++i) {
        if (addr_equal(&servers[i].addr, &servers[n].addr))
            return "is a duplicate";
    }
    return counter_client_check(servers, n + 1) == ERR_OK ? NULL
                                                          : "only visible ASCII is permitted here";
}

bool limit_servers_check(const struct text_list *l, size_t *at, char why[SETTINGS_WHY_ROOM])
{
    struct counter_server_address servers[COUNTER_SERVERS_MAX];

    for (size_t i = 0; i < l->n; ++i) {
        const char *problem = check_server(l->items[i], servers, i);

        if (problem == NULL)
            continue;
        *at = i;
        snprintf(why, SETTINGS_WHY_ROOM, "pool_counter_servers: %.60s: %s", l->items[i], problem);
        return false;
    }
    return true;
}

size_t limit_servers(const struct text_list *l,
                     struct counter_server_address out[COUNTER_SERVERS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < l->n && n < COUNTER_SERVERS_MAX; ++i) {
        out[n].name = slice_of(l->items[i]);
        if (addr_parse(out[n].name, &out[n].addr) == ERR_OK)
            ++n;
    }
    return n;
}

static void check_servers(const struct configuration *c, const struct application_config *a,
                          struct diag *d)
{
    const struct config_node *list = config_get(a->node, "pool_counter_servers");
    char why[SETTINGS_WHY_ROOM];
    size_t at = 0;

    if (limit_servers_check(&a->s.pool_counter_servers, &at, why))
        return;
    if (list != NULL && list->kind == CONFIG_LIST && at < list->n)
        list = list->items[at];
    config_complain(&c->file, list, d, "%s", why);
}

/* ---- all of it ---- */

void limit_configs_read(struct configuration *c, struct application_config *a, struct diag *d)
{
    const struct config_node *map = a->s.pool_counters;

    check_servers(c, a, d);
    if (map == NULL)
        return;
    if (map->kind != CONFIG_MAP) {
        config_complain(&c->file, map, d, "pool_counters: expected NAME: {...} lines here");
        return;
    }
    if (map->n > LIMIT_RULES_MAX) {
        config_complain(
            &c->file, map->keys[LIMIT_RULES_MAX], d,
            "pool_counters: at most %d, because each request is checked against all of them",
            LIMIT_RULES_MAX);
        return;
    }
    a->limits.items = xcalloc(map->n + 1, sizeof(*a->limits.items));
    while (a->limits.n < map->n) {
        size_t i = a->limits.n++;

        read_counter(c, a, map->keys[i], map->items[i], &a->limits.items[i], d);
    }
}

void limit_configs_fini(struct limit_configs *l)
{
    for (size_t i = 0; i < l->n; ++i) {
        counter_settings_fini(&l->items[i].s);
        text_fini(&l->items[i].page);
        free(l->items[i].origins);
        free(l->items[i].name);
    }
    free(l->items);
}
