/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rate_status.h"

#include <inttypes.h>

#include "lb/lb.h"
#include "lb/rate_rule.h"
#include "lb/status.h"

static const struct rate_figure {
    const char *name, *metric, *kind, *unit, *doc;
    size_t offset; /* in struct rate_view */
} figures[] = {
    {"passed", "rate_passed_total", "counter", "requests", "Requests that a rate let pass.",
     offsetof(struct rate_view, passed)},
    {"refused", "rate_refused_total", "counter", "requests", "Requests that came too often.",
     offsetof(struct rate_view, refused)},
    {"shadow_refused", "rate_shadow_refused_total", "counter", "requests",
     "Requests that a rate with shadow: true would have refused.",
     offsetof(struct rate_view, shadow_refused)},
    {"keys", "rate_keys", "gauge", "keys", "Keys that are remembered.",
     offsetof(struct rate_view, keys)},
    {"evicted", "rate_evicted_total", "counter", "keys",
     "Keys that were forgotten to make room: max_keys may be too small.",
     offsetof(struct rate_view, evicted)},
};

static uint64_t figure_of(const struct rate_figure *f, const struct rate_view *v)
{
    return *(const uint64_t *)(const void *)((const char *)v + f->offset);
}

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
        for (size_t k = 0; k < ARRAY_LEN(figures); ++k)
            json_put_int(w, figures[k].name, (int64_t)figure_of(&figures[k], &v));
        json_close_object(w);
    }
    json_close_array(w);
}

static void add_rule(const struct application *a, const struct rate_rule *rule,
                     const struct rate_figure *f, struct text *out)
{
    struct rate_view v;

    rate_counter_view(rule->counter, &v);
    text_addf(out, "resumelb_%s{", f->metric);
    status_add_label(out, "application", slice_of(a->name));
    text_add_char(out, ',');
    status_add_label(out, "rate", slice_of(rule->name));
    text_addf(out, "} %" PRIu64 "\n", figure_of(f, &v));
}

void rate_metrics(const struct lb *lb, struct text *out)
{
    for (size_t k = 0; k < ARRAY_LEN(figures); ++k) {
        const struct rate_figure *f = &figures[k];

        text_addf(out, "# HELP resumelb_%s %s\n# TYPE resumelb_%s %s\n", f->metric, f->doc,
                  f->metric, f->kind);
        for (size_t i = 0; i < lb->napplications; ++i) {
            const struct rate_rules *r = rules_of(lb->applications[i]);

            for (size_t n = 0; n < r->n; ++n)
                add_rule(lb->applications[i], &r->rules[n], f, out);
        }
    }
}

void rate_metrics_describe(FILE *out)
{
    for (size_t k = 0; k < ARRAY_LEN(figures); ++k)
        fprintf(out, "| `resumelb_%s` | %s | %s | rate | %s |\n", figures[k].metric,
                figures[k].kind, figures[k].unit, figures[k].doc);
}
