/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper: a single-threaded process that forks and reaps application processes, holds their
 * listening sockets, is their subreaper, and outlives the agent by adopt_timeout, so that the next
 * agent can take them over. Forked by the agent before its first thread. It is never told anything
 * by application processes, and acts on nobody's word but its agent's: whoever was the last to say
 * hello (keeper_wire.h), on the socket pair it was born with or on the socket in state_dir.
 *
 * While an agent that was followed by another (an upgrade) is still connected, it is told of
 * deaths, too, and tells how many requests it has at each process; it can start and signal none.
 * Should the new one die meanwhile, the old one is obeyed again.
 */
#ifndef RLB_AGENT_SUPERVISOR_KEEPER_H
#define RLB_AGENT_SUPERVISOR_KEEPER_H

#include <sys/resource.h>

#include "common/base/base.h"
#include "worker-agent/config/keeper_rights.h"

struct keeper_options {
    const char *state_dir;
    struct rlimit nofile; /* for the processes */
    /* The agent's user, and those of the applications; NULL: the agent stays who it is. */
    const struct keeper_rights *rights;
    /* keeper_link_open's: there is a keeper, whose agent is to be followed. Nothing is forked, nor
       is a keeper of another version dismissed. */
    bool follow;
};

/* In the forked child: runs until all is ended. AGENT_FD: its end of the socket pair. */
void keeper_run(int agent_fd, const struct keeper_options *o) no_return;

#endif
