/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between the agent and its keeper: one JSON object per packet of a unix SEQPACKET socket,
 * with at most one descriptor beside it. Both ends are this program, but may be of two of its
 * versions: each conversation begins with "hello" and its version. Never blocks.
 *
 *   agent                                      keeper
 *   hello {v, adopt_timeout_ms}           ->
 *                                         <-   hello {v, pid, processes}
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
#ifndef RLB_AGENT_KEEPER_WIRE_H
#define RLB_AGENT_KEEPER_WIRE_H

#include "common/base/err.h"

#include <jansson.h>

enum {
    KEEPER_VERSION = 2,
    /* A command with its environment (APP_WORDS_BYTES_MAX), and the rest of the message. */
    KEEPER_MESSAGE_MAX = 160 * 1024,
    /* Processes of one keeper. */
    KEEPER_PROCESSES_MAX = 4096,
    /* What a process has died of, or why it could not be started. */
    KEEPER_WHY_MAX = 200,
};

/* Names in state_dir. */
#define KEEPER_SOCKET_NAME "keeper.sock"
#define KEEPER_LOCK_NAME "keeper.lock"
#define KEEPER_RUN_NAME "run"

/*
 * Errors: ERR_BUSY (the socket is full: try again), ERR_TOO_LARGE, ERR_PEER_CLOSED.
 *   pass  a descriptor for the other side (stays ours, too), or -1
 */
enum err keeper_send(int fd, const json_t *message, int pass) must_check;
/*
 * *PASSED: the descriptor that came along (close-on-exec), or -1.
 * Errors: ERR_BUSY (nothing there), ERR_PEER_CLOSED, ERR_SYNTAX (the packet is dropped).
 */
enum err keeper_receive(int fd, json_t **message, int *passed) must_check;
/* Bound to FD's peer: whether it runs as our user (or root). */
bool keeper_peer_is_ours(int fd);

#endif
