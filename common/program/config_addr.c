/* SPDX-License-Identifier: Apache-2.0 */
#include "common/program/config_addr.h"

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
