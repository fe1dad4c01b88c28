/* SPDX-License-Identifier: Apache-2.0
 *
 * Being followed by a new program (SIGUSR2): it is started, and given the sockets (predecessor.h);
 * when it accepts, we drain. Until then, whatever goes wrong leaves us as we were. Owned by lb.c;
 * control loop only.
 */
#ifndef RLB_LB_UPGRADE_H
#define RLB_LB_UPGRADE_H

#include "common/base/base.h"

struct lb;
struct upgrade;

/* SIGUSR2. */
void upgrade_begin(struct lb *lb);
/* We are told to end: a new program that does not accept yet is killed, one that does is told as
 * well. Harmless when there is none. */
void upgrade_abandon(struct lb *lb);
/* At our end. NULL is fine. */
void upgrade_destroy(struct upgrade *u);

#endif
