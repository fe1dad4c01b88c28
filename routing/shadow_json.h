/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of a shadow under the names of docs/guide/policies.md, for the status of the load
 * balancer and the reports of the simulator.
 */
#ifndef RLB_ROUTING_SHADOW_JSON_H
#define RLB_ROUTING_SHADOW_JSON_H

#include "common/base/json.h"
#include "routing/pool.h"

/* Into the object that is open. */
static inline void shadow_json_put(struct json_writer *w, const struct pool_shadow_counts *c)
{
    json_put_int(w, "requests", (int64_t)c->requests);
    json_put_int(w, "differed", (int64_t)c->differed);
    json_put_int(w, "policy_skilled", (int64_t)c->live_skilled);
    json_put_int(w, "shadow_skilled", (int64_t)c->shadow_skilled);
    json_put_real(w, "policy_wait_s", (double)c->live_wait_us / 1e6);
    json_put_real(w, "shadow_wait_s", (double)c->shadow_wait_us / 1e6);
    json_put_int(w, "overdue", (int64_t)c->overdue);
}

#endif
