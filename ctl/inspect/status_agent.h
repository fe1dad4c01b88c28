/* SPDX-License-Identifier: Apache-2.0
 *
 * What `resumelbctl status` prints of an agent. Pure functions over a borrowed page.
 */
#ifndef RLB_CTL_INSPECT_STATUS_AGENT_H
#define RLB_CTL_INSPECT_STATUS_AGENT_H

#include "ctl/cli/ctl.h"

/* Whether PAGE is an agent's /status.json. */
bool status_is_agent(const json_t *page);
/* The page has passed page_check(). */
void status_agent_print(const json_t *page, const struct ctl_options *o, struct text *out);

#endif
