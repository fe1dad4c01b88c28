/* SPDX-License-Identifier: Apache-2.0
 *
 * Being followed by a new program (SIGUSR2): it is tested, started, given the listening sockets
 * (heir.h) and, by the keeper, the application processes; then we finish the requests that we have,
 * and exit. Until it serves, whatever goes wrong leaves us as we were; and should it die after that
 * while we are still there, we take everything back. Owned by the agent; control loop only.
 */
#ifndef RLB_AGENT_UPGRADE_H
#define RLB_AGENT_UPGRADE_H

#include "common/base/base.h"

struct agent;
struct upgrade;

/* SIGUSR2. */
void upgrade_begin(struct agent *a);
/* Whether the new program serves in our place: we have but to finish. */
bool upgrade_handed_over(const struct agent *a);
/* Give it up: the new program is killed, all is as before. Harmless when there is none, or it has
 * taken over. */
void upgrade_abandon(struct agent *a);
/* At our end. */
void upgrade_destroy(struct upgrade *u);

#endif
