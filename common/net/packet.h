/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between two processes of one program: one JSON object per packet of a unix SEQPACKET
 * socket, with at most one descriptor beside it. Both ends are our own program, but may be of two
 * of its versions: each conversation begins with its version. Never blocks.
 */
#ifndef RLB_NET_PACKET_H
#define RLB_NET_PACKET_H

#include <sys/types.h>

#include "common/base/err.h"
#include "common/base/json.h"

enum {
    /* A command of the agent's with its environment, and the rest of the message. */
    PACKET_BYTES_MAX = 160 * 1024,
};

/*
 * Errors: ERR_BUSY (the socket is full: try again), ERR_TOO_LARGE, ERR_PEER_CLOSED.
 *   pass  a descriptor for the other side (stays ours, too), or -1
 */
enum err packet_send(int fd, const json_t *message, int pass) must_check;
/*
 * *PASSED: the descriptor that came along (close-on-exec), or -1.
 * Errors: ERR_BUSY (nothing there), ERR_PEER_CLOSED, ERR_SYNTAX (the packet is dropped).
 */
enum err packet_receive(int fd, json_t **message, int *passed) must_check;
/* Bound to FD's peer: whether it runs as our user (or root); as UID (or root). */
bool packet_peer_is_ours(int fd);
bool packet_peer_is(int fd, uid_t uid);
/*
 * Returns the packet socket that was inherited from the parent process, with its number in the
 * environment variable VARIABLE, and makes it close-on-exec. Returns -1 if the variable is unset,
 * or, with *BAD set, if it does not refer to a packet socket with a peer of the same user.
 */
int packet_inherited(const char *variable, bool *bad);

#endif
