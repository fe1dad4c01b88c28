/* SPDX-License-Identifier: Apache-2.0
 *
 * One application (struct app_group of model.h): its settings and slots. Owned by the pool. Control
 * loop only.
 */
#ifndef RLB_AGENT_POOL_APP_GROUP_H
#define RLB_AGENT_POOL_APP_GROUP_H

#include "worker-agent/pool/model.h"

struct app_group *app_group_create(struct app_pool *pool, const struct app_config *c);
/* Slots and the application's own addresses listen. False: logged. */
bool app_group_listen(struct app_group *g);
void app_group_stop_listening(struct app_group *g);
/* Register, watch the tree, start what is always there. After adoption. */
void app_group_start(struct app_group *g);
void app_group_configure(struct app_group *g, const struct app_config *c);
/* The host's budget is another; core_tick() is the caller's. */
void app_group_budget_changed(struct app_group *g);
/* No process has it any more. */
void app_group_destroy(struct app_group *g);

#endif
