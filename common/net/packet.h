/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between two processes of one program: one JSON object per packet of a unix SEQPACKET
 * socket, with at most one descriptor. Both ends are the same program, but its versions may differ,
 * so each conversation begins with the version. Only packet_await() and packet_receive_until()
 * block, within bounds, while a program starts.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/json.h"
#include "common/base/list.h"

#include <sys/types.h>

enum {
    /* Maximum size of a message: the agent's command with its environment, and other members. */
    PACKET_BYTES_MAX = 160 * 1024,
};

/*
 * Sends MESSAGE. PASS is a descriptor to be duplicated for the peer, or -1. Errors: ERR_BUSY (the
 * socket is full: try again), ERR_TOO_LARGE, ERR_PEER_CLOSED.
 */
enum err packet_send(int fd, const json_t *message, int pass) must_check;
/*
 * Receives a message. The caller owns *MESSAGE, and *PASSED, the descriptor sent with it
 * (close-on-exec), or -1. Errors: ERR_BUSY (no message), ERR_PEER_CLOSED, ERR_SYNTAX (dropped).
 */
enum err packet_receive(int fd, json_t **message, int *passed) must_check;
/* Returns true if the process connected to FD runs as UID, or as root. */
bool packet_peer_is(int fd, uid_t uid);
/*
 * Returns the packet socket that was inherited from the parent process, with its number in the
 * environment variable VARIABLE, and makes it close-on-exec. Returns -1 if the variable is unset,
 * or, with *BAD set, if it does not refer to a packet socket with a peer of the same user.
 */
int packet_inherited(const char *variable, bool *bad);

/* ---- queue of outgoing messages ---- */

/*
 * For a socket that may be full for a while. Embedded in the owner of the socket, which closes it
 * with packet_queue_close() or otherwise. The queue has no limit; the number of messages is bounded
 * by its user. One thread at a time.
 */
struct packet_queue {
    int fd;
    struct list items;
};

void packet_queue_init(struct packet_queue *q, int fd);
/* Takes over the reference to MESSAGE and queues it until packet_queue_flush(). PASS is a
 * descriptor to be sent with it, or -1; it is duplicated, so the caller may close it at once. */
void packet_queue_add(struct packet_queue *q, json_t *message, int pass);
/*
 * Sends as many messages as the socket accepts. A message that exceeds the limit of a packet is
 * dropped and logged. Errors: ERR_BUSY (messages are left), ERR_PEER_CLOSED.
 */
enum err packet_queue_flush(struct packet_queue *q) must_check;
/* Discards unsent messages, and closes the socket if there is one. */
void packet_queue_close(struct packet_queue *q);

/* ---- conversations: each message has a member `op`; one thread at a time ---- */

/* Returns true if the member op of M is OP. */
bool packet_is(const json_t *m, const char *op);
/* Sends a message with only the member op. Errors as of packet_send(). */
enum err packet_send_op(int fd, const char *op) must_check;
/*
 * Waits for the next message until UNTIL_US (clock_mono_us()). Errors: ERR_TIMEOUT; else those of
 * packet_receive() except ERR_BUSY.
 */
enum err packet_await(int fd, uint64_t until_us, json_t **message, int *passed) must_check;
/* Handles M; takes PASSED (sets it to -1) if it is used. Returns false if M is not valid here. */
typedef bool (*packet_take_fn)(void *context, const json_t *m, int *passed);
/*
 * Passes received messages to TAKE until the message UNTIL (without a descriptor), which is stored
 * in *LAST, owned by the caller. Waits at most WAIT_MS in total. Errors: ERR_TIMEOUT,
 * ERR_PEER_CLOSED, ERR_SYNTAX (also if TAKE returns false); then *LAST is not set.
 */
enum err packet_receive_until(int fd, const char *until, uint64_t wait_ms, packet_take_fn take,
                              void *context, json_t **last) must_check;
