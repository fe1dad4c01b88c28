/* SPDX-License-Identifier: Apache-2.0
 *
 * One application's part of the YAML file (struct app_config of agent_config.h), read and checked.
 */
#ifndef RLB_AGENT_CONFIG_APP_CONFIG_H
#define RLB_AGENT_CONFIG_APP_CONFIG_H

#include "worker-agent/config/agent_config.h"

/* Of the configuration AGENT, whose top is read. Never NULL; what was wrong is in D, and the result
 * then only good for app_config_destroy. */
struct app_config *app_config_read(const struct agent_config *agent, const struct config_node *key,
                                   const struct config_node *map, struct diag *d);
/*
 * How many slots an application with settings S has; not with attach.
 *   a  what its slots' addresses have room for; NULL: they have none, so any number
 */
unsigned app_config_slots(const struct app_settings *s, const struct slot_address *a,
                          unsigned host_max);
void app_config_destroy(struct app_config *c);

#endif
