/* SPDX-License-Identifier: Apache-2.0 */
#include "common/program/admin_config.h"

#include <stdlib.h>

#include "common/program/config_addr.h"

static bool read_address(const struct config *file, const char *text, const struct config_node *at,
                         bool has_token, struct addr *out, struct diag *d)
{
    enum err e = addr_parse(slice_of(text), out);

    if (e != ERR_OK) {
        config_addr_complain(file, at, "admin", text, e, d);
        return false;
    }
    if (!addr_is_loopback(out) && !has_token)
        config_complain(file, at, d, "admin: %s is beyond loopback, which needs a token", text);
    return true;
}

static void read_addresses(const struct config *file, const struct config_node *node,
                           struct admin_config *c, struct diag *d)
{
    const struct config_node *at = config_get(node, "address");
    const struct text_list *texts = &c->s.address;

    if (node->kind == CONFIG_MAP && texts->n == 0)
        config_complain(file, node, d, "admin: address is required");
    c->addresses = xcalloc(texts->n + 1, sizeof(*c->addresses));
    for (size_t i = 0; i < texts->n; ++i) {
        const struct config_node *item = config_item(at, i);
        struct addr *a = &c->addresses[c->n];

        if (item == NULL)
            item = node;
        if (!read_address(file, texts->items[i], item, c->s.token != NULL, a, d))
            continue;
        config_addr_check_free(file, item, 0, "admin", a, "admin", c->addresses, c->n, d);
        ++c->n;
    }
}

void admin_config_read(const struct settings_table *table, const struct config *file,
                       const struct config_node *node, struct admin_config *out, struct diag *d)
{
    *out = (struct admin_config){.n = 0};
    settings_read(table, file, node, &out->s, NULL, d);
    if (node == NULL)
        return;
    if (out->s.token != NULL && out->s.token[0] == '\0')
        config_complain(file, node, d, "admin: token must not be empty");
    if (out->s.actions_token != NULL && out->s.actions_token[0] == '\0')
        config_complain(file, node, d, "admin: actions_token must not be empty");
    read_addresses(file, node, out, d);
}

void admin_config_check_free(const struct admin_config *c, const struct config *file,
                             const struct config_node *node, const char *other,
                             const struct addr *others, size_t n, struct diag *d)
{
    const struct config_node *at = c->n != 0 ? config_get(node, "address") : NULL;

    for (size_t i = 0; i < c->n; ++i)
        config_addr_check_free(file, at != NULL ? at : node, i, "admin", &c->addresses[i], other,
                               others, n, d);
}

bool admin_config_same_addresses(const struct admin_config *a, const struct admin_config *b)
{
    bool same = a->n == b->n;

    for (size_t i = 0; same && i < a->n; ++i)
        same = addr_equal(&a->addresses[i], &b->addresses[i]);
    return same;
}

void admin_config_fini(const struct settings_table *table, struct admin_config *c)
{
    free(c->addresses);
    settings_fini(table, &c->s);
}
