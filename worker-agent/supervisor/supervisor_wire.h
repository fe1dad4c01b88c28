/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between the agent and its supervisor, as packets (common/net/packet.h). Each
 * conversation begins with "hello" and its version.
 *
 *   agent                                      supervisor
 *   hello {v, adopt_timeout_ms, users}    ->   (users: where the agent has a user)
 *                                         <-   hello {v, pid, processes, limited}
 *                                         <-   process {id, application, slot, spec, pid, address,
 *                                                       note, age_ms, busy} + output, each
 *   spawn {struct spawn_request}          ->
 *                                         <-   spawned {id, pid, address} + output, or
 *                                              refused {id, why}
 *   note {id, note}                       ->   (kept for the next agent)
 *   signal {id, signal}                   ->
 *                                         <-   died {id, how}
 *   bye                                   ->   (ends all processes, then itself)
 *
 * During an upgrade, the old agent reports the number of its requests at each process, and the new
 * agent is notified of it. If the new agent dies, the old agent receives the processes that the new
 * one had started.
 *
 *   busy {id, n}                          ->   (SIGTERM waits for n = 0)
 *                                         <-   busy {id, n}
 *                                         <-   process {...} + output
 */
#ifndef RLB_AGENT_SUPERVISOR_SUPERVISOR_WIRE_H
#define RLB_AGENT_SUPERVISOR_SUPERVISOR_WIRE_H

#include "common/net/packet.h"

enum {
    SUPERVISOR_VERSION = 2,
    /* Processes of one supervisor. */
    SUPERVISOR_PROCESSES_MAX = 4096,
    /* The cause of death of a process, or the reason of a start error. */
    SUPERVISOR_WHY_MAX = 200,
};

/* The "how" of a process that exited with status 0. */
#define SUPERVISOR_EXIT_SUCCESS "exit 0"

#endif
