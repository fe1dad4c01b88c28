/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes to the figures of classes on /metrics (class_metrics.h).
 */
#include <stdlib.h>

#include "lb/core/traffic.h"
#include "lb/status/observer_internal.h"

enum { MOVE_LOOKS = 10 /* seconds between two checks for classes that replace others */ };

static double if_set(const struct traffic_note *n, unsigned flag, double weight)
{
    return (n->flags & flag) != 0 ? weight : 0;
}

void observer_count_class(const struct seen_app *a, const struct seen_class *c,
                          const struct traffic_note *n, double weight)
{
    bool by_skill = (n->flags & (TRAFFIC_SKILLED | TRAFFIC_SPILLED)) != 0;
    struct class_figures f = {
        .requests = weight,
        .failed = if_set(n, TRAFFIC_FAILED, weight),
        .limited = if_set(n, TRAFFIC_LIMITED, weight),
        .waited = if_set(n, TRAFFIC_WAITED, weight),
        .seconds = weight * (double)n->total_us / 1e6,
        .wait_seconds = weight * (double)n->wait_us / 1e6,
        .skilled = if_set(n, TRAFFIC_SKILLED, weight),
        .spilled = if_set(n, TRAFFIC_SPILLED, weight),
        .unskilled = n->worker.len != 0 && !by_skill ? weight : 0,
    };

    class_metrics_add(a->figures, c->series, &f);
}

const struct class_metrics *observer_class_metrics(const struct observer *o, size_t application)
{
    return o->apps[application].figures;
}

void observer_choose_classes(const struct observer *o, struct seen_app *a)
{
    size_t limit = (size_t)a->app->settings->s.metrics_classes;
    size_t known = map_count(&a->classes);
    size_t shown = class_metrics_count(a->figures);
    bool move = ++a->looks % MOVE_LOOKS == 0;
    size_t n = 0;

    /* Mostly there is nothing to choose. */
    if (shown <= limit && (shown == limit ? !move || limit == 0 : shown >= known))
        return;
    struct class_rank *ranks = xcalloc(known + 1, sizeof(*ranks));
    map_for_each (struct seen_class, c, &a->classes, by_name)
        ranks[n++] = (struct class_rank){map_key(&c->by_name),
                                         c->lasting * observer_lasting(c->at_s, o->now_s)};
    if (class_metrics_choose(a->figures, ranks, n, limit, move)) {
        map_for_each (struct seen_class, c, &a->classes, by_name)
            c->series = class_metrics_find(a->figures, map_key(&c->by_name));
    }
    free(ranks);
}
