/* SPDX-License-Identifier: Apache-2.0
 *
 * The top of the file, listeners and the admin address; applications are application_config.c's.
 *
 * With a single application its keys may be at the top. The top map is then split by the tables of
 * known keys, and each part is read separately.
 */
#include "lb/config/configuration.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "lb/rules/advertise.h"

#include "common/program/privileges.h"

/* As many as a sensible host has addresses; each costs a descriptor per loop. */
enum { LISTENS_MAX = 64 };

bool config_networks(const char *name, const struct text_list *list, struct networks *out,
                     size_t *at, char why[SETTINGS_WHY_ROOM])
{
    for (size_t i = 0; i < list->n; ++i) {
        enum err e = networks_add(out, slice_of(list->items[i]));

        if (e == ERR_OK)
            continue;
        *at = i;
        if (e == ERR_TOO_LARGE)
            snprintf(why, SETTINGS_WHY_ROOM, "%s: more than %d networks", name, NETWORKS_MAX);
        else
            snprintf(why, SETTINGS_WHY_ROOM, "%s: %.60s: %s", name, list->items[i],
                     e == ERR_RANGE ? "has address bits beyond its prefix"
                                    : "expected a network, an address, \"loopback\" or \"unix\"");
        return false;
    }
    return true;
}

/* ---- the parts of the top map ---- */

/* The entries that only an application has, or the others, in a map that borrows them. */
static struct config_node part_of(const struct config_node *root, bool application)
{
    struct config_node part = *root;

    part.n = 0;
    part.keys = xcalloc(root->n + 1, sizeof(struct config_node *));
    part.items = xcalloc(root->n + 1, sizeof(struct config_node *));
    for (size_t i = 0; i < root->n; ++i) {
        struct slice key = root->keys[i]->text;

        if (application != (settings_find(&program_table, key) == NULL &&
                            settings_find(&application_table, key) != NULL))
            continue;
        part.keys[part.n] = root->keys[i];
        part.items[part.n++] = root->items[i];
    }
    return part;
}

static void part_fini(struct config_node *part)
{
    free(part->keys);
    free(part->items);
}

/* ---- settings of the program ---- */

static void read_threads(struct configuration *c, struct diag *d)
{
    struct slice threads = slice_of(c->program.threads);
    cpu_set_t allowed;
    uint64_t n = 0;

    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        CPU_SET(0, &allowed);
    const char *why = cpu_affinity_parse(slice_of(c->program.cpu_affinity), &allowed, &c->affinity);
    if (why != NULL)
        config_complain(&c->file, config_get(c->file.root, "cpu_affinity"), d, "cpu_affinity: %s",
                        why);
    unsigned cpus = c->affinity.n != 0 ? c->affinity.n : (unsigned)CPU_COUNT(&allowed);
    c->nloops = cpus < LOOPS_MAX ? cpus : LOOPS_MAX;
    if (slice_is(threads, "auto"))
        return;
    if (parse_u64(threads, LOOPS_MAX, &n) && n >= 1)
        c->nloops = (unsigned)n;
    else
        config_complain(&c->file, config_get(c->file.root, "threads"), d,
                        "threads: expected auto or 1 to %d", LOOPS_MAX);
}

static const char *name_server_problem(const struct text_list *list, size_t i)
{
    struct slice text = slice_of(list->items[i]);
    struct addr a;

    if (addr_parse_ip(text, AF_INET, &a) || addr_parse_ip(text, AF_INET6, &a))
        return NULL;
    if (addr_parse(text, &a) == ERR_OK && a.sa.sa_family != AF_UNIX && addr_port(&a) != 0)
        return NULL;
    return "expected IPV4, IPV4:PORT, IPV6 or [IPV6]:PORT";
}

static const char *peer_problem(const struct text_list *list, size_t i)
{
    struct addr a;

    if (i >= 15)
        return "more than 15";
    if (addr_parse(slice_of(list->items[i]), &a) != ERR_OK ||
        (a.sa.sa_family != AF_UNIX && addr_port(&a) == 0) || addr_is_wildcard(&a))
        return "expected IPV4:PORT or [IPV6]:PORT of an admin address";
    return NULL;
}

static void check_program(const struct configuration *c, struct diag *d)
{
    const struct program_settings *s = &c->program;
    const struct config_node *root = c->file.root;
    const struct text_list *fields = &s->access_log_fields;
    char why[SETTINGS_WHY_ROOM];
    size_t at;

    if (!settings_list_check("resolvers", &s->resolvers, name_server_problem, &at, why))
        config_complain(&c->file, config_item(config_get(root, "resolvers"), at), d, "%s", why);
    if (!settings_list_check("peers", &s->peers, peer_problem, &at, why))
        config_complain(&c->file, config_item(config_get(root, "peers"), at), d, "%s", why);
    if (s->peers.n != 0 && c->admin.n == 0)
        config_complain(&c->file, config_get(root, "peers"), d,
                        "peers: there is no admin address at which they can read");
    for (size_t i = 0; i < s->advertise.n; ++i) {
        if (!advertise_valid(s->advertise.items[i])) {
            config_complain(&c->file, config_get(root, "advertise"), d,
                            "advertise: %s: expected HOST:PORT, HOST or :PORT, where others can "
                            "connect",
                            s->advertise.items[i]);
        }
    }
    config_check_directory(&c->file, config_get(root, "state_dir"), "state_dir", s->state_dir, true,
                           d);
    config_check_directory(&c->file, config_get(root, "spill_dir"), "spill_dir", s->spill_dir,
                           false, d);
    config_check_directory(&c->file, config_get(root, "response_spill_dir"), "response_spill_dir",
                           s->response_spill_dir, false, d);
    config_check_output(&c->file, config_get(root, "access_log"), "access_log", s->access_log, d);
    for (size_t i = 0; i < fields->n; ++i) {
        if (access_field_find(slice_of(fields->items[i])) != ACCESS_FIELDS)
            continue;
        config_complain(&c->file, config_item(config_get(root, "access_log_fields"), i), d,
                        "access_log_fields: unknown field %.60s", fields->items[i]);
        break;
    }
}

/* ---- listeners ---- */

/*
 * Only proxies of ours may name any address as the client's. Loopback and unix sockets are
 * reachable for local users only. For all other listeners only the operator knows the proxies, so
 * there cannot be a safe default (trusted_proxies is an application's setting, and may come from
 * the tree).
 */
static void read_proxy_from(struct configuration *c, const struct config_node *node,
                            const struct listen_settings *s, struct listen_config *out,
                            struct diag *d)
{
    char why[SETTINGS_WHY_ROOM];
    size_t at;

    out->proxied = s->proxy_protocol;
    if (s->proxy_from.n != 0 && !s->proxy_protocol) {
        config_complain(&c->file, node, d, "proxy_from has no effect without proxy_protocol: true");
        return;
    }
    if (!config_networks("proxy_from", &s->proxy_from, &out->proxy_from, &at, why))
        config_complain(&c->file, node, d, "%s", why);
    if (s->proxy_from.n != 0 || !s->proxy_protocol || out->addr.len == 0)
        return;
    out->proxy_from.loopback = out->proxy_from.unix_peers = true;
    if (!addr_is_loopback(&out->addr)) {
        config_complain(&c->file, node, d,
                        "proxy_protocol on %s, which others reach, needs proxy_from: the networks "
                        "of the proxies, as any other peer could claim any client address",
                        s->address);
    }
}

static void read_listen(struct configuration *c, const struct config_node *node,
                        struct listen_config *out, struct diag *d)
{
    struct listen_settings s;
    unsigned before = d->errors;

    if (node->kind == CONFIG_SCALAR) {
        settings_defaults(&listen_table, &s);
        s.address = xslicedup(node->text);
    } else {
        settings_read(&listen_table, &c->file, node, &s, NULL, d);
    }
    out->text = xstrdup(s.address);
    out->http2 = s.http2 && s.tls != NULL;
    out->defer_accept = s.defer_accept;
    if (s.address == NULL && d->errors == before)
        config_complain(&c->file, node, d, "listen: address is required");
    if (s.address != NULL)
        (void)config_read_addr(&c->file, node, "listen", s.address, &out->addr, d);
    if (s.tls != NULL)
        out->tls = tls_config_read(&c->file, s.tls, s.http2, d);
    else if (s.http2 && node->kind == CONFIG_MAP && config_get(node, "http2") != NULL)
        config_complain(&c->file, node, d, "http2 requires tls on this listener");
    if (!config_octal(s.mode, &out->mode))
        config_complain(&c->file, node, d, "mode: octal digits, such as 660");
    read_proxy_from(c, node, &s, out, d);
    out->redirect_https = (unsigned)s.redirect_https;
    if (s.redirect_https != 0 && s.tls != NULL)
        config_complain(&c->file, node, d,
                        "redirect_https is for a plain listener; this one has tls");
    if (s.mode != 0 && out->addr.len > 0 && out->addr.sa.sa_family != AF_UNIX)
        config_complain(&c->file, node, d, "mode is for unix sockets only");
    settings_fini(&listen_table, &s);
}

static void read_listens(struct configuration *c, struct diag *d)
{
    const struct config_node *list = c->program.listen;

    if (list == NULL || (list->kind == CONFIG_LIST && list->n == 0)) {
        config_complain(&c->file, list != NULL ? list : c->file.root, d,
                        "listen: at least one address is required");
        return;
    }
    if (list->kind != CONFIG_LIST || list->n > LISTENS_MAX) {
        config_complain(&c->file, list, d, "listen: expected a list of at most %d entries",
                        LISTENS_MAX);
        return;
    }
    c->listens = xcalloc(list->n, sizeof(*c->listens));
    c->nlistens = list->n;
    for (size_t i = 0; i < list->n; ++i) {
        read_listen(c, list->items[i], &c->listens[i], d);
        for (size_t k = 0; k < i; ++k)
            config_addr_check_free(&c->file, list, i, "listen", &c->listens[i].addr, "listen",
                                   &c->listens[k].addr, 1, d);
    }
}

/* ---- applications ---- */

static void read_applications(struct configuration *c, const struct config_node *top,
                              struct diag *d)
{
    const struct config_node *map = c->program.applications;

    for (size_t i = 0; i < top->n; ++i)
        config_complain(&c->file, top->keys[i], d,
                        "%.*s belongs in an application if there is \"applications\"",
                        SLICE_FMT(top->keys[i]->text));
    if (map->kind != CONFIG_MAP || map->n == 0) {
        config_complain(&c->file, map, d, "applications: expected a map of NAME: {...}");
        return;
    }
    c->applications = xcalloc(map->n, sizeof(*c->applications));
    c->napplications = map->n;
    for (size_t i = 0; i < map->n; ++i) {
        char *name = xslicedup(map->keys[i]->text);

        application_config_read(c, name, map->items[i], &c->applications[i], d);
        free(name);
    }
}

bool configuration_read(const char *file, struct configuration *out, struct diag *d)
{
    struct configuration c = {0};
    struct privileges rights;
    unsigned before = d->errors;

    if (!config_read(file, &c.file, d))
        return false;
    struct config_node program = part_of(c.file.root, false);
    struct config_node top = part_of(c.file.root, true);
    c.program_origins = xcalloc(program_table.n, sizeof(*c.program_origins));
    settings_read(&program_table, &c.file, &program, &c.program, c.program_origins, d);
    read_threads(&c, d);
    read_listens(&c, d);
    admin_config_read(&admin_table, &c.file, c.program.admin, &c.admin, d);
    for (size_t i = 0; i < c.nlistens; ++i)
        admin_config_check_free(&c.admin, &c.file, c.program.admin, "listen", &c.listens[i].addr, 1,
                                d);
    check_program(&c, d);
    user_rights_check(&c.file, c.program.user, c.program.group, &rights, d);
    if (c.program.applications != NULL) {
        read_applications(&c, &top, d);
    } else {
        c.applications = xcalloc(1, sizeof(*c.applications));
        c.napplications = 1;
        application_config_read(&c, "default", &top, &c.applications[0], d);
    }
    application_configs_check(&c, d);
    for (size_t i = 0; i < c.napplications; ++i)
        c.applications[i].node = NULL;
    part_fini(&program);
    part_fini(&top);
    if (d->errors != before) {
        configuration_fini(&c);
        return false;
    }
    *out = c;
    return true;
}

struct access_options access_options_of(const struct program_settings *s)
{
    struct access_options o = {
        .format = (enum access_format)s->access_log_format,
        .sample = s->access_log_sample,
        .keep_errors = s->access_log_keep_errors,
    };

    for (size_t i = 0; i < s->access_log_fields.n; ++i)
        o.fields |= (uint64_t)1 << access_field_find(slice_of(s->access_log_fields.items[i]));
    if (s->access_log_fields.n == 0)
        o.fields = ACCESS_ALL_FIELDS;
    return o;
}

void configuration_fini(struct configuration *c)
{
    for (size_t i = 0; i < c->nlistens; ++i) {
        free(c->listens[i].text);
        tls_listener_destroy(c->listens[i].tls);
        networks_fini(&c->listens[i].proxy_from);
    }
    free(c->listens);
    admin_config_fini(&admin_table, &c->admin);
    for (size_t i = 0; i < c->napplications; ++i)
        application_config_fini(&c->applications[i]);
    free(c->applications);
    settings_fini(&program_table, &c->program);
    free(c->program_origins);
    config_fini(&c->file);
    memset(c, 0, sizeof(*c));
}
