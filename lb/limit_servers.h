/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RLB_LB_LIMIT_SERVERS_H
#define RLB_LB_LIMIT_SERVERS_H
#include "common/base/settings.h"
#include "common/net/counter_client.h"
size_t limit_servers(const struct text_list *l,
                     struct counter_server_address out[COUNTER_SERVERS_MAX]);
#endif
