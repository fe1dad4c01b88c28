/* SPDX-License-Identifier: Apache-2.0
 *
 * The original's options besides those that all programs take: -l, which may be given several
 * times, and -p. A value, all zero at first; any thread.
 */
#ifndef RLB_POOLCOUNTER_COMMAND_LINE_H
#define RLB_POOLCOUNTER_COMMAND_LINE_H

#include "common/program/daemon.h"
#include "poolcounter/configuration.h"

struct command_line {
    const char *words[LISTENERS_MAX]; /* of each -l */
    size_t nwords;
    uint16_t port; /* 0: the default */
    bool has_port;
    struct addr listen[LISTENERS_MAX];
    size_t nlisten; /* 0: neither -l nor -p is given */
};

/* Take -l or -p. False: it is not valid. */
bool command_line_option(void *line, int letter, const char *value);
/* All options are taken: fills `listen`. False: one is not valid to listen on, which is said to
 * stderr. */
bool command_line_finish(void *line);

#endif
