/* SPDX-License-Identifier: Apache-2.0
 *
 * The assembled agent: owns loop, keeper's socket, pool, front, tree, writer and admin address;
 * builds them in order and drops them in reverse. Main thread only.
 */
#ifndef RLB_AGENT_PROGRAM_AGENT_H
#define RLB_AGENT_PROGRAM_AGENT_H

#include <stdio.h>

#include "common/program/daemon.h"

/* --describe settings|stats. False: no such page. */
bool agent_describe(const char *what, FILE *out);
/* Start, run until a signal, stop; the exit code. CONFIG is a struct agent_config, which is taken;
 * CONTEXT is not used. */
int agent_run(void *context, void *config, const struct daemon_line *line);

#endif
