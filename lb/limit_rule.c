/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limit_rule.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "lb/limit_counter.h"

struct limit_rules *limit_rules_ref(struct limit_rules *r)
{
    if (r != NULL)
        atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void limit_rules_unref(struct limit_rules *r)
{
    if (r == NULL || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < r->n; ++i) {
        struct limit_rule *rule = &r->rules[i];

        limit_counter_unref(rule->counter);
        settings_fini(&counter_table, &rule->s);
        settings_fini(&match_table, &rule->s);
        text_fini(&rule->page);
        free(rule->name);
    }
    free(r->rules);
    free(r);
}
