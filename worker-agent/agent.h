/* SPDX-License-Identifier: Apache-2.0
 *
 * The assembled agent: owns loop, keeper's socket, pool, front, tree, writer and admin address;
 * builds them in order and drops them in reverse. Main thread only.
 */
#ifndef RLB_AGENT_AGENT_H
#define RLB_AGENT_AGENT_H

#include <stdio.h>
#include <sys/resource.h>

#include "common/base/err.h"

/* Read and check FILE; every problem to D. */
bool agent_check(const char *file, struct diag *d);
/* --describe settings|stats. False: no such page. */
bool agent_describe(const char *what, FILE *out);
/*
 * Start, run until a signal, stop; the exit code.
 *   nofile  the descriptor limit as it was at birth: processes get it
 */
int agent_run(const char *file, struct rlimit nofile);

#endif
