/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor: a single-threaded process that forks and reaps application processes, holds their
 * listening sockets, is their subreaper, and outlives the agent by adopt_timeout, so that the next
 * agent can take them over. Forked by the agent before its first thread. It receives no messages
 * from application processes and obeys only its agent: the one that sent the last "hello"
 * (see below), on the socket pair created with the supervisor or on the socket in
 * state_dir.
 *
 * During an upgrade, while the old agent is still connected, it is also notified of deaths, and it
 * reports the number of its requests at each process. It can neither start nor signal processes. If
 * the new agent dies meanwhile, the old one is obeyed again.
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
 *                                              rejected {id, why}
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
#pragma once

#include "common/event/loop.h"
#include "worker-agent/supervisor/spawner.h"

struct supervisor_options {
    const char *state_dir;
    struct rlimit nofile; /* for the processes */
    /* The agent's user and those of the applications; NULL: the agent does not change its user. */
    const struct supervisor_rights *rights;
    /* For supervisor_link_open: a supervisor exists, and this agent takes over from its present
     * agent. No supervisor is forked, and a supervisor of another version is not dismissed. */
    bool follow;
    uint64_t adopt_timeout_ms;
};

/* Runs in the forked child until all processes have ended. AGENT_FD: its end of the socket pair.
 * LOCK_FD: the lock of the only supervisor in state_dir, which it holds to its end. */
void supervisor_run(int agent_fd, int lock_fd, const struct supervisor_options *o) no_return;

/* The agent's end of its socket to the supervisor. Opened before the agent's first thread, then of
 * the control loop. Owned by the agent; outlives all processes. */
struct supervisor_link;

/* A process that the supervisor had before this agent. */
struct adoptable_process {
    char id[INSTANCE_MAX + 1];
    char application[APP_NAME_MAX + 1];
    char spec[FINGERPRINT_LEN + 1];
    char address[ADDR_TEXT_MAX];
    char note[SUPERVISOR_WHY_MAX + 1];
    unsigned slot;
    pid_t pid;
    uint64_t age_ms;
    unsigned busy; /* requests of the old agent that are still in flight */
    int output_fd; /* ownership passes to the adopting process object */
};

struct adoptable_list {
    struct adoptable_process *items;
    size_t n;
};

/* Reads the "process" message M. OUTPUT_FD is the descriptor sent with it. */
void adoptable_process_read(const json_t *m, int output_fd, struct adoptable_process *out);
/* The text NAME of M; "" if there is none. */
const char *message_string(const json_t *m, const char *name);
/* The number NAME of M; 0 if there is none, or it is negative or too large. */
unsigned message_count(const json_t *m, const char *name);

/*
 * Connects to the supervisor in state_dir if one exists, or is starting; otherwise forks one,
 * unless O->follow is set. Blocks for a limited time; errors are logged. OUT receives the existing
 * processes; the caller frees the items. Returns NULL if no supervisor is available.
 */
struct supervisor_link *supervisor_link_open(const struct supervisor_options *o,
                                             struct adoptable_list *out);

struct supervisor_link_events { /* on the loop */
    /* M, a message about process ID. *PASSED: the descriptor sent with it, or -1; set to -1 to keep
     * it. A "process" after the start was started by a new agent that has died. */
    void (*message)(void *context, const char *op, const char *id, const json_t *m, int *passed);
    /* The supervisor has exited, expectedly (after supervisor_link_detach) or not. */
    void (*lost)(void *context);
};
void supervisor_link_start(struct supervisor_link *k, struct loop *l,
                           const struct supervisor_link_events *e, void *context);
/* Sends MESSAGE (spawn_request_message), of which ownership passes to the link. */
void supervisor_link_send(struct supervisor_link *k, json_t *message);
void supervisor_link_signal(struct supervisor_link *k, const char *id, int signal_number);
void supervisor_link_note(struct supervisor_link *k, const char *id, const char *note);
/* Reports the number of this agent's requests at the process, for the new agent. */
void supervisor_link_busy(struct supervisor_link *k, const char *id, unsigned n);
/* Requests that the supervisor end all processes and then exit. */
void supervisor_link_detach(struct supervisor_link *k);
/* Without supervisor_link_detach() before, the supervisor regards the agent as dead. */
void supervisor_link_destroy(struct supervisor_link *k);
pid_t supervisor_link_pid(const struct supervisor_link *k);
