/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations over a packet socket (packet.h), in which each message says by its `op` what it is.
 * Waits block, within bounds, for programs that start; one thread at a time.
 */
#ifndef RLB_NET_PACKET_TALK_H
#define RLB_NET_PACKET_TALK_H

#include "common/net/packet.h"

/* Whether M's op is OP. */
bool packet_is(const json_t *m, const char *op);
/* A message that says OP and nothing else. Errors: as packet_send. */
enum err packet_say(int fd, const char *op) must_check;
/*
 * The next message, by UNTIL_US (clock_mono_us).
 * Errors: ERR_TIMEOUT; else as packet_receive, but for ERR_BUSY.
 */
enum err packet_await(int fd, uint64_t until_us, json_t **message, int *passed) must_check;
/* Takes what M says; PASSED, too (-1 then), when it is of use. False: it makes no sense here. */
typedef bool (*packet_take_fn)(void *context, const json_t *m, int *passed);
/*
 * Give all that comes to TAKE, until the message UNTIL comes (without a descriptor), which is
 * *LAST. wait_ms  for all of it Errors: ERR_TIMEOUT, ERR_PEER_CLOSED, ERR_SYNTAX (also: TAKE says
 * false); *LAST is none then.
 */
enum err packet_hear(int fd, const char *until, uint64_t wait_ms, packet_take_fn take,
                     void *context, json_t **last) must_check;

#endif
