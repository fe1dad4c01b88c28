/* SPDX-License-Identifier: Apache-2.0
 *
 * The page that people read: /status.json as HTML, whole without scripts. Pure function.
 */
#ifndef RLB_AGENT_STATUS_PAGE_H
#define RLB_AGENT_STATUS_PAGE_H

#include <jansson.h>

#include "common/base/text.h"

/* Append the page for STATUS, what /status.json says; missing members are shown as a dash. */
void status_page(const json_t *status, struct text *out);

#endif
