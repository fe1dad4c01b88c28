/* SPDX-License-Identifier: Apache-2.0
 *
 * /status.json and `/`. Keys and types are a stranger's bytes: JSON's writer replaces what is no
 * UTF-8, and the page shows every one of them by text_add_html.
 */
#include "poolcounter/status.h"

#include <inttypes.h>

#include "common/wire/json.h"
#include "version.h"

static double seconds(uint64_t us)
{
    return (double)us / 1e6;
}

/* ---- JSON ---- */

static void put_counters(struct json_writer *w, const struct counter_stats *c)
{
    json_open_object(w, "counters");
#define FIGURE(member, name, kind, unit, doc) json_put_real(w, name, (double)c->member / (unit));
#include "poolcounter/counter_figure.def"
#undef FIGURE
    json_close_object(w);
}

static void put_histogram(struct json_writer *w, const char *name, const struct stats *stats,
                          enum poolcounter_stat stat)
{
    struct stat_histogram h;

    stats_histogram(stats, stat, &h);
    json_open_object(w, name);
    json_put_int(w, "count", (int64_t)h.count);
    json_put_real(w, "sum_s", seconds(h.sum_us));
    json_put_real(w, "p50_s", seconds(stats_quantile(&h, 0.5)));
    json_put_real(w, "p99_s", seconds(stats_quantile(&h, 0.99)));
    json_close_object(w);
}

static void put_stats(struct json_writer *w, const struct stats *stats)
{
    json_open_object(w, "server");
    for (size_t i = 0; i < poolcounter_stats_table.n; ++i) {
        const struct stat_row *row = &poolcounter_stats_table.rows[i];

        if (row->kind != STAT_HISTOGRAM)
            json_put_int(w, row->name, stats_sum(stats, i));
    }
    json_close_object(w);
    put_histogram(w, "wait", stats, STAT_wait_us);
    put_histogram(w, "work", stats, STAT_work_us);
}

static void put_oldest(struct json_writer *w, const struct server_snapshot *s)
{
    if (!s->has_oldest) {
        json_put_null(w, "oldest_holder");
        return;
    }
    json_open_object(w, "oldest_holder");
    json_put_text(w, "key", (struct slice){s->oldest_key, s->oldest_key_bytes});
    json_put_text(w, "client", slice_of(s->oldest_client));
    json_put_real(w, "held_s", seconds(s->oldest_us));
    json_close_object(w);
}

static void put_type(struct json_writer *w, const struct type_row *row)
{
    const struct type_figures *f = &row->figures;

    json_open_object(w, NULL);
    json_put_text(w, "type", row->name);
    json_put_int(w, "held", (int64_t)f->held);
    json_put_int(w, "waiting", (int64_t)f->waiting);
    json_put_int(w, "acquired", (int64_t)f->acquired);
    json_put_int(w, "done", (int64_t)f->done);
    json_put_int(w, "queue_full", (int64_t)f->full);
    json_put_int(w, "timeouts", (int64_t)f->timeouts);
    json_put_int(w, "no_room", (int64_t)f->no_room);
    json_put_real(w, "waited_s", seconds(f->waited_us));
    json_put_real(w, "worked_s", seconds(f->worked_us));
    json_close_object(w);
}

static void put_key(struct json_writer *w, const struct key_row *row)
{
    json_open_object(w, NULL);
    json_put_text(w, "key", row->name);
    json_put_real(w, "waited_s", seconds(row->waited_us));
    json_put_real(w, "too_much_by_at_most_s", seconds(row->over_us));
    json_put_int(w, "waits", (int64_t)row->waits);
    json_close_object(w);
}

void status_json(const struct server_snapshot *s, const struct stats *stats, struct text *out)
{
    struct json_writer w = {.out = out};

    json_open_object(&w, NULL);
    json_put_text(&w, "version", SLICE_LIT(RLB_VERSION));
    json_put_real(&w, "uptime_s", seconds(s->uptime_us));
    json_put_int(&w, "clients", (int64_t)s->clients);
    json_put_int(&w, "client_addresses", (int64_t)s->addresses);
    put_counters(&w, &s->counters);
    put_stats(&w, stats);
    put_oldest(&w, s);
    json_open_array(&w, "types");
    for (size_t i = 0; i < s->ntypes; ++i)
        put_type(&w, &s->types[i]);
    json_close_array(&w);
    json_open_array(&w, "most_waited_for");
    for (size_t i = 0; i < s->nkeys; ++i)
        put_key(&w, &s->keys[i]);
    json_close_array(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
}

/* ---- the page ---- */

static void add(struct text *out, const char *markup)
{
    text_add(out, slice_of(markup));
}

static void put_count(struct text *out, const char *name, uint64_t n)
{
    text_addf(out, "<dt>%s</dt><dd>%" PRIu64 "</dd>", name, n);
}

static void put_seconds(struct text *out, const char *name, double s)
{
    text_addf(out, "<dt>%s</dt><dd>%.3f s</dd>", name, s);
}

static void put_quantiles(struct text *out, const char *what, const struct stats *stats,
                          enum poolcounter_stat stat)
{
    struct stat_histogram h;

    stats_histogram(stats, stat, &h);
    text_addf(out, "<dt>%s, median and p99</dt><dd>%.4f s, %.4f s</dd>", what,
              seconds(stats_quantile(&h, 0.5)), seconds(stats_quantile(&h, 0.99)));
}

static void put_now(struct text *out, const struct server_snapshot *s, const struct stats *stats)
{
    const struct counter_stats *c = &s->counters;

    add(out, "<section><h2>Now</h2><dl>");
    put_count(out, "clients", s->clients);
    put_count(out, "keys", c->keys);
    put_count(out, "held", c->held);
    put_count(out, "waiting", c->waiting);
    add(out, "</dl><h2>Since the start</h2><dl>");
    put_count(out, "LOCKED", c->acquired);
    put_count(out, "DONE", c->done);
    put_count(out, "QUEUE_FULL", c->full);
    put_count(out, "TIMEOUT after waiting", c->timeouts);
    put_count(out, "TIMEOUT at once", c->timeouts_at_once);
    put_count(out, "waits given up", c->given_up);
    put_count(out, "OUT_OF_MEMORY", c->no_room);
    put_count(out, "bad commands", (uint64_t)stats_sum(stats, STAT_bad_commands));
    put_quantiles(out, "waits", stats, STAT_wait_us);
    put_quantiles(out, "work", stats, STAT_work_us);
    put_seconds(out, "uptime", seconds(s->uptime_us));
    add(out, "</dl></section>");
}

static void put_oldest_row(struct text *out, const struct server_snapshot *s)
{
    add(out, "<section><h2>Who holds the longest</h2>");
    if (!s->has_oldest) {
        add(out, "<p class=\"soft\">Nobody holds.</p></section>");
        return;
    }
    add(out, "<p>");
    text_add_html(out, (struct slice){s->oldest_key, s->oldest_key_bytes});
    text_addf(out, ", for %.1f s, by ", seconds(s->oldest_us));
    text_add_html(out, slice_of(s->oldest_client));
    add(out, "</p></section>");
}

static void put_type_row(struct text *out, const struct type_row *row)
{
    const struct type_figures *f = &row->figures;
    const uint64_t numbers[] = {f->held, f->waiting, f->acquired, f->done, f->full, f->timeouts};

    add(out, "<tr><td>");
    if (row->name.len != 0)
        text_add_html(out, row->name);
    else
        add(out, "<span class=\"soft\">all others</span>");
    add(out, "</td>");
    for (size_t i = 0; i < ARRAY_LEN(numbers); ++i)
        text_addf(out, "<td class=\"number\">%" PRIu64 "</td>", numbers[i]);
    text_addf(out, "<td class=\"number\">%.3f</td><td class=\"number\">%.3f</td></tr>",
              seconds(f->waited_us), seconds(f->worked_us));
}

static void put_keys(struct text *out, const struct server_snapshot *s)
{
    add(out, "<section><h2>Keys most waited for</h2><table><thead><tr><th>key</th>"
             "<th class=\"number\">waited, s</th><th class=\"number\">at least, s</th>"
             "<th class=\"number\">waits</th></tr></thead><tbody>");
    for (size_t i = 0; i < s->nkeys; ++i) {
        const struct key_row *row = &s->keys[i];

        add(out, "<tr><td>");
        text_add_html(out, row->name);
        text_addf(out,
                  "</td><td class=\"number\">%.3f</td><td class=\"number\">%.3f</td>"
                  "<td class=\"number\">%" PRIu64 "</td></tr>",
                  seconds(row->waited_us), seconds(row->waited_us - row->over_us), row->waits);
    }
    add(out, "</tbody></table></section>");
}

void status_page(const struct server_snapshot *s, const struct stats *stats, struct text *out)
{
    add(out, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
             "<title>resumelb-poolcounter</title>"
             "<link rel=\"stylesheet\" href=\"/status.css\"></head><body>"
             "<header><h1>resumelb-poolcounter</h1><p>" RLB_VERSION "</p>"
             "<nav><a href=\"/status.json\">JSON</a><a href=\"/metrics\">metrics</a></nav>"
             "</header>");
    put_now(out, s, stats);
    put_oldest_row(out, s);
    add(out, "<section><h2>Types of keys</h2><table><thead><tr><th>type</th>"
             "<th class=\"number\">held</th><th class=\"number\">waiting</th>"
             "<th class=\"number\">LOCKED</th><th class=\"number\">DONE</th>"
             "<th class=\"number\">QUEUE_FULL</th><th class=\"number\">TIMEOUT</th>"
             "<th class=\"number\">waited, s</th><th class=\"number\">worked, s</th>"
             "</tr></thead><tbody>");
    for (size_t i = 0; i < s->ntypes; ++i)
        put_type_row(out, &s->types[i]);
    add(out, "</tbody></table></section>");
    put_keys(out, s);
    add(out, "</body></html>\n");
}
