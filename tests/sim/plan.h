/* SPDX-License-Identifier: Apache-2.0
 *
 * A scenario of the simulator (sim/scenario.h) with policy adaptive, as tests run it: classes by
 * host, and service times as a proxy measures them.
 */
#pragma once

#include <stdlib.h>

#include "sim/scenario.h"

/* The workers, costs and clients of bench/affinity. */
static inline struct plan_options plan_usual(uint64_t seed)
{
    return (struct plan_options){.world = {.workers = 16,
                                           .cache = 2000,
                                           .base_ns = 10000000,
                                           .hit_ns = 20000,
                                           .load_ns = 2000000,
                                           .history = 200,
                                           .balancers = 1,
                                           .homes_delay_ns = 1000000000,
                                           .queue_is_service = true},
                                 .workload = {.sites = 500,
                                              .zipf = 0.9,
                                              .site_objects = 60,
                                              .request_objects = 20,
                                              .seed = seed},
                                 .clients = 64,
                                 .scale = 1};
}

static inline void run_scenario(enum scenario scenario, const struct plan_options *o,
                                struct plan_result *out)
{
    const struct pool_settings s = {.policy = POOL_POLICY_ADAPTIVE,
                                    .variance = 4,
                                    .backlog_history = 9,
                                    .max_share = 0.4375,
                                    .unskilled_score = 1,
                                    .max_classes = 100000,
                                    .max_waiting = 1};
    struct plan_classes classes = {0};
    struct plan *p = NULL;

    assert_int_equal(plan_create(scenario, o, &p), ERR_OK);
    classes.of = xcalloc(p->trace.n, sizeof(classes.of[0]));
    for (size_t i = 0; i < p->trace.n; ++i) {
        const struct trace_page *page = &p->trace.pages[p->trace.requests[i].page];

        assert_true(names_intern(&classes.names, trace_host(&p->trace, page), &classes.of[i]));
    }
    plan_run(p, &classes, &s, out);
    assert_int_equal(out->main.failed, 0);
    names_fini(&classes.names);
    free(classes.of);
    plan_destroy(p);
}
