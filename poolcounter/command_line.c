/* SPDX-License-Identifier: Apache-2.0 */
#include "poolcounter/command_line.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>

enum { DEFAULT_PORT = 7531, PORT_MAX = 65535 };

struct listen_words {
    const char *words[LISTENERS_MAX];
    size_t n;
    uint16_t port;
    bool has_port;
};

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

static void read_addresses(const struct listen_words *l, struct command_line *out)
{
    for (size_t i = 0; i < l->n; ++i) {
        if (add_word(out, l->words[i], l->port))
            continue;
        out->command = COMMAND_BAD;
        out->bad_address = l->words[i];
        return;
    }
    if (l->n == 0 && l->has_port)
        add_in(out, (struct in_addr){.s_addr = htonl(INADDR_LOOPBACK)}, l->port);
}

static bool take_listen(struct listen_words *l, const char *word)
{
    if (l->n == LISTENERS_MAX)
        return false;
    l->words[l->n++] = word;
    return true;
}

static bool take_port(struct listen_words *l, const char *word)
{
    uint64_t port;

    if (!parse_u64(slice_of(word), PORT_MAX, &port))
        return false;
    l->port = (uint16_t)port;
    l->has_port = true;
    return true;
}

/* False: no more is to be read. */
static bool take_option(int option, struct command_line *out, struct listen_words *l)
{
    bool good = true;

    switch (option) {
    case 'c':
        out->file = optarg;
        break;
    case 'l':
        good = take_listen(l, optarg);
        break;
    case 'p':
        good = take_port(l, optarg);
        break;
    case 't':
        out->command = COMMAND_TEST;
        break;
    case 'v':
        out->command = COMMAND_VERSION;
        return false;
    case 'h':
        out->command = COMMAND_HELP;
        return false;
    case 'd':
        out->command = COMMAND_DESCRIBE;
        out->what = optarg;
        return false;
    default:
        good = false;
        break;
    }
    if (!good)
        out->command = COMMAND_BAD;
    return good;
}

void command_line_parse(int argc, char **argv, struct command_line *out)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},   {"listen", required_argument, NULL, 'l'},
        {"port", required_argument, NULL, 'p'},     {"test", no_argument, NULL, 't'},
        {"version", no_argument, NULL, 'v'},        {"help", no_argument, NULL, 'h'},
        {"describe", required_argument, NULL, 'd'}, {NULL, 0, NULL, 0},
    };
    struct listen_words words = {.port = DEFAULT_PORT};
    int option;

    *out = (struct command_line){.command = COMMAND_RUN};
    optind = 0; /* start anew: a test parses more than once */
    while ((option = getopt_long(argc, argv, "c:l:p:tvh", options, NULL)) != -1) {
        if (!take_option(option, out, &words))
            return;
    }
    /* Further words are ignored, as in the original. */
    read_addresses(&words, out);
}
