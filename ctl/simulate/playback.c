/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of playback. Servers are asked one after the other, with the same requests.
 */
#include "ctl/simulate/playback.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/wire/url_line.h"
#include "ctl/cli/command.h"

enum {
    CLIENTS_CLOSED = 8,
    CLIENTS_PACED = 256, /* enough for what a log's servers had in hand together */
    TIMEOUT_S = 30,
    TIMEOUT_MAX_S = 3600,
    TOP_DEFAULT = 10,
    LOADS_HEADER = 256,
};

static void fini(struct playback *p)
{
    for (size_t i = 0; i < p->nservers; ++i) {
        text_fini(&p->servers[i].host);
        free(p->servers[i].records);
    }
    simulate_classifier_fini(&p->classifier);
    free(p->requests);
    text_fini(&p->texts);
    text_fini(&p->bad);
}

static int say_problems(const struct playback *p, struct diag *d)
{
    (void)p;
    fprintf(stderr, "resumelbctl: %sTry resumelbctl playback --help.\n",
            d->text != NULL ? d->text : "");
    diag_fini(d);
    return CTL_USAGE;
}

static int take_classifier(struct playback *p, const char *spec)
{
    struct diag d = {0};

    if (p->classifier.classifier != NULL)
        return ctl_usage_error(p->command, "one --classifier is enough", NULL);
    return simulate_read_classifier(spec, &p->classifier, &d) ? CTL_OK : say_problems(p, &d);
}

static int take(void *context, int letter, const char *value)
{
    struct playback *p = context;
    const struct ctl_command *c = p->command;
    uint64_t n = 0;
    int code = CTL_OK;

    switch (letter) {
    case 'c':
        return take_classifier(p, value);
    case 's':
        return ctl_take_real(c, "speed", value, 1e-6, 1e6, &p->speed);
    case 'C':
        return ctl_take_number(c, "clients", value, 1, PLAYBACK_CLIENTS_MAX, &p->clients);
    case 'r':
        return ctl_take_number(c, "requests", value, 1, PLAYBACK_REQUESTS_MAX, &p->limit);
    case 'n':
        return ctl_take_number(c, "top", value, 0, SIMULATE_CLASSES_MAX, &p->top);
    case 't':
        code = ctl_take_number(c, "timeout", value, 1, TIMEOUT_MAX_S, &n);
        p->timeout_ms = n * 1000;
        break;
    case 'j':
        p->json = true;
        break;
    case LOADS_HEADER:
        p->loads_header = value;
        break;
    default:
        ASSERT(false);
    }
    return code;
}

/* http://HOST:PORT to an address. CTL_OK, or the exit code. */
static int take_url(struct playback *p, const char *url)
{
    struct playback_server *s = &p->servers[p->nservers];
    struct url_line u;
    size_t n = 1;

    if (url_line_parse(slice_of(url), &u) != NULL || u.host.len == 0 || u.tls || u.query.len != 0 ||
        !slice_is(u.path, "/"))
        return ctl_usage_error(p->command, "want a server as http://HOST:PORT, not", url);
    *s = (struct playback_server){.url = url};
    text_add(&s->host, u.host);
    ++p->nservers;
    struct text address = {0};
    text_add(&address, u.host);
    bool has_port = u.host.p[u.host.len - 1] != ']' && slice_find(u.host, ':') != SIZE_MAX;
    if (!has_port)
        text_add(&address, SLICE_LIT(":80"));
    enum err e = addr_parse(text_slice(&address), &s->addr);
    if (e == ERR_UNSUPPORTED)
        e = addr_resolve(text_slice(&address), &s->addr, &n);
    text_fini(&address);
    if (e == ERR_OK)
        return CTL_OK;
    fprintf(stderr, "resumelbctl: %s: %s\n", url, err_text(e));
    return CTL_FAILED;
}

/* -1: go on; else the exit code. */
static int parse(struct playback *p, int argc, char **argv)
{
    int first = 0;
    int code = ctl_command_parse(p->command, argc, argv, &first, take, p);

    if (code >= 0)
        return code;
    p->file = argv[first];
    ASSERT(argc - first <= 1 + PLAYBACK_SERVERS_MAX);
    if (p->file == NULL || argv[first + 1] == NULL)
        return ctl_usage_error(p->command, "want a log and a server: LOG http://HOST:PORT", NULL);
    code = CTL_OK;
    for (int i = first + 1; i < argc && code == CTL_OK; ++i)
        code = take_url(p, argv[i]);
    if (code == CTL_OK && p->classifier.classifier == NULL)
        code = take_classifier(p, "host");
    if (p->clients == 0)
        p->clients = p->speed > 0 ? CLIENTS_PACED : CLIENTS_CLOSED;
    return code == CTL_OK ? -1 : code;
}

static int run(const struct ctl_command *c, int argc, char **argv)
{
    struct playback p = {.command = c,
                         .limit = PLAYBACK_REQUESTS_MAX,
                         .timeout_ms = TIMEOUT_S * UINT64_C(1000),
                         .top = TOP_DEFAULT,
                         .loads_header = "X-Database-Loads"};
    struct text out = {0};
    struct diag d = {0};
    int code = parse(&p, argc, argv);

    if (code < 0) {
        log_set_level(LOG_LEVEL_WARN);
        enum err e = playback_read(&p, &d);

        for (size_t i = 0; e == ERR_OK && i < p.nservers && !p.interrupted; ++i)
            playback_run(&p, &p.servers[i]);
        while (p.nservers != 0 && p.servers[p.nservers - 1].records == NULL)
            text_fini(&p.servers[--p.nservers].host);
        if (e == ERR_OK)
            playback_report(&p, &out);
        code = ctl_finish(e, &out, &d);
    }
    fini(&p);
    return code;
}

static const struct ctl_flag flags[] = {
    {'C', "clients", "N", NULL,
     "closed loop: so many ask again at once (8); paced: at most so many together (256)"},
    {'s', "speed", "FACTOR", NULL, "paced: when the log says, so many times as fast"},
    {'r', "requests", "N", NULL, "only the first so many"},
    {'c', "classifier", "SPEC", "host segment path regex:",
     "classes of the report: host (default), segment, path or regex:VARIABLE:PATTERN"},
    {'n', "top", "N", NULL, "so many classes (10); 0: all"},
    {'t', "timeout", "SECONDS", NULL, "for an answer to begin, and to go on (30)"},
    {LOADS_HEADER, "loads-header", "NAME", NULL,
     "in which the server tells what it had to load (X-Database-Loads)"},
    CTL_FLAG_JSON,
    CTL_FLAG_HELP,
};
const struct ctl_command ctl_word_playback = {
    .name = "playback",
    .arguments = "LOG URL [URL2]",
    .summary = "the GETs of a log against one or two real servers: latency, errors, loads",
    .text = "URL is http://HOST:PORT; each request goes there under the Host that the log tells. "
            "With two, both\nare asked the same, one after the other, and compared. Closed loop "
            "unless --speed is given; paced,\na latency counts from when the request was due.\n",
    .completes = CTL_FILES,
    .flags = flags,
    .nflags = ARRAY_LEN(flags),
    .run = run,
};
