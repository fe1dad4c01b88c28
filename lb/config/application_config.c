/* SPDX-License-Identifier: Apache-2.0
 *
 * One application of a configuration: its settings and those of its pool, its workers, classifier,
 * error page and limits; and what no two applications may share.
 */
#include "lb/config/configuration.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/base/json.h"
#include "common/tree/tree.h"
#include "common/wire/http1_bytes.h"
#include "common/wire/http1_head.h"
#include "lb/limits/limit.h"
#include "lb/limits/rate_rule.h"
#include "lb/rules/header_rules.h"
#include "lb/rules/methods.h"
#include "routing/pool.h"

enum {
    /* An error page is held in memory and sent often. */
    ERROR_PAGE_MAX = 256 * 1024,
    HOST_MAX = 253,
    CHECK_PATH_MAX = 1024,
    /* tree_path: what the tree takes (TREE_PATH_MAX), with room for names below. */
    TREE_PATH_BYTES_MAX = 256,
};

/* ---- hosts ---- */

/* The brackets and the colon are those of IPv6, or of a port. */
static bool host_is_valid(const char *name)
{
    size_t n = strlen(name);

    return n != 0 && n <= HOST_MAX && name[0] != '.' && slice_is_word(slice_of(name), "-_.[]:");
}

static void check_hosts(struct configuration *c, struct application_config *a, struct diag *d)
{
    const struct config_node *list = config_node_at(a->node, "hosts", a->node);

    for (size_t i = 0; i < a->s.hosts.n; ++i) {
        const struct config_node *at = config_item(list, i);
        char *host = a->s.hosts.items[i];
        char *name = strncmp(host, "*.", 2) == 0 ? host + 2 : host;
        size_t n = strlen(name);

        /* Lower case, and without the trailing dot, from here on. */
        for (char *p = name; *p != '\0'; ++p)
            *p = ascii_lower(*p);
        if (n > 0 && name[n - 1] == '.')
            name[--n] = '\0';
        if (!host_is_valid(name))
            config_complain(&c->file, at, d, "hosts: expected a host name or *.DOMAIN");
        for (size_t k = 0; k < i; ++k) {
            if (strcmp(host, a->s.hosts.items[k]) == 0)
                config_complain(&c->file, at, d, "hosts: duplicate entry %s", host);
        }
    }
}

/* ---- lists ---- */

/* Why NAME would have no effect, or too much; NULL: it is valid. */
static const char *header_conflict(struct slice name)
{
    switch (http_field_of(name)) {
    case FIELD_HOP:
    case FIELD_CONNECTION:
    case FIELD_FRAMING:
    case FIELD_OURS:
        return "is not a field of the client's";
    case FIELD_FOR:
    case FIELD_PROTO:
    case FIELD_FORWARDED_HOST:
    case FIELD_REQUEST_ID:
        return "is set by the load balancer in every request";
    case FIELD_COOKIE:
        return "is governed by stored_with_cookies";
    case FIELD_CLIENT_CERTIFICATE:
        return "is governed by stored_with_certificates";
    case FIELD_OTHER:
    case FIELD_FORWARDED:
    case FIELD_CLAIM:
    case FIELD_DATE:
    case FIELD_SERVER:
    case FIELD_REFERER:
    case FIELD_USER_AGENT:
    case FIELD_PRIORITY:
        break;
    }
    return header_names_same(name, SLICE_LIT("via"))
               ? "is set by the load balancer in every request"
               : NULL;
}

const char *private_header_problem(const struct text_list *list, size_t i)
{
    struct slice name = slice_of(list->items[i]);

    if (i == CACHE_NAMES_MAX)
        return "more than 128 names";
    if (name.len > PRIVATE_HEADER_MAX || !http1_is_token(name))
        return "is not a valid header field name (at most 128 characters)";
    for (size_t k = 0; k < i; ++k) {
        if (header_names_same(name, slice_of(list->items[k])))
            return "duplicate name ('_' counts as '-')";
    }
    return header_conflict(name);
}

static const char *server_problem(const struct text_list *l, size_t n)
{
    struct pool_counter_server_address servers[POOL_COUNTER_SERVERS_MAX];

    if (n == POOL_COUNTER_SERVERS_MAX)
        return "too many entries";
    for (size_t i = 0; i <= n; ++i) {
        servers[i].name = slice_of(l->items[i]);
        enum err e = addr_parse(servers[i].name, &servers[i].addr);

        if (e != ERR_OK)
            return config_addr_problem(e);
        if (servers[i].addr.sa.sa_family != AF_UNIX && addr_port(&servers[i].addr) == 0)
            return "a server needs a port";
    }
    for (size_t i = 0; i < n; ++i) {
        if (addr_equal(&servers[i].addr, &servers[n].addr))
            return "is a duplicate";
    }
    return pool_counter_servers_check(servers, n + 1) == ERR_OK
               ? NULL
               : "only visible ASCII is permitted here";
}

size_t limit_servers(const struct text_list *l,
                     struct pool_counter_server_address out[POOL_COUNTER_SERVERS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < l->n && n < POOL_COUNTER_SERVERS_MAX; ++i) {
        out[n].name = slice_of(l->items[i]);
        if (addr_parse(out[n].name, &out[n].addr) == ERR_OK)
            ++n;
    }
    return n;
}

/* The lists with rules of their own. */
static const struct list_rule {
    const char *name;
    size_t offset; /* of its struct text_list in struct app_settings */
    /* As settings_list_check() calls it. NULL: it is a list of networks. */
    const char *(*problem)(const struct text_list *list, size_t i);
    bool required; /* at least one item */
} list_rules[] = {
#define LIST(name, problem, required)                                                              \
    {                                                                                              \
#name, offsetof(struct app_settings, name), problem, required                              \
    }
    LIST(trusted_proxies, NULL, false),
    LIST(route_trace, NULL, false),
    LIST(provider_networks, NULL, false),
    LIST(methods, method_problem, true),
    LIST(private_headers, private_header_problem, false),
    LIST(pool_counter_servers, server_problem, false),
#undef LIST
};

static bool list_is_valid(const struct list_rule *rule, const struct app_settings *s, size_t *at,
                          char why[SETTINGS_WHY_ROOM])
{
    const struct text_list *list = (const void *)((const char *)s + rule->offset);
    struct networks n = {0};

    *at = 0;
    if (rule->required && list->n == 0) {
        snprintf(why, SETTINGS_WHY_ROOM, "%s: at least one is required", rule->name);
        return false;
    }
    if (rule->problem != NULL)
        return settings_list_check(rule->name, list, rule->problem, at, why);
    bool good = config_networks(rule->name, list, &n, at, why);
    networks_fini(&n);
    return good;
}

/* ---- workers ---- */

static void read_standby(struct configuration *c, const struct config_node *node,
                         struct worker_config *w, struct diag *d)
{
    const char *text = w->s.standby;

    if (text == NULL)
        return;
    if (addr_parse(slice_of(text), &w->standby) != ERR_OK ||
        (w->standby.sa.sa_family != AF_UNIX && addr_port(&w->standby) == 0))
        config_complain(&c->file, node, d,
                        "standby: %s: expected IPV4:PORT, [IPV6]:PORT or unix:/path", text);
    else if (w->named)
        config_complain(
            &c->file, node, d,
            "standby: only for a worker listed by address, not by host name or service");
    else if (w->s.resume == RESUME_FROM_STREAM)
        config_complain(
            &c->file, node, d,
            "standby: only for a self-measured worker; an agent replaces its processes itself");
    else if (addr_equal(&w->addr, &w->standby))
        config_complain(&c->file, node, d, "standby: %s is the worker itself", text);
}

static void read_worker(struct configuration *c, struct application_config *a,
                        const struct config_node *node, struct worker_config *out, struct diag *d)
{
    struct worker_settings *s = &out->s;
    unsigned before = d->errors;

    if (node->kind == CONFIG_SCALAR) {
        settings_defaults(&worker_table, s);
        s->address = xslicedup(node->text);
    } else {
        settings_read(&worker_table, &c->file, node, s, NULL, d);
    }
    /* Its choices are inherit, stream, measure: the same order as RESUME_FROM_*. */
    if (s->resume == RESUME_FROM_AUTO)
        s->resume = a->s.resume;
    if (s->srv != NULL) {
        out->named = true;
        if (s->address != NULL)
            config_complain(&c->file, node, d, "workers: either address or srv");
        else if (!server_name_is_valid(s->srv) ||
                 addr_parse_ip(slice_of(s->srv), AF_INET, &out->addr))
            config_complain(&c->file, node, d, "srv: expected _SERVICE._PROTOCOL.NAME");
    } else if (s->address != NULL) {
        enum err e = addr_parse(slice_of(s->address), &out->addr);

        out->named = e == ERR_UNSUPPORTED;
        if (e == ERR_OK) {
            if (out->addr.sa.sa_family != AF_UNIX && addr_port(&out->addr) == 0)
                config_complain(&c->file, node, d, "workers: %s: port is missing", s->address);
            free(s->address);
            s->address = xstrdup(addr_text(&out->addr));
        } else if (!out->named) {
            config_complain(&c->file, node, d, "workers: %s: %s", s->address,
                            config_addr_problem(e));
        }
    } else if (d->errors == before) {
        config_complain(&c->file, node, d, "workers: address or srv is required");
    }
    if (!out->named &&
        (s->addresses != WORKER_ADDRESSES_ALL || s->family != (int)WORKER_FAMILY_AUTO))
        config_complain(&c->file, node, d, "addresses, family: only for a name");
    if (s->version != NULL && strlen(s->version) > VERSION_MAX)
        config_complain(&c->file, node, d, "version: at most %d bytes", VERSION_MAX);
    if (s->server_name != NULL && !server_name_is_valid(s->server_name))
        config_complain(&c->file, node, d, "server_name: expected a host name or an address");
    read_standby(c, node, out, d);
}

/* Adds WHAT to SET; returns false if SET had it. */
static bool add_new(json_t *set, const char *what)
{
    return json_object_get(set, what) == NULL &&
           json_object_set_new_nocheck(set, what, json_true()) == 0;
}

static void read_workers(struct configuration *c, struct application_config *a, struct diag *d)
{
    const struct config_node *list = a->s.workers;

    if (list == NULL) {
        if (a->s.tree == NULL)
            config_complain(&c->file, a->node, d,
                            "application %s: workers are required, or a tree where they register",
                            a->name);
        return;
    }
    if (list->kind != CONFIG_LIST) {
        config_complain(&c->file, list, d, "workers: expected a list of addresses or {address}");
        return;
    }
    if (list->n == 0 && a->s.tree == NULL && c->admin.s.actions_token == NULL)
        config_complain(&c->file, list, d,
                        "workers: at least one is required, or a tree where workers register, or "
                        "an actions_token of admin, with which they are registered by calls");
    a->workers = xcalloc(list->n + 1, sizeof(*a->workers));
    a->nworkers = list->n;
    json_t *seen = json_object();
    for (size_t i = 0; i < list->n; ++i) {
        read_worker(c, a, list->items[i], &a->workers[i], d);
        const struct worker_settings *s = &a->workers[i].s;
        const char *name = s->address != NULL ? s->address : s->srv;

        if (name != NULL && !add_new(seen, name))
            config_complain(&c->file, list->items[i], d, "workers: duplicate entry %s", name);
    }
    json_decref(seen);
}

/* ---- files and the tree ---- */

/* Reads the bounded file PATH (NULL: none) of the setting NAME at the node AT. */
static void read_page(const struct config *c, const struct config_node *at, const char *name,
                      const char *path, struct text *out, struct diag *d)
{
    if (path == NULL)
        return;
    enum err e = file_read(path, ERROR_PAGE_MAX, out);
    if (e != ERR_OK)
        config_complain(c, at, d, "%s: %s: %s", name, path,
                        e == ERR_SYSTEM ? strerror(errno) : err_text(e));
}

static void read_error_pages(const struct config *c, struct application_config *a, struct diag *d)
{
    const struct config_node *at = config_node_at(a->node, "error_page", a->node);
    const struct text_list *files = &a->s.error_page;

    if (files->n > ERROR_PAGES_MAX) {
        config_complain(c, at, d, "error_page: more than %d files", ERROR_PAGES_MAX);
        return;
    }
    for (size_t i = 0; i < files->n; ++i) {
        a->error_pages.n = i + 1;
        a->error_pages.items[i].text = (struct text){0};
        a->error_pages.items[i].type = error_page_type(files->items[i]);
        read_page(c, config_item(at, i), "error_page", files->items[i],
                  &a->error_pages.items[i].text, d);
    }
}

static void check_tree(struct configuration *c, struct application_config *a, struct diag *d)
{
    const char *path = a->s.tree_path;

    tree_check_config(&c->file, config_node_at(a->node, "tree", a->node), a->s.tree,
                      config_node_at(a->node, "zookeeper_auth", a->node), a->s.zookeeper_auth, d);
    if (path == NULL)
        return;
    if (path[0] != '/' || strlen(path) > TREE_PATH_BYTES_MAX || strstr(path, "//") != NULL ||
        strstr(path, "/.") != NULL || path[strlen(path) - 1] == '/') {
        config_complain(&c->file, config_node_at(a->node, "tree_path", a->node), d,
                        "tree_path: expected a path such as /shop, of at most %d bytes",
                        TREE_PATH_BYTES_MAX);
    } else if (a->s.tree == NULL) {
        config_complain(&c->file, config_node_at(a->node, "tree_path", a->node), d,
                        "tree_path: needs the setting tree");
    }
}

/* ---- limits ---- */

static void read_limits(struct configuration *c, struct application_config *a, struct diag *d)
{
    const struct config_node *all = a->s.limits;
    struct limit_settings match;
    struct limit limit;
    struct limit_problem p;

    if (all == NULL || !limit_map_check(&c->file, all, "limits", LIMITS_MAX, d))
        return;
    a->limits.items = xcalloc(all->n + 1, sizeof(*a->limits.items));
    a->limits.n = all->n;
    for (size_t i = 0; i < all->n; ++i) {
        const struct config_node *map = all->items[i];
        struct limit_config *out = &a->limits.items[i];
        unsigned before = d->errors;

        out->name = xslicedup(all->keys[i]->text);
        out->origins = xcalloc(limit_table.n + match_table.n, sizeof(*out->origins));
        limit_name_check(&c->file, all->keys[i], "limits", all->keys[i]->text, d);
        settings_read(&limit_table, &c->file, map, &out->s, out->origins, d);
        /* Scope MATCH goes into the same struct: read separately, then moved row by row. */
        settings_read(&match_table, &c->file, out->s.match, &match, out->origins + limit_table.n,
                      d);
        for (size_t k = 0; k < match_table.n; ++k)
            settings_take(&match_table.rows[k], &match, &out->s);
        settings_fini(&match_table, &match);
        read_page(&c->file, limit_row_node(map, "page"), "page", out->s.page, &out->page, d);
        if (d->errors != before)
            continue;
        if (!limit_compile(out->name, &out->s, &limit, &p)) {
            config_complain(&c->file, limit_row_node(map, p.row), d, "%s", p.why);
            continue;
        }
        limit_fini(&limit);
        if (out->s.where == LIMIT_DAEMON && a->s.pool_counter_servers.n == 0)
            config_complain(&c->file, limit_row_node(map, "where"), d,
                            "where: daemon, and the application has no pool_counter_servers");
    }
}

/* ---- the rules across fields ---- */

/* Whether PATH is valid in a request line: "/..." of visible ASCII characters. */
static bool check_path_is_valid(const char *path)
{
    size_t n = strnlen(path, CHECK_PATH_MAX + 1);

    if (n > CHECK_PATH_MAX || path[0] != '/')
        return false;
    for (size_t i = 0; i < n; ++i) {
        if (path[i] <= ' ' || path[i] > '~' || path[i] == '#')
            return false;
    }
    return true;
}

bool app_settings_check(const struct app_settings *s, uint64_t response_buffers_total,
                        char why[SETTINGS_WHY_ROOM])
{
    if (s->response_buffer_bytes > response_buffers_total) {
        snprintf(why, SETTINGS_WHY_ROOM,
                 "response_buffer (%llu bytes) is above response_buffers_total (%llu bytes)",
                 (unsigned long long)s->response_buffer_bytes,
                 (unsigned long long)response_buffers_total);
        return false;
    }
    if (s->health_check_path != NULL && !check_path_is_valid(s->health_check_path)) {
        snprintf(
            why, SETTINGS_WHY_ROOM,
            "health_check_path: expected a path that begins with /, of visible ASCII characters");
        return false;
    }
    if (s->health_check_host != NULL && (!host_is_valid(s->health_check_host) ||
                                         !http_authority_valid(slice_of(s->health_check_host)))) {
        snprintf(why, SETTINGS_WHY_ROOM, "health_check_host: expected a host name, or HOST:PORT");
        return false;
    }
    if (s->resolve_min_interval_ms > s->resolve_interval_ms) {
        snprintf(why, SETTINGS_WHY_ROOM,
                 "resolve_min_interval (%llu ms) is above resolve_interval (%llu ms)",
                 (unsigned long long)s->resolve_min_interval_ms,
                 (unsigned long long)s->resolve_interval_ms);
        return false;
    }
    if (!pool_hash_balances((uint64_t)s->hash_balance_factor)) {
        snprintf(why, SETTINGS_WHY_ROOM,
                 "hash_balance_factor is %lld: must be above 100, or 0 for no bound",
                 (long long)s->hash_balance_factor);
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(list_rules); ++i) {
        size_t at;

        if (!list_is_valid(&list_rules[i], s, &at, why))
            return false;
    }
    return true;
}

/* ---- the whole ---- */

void application_config_read(struct configuration *c, const char *name, struct config_node *map,
                             struct application_config *out, struct diag *d)
{
    const struct config_node host = {
        .kind = CONFIG_SCALAR, .line = map->line, .column = map->column, .text = SLICE_LIT("host")};
    char why[SETTINGS_WHY_ROOM];
    struct app_settings *s = &out->s;
    struct app_settings pool;
    unsigned before = d->errors;
    bool tls_required = false;
    size_t at;

    out->name = xstrdup(name);
    out->node = map;
    out->origins = xcalloc(app_rows(), sizeof(*out->origins));
    /* It is a directory's name in state_dir and a label in metrics. */
    limit_name_check(&c->file, map, "applications", slice_of(name), d);
    settings_read(&application_table, &c->file, map, s, out->origins, d);
    /* Scope POOL goes into the same struct: read separately, then moved row by row. */
    settings_read(&pool_table, &c->file, s->pool, &pool, out->origins + application_table.n, d);
    for (size_t i = 0; i < pool_table.n; ++i)
        settings_take(&pool_table.rows[i], &pool, s);
    check_hosts(c, out, d);
    out->path = slice_of(s->path);
    while (out->path.len > 0 && out->path.p[out->path.len - 1] == '/')
        --out->path.len;
    if (s->path == NULL || s->path[0] != '/' || strpbrk(s->path, "?#% \t") != NULL ||
        strstr(s->path, "//") != NULL)
        config_complain(&c->file, config_node_at(out->node, "path", out->node), d,
                        "path: expected a prefix such as /shop, without ? # %% and blanks");
    check_tree(c, out, d);
    for (size_t i = 0; i < ARRAY_LEN(list_rules); ++i) {
        if (!list_is_valid(&list_rules[i], s, &at, why))
            config_complain(
                &c->file, config_item(config_node_at(out->node, list_rules[i].name, out->node), at),
                d, "%s", why);
    }
    read_workers(c, out, d);
    for (size_t i = 0; i < out->nworkers; ++i)
        tls_required = tls_required || out->workers[i].s.tls == WORKER_TLS_ON;
    tls_workers_read(&c->file, s->worker_tls, tls_required, &out->worker_tls, d);
    out->classifier = classifier_create(&c->file, s->classifier != NULL ? s->classifier : &host, d);
    read_error_pages(&c->file, out, d);
    read_limits(c, out, d);
    out->rates = rate_rules_read(&c->file, s->rates, d);
    out->headers = header_rules_read(&c->file, s->headers, d);
    if (d->errors == before && !app_settings_check(s, c->program.response_buffers_total_bytes, why))
        config_complain(&c->file, map, d, "application %s: %s", name, why);
}

void worker_configs_free(struct worker_config *workers, size_t n)
{
    for (size_t i = 0; i < n; ++i)
        settings_fini(&worker_table, &workers[i].s);
    free(workers);
}

void application_config_fini(struct application_config *a)
{
    worker_configs_free(a->workers, a->nworkers);
    tls_workers_fini(&a->worker_tls);
    classifier_destroy(a->classifier);
    error_pages_fini(&a->error_pages);
    for (size_t i = 0; i < a->limits.n; ++i) {
        limit_settings_fini(&a->limits.items[i].s);
        text_fini(&a->limits.items[i].page);
        free(a->limits.items[i].origins);
        free(a->limits.items[i].name);
    }
    free(a->limits.items);
    rate_rules_unref(a->rates);
    header_rules_unref(a->headers);
    if (a->origins != NULL)
        app_settings_fini(&a->s);
    free(a->origins);
    free(a->name);
}

/* ---- across applications ---- */

static void app_config_claim(const struct configuration *c, const struct application_config *a,
                             json_t *seen, const char *host, struct diag *d)
{
    char *key = xasprintf("%s%.*s/", host, SLICE_FMT(a->path));

    if (!add_new(seen, key))
        config_complain(&c->file, a->node, d,
                        "application %s: another application has the same host and path already "
                        "(%s)",
                        a->name, key);
    free(key);
}

void application_configs_check(const struct configuration *c, struct diag *d)
{
    json_t *seen = json_object();

    for (size_t i = 0; i < c->napplications; ++i) {
        const struct application_config *a = &c->applications[i];

        for (size_t k = 0; k < a->s.hosts.n; ++k)
            app_config_claim(c, a, seen, a->s.hosts.items[k], d);
        if (a->s.is_default || a->s.hosts.n == 0)
            app_config_claim(c, a, seen, "default", d);
    }
    json_decref(seen);
}
