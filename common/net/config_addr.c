/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/config_addr.h"

#include <inttypes.h>
#include <stdlib.h>

/* PORT of ":PORT", "*:PORT" or "PORT", with which other programs listen on all addresses. */
static bool is_port_alone(struct slice text, uint64_t *port)
{
    if (slice_starts(text, SLICE_LIT("*:")))
        text = (struct slice){text.p + 1, text.len - 1};
    if (slice_starts(text, SLICE_LIT(":")))
        text = (struct slice){text.p + 1, text.len - 1};
    return parse_u64(text, UINT16_MAX, port);
}

static const char *problem_of(enum err e)
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

void config_addr_complain(const struct config *file, const struct config_node *at, const char *what,
                          const char *text, enum err e, struct diag *d)
{
    uint64_t port;

    if (is_port_alone(slice_of(text), &port)) {
        config_complain(file, at, d,
                        "%s: %s: has no address: 0.0.0.0:%" PRIu64 " is all of IPv4, [::]:%" PRIu64
                        " all of IPv6, 127.0.0.1:%" PRIu64 " this machine alone",
                        what, text, port, port, port);
    } else {
        config_complain(file, at, d, "%s: %s: %s", what, text, problem_of(e));
    }
}

const struct config_node *config_item(const struct config_node *at, size_t i)
{
    return at != NULL && at->kind == CONFIG_LIST && i < at->n ? at->items[i] : at;
}

void config_addr_check_free(const struct config *file, const struct config_node *at, size_t i,
                            const char *what, const struct addr *a, const char *other,
                            const struct addr *others, size_t n, struct diag *d)
{
    char text[ADDR_TEXT_MAX];
    char taken[ADDR_TEXT_MAX];

    for (size_t k = 0; k < n; ++k) {
        if (addr_overlaps(a, &others[k])) {
            config_complain(file, config_item(at, i), d, "%s: %s is in use by %s: %s", what,
                            addr_format(a, text), other, addr_format(&others[k], taken));
            return;
        }
    }
}

static bool read_admin_address(const struct config *file, const char *text,
                               const struct config_node *at, bool has_token, struct addr *out,
                               struct diag *d)
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

        if (!read_admin_address(file, texts->items[i], item != NULL ? item : node, has_token,
                                addrs + *n, d))
            continue;
        config_addr_check_free(file, item != NULL ? item : node, 0, "admin", addrs + *n, "admin",
                               addrs, *n, d);
        ++*n;
    }
    return addrs;
}

void config_admin_check_free(const struct config *file, const struct config_node *node,
                             const struct addr *addrs, size_t n, const char *other,
                             const struct addr *others, size_t nothers, struct diag *d)
{
    const struct config_node *at = n != 0 ? config_get(node, "address") : NULL;

    for (size_t i = 0; i < n; ++i)
        config_addr_check_free(file, at != NULL ? at : node, i, "admin", &addrs[i], other, others,
                               nothers, d);
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
