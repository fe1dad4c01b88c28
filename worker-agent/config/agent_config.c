/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the top level of the file and `admin`; app_config.c reads the applications. Reading
 * continues after an error, so that all errors are reported at once.
 */
#include "worker-agent/config/agent_config.h"

#include <stdlib.h>
#include <unistd.h>

#include "worker-agent/config/supervisor_rights.h"

#include "common/program/privileges.h"
#include "common/program/program_config.h"
#include "common/tree/tree.h"

enum {
    HOST_NAME_ROOM = 256,                 /* for gethostname(): more than Linux has */
    TICKET_ROTATION_MS = 8 * 3600 * 1000, /* as a load balancer's by default */
};

/* ---- tls ---- */

/* SUB's lines, each with the place of `tls`. */
static void complain_all(struct agent_config *c, const struct diag *sub, struct diag *d)
{
    struct slice rest = slice_of(sub->text != NULL ? sub->text : "");

    while (rest.len > 0) {
        struct slice line = slice_cut(&rest, '\n');

        if (line.len > 0)
            config_complain(&c->yaml, c->s.tls, d, "tls: %.*s", SLICE_FMT(line));
    }
}

static void create_tls(struct agent_config *c, const struct tls_settings *s, struct diag *d)
{
    struct diag sub = {0};
    const struct tls_certificate_files files = {.certificate = s->certificate, .key = s->key};
    const struct tls_listener_options o = {
        .certificates = &files,
        .ncertificates = 1,
        .client_ca = s->client_ca,
        .clients = (enum client_certificate_mode)s->client_verify,
        .tls13_only = s->min_version == TLS_VERSION_13,
        .ciphers = s->ciphers,
        .ciphersuites = s->ciphersuites,
        .ticket_rotation_ms = TICKET_ROTATION_MS,
    };

    c->tls = tls_listener_create(&o, &sub);
    if (c->tls == NULL)
        complain_all(c, &sub, d);
    diag_fini(&sub);
}

static void read_tls(struct agent_config *c, struct diag *d)
{
    struct tls_settings s;
    unsigned before = d->errors;

    if (c->s.tls == NULL)
        return;
    settings_read(&tls_table, &c->yaml, c->s.tls, &s, NULL, d);
    if (s.certificate == NULL && d->errors == before)
        config_complain(&c->yaml, c->s.tls, d, "tls: certificate is required");
    if (s.key == NULL && d->errors == before)
        config_complain(&c->yaml, c->s.tls, d, "tls: key is required");
    if ((s.client_ca != NULL) != (s.client_verify != CLIENT_CERTIFICATE_OFF) && d->errors == before)
        config_complain(&c->yaml, c->s.tls, d, "tls: client_ca and client_verify go together");
    if (d->errors == before)
        create_tls(c, &s, d);
    settings_fini(&tls_table, &s);
}

/* ---- the top ---- */

/* Where a setting of the top stands, for complaints. */
static const struct config_node *top_node(const struct agent_config *c, const char *name)
{
    const struct config_node *at = config_get(c->yaml.root, name);

    return at != NULL ? at : c->yaml.root;
}

static void read_allow(struct agent_config *c, struct diag *d)
{
    /* Access through a unix socket is controlled by the permissions of its file. */
    c->allow.unix_peers = true;
    for (size_t i = 0; i < c->s.allow.n; ++i) {
        const char *text = c->s.allow.items[i];
        enum err e = networks_add(&c->allow, slice_of(text));

        if (e == ERR_RANGE)
            config_complain(&c->yaml, top_node(c, "allow"), d,
                            "allow: %s has address bits beyond its prefix", text);
        else if (e == ERR_TOO_LARGE)
            config_complain(&c->yaml, top_node(c, "allow"), d, "allow: more than %d networks",
                            NETWORKS_MAX);
        else if (e != ERR_OK)
            config_complain(&c->yaml, top_node(c, "allow"), d,
                            "allow: \"%s\" is not a network, an address or \"loopback\"", text);
    }
}

static void find_host_path(struct agent_config *c, struct diag *d)
{
    char host[HOST_NAME_ROOM] = "";

    if (c->s.host_path != NULL) {
        c->host_path = xstrdup(c->s.host_path);
        if (c->host_path[0] != '/' || c->host_path[1] == '\0')
            config_complain(&c->yaml, top_node(c, "host_path"), d,
                            "host_path: must begin with '/', and name a node");
    } else if (gethostname(host, sizeof(host) - 1) == 0 && app_config_good_name(slice_of(host))) {
        c->host_path = xasprintf("/hosts/%s", host);
    }
}

static void check_top(struct agent_config *c, struct diag *d)
{
    const char *dir = c->s.state_dir;

    if (dir == NULL)
        config_complain(&c->yaml, c->yaml.root, d, "state_dir: is required");
    else if (dir[0] != '/')
        config_complain(&c->yaml, top_node(c, "state_dir"), d,
                        "state_dir: must be an absolute path");
    else if (strlen(dir) > STATE_DIR_MAX)
        config_complain(&c->yaml, top_node(c, "state_dir"), d,
                        "state_dir: at most %d bytes, so that unix sockets in it fit",
                        STATE_DIR_MAX);
    else
        config_check_directory(&c->yaml, config_get(c->yaml.root, "state_dir"), "state_dir", dir,
                               true, d);
    config_check_output(&c->yaml, config_get(c->yaml.root, "trace_log"), "trace_log",
                        c->s.trace_log, d);
    if (c->s.applications == NULL || c->s.applications->n == 0)
        config_complain(&c->yaml, c->yaml.root, d, "applications: at least one is required");
    tree_check_config(&c->yaml, top_node(c, "tree"), c->s.tree, top_node(c, "zookeeper_auth"),
                      c->s.zookeeper_auth, d);
    find_host_path(c, d);
    read_allow(c, d);
}

/* ---- applications ---- */

static void check_budget(const struct agent_config *c, struct diag *d)
{
    int64_t always = 0;

    for (size_t i = 0; i < c->napps; ++i)
        always += c->apps[i]->attach != NULL ? 0 : c->apps[i]->s.min_processes;
    if (c->s.max_processes != 0 && always > c->s.max_processes)
        config_complain(&c->yaml, top_node(c, "max_processes"), d,
                        "max_processes: %lld is less than the %lld of all min_processes together",
                        (long long)c->s.max_processes, (long long)always);
}

struct seen_address {
    struct addr addr;
    const struct app_config *app;
};

static int compare_seen(const void *a, const void *b)
{
    char x[ADDR_TEXT_MAX];
    char y[ADDR_TEXT_MAX];

    return strcmp(addr_format(&((const struct seen_address *)a)->addr, x),
                  addr_format(&((const struct seen_address *)b)->addr, y));
}

/* All that the application listens at. Returns how many. */
static size_t see_addresses(const struct app_config *app, struct seen_address *seen)
{
    size_t n = 0;

    for (unsigned k = 0; app->has_address && k < app->nslots; ++k)
        slot_address_of(&app->address, k, &seen[n++].addr);
    for (size_t k = 0; k < app->nlisten_addrs; ++k)
        seen[n++].addr = app->listen_addrs[k];
    for (size_t k = 0; k < n; ++k)
        seen[k].app = app;
    return n;
}

/* Two that listen at one address would take each other's requests. */
static void check_addresses(const struct agent_config *c, struct diag *d)
{
    size_t total = 0;

    for (size_t i = 0; i < c->napps; ++i)
        total += c->apps[i]->nslots + c->apps[i]->nlisten_addrs;
    struct seen_address *seen = xcalloc(total + 1, sizeof(*seen));
    size_t n = 0;
    for (size_t i = 0; i < c->napps; ++i)
        n += see_addresses(c->apps[i], seen + n);
    for (size_t i = 0; i < n; ++i)
        admin_config_check_free(&c->admin, &c->yaml, c->s.admin, seen[i].app->name, &seen[i].addr,
                                1, d);
    qsort(seen, n, sizeof(*seen), compare_seen);
    for (size_t i = 1; i < n; ++i) {
        char text[ADDR_TEXT_MAX];
        const struct addr *a = &seen[i].addr;

        if (compare_seen(&seen[i - 1], &seen[i]) != 0 ||
            (a->sa.sa_family != AF_UNIX && addr_port(a) == 0))
            continue;
        config_complain(&c->yaml, c->s.applications, d, "applications: %s and %s both listen at %s",
                        seen[i - 1].app->name, seen[i].app->name, addr_format(a, text));
    }
    free(seen);
}

/* In one node the two would take each other's settings: both have a max_processes. */
static void check_host_path(const struct agent_config *c, struct diag *d)
{
    for (size_t i = 0; c->host_path != NULL && i < c->napps; ++i) {
        if (strcmp(c->apps[i]->path, c->host_path) == 0)
            config_complain(&c->yaml, top_node(c, "host_path"), d,
                            "host_path: %s is the node of %s too", c->host_path, c->apps[i]->name);
    }
}

/* The users that processes may have, where the agent has one itself. */
static void find_users(struct agent_config *c, struct diag *d)
{
    bool fits;

    if (!c->own.wanted || c->own.uid == 0)
        return;
    c->users = xcalloc(1, sizeof(*c->users));
    fits = supervisor_rights_add(c->users, &c->own);
    for (size_t i = 0; i < c->napps && fits; ++i)
        fits = !c->apps[i]->user.wanted || supervisor_rights_add(c->users, &c->apps[i]->user);
    if (!fits)
        config_complain(&c->yaml, c->s.applications, d,
                        "applications: more than %d users, with an agent that has one itself",
                        SUPERVISOR_USERS_MAX);
}

static void read_apps(struct agent_config *c, struct diag *d)
{
    const struct config_node *map = c->s.applications;
    const struct app_config_top top = {.yaml = &c->yaml,
                                       .own = &c->own,
                                       .user = c->s.user,
                                       .max_processes = (unsigned)c->s.max_processes};
    unsigned errors_before = d->errors;

    if (map == NULL)
        return;
    if (map->kind != CONFIG_MAP || map->n > APPS_MAX) {
        config_complain(&c->yaml, map, d,
                        "applications: expected at most %d lines \"name: settings\"", APPS_MAX);
        return;
    }
    c->apps = xcalloc(map->n + 1, sizeof(struct app_config *));
    for (size_t i = 0; i < map->n; ++i) {
        struct app_config *app = app_config_read(&top, map->keys[i], map->items[i], d);

        if (agent_config_app(c, app->name) != NULL)
            config_complain(&c->yaml, map->keys[i], d, "applications: duplicate entry %s",
                            app->name);
        c->apps[c->napps++] = app;
    }
    if (d->errors != errors_before)
        return;
    check_budget(c, d);
    find_users(c, d);
    check_host_path(c, d);
    check_addresses(c, d);
}

struct agent_config *agent_config_read(const char *file, struct diag *d)
{
    struct agent_config *c = xcalloc(1, sizeof(*c));
    unsigned errors_before = d->errors;

    if (!config_read(file, &c->yaml, d)) {
        free(c);
        return NULL;
    }
    c->origins = xcalloc(agent_table.n, sizeof(*c->origins));
    settings_read(&agent_table, &c->yaml, c->yaml.root, &c->s, c->origins, d);
    check_top(c, d);
    user_rights_check(&c->yaml, c->s.user, c->s.group, &c->own, d);
    read_tls(c, d);
    admin_config_read(&admin_table, &c->yaml, c->s.admin, &c->admin, d);
    read_apps(c, d);
    if (d->errors == errors_before)
        return c;
    agent_config_destroy(c);
    return NULL;
}

void agent_config_destroy(struct agent_config *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->napps; ++i)
        app_config_destroy(c->apps[i]);
    free(c->apps);
    free(c->users);
    networks_fini(&c->allow);
    tls_listener_destroy(c->tls);
    free(c->host_path);
    free(c->origins);
    admin_config_fini(&admin_table, &c->admin);
    settings_fini(&agent_table, &c->s);
    config_fini(&c->yaml);
    free(c);
}

const struct app_config *agent_config_app(const struct agent_config *c, const char *name)
{
    for (size_t i = 0; i < c->napps; ++i) {
        if (strcmp(c->apps[i]->name, name) == 0)
            return c->apps[i];
    }
    return NULL;
}
