/* SPDX-License-Identifier: Apache-2.0
 *
 * /status.json, which the status page shows too. Keys and types are a client's bytes: JSON's writer
 * replaces what is not UTF-8.
 */
#include "poolcounter/status.h"

#include "common/base/json.h"
#include "version.h"

static double seconds(uint64_t us)
{
    return (double)us / 1e6;
}

static void put_counters(struct json_writer *w, const struct counter_stats *c)
{
    json_open_object(w, "counters");
    for (size_t i = 0; i < COUNTER_METRICS; ++i)
        json_put_real(w, counter_metrics[i].name, metric_value(&counter_metrics[i], c));
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
