/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as tables, and as JSON.
 */
#include "common/base/json.h"
#include "ctl/cli/table.h"
#include "ctl/inspect/trace.h"

static unsigned long long ull(uint64_t v)
{
    return (unsigned long long)v;
}

static double seconds(uint64_t us)
{
    return (double)us / 1e6;
}

static double mean_seconds(uint64_t sum_us, uint64_t n)
{
    return n != 0 ? seconds(sum_us) / (double)n : 0;
}

static bool shown(size_t i, uint64_t top)
{
    return top == 0 || i < top;
}

/* ---- tables ---- */

static void print_head(const struct trace_report *r, const struct trace_print *p, struct text *out)
{
    text_addf(out, "%llu records, ", ull(r->records));
    trace_line_print_second(r->first_us, out);
    text_add(out, SLICE_LIT(" to "));
    trace_line_print_second(r->last_us, out);
    text_addf(
        out, "\n%llu requests: %llu finished, %llu unfinished, %llu refused; %llu sent again\n",
        ull(r->requests), ull(r->finished), ull(r->unfinished_all), ull(r->refused), ull(r->again));
    text_addf(out, "%llu restarts, %llu upgrades\n", ull(r->restarts), ull(r->upgrades));
    if (r->busiest != 0) {
        text_addf(out, "busiest moment: %zu requests under way at ", r->busiest);
        trace_line_print_second(r->busiest_us, out);
        text_add_char(out, '\n');
    }
    if (p->bad_lines != 0)
        text_addf(out, "%llu lines left out; the first, line %llu: %s\n", ull(p->bad_lines),
                  ull(p->first_bad), p->bad_why);
    if (r->left_out != 0)
        text_addf(out, "%llu requests left out: too many under way at once\n", ull(r->left_out));
}

static void print_minutes(const struct trace_report *r, struct text *out)
{
    static const struct table_column columns[] = {
        {"minute", false}, {"most", true},  {"input", true},  {"waiting", true}, {"app", true},
        {"output", true},  {"ended", true}, {"mean s", true}, {"app s", true},
    };
    struct table t;
    struct text at = {0};

    table_init(&t, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < r->nminutes; ++i) {
        const struct trace_minute *m = &r->minutes[i];

        text_clear(&at);
        trace_line_print_second(m->at_us, &at);
        table_add(&t, (struct slice){at.p, at.len - strlen(":00")});
        table_addf(&t, "%zu", m->most);
        for (size_t s = 0; s < TRACE_STATES; ++s)
            table_addf(&t, "%zu", m->states[s]);
        table_addf(&t, "%llu", ull(m->finished));
        table_addf(&t, "%.3f", mean_seconds(m->total_us, m->finished));
        table_addf(&t, "%.3f", mean_seconds(m->app_us, m->timed));
    }
    text_add(out, SLICE_LIT("\nrequests under way at the end of each minute\n"));
    table_print(&t, 2, out);
    if (r->minutes_cut)
        text_add(out, SLICE_LIT("  ... and more\n"));
    table_fini(&t);
    text_fini(&at);
}

static void print_urls(const struct trace_report *r, uint64_t top, struct text *out)
{
    static const struct table_column columns[] = {
        {"impact", true}, {"count", true},      {"min", true},     {"median", true}, {"mean", true},
        {"max", true},    {"unfinished", true}, {"refused", true}, {"2xx", true},    {"3xx", true},
        {"4xx", true},    {"5xx", true},        {"URL", false},
    };
    struct table t;

    table_init(&t, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < r->nurls && shown(i, top); ++i) {
        const struct trace_url *u = r->by_impact[i];

        table_addf(&t, "%.1f", u->impact);
        table_addf(&t, "%llu", ull(u->finished));
        table_addf(&t, "%.3f", seconds(u->min_us));
        table_addf(&t, "%.3f", seconds(u->median_us));
        table_addf(&t, "%.3f", mean_seconds(u->sum_us, u->timed));
        table_addf(&t, "%.3f", seconds(u->max_us));
        table_addf(&t, "%llu", ull(u->unfinished));
        table_addf(&t, "%llu", ull(u->refused));
        for (size_t s = 2; s < ARRAY_LEN(u->statuses); ++s)
            table_addf(&t, "%llu", ull(u->statuses[s]));
        table_add(&t, slice_of(u->path));
    }
    if (r->nurls != 0)
        text_add(out, SLICE_LIT("\nseconds in the application, by URL\n"));
    table_print(&t, 2, out);
    table_fini(&t);
    if (!shown(r->nurls - 1, top) && r->nurls != 0)
        text_addf(out, "  ... and %zu more (--top 0 shows all)\n", r->nurls - (size_t)top);
}

static void print_unfinished(const struct trace_report *r, uint64_t top, struct text *out)
{
    static const struct table_column columns[] = {{"request", false}, {"began", false},
                                                  {"after s", true},  {"was in", false},
                                                  {"why", false},     {"URL", false}};
    struct table t;
    struct text at = {0};
    size_t n = 0;

    table_init(&t, columns, ARRAY_LEN(columns));
    for (; n < r->nunfinished && shown(n, top); ++n) {
        const struct trace_unfinished *u = &r->unfinished[n];

        text_clear(&at);
        trace_line_print_second(u->begun_us, &at);
        table_add(&t, slice_of(u->id));
        table_add(&t, text_slice(&at));
        table_addf(&t, "%.3f", seconds(u->age_us));
        table_add(&t, slice_of(trace_state_name(u->state)));
        table_add(&t, slice_of(u->why));
        table_addf(&t, "%s %s", u->method, u->url->path);
    }
    if (n != 0)
        text_add(out, SLICE_LIT("\nunfinished requests\n"));
    table_print(&t, 2, out);
    if (r->unfinished_all > n)
        text_addf(out, "  ... and %llu more\n", ull(r->unfinished_all - n));
    table_fini(&t);
    text_fini(&at);
}

void trace_report_print(const struct trace_report *r, const struct trace_print *p, struct text *out)
{
    print_head(r, p, out);
    if (p->minutes)
        print_minutes(r, out);
    print_urls(r, p->top, out);
    print_unfinished(r, p->top, out);
}

/* ---- JSON ---- */

static void put_count(struct json_writer *w, const char *name, uint64_t v)
{
    json_put_int(w, name, (int64_t)v);
}

/* Seconds since 1970. */
static void put_time(struct json_writer *w, const char *name, uint64_t us)
{
    json_put_real(w, name, seconds(us));
}

/* What stands in a log need not be UTF-8, which JSON is. */
static void put_bytes(struct json_writer *w, const char *name, const char *s)
{
    struct text t = {0};

    text_add_visible(&t, slice_of(s));
    json_put_text(w, name, text_slice(&t));
    text_fini(&t);
}

static void put_url(struct json_writer *w, const struct trace_url *u)
{
    static const char *const names[] = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};

    json_open_object(w, NULL);
    put_bytes(w, "url", u->path);
    json_put_real(w, "impact_s", u->impact);
    put_count(w, "count", u->finished);
    put_count(w, "unfinished", u->unfinished);
    put_count(w, "refused", u->refused);
    json_put_real(w, "min_s", seconds(u->min_us));
    json_put_real(w, "median_s", seconds(u->median_us));
    json_put_real(w, "mean_s", mean_seconds(u->sum_us, u->timed));
    json_put_real(w, "max_s", seconds(u->max_us));
    json_open_object(w, "statuses");
    for (size_t i = 0; i < ARRAY_LEN(names); ++i)
        put_count(w, names[i], u->statuses[i]);
    json_close_object(w);
    json_close_object(w);
}

static void put_minute(struct json_writer *w, const struct trace_minute *m)
{
    json_open_object(w, NULL);
    put_time(w, "at", m->at_us);
    put_count(w, "most", m->most);
    for (size_t s = 0; s < TRACE_STATES; ++s)
        put_count(w, trace_state_name((enum trace_state)s), m->states[s]);
    put_count(w, "finished", m->finished);
    json_put_real(w, "mean_s", mean_seconds(m->total_us, m->finished));
    json_put_real(w, "application_mean_s", mean_seconds(m->app_us, m->timed));
    json_close_object(w);
}

static void put_unfinished(struct json_writer *w, const struct trace_unfinished *u)
{
    json_open_object(w, NULL);
    put_bytes(w, "id", u->id);
    put_bytes(w, "method", u->method);
    put_bytes(w, "url", u->url->path);
    json_put_text(w, "state", slice_of(trace_state_name(u->state)));
    put_bytes(w, "why", u->why);
    put_time(w, "began", u->begun_us);
    json_put_real(w, "after_s", seconds(u->age_us));
    json_close_object(w);
}

static void put_figures(struct json_writer *w, const struct trace_report *r,
                        const struct trace_print *p)
{
    put_count(w, "records", r->records);
    put_count(w, "bad_lines", p->bad_lines);
    put_count(w, "requests", r->requests);
    put_count(w, "finished", r->finished);
    put_count(w, "unfinished_requests", r->unfinished_all);
    put_count(w, "refused", r->refused);
    put_count(w, "sent_again", r->again);
    put_count(w, "left_out", r->left_out);
    put_count(w, "restarts", r->restarts);
    put_count(w, "upgrades", r->upgrades);
    put_time(w, "from", r->first_us);
    put_time(w, "to", r->last_us);
    json_open_object(w, "busiest");
    put_count(w, "requests", r->busiest);
    put_time(w, "at", r->busiest_us);
    json_close_object(w);
}

void trace_report_json(const struct trace_report *r, const struct trace_print *p, struct text *out)
{
    struct json_writer w = {.out = out};

    json_open_object(&w, NULL);
    put_figures(&w, r, p);
    json_open_array(&w, "urls");
    for (size_t i = 0; i < r->nurls && shown(i, p->top); ++i)
        put_url(&w, r->by_impact[i]);
    json_close_array(&w);
    json_open_array(&w, "minutes");
    for (size_t i = 0; i < r->nminutes; ++i)
        put_minute(&w, &r->minutes[i]);
    json_close_array(&w);
    json_open_array(&w, "unfinished");
    for (size_t i = 0; i < r->nunfinished && shown(i, p->top); ++i)
        put_unfinished(&w, &r->unfinished[i]);
    json_close_array(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
}
