/* SPDX-License-Identifier: Apache-2.0
 *
 * Setting `user`: what root alone can do is done first (keys are read with the configuration,
 * addresses bound, state_dir made), then the agent becomes that user, before any thread is there.
 *
 *   no application has another user   the agent drops its rights, then forks the keeper: the keeper
 *                                     and the processes are that user's, too
 *   some have                         the agent forks the keeper, then drops its rights: the keeper
 *                                     stays root, and starts processes of the configuration's users
 *                                     alone (keeper_rights.h). state_dir is root's.
 *
 * A new agent after SIGUSR2 is that user from its start, and has the keeper of the one before. Main
 * thread.
 */
#ifndef RLB_AGENT_AGENT_RIGHTS_H
#define RLB_AGENT_AGENT_RIGHTS_H

#include "worker-agent/agent_internal.h"

/* A's configuration is read, and it is known whether there is an agent before. False: it cannot be
 * (logged). */
bool agent_rights_settle(struct agent *a) must_check;
/* The keeper is there: what rights are left are given up. False: they cannot be (logged). */
bool agent_rights_drop(struct agent *a) must_check;

#endif
