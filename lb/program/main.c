/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelb: the command line's side of lb.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "classifiers/registry.h"
#include "common/base/log.h"
#include "common/program/daemon.h"
#include "lb/config/configuration.h"
#include "lb/program/lb_parts.h"
#include "lb/status/status.h"

static void *read_configuration(const char *file, struct diag *d)
{
    struct configuration *c = xmalloc(sizeof(*c));

    if (!configuration_read(file, c, d)) {
        free(c);
        return NULL;
    }
    log_set_level((enum log_level)c->program.log_level);
    config_warn_exposed(&c->file);
    return c;
}

static void destroy(void *config)
{
    configuration_fini(config);
    free(config);
}

static void describe_outcomes(FILE *out)
{
    fputs("# Outcomes\n\nEvery request ends in exactly one of these. It is in the access log, in "
          "`/status.json`\nand in `resumelb_outcomes_total`.\n\n"
          "| outcome | status | retried | meaning |\n| --- | --- | --- | --- |\n",
          out);
#define OUTCOME(name, text, status, retry, doc)                                                    \
    if ((status) != 0)                                                                             \
        fprintf(out, "| `%s` | %d | %s | %s |\n", text, status, (retry) ? "yes" : "no", doc);      \
    else                                                                                           \
        fprintf(out, "| `%s` | the worker's | %s | %s |\n", text, (retry) ? "yes" : "no", doc);
#include "lb/core/outcome.def"
#undef OUTCOME
    fputs("\n## Why a worker was selected\n\n| reason | meaning |\n| --- | --- |\n", out);
#define REASON(name, text, doc) fprintf(out, "| `%s` | %s |\n", text, doc);
#include "routing/pick_reason.def"
#undef REASON
}

static bool describe(const char *what, FILE *out)
{
    struct slice w = slice_of(what);

    if (slice_is(w, "settings")) {
        settings_describe(settings_tables, SETTINGS_TABLES, out);
        fputc('\n', out);
        settings_describe(classifier_tables, CLASSIFIER_TABLES, out);
    } else if (slice_is(w, "stats")) {
        status_metrics_describe(out);
    } else if (slice_is(w, "outcomes")) {
        describe_outcomes(out);
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct daemon_program program = {
        .name = "resumelb",
        .summary = "a resume-based HTTP load balancer",
        .usage = "-c FILE [-t]",
        .subjects = "settings|stats|outcomes",
        .signals =
            "TERM drains and exits, INT stops at once, HUP re-reads the configuration\n"
            "         USR1 reopens logs, USR2 starts a new process on the same sockets, and drains",
        .read = read_configuration,
        .destroy = destroy,
        .describe = describe,
        .run = lb_run,
    };

    return daemon_main(&program, argc, argv);
}
