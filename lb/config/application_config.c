/* SPDX-License-Identifier: Apache-2.0
 *
 * One application of a configuration: its settings and those of its pool, its workers, classifier
 * and error page; and what no two applications may share.
 */
#include "lb/config/configuration.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/base/map.h"
#include "common/tree/tree.h"
#include "lb/config/private_headers.h"
#include "lb/limits/rate_rule.h"
#include "lb/rules/header_rules.h"
#include "lb/rules/methods.h"
#include "routing/pool_rows.h"

enum {
    /* A name is a directory's name in state_dir and a label in metrics. */
    NAME_MAX_BYTES = 64,
    /* An error page is kept in memory and sent often. */
    ERROR_PAGE_MAX = 256 * 1024,
    HOST_MAX = 253,
    CHECK_PATH_MAX = 1024,
    /* tree_path: what the tree takes (TREE_PATH_MAX), with room for names below. */
    TREE_PATH_BYTES_MAX = 256,
};

/* ---- name, hosts, path ---- */

static bool good_name(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n <= NAME_MAX_BYTES && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

/* Where a complaint about KEY of this application points. */
static const struct config_node *place(const struct application_config *a, const char *key)
{
    const struct config_node *at = config_get(a->node, key);

    return at != NULL ? at : a->node;
}

/* A name of letters, digits, - _ . and [ ] : of IPv6; or that behind "*.". Lower case from here on.
 */
static bool normalise_host(char *host)
{
    char *name = strncmp(host, "*.", 2) == 0 ? host + 2 : host;
    size_t n = strlen(name);

    for (char *p = name; *p != '\0'; ++p)
        *p = ascii_lower(*p);
    if (n > 0 && name[n - 1] == '.')
        name[--n] = '\0';
    return n > 0 && n <= HOST_MAX && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.[]:") == n;
}

static void check_hosts(struct configuration *c, struct application_config *a, struct diag *d)
{
    const struct config_node *list = place(a, "hosts");

    for (size_t i = 0; i < a->s.hosts.n; ++i) {
        bool listed = list->kind == CONFIG_LIST && i < list->n;
        const struct config_node *at = listed ? list->items[i] : list;

        if (!normalise_host(a->s.hosts.items[i]))
            config_complain(&c->file, at, d, "hosts: expected a host name or *.DOMAIN");
        for (size_t k = 0; k < i; ++k) {
            if (strcmp(a->s.hosts.items[i], a->s.hosts.items[k]) == 0)
                config_complain(&c->file, at, d, "hosts: duplicate entry %s", a->s.hosts.items[i]);
        }
    }
}

static void check_path(struct configuration *c, struct application_config *a, struct diag *d)
{
    a->path = slice_of(a->s.path);
    while (a->path.len > 0 && a->path.p[a->path.len - 1] == '/')
        --a->path.len;
    if (a->s.path == NULL || a->s.path[0] != '/' || strpbrk(a->s.path, "?#% \t") != NULL ||
        strstr(a->s.path, "//") != NULL)
        config_complain(&c->file, place(a, "path"), d,
                        "path: expected a prefix such as /shop, without ? # %% and blanks");
}

/* WHY is about item I of the list NAME. */
static void complain_of_item(struct configuration *c, const struct application_config *a,
                             const char *name, size_t i, const char *why, struct diag *d)
{
    const struct config_node *list = place(a, name);
    bool listed = list->kind == CONFIG_LIST && i < list->n;

    config_complain(&c->file, listed ? list->items[i] : list, d, "%s", why);
}

static void check_networks(struct configuration *c, const struct application_config *a,
                           const char *name, const struct text_list *list, struct diag *d)
{
    struct networks n = {0};
    char why[SETTINGS_WHY_ROOM];
    size_t at = 0;

    if (!config_networks(name, list, &n, &at, why))
        complain_of_item(c, a, name, at, why, d);
    networks_fini(&n);
}

static void check_lists(struct configuration *c, struct application_config *a, struct diag *d)
{
    char why[SETTINGS_WHY_ROOM];
    size_t at = 0;

    check_networks(c, a, "trusted_proxies", &a->s.trusted_proxies, d);
    check_networks(c, a, "route_receipt", &a->s.route_receipt, d);
    check_networks(c, a, "provider_networks", &a->s.provider_networks, d);
    if (!methods_check(&a->s.methods, &at, why))
        complain_of_item(c, a, "methods", at, why, d);
    if (!private_headers_check(&a->s.private_headers, &at, why))
        complain_of_item(c, a, "private_headers", at, why, d);
}

/* ---- workers ---- */

/* WORKER's choices are inherit, stream, measure: the same order as RESUME_FROM_*. */
static int source_of(int own, const struct application_config *a)
{
    return own != RESUME_FROM_AUTO ? own : a->s.resume;
}

static void read_worker_address(struct configuration *c, const struct config_node *node,
                                struct worker_config *w, struct diag *d)
{
    enum err e = addr_parse(slice_of(w->text), &w->addr);
    char canonical[ADDR_TEXT_MAX];

    w->named = e == ERR_UNSUPPORTED;
    if (w->named)
        return;
    if (e != ERR_OK) {
        config_complain(&c->file, node, d, "workers: %s: %s", w->text,
                        e == ERR_TOO_LARGE ? "the path of a unix socket may have at most 107 bytes"
                                           : "expected HOST:PORT, [IPV6]:PORT or unix:/path");
        return;
    }
    if (w->addr.sa.sa_family != AF_UNIX && addr_port(&w->addr) == 0)
        config_complain(&c->file, node, d, "workers: %s: port is missing", w->text);
    free(w->text);
    w->text = xstrdup(addr_format(&w->addr, canonical));
}

static void read_standby(struct configuration *c, const struct config_node *node, const char *text,
                         struct worker_config *w, struct diag *d)
{
    if (addr_parse(slice_of(text), &w->standby) != ERR_OK ||
        (w->standby.sa.sa_family != AF_UNIX && addr_port(&w->standby) == 0))
        config_complain(&c->file, node, d,
                        "standby: %s: expected IPV4:PORT, [IPV6]:PORT or unix:/path", text);
    else if (w->named)
        config_complain(&c->file, node, d,
                        "standby: only for a worker listed by address, not by host name");
    else if (w->source == RESUME_FROM_STREAM)
        config_complain(
            &c->file, node, d,
            "standby: only for a self-measured worker; an agent replaces its processes itself");
    else if (addr_equal(&w->addr, &w->standby))
        config_complain(&c->file, node, d, "standby: %s is the worker itself", text);
}

static void read_worker(struct configuration *c, struct application_config *a,
                        const struct config_node *node, struct worker_config *out, struct diag *d)
{
    struct worker_settings s;
    unsigned before = d->errors;

    if (node->kind == CONFIG_SCALAR) {
        settings_defaults(&worker_table, &s);
        s.address = xslicedup(node->text);
    } else {
        settings_read(&worker_table, &c->file, node, &s, NULL, d);
    }
    out->text = s.address;
    out->version = s.version;
    s.address = NULL;
    s.version = NULL;
    out->server_name = s.server_name;
    s.server_name = NULL;
    out->tls = s.tls;
    out->source = source_of(s.resume, a);
    out->max_connections = s.max_connections;
    out->max_tunnels = s.max_tunnels;
    out->concurrency = (unsigned)s.concurrency;
    if (out->text != NULL)
        read_worker_address(c, node, out, d);
    else if (d->errors == before)
        config_complain(&c->file, node, d, "workers: address is required");
    if (out->version != NULL && strlen(out->version) > VERSION_MAX)
        config_complain(&c->file, node, d, "version: at most %d bytes", VERSION_MAX);
    if (out->server_name != NULL && !server_name_is_valid(out->server_name))
        config_complain(&c->file, node, d, "server_name: expected a host name or an address");
    if (s.standby != NULL)
        read_standby(c, node, s.standby, out, d);
    settings_fini(&worker_table, &s);
}

struct seen {
    struct map_node node;
    const char *what;
};

/* Whether WHAT is new to SET, which keeps it (borrowed). */
static bool see(struct map *set, const char *what)
{
    if (map_find(set, what, strlen(what)) != NULL)
        return false;

    struct seen *s = xcalloc(1, sizeof(*s));
    s->what = what;
    map_add(set, &s->node, what, strlen(what));
    return true;
}

static void forget(struct map *set)
{

    map_for_each_safe (struct seen, s, set, node) {
        map_remove(set, &s->node);
        free(s);
    }
}

static void read_workers(struct configuration *c, struct application_config *a, struct diag *d)
{
    const struct config_node *list = a->s.workers;
    struct map seen = {0};

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
    if (list->n == 0 && a->s.tree == NULL)
        config_complain(&c->file, list, d,
                        "workers: at least one is required, or a tree where workers register");
    a->workers = xcalloc(list->n + 1, sizeof(*a->workers));
    a->nworkers = list->n;
    for (size_t i = 0; i < list->n; ++i) {
        read_worker(c, a, list->items[i], &a->workers[i], d);
        if (a->workers[i].text != NULL && !see(&seen, a->workers[i].text))
            config_complain(&c->file, list->items[i], d, "workers: duplicate entry %s",
                            a->workers[i].text);
    }
    forget(&seen);
}

static void read_worker_tls(struct configuration *c, struct application_config *a, struct diag *d)
{
    bool wanted = false;

    for (size_t i = 0; i < a->nworkers; ++i)
        wanted = wanted || a->workers[i].tls == WORKER_TLS_ON;
    tls_workers_read(&c->file, a->s.worker_tls, wanted, &a->worker_tls, d);
}

/* ---- the rest ---- */

static void read_classifier(struct configuration *c, struct application_config *a, struct diag *d)
{
    struct config_node host = {.kind = CONFIG_SCALAR,
                               .line = a->node->line,
                               .column = a->node->column,
                               .text = SLICE_LIT("host")};

    a->classifier =
        classifier_create(&c->file, a->s.classifier != NULL ? a->s.classifier : &host, d);
}

void config_read_page(const struct config *c, const struct config_node *at, const char *name,
                      const char *path, struct text *out, struct diag *d)
{
    if (path == NULL)
        return;
    enum err e = file_read(path, ERROR_PAGE_MAX, out);
    if (e != ERR_OK)
        config_complain(c, at, d, "%s: %s: %s", name, path,
                        e == ERR_SYSTEM ? strerror(errno) : err_text(e));
}

static void check_tree(struct configuration *c, struct application_config *a, struct diag *d)
{
    const char *path = a->s.tree_path;

    tree_check_config(&c->file, place(a, "tree"), a->s.tree, place(a, "zookeeper_auth"),
                      a->s.zookeeper_auth, d);
    if (path == NULL)
        return;
    if (path[0] != '/' || strlen(path) > TREE_PATH_BYTES_MAX || strstr(path, "//") != NULL ||
        strstr(path, "/.") != NULL || path[strlen(path) - 1] == '/') {
        config_complain(&c->file, place(a, "tree_path"), d,
                        "tree_path: expected a path such as /shop, of at most %d bytes",
                        TREE_PATH_BYTES_MAX);
    } else if (a->s.tree == NULL) {
        config_complain(&c->file, place(a, "tree_path"), d, "tree_path: needs the setting tree");
    }
}

/*
 * Settings of scope POOL are in the same struct: they are read into a separate one, then copied row
 * by row.
 */
static void read_pool(struct configuration *c, struct application_config *a, struct diag *d)
{
    struct app_settings pool;

    settings_read(&pool_table, &c->file, a->s.pool, &pool, a->origins + application_table.n, d);
    for (size_t i = 0; i < pool_table.n; ++i)
        settings_take(&pool_table.rows[i], &pool, &a->s);
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

static bool networks_good(const char *name, const struct text_list *list,
                          char why[SETTINGS_WHY_ROOM])
{
    struct networks n = {0};
    size_t at;
    bool good = config_networks(name, list, &n, &at, why);

    networks_fini(&n);
    return good;
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
    if (!pool_hash_balances((uint64_t)s->hash_balance_factor)) {
        snprintf(why, SETTINGS_WHY_ROOM,
                 "hash_balance_factor is %lld: must be above 100, or 0 for no bound",
                 (long long)s->hash_balance_factor);
        return false;
    }
    size_t at;

    return networks_good("trusted_proxies", &s->trusted_proxies, why) &&
           networks_good("route_receipt", &s->route_receipt, why) &&
           networks_good("provider_networks", &s->provider_networks, why) &&
           methods_check(&s->methods, &at, why) &&
           private_headers_check(&s->private_headers, &at, why) &&
           limit_servers_check(&s->pool_counter_servers, &at, why);
}

/* ---- the whole ---- */

void application_config_read(struct configuration *c, const char *name, struct config_node *map,
                             struct application_config *out, struct diag *d)
{
    char why[SETTINGS_WHY_ROOM];
    unsigned before = d->errors;

    out->name = xstrdup(name);
    out->node = map;
    out->origins = xcalloc(app_rows(), sizeof(*out->origins));
    if (!good_name(name)) {
        config_complain(&c->file, map, d,
                        "applications: a name consists of letters, digits, . _ - (at most %d, not "
                        "beginning with a dot)",
                        NAME_MAX_BYTES);
    }
    settings_read(&application_table, &c->file, map, &out->s, out->origins, d);
    read_pool(c, out, d);
    check_hosts(c, out, d);
    check_path(c, out, d);
    check_tree(c, out, d);
    check_lists(c, out, d);
    read_workers(c, out, d);
    read_worker_tls(c, out, d);
    read_classifier(c, out, d);
    config_read_page(&c->file, place(out, "error_page"), "error_page", out->s.error_page,
                     &out->error_page, d);
    limit_configs_read(c, out, d);
    out->rates = rate_rules_read(&c->file, out->s.rates, d);
    out->headers = header_rules_read(&c->file, out->s.headers, d);
    if (d->errors == before &&
        !app_settings_check(&out->s, c->program.response_buffers_total_bytes, why))
        config_complain(&c->file, map, d, "application %s: %s", name, why);
}

void application_config_fini(struct application_config *a)
{
    for (size_t i = 0; i < a->nworkers; ++i) {
        free(a->workers[i].text);
        free(a->workers[i].version);
        free(a->workers[i].server_name);
    }
    free(a->workers);
    tls_workers_fini(&a->worker_tls);
    classifier_destroy(a->classifier);
    text_fini(&a->error_page);
    limit_configs_fini(&a->limits);
    rate_rules_unref(a->rates);
    header_rules_unref(a->headers);
    if (a->origins != NULL)
        app_settings_fini(&a->s);
    free(a->origins);
    free(a->name);
}

/* ---- across applications ---- */

static bool is_default(const struct application_config *a)
{
    return a->s.is_default || a->s.hosts.n == 0;
}

static void want(const struct configuration *c, const struct application_config *a,
                 struct map *seen, char *key, struct diag *d)
{
    if (see(seen, key))
        return;
    config_complain(&c->file, a->node, d,
                    "application %s: another application has the same host and path (%s)", a->name,
                    key);
}

void application_configs_check(const struct configuration *c, struct diag *d)
{
    struct map seen = {0};
    size_t nkeys = 0;
    size_t n = 0;
    char **keys;

    for (size_t i = 0; i < c->napplications; ++i)
        nkeys += c->applications[i].s.hosts.n + 1;
    keys = xcalloc(nkeys + 1, sizeof(*keys));
    for (size_t i = 0; i < c->napplications; ++i) {
        const struct application_config *a = &c->applications[i];

        for (size_t k = 0; k < a->s.hosts.n; ++k) {
            keys[n] = xasprintf("%s%.*s/", a->s.hosts.items[k], SLICE_FMT(a->path));
            want(c, a, &seen, keys[n++], d);
        }
        if (is_default(a)) {
            keys[n] = xasprintf("default%.*s/", SLICE_FMT(a->path));
            want(c, a, &seen, keys[n++], d);
        }
    }
    forget(&seen);
    while (n > 0)
        free(keys[--n]);
    free(keys);
}
