/* SPDX-License-Identifier: Apache-2.0
 *
 * The pages of the admin address: `/`, /status.json, /metrics, /healthz, /readyz, made of a copy
 * that the server's thread hands out. Keys and types are a client's bytes: JSON's writer replaces
 * what is not UTF-8, and the number of types is bounded (max_types).
 */
#include "assets.h"
#include "common/base/json.h"
#include "common/stats/metrics.h"
#include "poolcounter/program.h"
#include "version.h"

/* ---- metrics: those of stats.def, those that the counters count themselves, those by type ---- */

static void each_snapshot(struct metrics *m, const void *context)
{
    metrics_put(m, context, SLICE_NULL, SLICE_NULL);
}

/* Control, quote and non-ASCII bytes in the name of a type are escaped. */
static void each_type(struct metrics *m, const void *context)
{
    const struct server_snapshot *s = context;
    struct text name = {0};

    for (size_t i = 0; i < s->ntypes; ++i) {
        text_clear(&name);
        text_add_escaped(&name, s->types[i].name);
        metrics_put(m, &s->types[i].figures, SLICE_NULL, text_slice(&name));
    }
    text_fini(&name);
}

/* clang-format off */
#define COUNTER(name, kind, unit, type, member, doc) {name, STAT_##kind, unit, NULL, doc, each_snapshot, METRIC_MEMBER(type, struct server_snapshot, counters.member)}
#define TYPE(name, kind, unit, type, member, doc) {name, STAT_##kind, unit, "type", doc, each_type, METRIC_MEMBER(type, struct type_figures, member)}
#define SNAPSHOT(name, unit, type, member, doc) {name, STAT_GAUGE, unit, NULL, doc, each_snapshot, METRIC_MEMBER(type, struct server_snapshot, member)}

static const struct metric counter_metrics[] = {
    COUNTER("acquired_total", COUNTER, "requests", COUNT, acquired, "LOCKED sent, at once or later."),
    COUNTER("released_total", COUNTER, "requests", COUNT, released, "RELEASED sent."),
    COUNTER("processed_total", COUNTER, "requests", COUNT, processed, "Locks that ended, by RELEASE or because their client disconnected."),
    COUNTER("done_total", COUNTER, "requests", COUNT, done, "DONE sent."),
    COUNTER("queue_full_total", COUNTER, "requests", COUNT, full, "QUEUE_FULL sent."),
    COUNTER("timeouts_total", COUNTER, "requests", COUNT, timeouts, "TIMEOUT sent after waiting."),
    COUNTER("timeouts_at_once_total", COUNTER, "requests", COUNT, timeouts_at_once, "TIMEOUT sent at once: the request did not wait."),
    COUNTER("given_up_total", COUNTER, "requests", COUNT, given_up, "Waits cancelled, by RELEASE or because the client disconnected."),
    COUNTER("no_room_total", COUNTER, "requests", COUNT, no_room, "Requests that got ERROR OUT_OF_MEMORY."),
    COUNTER("processing_seconds_total", COUNTER, "seconds", TIME, processing_us, "Time that requests held, of those that have ended."),
    COUNTER("gained_seconds_total", COUNTER, "seconds", TIME, gained_us, "Time since the releaser's LOCKED, for each DONE."),
    COUNTER("waited_me_seconds_total", COUNTER, "seconds", TIME, waited_me_us, "Waits of ACQ4ME that ended in LOCKED."),
    COUNTER("waited_any_seconds_total", COUNTER, "seconds", TIME, waited_any_us, "Waits of ACQ4ANY that ended in LOCKED."),
    COUNTER("waited_good_seconds_total", COUNTER, "seconds", TIME, waited_good_us, "Waits that ended in DONE."),
    COUNTER("wasted_seconds_total", COUNTER, "seconds", TIME, wasted_us, "Waits that ended in TIMEOUT."),
    COUNTER("keys", GAUGE, "keys", COUNT, keys, "Keys with holders or waiting requests."),
    COUNTER("held", GAUGE, "requests", COUNT, held, "Requests that hold a lock."),
    COUNTER("waiting", GAUGE, "requests", COUNT, waiting, "Requests that wait for a lock."),
};

static const struct metric metrics[] = {
    TYPE("type_acquired_total", COUNTER, "requests", COUNT, acquired, "LOCKED sent, by type of key."),
    TYPE("type_done_total", COUNTER, "requests", COUNT, done, "DONE sent, by type of key."),
    TYPE("type_queue_full_total", COUNTER, "requests", COUNT, full, "QUEUE_FULL sent, by type of key."),
    TYPE("type_timeouts_total", COUNTER, "requests", COUNT, timeouts, "TIMEOUT sent, at once or after waiting, by type of key."),
    TYPE("type_no_room_total", COUNTER, "requests", COUNT, no_room, "ERROR OUT_OF_MEMORY sent, by type of key."),
    TYPE("type_waited_seconds_total", COUNTER, "seconds", TIME, waited_us, "Waits that ended in LOCKED or DONE, by type of key."),
    TYPE("type_worked_seconds_total", COUNTER, "seconds", TIME, worked_us, "Time that requests held, of those that have ended, by type of key."),
    TYPE("type_held", GAUGE, "requests", COUNT, held, "Requests that hold, by type of key."),
    TYPE("type_waiting", GAUGE, "requests", COUNT, waiting, "Requests that wait, by type of key."),
    SNAPSHOT("oldest_holder_seconds", "seconds", TIME, oldest_us, "Time since the oldest holder acquired its lock; 0 if there is none."),
    SNAPSHOT("uptime_seconds", "seconds", TIME, uptime_us, "Time since the server started."),
    SNAPSHOT("client_addresses", "addresses", COUNT, addresses, "Addresses that clients are connected from."),
    METRIC_LOG_DROPPED(each_snapshot),
};
/* clang-format on */

void status_describe(FILE *out)
{
    metrics_describe_stats(POOLCOUNTER_PREFIX, &poolcounter_stats_table, out);
    fputs("\nMetrics of the counters themselves, and by type of key (`types`).\n\n", out);
    metrics_describe_head(out);
    metrics_describe(POOLCOUNTER_PREFIX, counter_metrics, ARRAY_LEN(counter_metrics), out);
    metrics_describe(POOLCOUNTER_PREFIX, metrics, ARRAY_LEN(metrics), out);
}

/* ---- JSON ---- */

static double pc_seconds(uint64_t us)
{
    return (double)us / 1e6;
}

static void put_histogram(struct json_writer *w, const char *name, const struct stats *stats,
                          enum poolcounter_stat stat)
{
    struct stat_histogram h;

    stats_histogram(stats, stat, &h);
    json_open_object(w, name);
    json_put_int(w, "count", (int64_t)h.count);
    json_put_real(w, "sum_s", pc_seconds(h.sum_us));
    json_put_real(w, "p50_s", pc_seconds(stats_quantile(&h, 0.5)));
    json_put_real(w, "p99_s", pc_seconds(stats_quantile(&h, 0.99)));
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
    json_put_real(w, "waited_s", pc_seconds(f->waited_us));
    json_put_real(w, "worked_s", pc_seconds(f->worked_us));
    json_close_object(w);
}

/* ---- pages ---- */

static int page_json(void *context, unused_ struct slice query, struct text *body)
{
    const struct poolcounter *p = context;
    struct server_snapshot snapshot;
    struct json_writer w = {.out = body};

    server_call(p->server, server_snapshot, &snapshot);
    json_open_object(&w, NULL);
    json_put_text(&w, "version", SLICE_LIT(RLB_VERSION));
    json_put_real(&w, "uptime_s", pc_seconds(snapshot.uptime_us));
    json_put_int(&w, "clients", (int64_t)snapshot.clients);
    json_put_int(&w, "client_addresses", (int64_t)snapshot.addresses);
    json_open_object(&w, "counters");
    for (size_t i = 0; i < ARRAY_LEN(counter_metrics); ++i)
        json_put_real(&w, counter_metrics[i].name, metric_value(&counter_metrics[i], &snapshot));
    json_close_object(&w);
    json_open_object(&w, "server");
    for (size_t i = 0; i < poolcounter_stats_table.n; ++i) {
        const struct stat_row *row = &poolcounter_stats_table.rows[i];

        if (row->kind != STAT_HISTOGRAM)
            json_put_int(&w, row->name, stats_sum(p->stats, i));
    }
    json_close_object(&w);
    put_histogram(&w, "wait", p->stats, STAT_wait_us);
    put_histogram(&w, "work", p->stats, STAT_work_us);
    if (snapshot.has_oldest) {
        json_open_object(&w, "oldest_holder");
        json_put_text(&w, "key", (struct slice){snapshot.oldest_key, snapshot.oldest_key_bytes});
        json_put_text(&w, "client", slice_of(snapshot.oldest_client));
        json_put_real(&w, "held_s", pc_seconds(snapshot.oldest_us));
        json_close_object(&w);
    } else {
        json_put_null(&w, "oldest_holder");
    }
    json_open_array(&w, "types");
    for (size_t i = 0; i < snapshot.ntypes; ++i)
        put_type(&w, &snapshot.types[i]);
    json_close_array(&w);
    json_open_array(&w, "most_waited_for");
    for (size_t i = 0; i < snapshot.nkeys; ++i) {
        json_open_object(&w, NULL);
        json_put_text(&w, "key", snapshot.keys[i].name);
        json_put_real(&w, "waited_s", pc_seconds(snapshot.keys[i].waited_us));
        json_put_real(&w, "too_much_by_at_most_s", pc_seconds(snapshot.keys[i].over_us));
        json_put_int(&w, "waits", (int64_t)snapshot.keys[i].waits);
        json_close_object(&w);
    }
    json_close_array(&w);
    json_close_object(&w);
    text_add_char(body, '\n');
    server_snapshot_fini(&snapshot);
    return 200;
}

static void page_metrics(void *context, struct metrics *m)
{
    const struct poolcounter *p = context;
    const struct stats_set set = {p->stats, SLICE_NULL};
    struct server_snapshot snapshot;

    server_call(p->server, server_snapshot, &snapshot);
    m->prefix = POOLCOUNTER_PREFIX;
    metrics_put_stats(m, &set, 1);
    metrics_put_all(m, counter_metrics, ARRAY_LEN(counter_metrics), &snapshot);
    metrics_put_all(m, metrics, ARRAY_LEN(metrics), &snapshot);
    server_snapshot_fini(&snapshot);
}

static int pc_page_ready(void *context, unused_ struct slice query, struct text *body)
{
    const struct poolcounter *p = context;

    text_add(body, p->handed_over ? SLICE_LIT("handed over\n") : SLICE_LIT("ready\n"));
    return p->handed_over ? 503 : 200;
}

void status_add(struct poolcounter *p)
{
    admin_add_status_page(
        p->admin, (struct slice){(const char *)asset_page_js, sizeof(asset_page_js)}, page_json, p);
    admin_add(p->admin, "/status.json", "application/json", page_json, p);
    admin_add_metrics(p->admin, page_metrics, p);
    admin_add_health(p->admin, pc_page_ready, p);
}
