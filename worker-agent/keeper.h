/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper: a single-threaded process that forks and reaps application processes, holds their
 * listening sockets, is their subreaper, and outlives the agent by adopt_timeout, so that the next
 * agent can take them over. Forked by the agent before its first thread. It is never told anything
 * by application processes, and acts on nobody's word but its agent's: whoever was the last to say
 * hello (keeper_wire.h), on the socket pair it was born with or on the socket in state_dir.
 */
#ifndef RLB_AGENT_KEEPER_H
#define RLB_AGENT_KEEPER_H

#include <sys/resource.h>

#include "common/base/base.h"

struct keeper_options {
    const char *state_dir;
    struct rlimit nofile; /* for the processes */
};

/* In the forked child: runs until all is ended. AGENT_FD: its end of the socket pair. */
void keeper_run(int agent_fd, const struct keeper_options *o) no_return;

#endif
