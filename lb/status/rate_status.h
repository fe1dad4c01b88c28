/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators see of request rates on /status.json. Control thread.
 */
#ifndef RLB_LB_STATUS_RATE_STATUS_H
#define RLB_LB_STATUS_RATE_STATUS_H

#include "common/base/json.h"
#include "lb/core/application.h"

/* "rates", a list: member of the application's object. */
void rate_status_describe(const struct application *a, struct json_writer *w);

#endif
