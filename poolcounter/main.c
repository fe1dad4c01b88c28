/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line is the original's: no configuration is needed, and bad usage exits with 1.
 */
#include <getopt.h>

#include "common/base/log.h"
#include "poolcounter/program.h"

static void *read_configuration(const char *file, struct diag *d)
{
    struct configuration *c = configuration_read(file, d);

    if (c != NULL) {
        log_set_level((enum log_level)c->s.log_level);
        config_warn_exposed(&c->yaml);
    }
    return c;
}

static void destroy(void *config)
{
    configuration_destroy(config);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"listen", required_argument, NULL, 'l'}, {"port", required_argument, NULL, 'p'}, {0}};
    struct command_line listen = {.nwords = 0};
    const struct daemon_program program = {
        .name = "resumelb-poolcounter",
        .summary = "counts holders and waiters of named limits; speaks PoolCounter's protocol",
        .usage = "[-c FILE] [-l ADDRESS]... [-p PORT] [-t]",
        .subjects = "settings|stats",
        .signals = "TERM and INT stop at once, HUP re-reads the configuration, USR2 starts a\n"
                   "         new process on the same sockets; this one exits with its last "
                   "client",
        .read = read_configuration,
        .destroy = destroy,
        .describe = program_describe,
        .run = program_run,
        .context = &listen,
        .letters = "l:p:",
        .options = options,
        .options_help = "  -l, --listen ADDRESS  listen here instead of at the configured "
                        "addresses: 127.0.0.1,\n"
                        "                        ::1, 127.0.0.1:7531, [::1]:7531 or unix:/path; "
                        "may be given\n"
                        "                        several times. A listening socket as standard "
                        "input is taken\n"
                        "                        instead of any address.\n"
                        "  -p, --port PORT       port of each -l that has none; default 7531\n",
        .option = command_line_option,
        .finish = command_line_finish,
        .lenient = true,
    };

    return daemon_main(&program, argc, argv);
}
