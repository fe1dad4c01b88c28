/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor: a single-threaded process that forks and reaps application processes, holds their
 * listening sockets, is their subreaper, and outlives the agent by adopt_timeout, so that the next
 * agent can take them over. Forked by the agent before its first thread. It receives no messages
 * from application processes and obeys only its agent: the one that sent the last "hello"
 * (supervisor_wire.h), on the socket pair created with the supervisor or on the socket in
 * state_dir.
 *
 * During an upgrade, while the old agent is still connected, it is also notified of deaths, and it
 * reports the number of its requests at each process. It can neither start nor signal processes. If
 * the new agent dies meanwhile, the old one is obeyed again.
 */
#ifndef RLB_AGENT_SUPERVISOR_SUPERVISOR_H
#define RLB_AGENT_SUPERVISOR_SUPERVISOR_H

#include <sys/resource.h>

#include "common/base/base.h"
#include "worker-agent/config/supervisor_rights.h"

struct supervisor_options {
    const char *state_dir;
    struct rlimit nofile; /* for the processes */
    /* The agent's user and those of the applications; NULL: the agent does not change its user. */
    const struct supervisor_rights *rights;
    /* For supervisor_link_open: a supervisor exists, and this agent takes over from its present
     * agent. No supervisor is forked, and a supervisor of another version is not dismissed. */
    bool follow;
};

/* Called in the forked child. Runs until all processes have ended. AGENT_FD: the supervisor's end
 * of the socket pair. */
void supervisor_run(int agent_fd, const struct supervisor_options *o) no_return;

#endif
