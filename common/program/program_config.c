/* SPDX-License-Identifier: Apache-2.0 */
#include "common/program/program_config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/log.h"

const char *config_addr_problem(enum err e)
{
    switch (e) {
    case ERR_UNSUPPORTED:
        return "a host name is not permitted here; use a numeric address";
    case ERR_TOO_LARGE:
        return "the path of a unix socket may have at most 107 bytes";
    default:
        return "expected HOST:PORT, [IPV6]:PORT or unix:/path";
    }
}

bool config_read_addr(const struct config *file, const struct config_node *at, const char *what,
                      const char *text, struct addr *out, struct diag *d)
{
    enum err e = addr_parse(slice_of(text), out);
    const char *at_port = text;
    uint64_t port;

    if (e == ERR_OK)
        return true;
    /* ":PORT", "*:PORT" or "PORT", with which other programs listen on all addresses. */
    at_port += strncmp(at_port, "*:", 2) == 0;
    at_port += *at_port == ':';
    if (parse_u64(slice_of(at_port), UINT16_MAX, &port)) {
        config_complain(file, at, d,
                        "%s: %s: address is missing: 0.0.0.0:%" PRIu64
                        " is all of IPv4, [::]:%" PRIu64 " all of IPv6, 127.0.0.1:%" PRIu64
                        " this machine alone",
                        what, text, port, port, port);
    } else {
        config_complain(file, at, d, "%s: %s: %s", what, text, config_addr_problem(e));
    }
    return false;
}

const struct config_node *config_item(const struct config_node *at, size_t i)
{
    return at != NULL && at->kind == CONFIG_LIST && i < at->n ? at->items[i] : at;
}

const struct config_node *config_node_at(const struct config_node *map, const char *name,
                                         const struct config_node *otherwise)
{
    const struct config_node *at = map != NULL ? config_get(map, name) : NULL;

    return at != NULL ? at : otherwise;
}

void config_warn_of_restart(const struct settings_table *t, const void *old, const void *new,
                            const char *but)
{
    for (size_t i = 0; i < t->n; ++i) {
        const struct setting_row *row = &t->rows[i];

        if (row->type != SETTING_NODE &&
            (row->when == SETTING_BOOT || row->when == SETTING_LOCAL) &&
            !settings_same(row, old, new) && (but == NULL || strcmp(row->name, but) != 0))
            log_warn(NULL, "config-restart-required", "setting=%s", row->name);
    }
}

void config_addr_check_free(const struct config *file, const struct config_node *at, size_t i,
                            const char *what, const struct addr *a, const char *other,
                            const struct addr *others, size_t n, struct diag *d)
{
    for (size_t k = 0; k < n; ++k) {
        if (addr_overlaps(a, &others[k])) {
            config_complain(file, config_item(at, i), d, "%s: %s is in use by %s: %s", what,
                            addr_text(a), other, addr_text(&others[k]));
            return;
        }
    }
}

bool config_octal(int64_t written, unsigned *mode)
{
    unsigned value = 0;
    unsigned place = 1;

    for (; written > 0; written /= 10, place *= 8) {
        if (written % 10 > 7)
            return false;
        value += (unsigned)(written % 10) * place;
    }
    *mode = value;
    return true;
}

/* ---- admin ---- */

void admin_config_read(const struct settings_table *table, const struct config *file,
                       const struct config_node *node, struct admin_config *out, struct diag *d)
{
    const struct config_node *at = config_node_at(node, "address", node);
    const struct text_list *texts = &out->s.address;

    *out = (struct admin_config){.n = 0};
    settings_read(table, file, node, &out->s, NULL, d);
    if (node == NULL)
        return;
    if (out->s.token != NULL && out->s.token[0] == '\0')
        config_complain(file, node, d, "admin: token must not be empty");
    if (out->s.actions_token != NULL && out->s.actions_token[0] == '\0')
        config_complain(file, node, d, "admin: actions_token must not be empty");
    if (node->kind == CONFIG_MAP && texts->n == 0)
        config_complain(file, node, d, "admin: address is required");
    out->addresses = xcalloc(texts->n + 1, sizeof(*out->addresses));
    for (size_t i = 0; i < texts->n; ++i) {
        const struct config_node *item = config_item(at, i);
        struct addr *a = &out->addresses[out->n];

        if (!config_read_addr(file, item, "admin", texts->items[i], a, d))
            continue;
        if (!addr_is_loopback(a) && out->s.token == NULL)
            config_complain(file, item, d, "admin: %s is beyond loopback, which needs a token",
                            texts->items[i]);
        config_addr_check_free(file, item, 0, "admin", a, "admin", out->addresses, out->n, d);
        ++out->n;
    }
}

void admin_config_check_free(const struct admin_config *c, const struct config *file,
                             const struct config_node *node, const char *other,
                             const struct addr *others, size_t n, struct diag *d)
{
    for (size_t i = 0; i < c->n; ++i)
        config_addr_check_free(file, config_node_at(node, "address", node), i, "admin",
                               &c->addresses[i], other, others, n, d);
}

bool admin_config_same_addresses(const struct admin_config *a, const struct admin_config *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; ++i) {
        if (!addr_equal(&a->addresses[i], &b->addresses[i]))
            return false;
    }
    return true;
}

void admin_config_fini(const struct settings_table *table, struct admin_config *c)
{
    free(c->addresses);
    settings_fini(table, &c->s);
}
