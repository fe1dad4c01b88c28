/* SPDX-License-Identifier: Apache-2.0 */
#include "poolcounter/command_line.h"

#include <arpa/inet.h>
#include <stdio.h>

enum { DEFAULT_PORT = 7531, PORT_MAX = 65535 };

static void add_in(struct command_line *out, struct in_addr host, uint16_t port)
{
    struct addr a = {.len = sizeof(a.in)};

    a.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = host};
    out->listen[out->nlisten++] = a;
}

static void add_in6(struct command_line *out, struct in6_addr host, uint16_t port)
{
    struct addr a = {.len = sizeof(a.in6)};

    a.in6 =
        (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = host};
    out->listen[out->nlisten++] = a;
}

/* An address alone, as the original takes it; or one that has a port, or a path. */
static bool add_word(struct command_line *out, const char *word, uint16_t port)
{
    struct in_addr in;
    struct in6_addr in6;

    if (out->nlisten + 2 > LISTENERS_MAX)
        return false;
    if (inet_pton(AF_INET, word, &in) == 1) {
        add_in(out, in, port);
        return true;
    }
    if (inet_pton(AF_INET6, word, &in6) == 1) {
        add_in6(out, in6, port);
        /* "::" serves both families, as in the original. */
        if (IN6_IS_ADDR_UNSPECIFIED(&in6))
            add_in(out, (struct in_addr){.s_addr = htonl(INADDR_ANY)}, port);
        return true;
    }
    if (addr_parse(slice_of(word), &out->listen[out->nlisten]) != ERR_OK)
        return false;
    ++out->nlisten;
    return true;
}

bool command_line_finish(void *line)
{
    struct command_line *l = line;
    uint16_t port = l->has_port ? l->port : DEFAULT_PORT;

    for (size_t i = 0; i < l->nwords; ++i) {
        if (add_word(l, l->words[i], port))
            continue;
        fprintf(stderr, "Address `%s` is not valid to listen on.\n", l->words[i]);
        return false;
    }
    if (l->nwords == 0 && l->has_port)
        add_in(l, (struct in_addr){.s_addr = htonl(INADDR_LOOPBACK)}, port);
    return true;
}

bool command_line_option(void *line, int letter, const char *value)
{
    struct command_line *l = line;
    uint64_t port;

    if (letter == 'l' && l->nwords < LISTENERS_MAX) {
        l->words[l->nwords++] = value;
        return true;
    }
    if (letter != 'p' || !parse_u64(slice_of(value), PORT_MAX, &port))
        return false;
    l->port = (uint16_t)port;
    l->has_port = true;
    return true;
}
