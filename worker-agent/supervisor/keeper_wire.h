/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between the agent and its keeper, as packets (common/net/packet.h). Each conversation
 * begins with "hello" and its version.
 *
 *   agent                                      keeper
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
 * While one agent follows another, the one before says how many requests it still has at a process,
 * and the new one hears of it; when the new one dies, the one before gets what it had started.
 *
 *   busy {id, n}                          ->   (SIGTERM waits for n = 0)
 *                                         <-   busy {id, n}
 *                                         <-   process {...} + output
 */
#ifndef RLB_AGENT_SUPERVISOR_KEEPER_WIRE_H
#define RLB_AGENT_SUPERVISOR_KEEPER_WIRE_H

#include "common/net/packet.h"

enum {
    KEEPER_VERSION = 2,
    /* Processes of one keeper. */
    KEEPER_PROCESSES_MAX = 4096,
    /* What a process has died of, or why it could not be started. */
    KEEPER_WHY_MAX = 200,
};

/* The "how" of a process that exited with status 0. */
#define KEEPER_EXIT_SUCCESS "exit 0"

/* Names in state_dir, which no application may have (app_config.c). */
#define AGENT_LOCK_NAME "agent.lock"
#define HOST_MEMORY_NAME "tree.json"
#define KEEPER_SOCKET_NAME "keeper.sock"
#define KEEPER_LOCK_NAME "keeper.lock"
#define KEEPER_RUN_NAME "run"

#endif
