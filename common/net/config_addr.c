/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/config_addr.h"

#include <stdlib.h>

const char *config_addr_problem(enum err e)
{
    switch (e) {
    case ERR_UNSUPPORTED:
        return "a host name cannot be used here; give a numeric address";
    case ERR_TOO_LARGE:
        return "the path of a unix socket may have at most 107 bytes";
    default:
        return "expected HOST:PORT, [IPV6]:PORT or unix:/path";
    }
}

const struct config_node *config_item(const struct config_node *at, size_t i)
{
    return at != NULL && at->kind == CONFIG_LIST && i < at->n ? at->items[i] : at;
}

static bool read_admin_address(const struct config *file, const char *text,
                               const struct config_node *at, bool has_token, struct addr *out,
                               struct diag *d)
{
    enum err e = addr_parse(slice_of(text), out);

    if (e != ERR_OK) {
        config_complain(file, at, d, "admin: %s: %s", text, config_addr_problem(e));
        return false;
    }
    if (!addr_is_loopback(out) && !has_token)
        config_complain(file, at, d, "admin: %s is beyond loopback, which needs a token", text);
    return true;
}

struct addr *config_admin_addresses(const struct config *file, const struct config_node *node,
                                    const struct text_list *texts, bool has_token, size_t *n,
                                    struct diag *d)
{
    const struct config_node *at = config_get(node, "address");
    struct addr *addrs = xcalloc(texts->n + 1, sizeof(*addrs));

    if (node->kind == CONFIG_MAP && texts->n == 0)
        config_complain(file, node, d, "admin: address is required");
    *n = 0;
    for (size_t i = 0; i < texts->n; ++i) {
        const struct config_node *item = config_item(at, i);

        *n += read_admin_address(file, texts->items[i], item != NULL ? item : node, has_token,
                                 addrs + *n, d);
    }
    return addrs;
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
