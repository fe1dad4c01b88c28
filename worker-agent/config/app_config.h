/* SPDX-License-Identifier: Apache-2.0
 *
 * One application's part of the YAML file (struct app_config of agent_config.h), read and checked.
 */
#ifndef RLB_AGENT_CONFIG_APP_CONFIG_H
#define RLB_AGENT_CONFIG_APP_CONFIG_H

#include "worker-agent/config/agent_config.h"

/* Reads one application of the configuration AGENT, of which the top level must already be read.
 * Never returns NULL. Errors are added to D; after an error the result may only be passed to
 * app_config_destroy. */
struct app_config *app_config_read(const struct agent_config *agent, const struct config_node *key,
                                   const struct config_node *map, struct diag *d);
/*
 * Returns the number of slots of an application with settings S. Not applicable with attach.
 *   a  the addresses of its slots, which limit the number; NULL: slots without addresses, no limit
 */
unsigned app_config_slots(const struct app_settings *s, const struct slot_address *a,
                          unsigned host_max);
void app_config_destroy(struct app_config *c);

#endif
