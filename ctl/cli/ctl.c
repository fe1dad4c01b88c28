/* SPDX-License-Identifier: Apache-2.0
 *
 * The word of the command line, and what runs for it. Exit codes: 0 done; 1 it could not be done
 * (nobody there, a bad answer); 2 the command line is wrong; those of `check` and `tree diff` are
 * their own.
 */
#include "ctl/cli/ctl.h"
#include "ctl/cli/command.h"

#include <stdio.h>
#include <stdlib.h>

#include "version.h"

/* What may stand before the word: options that most words have. */
static const struct ctl_flag leading[] = {
    CTL_FLAGS_ASKING,
    {'c', "class", "CLASS", NULL, ""},
    {'n', "top", "N", NULL, ""},
};

static void print_help(void)
{
    struct text out = {0};

    text_add(&out,
             SLICE_LIT("usage: resumelbctl [OPTIONS] WORD ...\n"
                       "\n"
                       "See, understand and tune resumelb, its agents and its pool counters.\n"
                       "\nwords:\n"));
    for (size_t i = 0; i < ctl_ncommands; ++i)
        text_addf(&out, "  %-15s %s\n", ctl_commands[i]->name, ctl_commands[i]->summary);
    text_add(
        &out,
        SLICE_LIT("\n"
                  "resumelbctl WORD --help tells the options of a word; --version, the "
                  "version.\n"
                  "exit codes: 0 success; 1 server unreachable or error response; 2 usage error\n"
                  "            (check: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN)\n"));
    (void)ctl_print(text_slice(&out));
    text_fini(&out);
}

/* The row for ARG ("-x", "-xVALUE", "--name", "--name=VALUE"); *ATTACHED: its value is in it. */
static const struct ctl_flag *find_leading(const char *arg, bool *attached)
{
    struct slice rest = slice_of(arg);
    bool is_long = slice_starts(rest, SLICE_LIT("--"));
    struct slice name = {arg + 2, rest.len - (rest.len < 2 ? rest.len : 2)};

    *attached = is_long ? slice_find(name, '=') != SIZE_MAX : rest.len > 2;
    name = slice_cut(&name, '=');
    for (size_t i = 0; i < ARRAY_LEN(leading); ++i) {
        if (is_long ? slice_is(name, leading[i].name) : arg[1] == leading[i].letter)
            return &leading[i];
    }
    return NULL;
}

/* Where the word stands, 0: nowhere. CTL_OK, or the exit code. */
static int find_word(int argc, char **argv, int *at)
{
    *at = 0;
    for (int i = 1; i < argc; ++i) {
        bool attached = false;

        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            *at = i;
            return CTL_OK;
        }
        const struct ctl_flag *f = find_leading(argv[i], &attached);
        if (f == NULL)
            return ctl_usage_error(NULL, "no such option before the word", argv[i]);
        i += f->value != NULL && !attached;
    }
    return CTL_OK;
}

/* -1: go on; else the exit code. */
static int run_without_word(int argc, char **argv)
{
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "-v") == 0 || strcmp(argv[i], "--version") == 0) {
            printf("resumelbctl %s\n", RLB_VERSION);
            return CTL_OK;
        }
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            print_help();
            return CTL_OK;
        }
        if (argv[i][0] != '-')
            break;
    }
    return -1;
}

int ctl_main(int argc, char **argv)
{
    char **args = xcalloc((size_t)argc + 1, sizeof(args[0]));
    const struct ctl_command *command = NULL;
    int at = 0;
    int code = run_without_word(argc, argv);

    if (code < 0)
        code = find_word(argc, argv, &at) == CTL_OK ? -1 : CTL_USAGE;
    if (code < 0 && at == 0)
        code = ctl_usage_error(NULL, "want a word: status, explain, check, ...", NULL);
    if (code < 0) {
        command = ctl_command_find(slice_of(argv[at]));
        if (command == NULL)
            code = ctl_usage_error(NULL, "no such word", argv[at]);
    }
    if (code < 0) {
        int n = 0;

        for (int i = 0; i < argc; ++i) {
            if (i != at)
                args[n++] = argv[i];
        }
        ASSERT(command != NULL);
        code = command->run(command, n, args);
    }
    free(args);
    return code;
}
