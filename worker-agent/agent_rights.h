/* SPDX-License-Identifier: Apache-2.0
 *
 * Setting `user`: what root alone can do is done first (keys are read with the configuration,
 * addresses bound, state_dir made), then the agent becomes that user, before its keeper is forked
 * and any thread is there. So the keeper and the processes are that user's, too, and no application
 * can have another one (agent_config.c refuses it). Main thread.
 */
#ifndef RLB_AGENT_AGENT_RIGHTS_H
#define RLB_AGENT_AGENT_RIGHTS_H

#include "worker-agent/agent_internal.h"

/* A's configuration is read, and it is known whether there is an agent before. False: it cannot be
 * (logged). */
bool agent_rights_settle(struct agent *a) must_check;

#endif
