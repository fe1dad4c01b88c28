/* SPDX-License-Identifier: Apache-2.0
 *
 * What came of it, as tables and as JSON.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/base/json.h"
#include "ctl/cli/table.h"
#include "ctl/simulate/simulate.h"
#include "routing/shadow_json.h"

static double share_of(uint64_t part, uint64_t all)
{
    return (double)part / (double)(all != 0 ? all : 1);
}

void simulate_print_log(const struct simulate *s, struct text *out)
{
    const struct simulate_log *log = &s->log;
    size_t bad = log->lines - log->requests - log->cut;

    text_addf(out, "%s: %zu requests over %.0f s%s\n", s->log_file, log->requests, log->span_s,
              log->cut ? ", and more that were not read" : "");
    if (bad == 0)
        return;
    text_addf(out, "  %zu of %zu lines are of no use, the first of them line %zu:\n", bad,
              log->lines, log->first_bad);
    for (unsigned f = 0; f < ACCESS_FAULTS; ++f) {
        if (log->faults[f] != 0)
            text_addf(out, "  %8zu  %s\n", log->faults[f], access_fault_text((enum access_fault)f));
    }
}

/* ---- tables ---- */

static void print_model(const struct simulate_story *t, struct text *out)
{
    const struct plan_options *o = &t->plan->options;
    const struct plan_phase *phase = &t->plan->phases[t->plan->main];

    text_addf(out, "%s: %s\n", scenario_name(t->plan->scenario), scenario_doc(t->plan->scenario));
    text_addf(out,
              "  %u workers with caches of %" PRIu32 " objects; %g ms a request, %g us a hit, "
              "%g ms a load",
              o->world.workers, o->world.cache, (double)o->world.base_ns / 1e6,
              (double)o->world.hit_ns / 1e3, (double)o->world.load_ns / 1e6);
    if (o->world.db_slots != 0)
        text_addf(out, ", %u loads at a time", o->world.db_slots);
    if (o->world.balancers > 1)
        text_addf(out, "; %u balancers", o->world.balancers);
    if (phase->clients != 0)
        text_addf(out, "; %u clients", phase->clients);
    text_addf(out, "; %zu requests, of which the %zu of '%s' are measured\n\n",
              plan_requests(t->plan), phase->trace.n, phase->name);
}

static void print_figures(const struct simulate_story *t, struct text *out)
{
    static const struct table_column columns[] = {
        {"policy", false},
        {"loads/req", true},
        {"req/s", true},
        {"p50 ms", true},
        {"p90 ms", true},
        {"p99 ms", true},
        {"busiest: requests", true},
        {"work", true},
        {"in >1 cache %", true},
        {"copies", true},
        {"workers/class", true},
        {"failed", true},
    };
    struct table table;
    struct text label = {0};

    table_init(&table, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < t->nvariants; ++i) {
        const struct plan_result *r = &t->variants[i].result;

        text_clear(&label);
        simulate_label(t->simulate, &t->variants[i], &label);
        table_add(&table, text_slice(&label));
        table_addf(&table, "%.2f", r->main.loads);
        table_addf(&table, "%.0f", r->main.rate);
        table_addf(&table, "%.0f", r->main.p50_ms);
        table_addf(&table, "%.0f", r->main.p90_ms);
        table_addf(&table, "%.0f", r->main.p99_ms);
        table_addf(&table, "%.2f", r->main.share_max);
        table_addf(&table, "%.2f", r->main.busy_max);
        table_addf(&table, "%.1f", 100 * share_of(r->overlap.shared, r->overlap.distinct));
        table_addf(&table, "%.2f", share_of(r->overlap.cached, r->overlap.distinct));
        table_addf(&table, "%.1f", r->main.class_workers);
        table_addf(&table, "%zu", r->main.failed);
    }
    table_print(&table, 2, out);
    table_fini(&table);
    text_fini(&label);
}

static void add_shadow(struct table *table, const struct pool_shadow_counts *c)
{
    double n = (double)c->requests;

    table_addf(table, "%.1f", 100 * share_of(c->differed, c->requests));
    table_addf(table, "%.1f", 100 * share_of(c->live_skilled, c->requests));
    table_addf(table, "%.1f", 100 * share_of(c->shadow_skilled, c->requests));
    table_addf(table, "%.1f", (double)c->live_wait_us / n / 1e3);
    table_addf(table, "%.1f", (double)c->shadow_wait_us / n / 1e3);
    table_addf(table, "%" PRIu64, c->overdue);
}

/* Of policies with shadow_policy, what the shadow says. */
static void print_shadows(const struct simulate_story *t, struct text *out)
{
    static const struct table_column columns[] = {
        {"policy, with a shadow", false},
        {"differed %", true},
        {"policy: skilled %", true},
        {"shadow", true},
        {"policy: wait ms/req", true},
        {"shadow", true},
        {"overdue", true},
    };
    struct table table;
    struct text label = {0};
    size_t n = 0;

    table_init(&table, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < t->nvariants; ++i) {
        const struct pool_shadow_counts *c = &t->variants[i].result.shadow;

        if (c->requests == 0)
            continue;
        text_clear(&label);
        simulate_label(t->simulate, &t->variants[i], &label);
        table_add(&table, text_slice(&label));
        add_shadow(&table, c);
        ++n;
    }
    if (n != 0) {
        text_add_char(out, '\n');
        table_print(&table, 2, out);
    }
    table_fini(&table);
    text_fini(&label);
}

/* What only this scenario is about. */
static void print_extras(const struct simulate_story *t, struct text *out)
{
    struct table_column columns[TABLE_COLUMNS_MAX] = {{"policy", false}};
    const struct plan_result *first = &t->variants[0].result;
    struct table table;
    struct text label = {0};

    if (first->nextras == 0)
        return;
    ASSERT(first->nextras < TABLE_COLUMNS_MAX);
    for (size_t k = 0; k < first->nextras; ++k)
        columns[k + 1] = (struct table_column){first->extras[k].title, true};
    text_add_char(out, '\n');
    table_init(&table, columns, first->nextras + 1);
    for (size_t i = 0; i < t->nvariants; ++i) {
        const struct plan_result *r = &t->variants[i].result;

        text_clear(&label);
        simulate_label(t->simulate, &t->variants[i], &label);
        table_add(&table, text_slice(&label));
        for (size_t k = 0; k < r->nextras; ++k)
            table_addf(&table, "%.*f", r->extras[k].decimals, r->extras[k].value);
    }
    table_print(&table, 2, out);
    table_fini(&table);
    text_fini(&label);
}

/* "12 % fewer", "3.4 times as many", "the same". */
static void add_change(struct text *out, double from, double to, const char *less, const char *more)
{
    double change = from > 0 ? to / from - 1 : 0;

    if (fabs(change) < 0.005)
        text_add(out, SLICE_LIT("the same"));
    else if (change < 0)
        text_addf(out, "%.0f %% %s", -100 * change, less);
    else if (change < 1)
        text_addf(out, "%.0f %% %s", 100 * change, more);
    else
        text_addf(out, "%.1f times %s", change + 1,
                  strcmp(more, "more") == 0 ? "as many" : "as high");
}

void simulate_print_gain(const struct simulate_story *t, struct text *out)
{
    const struct simulate_variant *from = simulate_baseline(t);
    const struct simulate_variant *to = simulate_best(t);
    const struct figures *a = &from->result.main;
    const struct figures *b = &to->result.main;

    if (from == to) {
        text_add(out, SLICE_LIT("Nothing here is better than "));
        simulate_label(t->simulate, from, out);
        text_add(out, SLICE_LIT("."));
        return;
    }
    text_add(out, SLICE_LIT("With "));
    simulate_label(t->simulate, to, out);
    text_add(out, SLICE_LIT(" rather than "));
    simulate_label(t->simulate, from, out);
    text_addf(out, ": %.2f loads per request rather than %.2f (", b->loads, a->loads);
    add_change(out, a->loads, b->loads, "fewer", "more");
    text_addf(out, "), %.0f requests a second rather than %.0f (", b->rate, a->rate);
    add_change(out, a->rate, b->rate, "fewer", "more");
    text_addf(out, "), and p99 is %.0f ms rather than %.0f (", b->p99_ms, a->p99_ms);
    add_change(out, a->p99_ms, b->p99_ms, "lower", "higher");
    text_add(out, SLICE_LIT(")."));
}

void simulate_print(const struct simulate_story *t, struct text *out)
{
    if (out->len != 0)
        text_add_char(out, '\n');
    print_model(t, out);
    print_figures(t, out);
    print_extras(t, out);
    print_shadows(t, out);
    text_add(out, SLICE_LIT("\n  "));
    simulate_print_gain(t, out);
    text_add_char(out, '\n');
}

/* ---- JSON ---- */

static void put_figures(struct json_writer *w, const struct figures *f)
{
    json_put_int(w, "requests", (int64_t)f->n);
    json_put_int(w, "failed", (int64_t)f->failed);
    json_put_real(w, "seconds", f->wall_s);
    json_put_real(w, "rate", f->rate);
    json_put_real(w, "loads", f->loads);
    json_put_real(w, "hit_share", f->hit_share);
    json_put_real(w, "mean_ms", f->mean_ms);
    json_put_real(w, "p50_ms", f->p50_ms);
    json_put_real(w, "p90_ms", f->p90_ms);
    json_put_real(w, "p99_ms", f->p99_ms);
    json_put_real(w, "max_ms", f->max_ms);
    json_put_real(w, "share_max", f->share_max);
    json_put_real(w, "busy_max", f->busy_max);
    json_put_real(w, "busy", f->busy);
    json_put_real(w, "class_workers", f->class_workers);
}

static void put_shadow(struct json_writer *w, const struct pool_shadow_counts *c)
{
    if (c->requests == 0)
        return;
    json_open_object(w, "shadow");
    shadow_json_put(w, c);
    json_close_object(w);
}

static void put_variant(struct json_writer *w, const struct simulate_story *t,
                        const struct simulate_variant *v)
{
    const struct plan_result *r = &v->result;
    const struct simulate *s = t->simulate;

    json_open_object(w, NULL);
    json_put_text(w, "policy", slice_of(s->policies[v->policy].label));
    json_put_text(w, "classifier", slice_of(s->classifiers[v->classifier].label));
    json_put_int(w, "classes", s->classifiers[v->classifier].classes.names.n);
    put_figures(w, &r->main);
    json_put_int(w, "cached", (int64_t)r->overlap.cached);
    json_put_int(w, "distinct", (int64_t)r->overlap.distinct);
    json_put_int(w, "in_several_caches", (int64_t)r->overlap.shared);
    put_shadow(w, &r->shadow);
    json_open_object(w, "of_scenario");
    for (size_t i = 0; i < r->nextras; ++i)
        json_put_real(w, r->extras[i].key, r->extras[i].value);
    json_close_object(w);
    json_open_array(w, "worker_shares");
    for (unsigned i = 0; i < r->nshares; ++i)
        json_put_real(w, NULL, r->shares[i]);
    json_close_array(w);
    json_close_object(w);
}

static void put_model(struct json_writer *w, const struct plan *p)
{
    const struct plan_options *o = &p->options;

    json_open_object(w, "model");
    json_put_int(w, "workers", o->world.workers);
    json_put_int(w, "cache", o->world.cache);
    json_put_real(w, "base_ms", (double)o->world.base_ns / 1e6);
    json_put_real(w, "hit_us", (double)o->world.hit_ns / 1e3);
    json_put_real(w, "load_ms", (double)o->world.load_ns / 1e6);
    json_put_int(w, "db_slots", o->world.db_slots);
    json_put_int(w, "balancers", o->world.balancers);
    json_put_int(w, "clients", p->phases[p->main].clients);
    json_put_int(w, "seed", (int64_t)o->workload.seed);
    json_put_int(w, "requests", (int64_t)plan_requests(p));
    json_close_object(w);
}

static void put_log(struct json_writer *w, const struct simulate *s)
{
    json_open_object(w, "log");
    json_put_int(w, "lines", (int64_t)s->log.lines);
    json_put_int(w, "requests", (int64_t)s->log.requests);
    json_put_int(w, "bad_lines", (int64_t)(s->log.lines - s->log.requests - s->log.cut));
    json_put_int(w, "first_bad_line", (int64_t)s->log.first_bad);
    json_put_bool(w, "cut", s->log.cut);
    json_put_real(w, "span_s", s->log.span_s);
    json_close_object(w);
}

void simulate_print_json(const struct simulate_story *const *stories, size_t n, struct text *out)
{
    struct json_writer w = {.out = out};

    json_open_object(&w, NULL);
    if (n != 0 && stories[0]->simulate->log_file != NULL)
        put_log(&w, stories[0]->simulate);
    json_open_array(&w, "scenarios");
    for (size_t i = 0; i < n; ++i) {
        const struct simulate_story *t = stories[i];

        json_open_object(&w, NULL);
        json_put_text(&w, "scenario", slice_of(scenario_name(t->plan->scenario)));
        put_model(&w, t->plan);
        json_open_array(&w, "variants");
        for (size_t k = 0; k < t->nvariants; ++k)
            put_variant(&w, t, &t->variants[k]);
        json_close_array(&w);
        json_close_object(&w);
    }
    json_close_array(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
}
