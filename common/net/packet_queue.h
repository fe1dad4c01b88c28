/* SPDX-License-Identifier: Apache-2.0
 *
 * Queue of outgoing messages for a packet socket (packet.h) that may be full for a while. Embedded
 * in the owner of the socket, which closes it with packet_queue_close() or otherwise. The queue has
 * no limit; the number of messages is bounded by its user. One thread at a time.
 */
#ifndef RLB_NET_PACKET_QUEUE_H
#define RLB_NET_PACKET_QUEUE_H

#include "common/base/list.h"
#include "common/net/packet.h"

struct packet_queue {
    int fd;
    struct list items;
};

void packet_queue_init(struct packet_queue *q, int fd);
/* Takes MESSAGE. PASS: a descriptor to go with it (stays the caller's, may be closed at once), or
 * -1. Nothing is sent before packet_queue_flush. */
void packet_queue_add(struct packet_queue *q, json_t *message, int pass);
/*
 * Send what the socket takes. A message over the limit of a packet is dropped, and logged.
 * Errors: ERR_BUSY (some are left), ERR_PEER_CLOSED.
 */
enum err packet_queue_flush(struct packet_queue *q) must_check;
/* Drop what has not been sent, and close the socket, if there is one. */
void packet_queue_close(struct packet_queue *q);
/* Drop what has not been sent. */
void packet_queue_clear(struct packet_queue *q);

#endif
