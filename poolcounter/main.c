/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad usage ends with 1, as in the original; in the other programs with 2.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "poolcounter/program.h"

#define NAME "resumelb-poolcounter"

static void print_usage(FILE *out)
{
    fputs("usage: " NAME " [-c FILE] [-l ADDRESS]... [-p PORT] [-t]\n"
          "       " NAME " -v | -h | --describe settings|stats\n",
          out);
}

static void print_help(void)
{
    fputs(NAME ": counts who holds and who waits for named limits; speaks PoolCounter's protocol\n"
               "\n",
          stdout);
    print_usage(stdout);
    fputs(
        "\n"
        "  -c, --config FILE     the configuration; without it, all defaults\n"
        "  -l, --listen ADDRESS  where to listen, instead of the configured addresses: 127.0.0.1,\n"
        "                        ::1, 127.0.0.1:7531, [::1]:7531 or unix:/path; several times for\n"
        "                        several addresses\n"
        "  -p, --port PORT       port of each -l that has none; default 7531\n"
        "  -t, --test            test the configuration and exit\n"
        "      --describe WHAT   print a manual page: settings or stats\n"
        "  -v, --version         print the version\n"
        "  -h, --help            print this\n"
        "\n"
        "A listening socket as standard input is taken instead of any address.\n"
        "\n"
        "exit status: 0 good, 1 anything else\n"
        "signals: TERM and INT stop at once, HUP reads the configuration again, USR1 starts a new\n"
        "         process, which takes the sockets; this one serves its clients to the last\n",
        stdout);
}

/* Whether stdout took everything: a manual page cut short by a full disk is a failure. */
static int exit_of_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_SUCCESS;
    perror("stdout");
    return EXIT_FAILURE;
}

static int test(const char *file)
{
    struct diag d = {0};
    struct configuration *c = configuration_read(file, &d);
    bool good = c != NULL;

    if (d.text != NULL)
        fputs(d.text, stderr);
    fprintf(stderr, "%s: configuration is %s\n", file != NULL ? file : "defaults",
            good ? "good" : "bad");
    if (good) {
        log_set_level((enum log_level)c->s.log_level);
        config_warn_exposed(&c->yaml);
    }
    configuration_destroy(c);
    diag_fini(&d);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int describe(const char *what)
{
    if (program_describe(what, stdout))
        return exit_of_output();
    fprintf(stderr, NAME ": nothing to describe by the name \"%s\"\n", what);
    print_usage(stderr);
    return EXIT_FAILURE;
}

static int bad_usage(const struct command_line *line)
{
    if (line->bad_address != NULL)
        fprintf(stderr, "Address `%s` is not valid to listen on.\n", line->bad_address);
    else
        print_usage(stderr);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct command_line line;

    command_line_parse(argc, argv, &line);
    switch (line.command) {
    case COMMAND_RUN:
        return program_run(&line, argv);
    case COMMAND_TEST:
        return test(line.file);
    case COMMAND_VERSION:
        printf(NAME " %s\n", program_version());
        return exit_of_output();
    case COMMAND_HELP:
        print_help();
        return exit_of_output();
    case COMMAND_DESCRIBE:
        return describe(line.what);
    case COMMAND_BAD:
        return bad_usage(&line);
    }
    return EXIT_FAILURE;
}
