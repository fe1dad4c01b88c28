/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/config/slot_address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/text.h"

enum { WHY_ROOM = 160 };

static enum err refuse(enum err e, char why[WHY_ROOM], const char *reason)
{
    snprintf(why, WHY_ROOM, "%s", reason);
    return e;
}

static char *unix_text(const char *pattern, unsigned n)
{
    const char *plus = strchr(pattern, '+');

    if (plus == NULL)
        return xstrdup(pattern);
    return xasprintf("%.*s%u%s", (int)(plus - pattern), pattern, n, plus + 1);
}

static enum err parse_unix(struct slice text, unsigned nslots, struct slot_address *out,
                           char why[WHY_ROOM])
{
    struct addr last;
    size_t plus = slice_find(text, '+');

    if (plus == SIZE_MAX && nslots > 1)
        return refuse(ERR_SYNTAX, why, "several slots need a '+' in it, for the slot's number");
    if (plus != SIZE_MAX &&
        slice_find((struct slice){text.p + plus + 1, text.len - plus - 1}, '+') != SIZE_MAX)
        return refuse(ERR_SYNTAX, why, "has more than one '+'");
    char *pattern = xslicedup(text);
    char *longest = unix_text(pattern, nslots > 0 ? nslots - 1 : 0);
    enum err e = addr_parse(slice_of(longest), &last);

    free(longest);
    if (e == ERR_OK && last.un.sun_path[0] != '/')
        e = ERR_SYNTAX;
    if (e != ERR_OK) {
        free(pattern);
        return refuse(e, why,
                      e == ERR_TOO_LARGE ? "is too long for the path of a unix socket"
                                         : "is not unix: and an absolute path");
    }
    *out = (struct slot_address){.unix_pattern = pattern, .numbered = plus != SIZE_MAX};
    return ERR_OK;
}

enum err slot_address_parse(struct slice text, unsigned nslots, struct slot_address *out,
                            char why[WHY_ROOM])
{
    struct slot_address a = {0};

    /* Text after the NUL would not be part of the path. */
    if (slice_find(text, '\0') != SIZE_MAX)
        return refuse(ERR_SYNTAX, why, "has a NUL in it");
    if (slice_starts(text, SLICE_LIT("unix:")))
        return parse_unix(text, nslots, out, why);
    a.numbered = slice_ends(text, SLICE_LIT("+"));
    if (a.numbered)
        --text.len;
    enum err e = addr_parse(text, &a.base);
    if (e == ERR_UNSUPPORTED)
        return refuse(e, why, "must be a numeric address: slots listen on it");
    if (e != ERR_OK)
        return refuse(e, why, "expected 127.0.0.1:9000+, [::1]:9000+ or unix:/run/slot+.sock");
    if (addr_is_wildcard(&a.base))
        return refuse(ERR_UNSUPPORTED, why,
                      "load balancers could not connect to it: use one of this host's addresses");
    if (!a.numbered && nslots > 1)
        return refuse(ERR_SYNTAX, why, "several slots need a '+' at its end");
    if (addr_port(&a.base) + (nslots > 0 ? nslots - 1 : 0) > 65535)
        return refuse(ERR_RANGE, why, "has not enough ports for all slots");
    *out = a;
    return ERR_OK;
}

void slot_address_fini(struct slot_address *a)
{
    free(a->unix_pattern);
    *a = (struct slot_address){0};
}

unsigned slot_address_room(const struct slot_address *a)
{
    unsigned room = APP_SLOTS_MAX;

    if (!a->numbered)
        return 1;
    if (a->unix_pattern == NULL) {
        unsigned ports = addr_port(&a->base) != 0 ? 65536 - addr_port(&a->base) : APP_SLOTS_MAX;

        return ports < room ? ports : room;
    }
    /* Fewer digits may fit where more do not. */
    for (; room > 1; room /= 10) {
        char *text = unix_text(a->unix_pattern, room - 1);
        struct addr last;
        enum err e = addr_parse(slice_of(text), &last);

        free(text);
        if (e == ERR_OK)
            break;
    }
    return room;
}

void slot_address_of(const struct slot_address *a, unsigned n, struct addr *out)
{
    if (a->unix_pattern != NULL) {
        char *text = unix_text(a->unix_pattern, n);
        enum err e = addr_parse(slice_of(text), out);

        free(text);
        ASSERT(e == ERR_OK);
        return;
    }
    *out = a->base;
    if (!a->numbered || addr_port(&a->base) == 0)
        return;
    in_port_t port = htons((uint16_t)(addr_port(&a->base) + n));
    if (out->sa.sa_family == AF_INET)
        out->in.sin_port = port;
    else
        out->in6.sin6_port = port;
}
