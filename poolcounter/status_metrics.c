/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics: the figures of stats.def, those that the counters count themselves, and those by type.
 * Types are named by clients, but their number is bounded (max_types).
 */
#include "poolcounter/status.h"

static void each_snapshot(struct metrics *m, const void *context)
{
    metrics_put(m, context, SLICE_NULL, SLICE_NULL);
}

static void each_counter(struct metrics *m, const void *context)
{
    metrics_put(m, &((const struct server_snapshot *)context)->counters, SLICE_NULL, SLICE_NULL);
}

/* Bytes of a type that no text should have are escaped. */
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
#define COUNTER(name, kind, unit, type, member, doc) {name, STAT_##kind, unit, NULL, doc, each_counter, METRIC_MEMBER(type, struct counter_stats, member)}
#define TYPE(name, kind, unit, type, member, doc) {name, STAT_##kind, unit, "type", doc, each_type, METRIC_MEMBER(type, struct type_figures, member)}
#define SNAPSHOT(name, unit, type, member, doc) {name, STAT_GAUGE, unit, NULL, doc, each_snapshot, METRIC_MEMBER(type, struct server_snapshot, member)}

const struct metric counter_metrics[COUNTER_METRICS] = {
    COUNTER("acquired_total", COUNTER, "requests", COUNT, acquired, "LOCKED answered, at once or later."),
    COUNTER("released_total", COUNTER, "requests", COUNT, released, "RELEASED answered."),
    COUNTER("processed_total", COUNTER, "requests", COUNT, processed, "Requests that held and have ended, by release or because their client disconnected."),
    COUNTER("done_total", COUNTER, "requests", COUNT, done, "DONE answered."),
    COUNTER("queue_full_total", COUNTER, "requests", COUNT, full, "QUEUE_FULL answered."),
    COUNTER("timeouts_total", COUNTER, "requests", COUNT, timeouts, "TIMEOUT answered after waiting."),
    COUNTER("timeouts_at_once_total", COUNTER, "requests", COUNT, timeouts_at_once, "TIMEOUT answered at once: the request did not wait."),
    COUNTER("given_up_total", COUNTER, "requests", COUNT, given_up, "Waits given up, by RELEASE or because the client disconnected."),
    COUNTER("no_room_total", COUNTER, "requests", COUNT, no_room, "Requests answered ERROR OUT_OF_MEMORY."),
    COUNTER("processing_seconds_total", COUNTER, "seconds", TIME, processing_us, "Time that requests held, of those that have ended."),
    COUNTER("gained_seconds_total", COUNTER, "seconds", TIME, gained_us, "Time since the releaser's LOCKED, for each DONE."),
    COUNTER("waited_me_seconds_total", COUNTER, "seconds", TIME, waited_me_us, "Waits of ACQ4ME that ended in LOCKED."),
    COUNTER("waited_any_seconds_total", COUNTER, "seconds", TIME, waited_any_us, "Waits of ACQ4ANY that ended in LOCKED."),
    COUNTER("waited_good_seconds_total", COUNTER, "seconds", TIME, waited_good_us, "Waits that ended in DONE."),
    COUNTER("wasted_seconds_total", COUNTER, "seconds", TIME, wasted_us, "Waits that ended in TIMEOUT."),
    COUNTER("keys", GAUGE, "keys", COUNT, keys, "Keys that are held or waited for."),
    COUNTER("held", GAUGE, "requests", COUNT, held, "Requests that hold."),
    COUNTER("waiting", GAUGE, "requests", COUNT, waiting, "Requests that wait."),
};

static const struct metric metrics[] = {
    TYPE("type_acquired_total", COUNTER, "requests", COUNT, acquired, "LOCKED answered, by type of key."),
    TYPE("type_done_total", COUNTER, "requests", COUNT, done, "DONE answered, by type of key."),
    TYPE("type_queue_full_total", COUNTER, "requests", COUNT, full, "QUEUE_FULL answered, by type of key."),
    TYPE("type_timeouts_total", COUNTER, "requests", COUNT, timeouts, "TIMEOUT answered, at once or after waiting, by type of key."),
    TYPE("type_no_room_total", COUNTER, "requests", COUNT, no_room, "ERROR OUT_OF_MEMORY answered, by type of key."),
    TYPE("type_waited_seconds_total", COUNTER, "seconds", TIME, waited_us, "Waits that ended in LOCKED or DONE, by type of key."),
    TYPE("type_worked_seconds_total", COUNTER, "seconds", TIME, worked_us, "Time that requests held, of those that have ended, by type of key."),
    TYPE("type_held", GAUGE, "requests", COUNT, held, "Requests that hold, by type of key."),
    TYPE("type_waiting", GAUGE, "requests", COUNT, waiting, "Requests that wait, by type of key."),
    SNAPSHOT("oldest_holder_seconds", "seconds", TIME, oldest_us, "How long the oldest holder has held; 0 if there is none."),
    SNAPSHOT("uptime_seconds", "seconds", TIME, uptime_us, "Time since the server started."),
    SNAPSHOT("client_addresses", "addresses", COUNT, addresses, "Addresses that clients are connected from."),
};
/* clang-format on */

void status_metrics(const struct server_snapshot *s, const struct stats *stats, struct metrics *m)
{
    const struct stats_set set = {stats, SLICE_NULL};

    m->prefix = POOLCOUNTER_PREFIX;
    metrics_put_stats(m, &set, 1);
    metrics_put_all(m, counter_metrics, COUNTER_METRICS, s);
    metrics_put_all(m, metrics, ARRAY_LEN(metrics), s);
}

void status_describe(FILE *out)
{
    metrics_describe_stats(POOLCOUNTER_PREFIX, &poolcounter_stats_table, out);
    fputs("\nThose that the counters count themselves, and those by type of key (`types`).\n\n",
          out);
    metrics_describe_head(out);
    metrics_describe(POOLCOUNTER_PREFIX, counter_metrics, COUNTER_METRICS, out);
    metrics_describe(POOLCOUNTER_PREFIX, metrics, ARRAY_LEN(metrics), out);
}
