/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading continues after an error, so that all errors are reported at once.
 */
#include "poolcounter/configuration.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/program/privileges.h"

static const struct setting_row poolcounter_rows[] = {
#define PROGRAM(...) SETTINGS_ROW(struct poolcounter_settings, __VA_ARGS__)
#include "poolcounter/settings.def"
};
static const struct setting_row admin_rows[] = {
#define ADMIN(...) SETTINGS_ROW(struct admin_settings, __VA_ARGS__)
#include "common/program/admin_settings.def"
};
static const struct setting_row type_rows[] = {
#define TYPE(...) SETTINGS_ROW(struct type_settings, __VA_ARGS__)
#include "poolcounter/settings.def"
};

#define TABLE(...) SETTINGS_TABLE_OF(poolcounter_tables, POOLCOUNTER_TABLES, __VA_ARGS__)
TABLE(poolcounter, "PROGRAM", "the top of the file", struct poolcounter_settings);
TABLE(admin, "ADMIN", "admin", struct admin_settings);
TABLE(type, "TYPE", "types.NAME", struct type_settings);

const struct settings_table *const poolcounter_tables[POOLCOUNTER_TABLES] = {
    &poolcounter_table, &admin_table, &type_table};

static void read_listen(struct poolcounter_config *c, struct diag *d)
{
    const struct config_node *root = c->yaml.root;
    const struct config_node *at = config_node_at(root, "listen", root);
    const struct text_list *list = &c->s.listen;

    if (!config_octal(c->s.listen_mode, &c->listen_mode))
        config_complain(&c->yaml, config_node_at(root, "listen_mode", root), d,
                        "listen_mode: octal digits, such as 660");
    if (list->n == 0 || list->n > LISTENERS_MAX) {
        config_complain(&c->yaml, at, d, "listen: expected 1 to %d addresses", LISTENERS_MAX);
        return;
    }
    for (size_t i = 0; i < list->n; ++i) {
        struct addr *a = &c->listen[c->nlisten++];

        if (config_read_addr(&c->yaml, config_item(at, i), "listen", list->items[i], a, d))
            config_addr_check_free(&c->yaml, at, i, "listen", a, "listen", c->listen, i, d);
    }
}

static void read_types(struct poolcounter_config *c, struct diag *d)
{
    const struct config_node *map = c->s.types;

    if (map == NULL)
        return;
    if (map->kind != CONFIG_MAP || map->n > TYPES_CONFIGURED_MAX) {
        config_complain(&c->yaml, map, d,
                        "types: expected at most %d lines \"TYPE: {slots: N, workers: N}\"",
                        TYPES_CONFIGURED_MAX);
        return;
    }
    c->types = xcalloc(map->n + 1, sizeof(*c->types));
    for (size_t i = 0; i < map->n; ++i) {
        const struct config_node *key = map->keys[i];
        struct slice name = key->text;
        bool valid = name.len != 0 && name.len <= TYPE_NAME_MAX;
        struct type_settings s;

        settings_read(&type_table, &c->yaml, map->items[i], &s, NULL, d);
        /* The part of a key before its first ':' has no blanks, line ends or NULs. */
        for (size_t k = 0; k < name.len; ++k)
            valid = valid && memchr(" \n:", name.p[k], sizeof(" \n:")) == NULL;
        if (!valid)
            config_complain(&c->yaml, key, d,
                            "types: a type is 1 to %d bytes, with no blank and no ':'",
                            TYPE_NAME_MAX);
        c->types[c->ntypes++] = (struct type_limit){
            .name = xslicedup(name),
            .limits = {.workers = (uint32_t)s.workers, .slots = (uint32_t)s.slots},
        };
        settings_fini(&type_table, &s);
    }
}

struct poolcounter_config *configuration_read(const char *file, const struct slice *text,
                                              struct diag *d)
{
    static const struct slice empty = {"", 0};
    struct poolcounter_config *c = xcalloc(1, sizeof(*c));
    unsigned errors_before = d->errors;
    struct privileges rights;

    if (file == NULL) {
        file = "defaults";
        text = &empty;
    }
    if (text != NULL ? config_parse(file, *text, &c->yaml, d) : config_read(file, &c->yaml, d)) {
        settings_read(&poolcounter_table, &c->yaml, c->yaml.root, &c->s, NULL, d);
        read_listen(c, d);
        user_rights_check(&c->yaml, c->s.user, c->s.group, &rights, d);
        admin_config_read(&admin_table, &c->yaml, c->s.admin, &c->admin, d);
        admin_config_check_free(&c->admin, &c->yaml, c->s.admin, "listen", c->listen, c->nlisten,
                                d);
        read_types(c, d);
    }
    if (d->errors == errors_before)
        return c;
    configuration_destroy(c);
    return NULL;
}

void configuration_destroy(void *config)
{
    struct poolcounter_config *c = config;

    if (c == NULL)
        return;
    for (size_t i = 0; i < c->ntypes; ++i)
        free(c->types[i].name);
    free(c->types);
    admin_config_fini(&admin_table, &c->admin);
    settings_fini(&poolcounter_table, &c->s);
    config_fini(&c->yaml);
    free(c);
}

/* ---- the command line ---- */

enum { DEFAULT_PORT = 7531, PORT_MAX = 65535 };

/* An address alone, as the original takes it; or one that has a port, or a path. */
static bool add_address(struct command_line *out, const char *address, unsigned port)
{
    struct in6_addr ip6;
    bool is_ip6 = inet_pton(AF_INET6, address, &ip6) == 1;
    struct addr *a = &out->listen[out->nlisten];

    if (out->nlisten == LISTENERS_MAX)
        return false;
    if (is_ip6 || addr_parse(slice_of(address), a) != ERR_OK) {
        char *text = xasprintf(is_ip6 ? "[%s]:%u" : "%s:%u", address, port);
        enum err e = addr_parse(slice_of(text), a);

        free(text);
        if (e != ERR_OK)
            return false;
    }
    ++out->nlisten;
    /* "::" serves both families, as in the original. */
    return !is_ip6 || !IN6_IS_ADDR_UNSPECIFIED(&ip6) || add_address(out, "0.0.0.0", port);
}

bool command_line_finish(void *line)
{
    struct command_line *l = line;
    uint16_t port = l->has_port ? l->port : DEFAULT_PORT;

    for (size_t i = 0; i < l->naddresses; ++i) {
        if (add_address(l, l->addresses[i], port))
            continue;
        fprintf(stderr, "Address `%s` is not valid to listen on.\n", l->addresses[i]);
        return false;
    }
    return l->naddresses != 0 || !l->has_port || add_address(l, "127.0.0.1", port);
}

bool command_line_option(void *line, int letter, const char *value)
{
    struct command_line *l = line;
    uint64_t port;

    if (letter == 'l' && l->naddresses < LISTENERS_MAX) {
        l->addresses[l->naddresses++] = value;
        return true;
    }
    if (letter != 'p' || !parse_u64(slice_of(value), PORT_MAX, &port))
        return false;
    l->port = (uint16_t)port;
    l->has_port = true;
    return true;
}
