/* SPDX-License-Identifier: Apache-2.0
 *
 * All applications of this host under one budget of processes (struct app_pool of model.h). Owned
 * by the agent. Control loop only.
 */
#pragma once

#include "worker-agent/pool/model.h"
#include "worker-agent/supervisor/supervisor.h"

/* The shared parts of POOL must be set. */
void app_pool_init(struct app_pool *pool);
void app_pool_fini(struct app_pool *pool);
/* Creates the groups. Takes the ADOPTED processes. False: a slot cannot listen (logged). */
bool app_pool_start(struct app_pool *pool, const struct agent_config *c,
                    struct adoptable_list *adopted);
/*
 * The first part of app_pool_start(): the settings of the host. Cached values of the host's node
 * are effective immediately, not only after the tree has failed to respond in time: a smaller
 * maximum in the file would otherwise end processes that have just been adopted.
 */
void app_pool_start_host(struct app_pool *pool, const struct agent_config *c);
/* Applies the re-read C. The previous one may be freed then, except that of app_pool_start(). */
void app_pool_configure(struct app_pool *pool, const struct agent_config *c);

/* The process with that id, or NULL. */
struct app_process *app_pool_process(const struct app_pool *pool, struct slice id);
/* Calls EACH for all processes, which it may release. */
void app_pool_each_process(struct app_pool *pool, void (*each)(struct app_process *p));

/* Handles the loss of the supervisor: all processes are treated as dead. */
void app_pool_supervisor_lost(struct app_pool *pool);

/* ---- another agent takes over ---- */
/* From now on nothing is started, ended, published or stored. */
void app_pool_hand_over(struct app_pool *pool);
/* The new agent has died: reverts app_pool_hand_over(). */
void app_pool_take_back(struct app_pool *pool);
/* The new agent serves: slots are unregistered, and streams are closed. */
void app_pool_hand_over_names(struct app_pool *pool);
/* The old agent sends nothing to processes any more: ends those that are to be replaced. */
void app_pool_old_agent_exited(struct app_pool *pool);

/* ---- the end ---- */
/* Begins the drain: slots report it, and continue to serve. */
void app_pool_drain(struct app_pool *pool);
/* Closes streams, unregisters slots and rejects new requests; outstanding requests continue. */
void app_pool_leave(struct app_pool *pool);
/* Number of requests that wait or run. */
size_t app_pool_requests(const struct app_pool *pool);
/* Rejects waiting requests, ends all processes (AT_ONCE: SIGKILL); may call empty() itself. */
void app_pool_stop(struct app_pool *pool, bool at_once);
void app_pool_stop_listening(struct app_pool *pool);
