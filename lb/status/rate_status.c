/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/status/rate_status.h"

#include "lb/limits/rate_rule.h"

static const struct rate_rules *rules_of(const struct application *a)
{
    static const struct rate_rules none = {.n = 0};

    return a->settings->rates != NULL ? a->settings->rates : &none;
}

void rate_status_describe(const struct application *a, struct json_writer *w)
{
    const struct rate_rules *r = rules_of(a);

    json_open_array(w, "rates");
    for (size_t i = 0; i < r->n; ++i) {
        const struct rate_rule *rule = &r->rules[i];
        struct rate_view v;

        rate_counter_view(rule->counter, &v);
        json_open_object(w, NULL);
        json_put_text(w, "name", slice_of(rule->name));
        json_put_int(w, "interval_ns", (int64_t)rule->rate.interval_ns);
        json_put_int(w, "burst", (int64_t)rule->rate.burst);
        json_put_bool(w, "shadow", rule->shadow);
        json_put_int(w, "passed", (int64_t)v.passed);
        json_put_int(w, "refused", (int64_t)v.refused);
        json_put_int(w, "shadow_refused", (int64_t)v.shadow_refused);
        json_put_int(w, "keys", (int64_t)v.keys);
        json_put_int(w, "evicted", (int64_t)v.evicted);
        json_close_object(w);
    }
    json_close_array(w);
}
