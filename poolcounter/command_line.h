/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line: the options that all programs take, and the original's -l (which may stand
 * several times) and -p. Unlike the other programs this one needs no configuration, and ends with
 * 1 at bad usage, as the original does. A value; any thread.
 */
#ifndef RLB_POOLCOUNTER_COMMAND_LINE_H
#define RLB_POOLCOUNTER_COMMAND_LINE_H

#include "poolcounter/configuration.h"

enum command {
    COMMAND_RUN,
    COMMAND_TEST,
    COMMAND_VERSION,
    COMMAND_HELP,
    COMMAND_DESCRIBE,
    COMMAND_BAD, /* the usage, and exit 1 */
};

struct command_line {
    enum command command;
    const char *file;        /* or NULL */
    const char *what;        /* COMMAND_DESCRIBE */
    const char *bad_address; /* COMMAND_BAD: of -l, which is not valid to listen on; or NULL */
    struct addr listen[LISTENERS_MAX];
    size_t nlisten; /* 0: neither -l nor -p is given */
};

/* What is wrong with an option getopt says to stderr. */
void command_line_parse(int argc, char **argv, struct command_line *out);

#endif
