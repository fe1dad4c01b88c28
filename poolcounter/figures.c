/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures by type; what STATS shows; and what the status pages show, copied on the server's thread,
 * so that they are made on another one.
 */
#include "poolcounter/server_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/stats/metrics.h"

/* ---- types ---- */

void types_fini(struct types *t)
{
    map_for_each_safe (struct type_entry, entry, &t->map, node) {
        map_remove(&t->map, &entry->node);
        free(entry);
    }
}

struct type_entry *types_get(struct types *t, struct slice name)
{
    struct type_entry *entry =
        map_entry(map_find(&t->map, name.p, name.len), struct type_entry, node);

    if (entry != NULL)
        return entry;
    if (name.len == 0 || map_count(&t->map) >= t->max)
        return &t->others;
    entry = malloc(sizeof(*entry) + name.len);
    if (entry == NULL)
        return &t->others;
    char *bytes = (char *)(entry + 1);
    memcpy(bytes, name.p, name.len);
    *entry = (struct type_entry){.name = {bytes, name.len}};
    if (!map_try_add(&t->map, &entry->node, bytes, name.len)) {
        free(entry);
        return &t->others;
    }
    return entry;
}

/*
 * ---- STATS ----
 *
 * The rows of FULL in their order. The original computes times in single precision, so that its
 * fractions mean little after some days; ours are exact.
 */

enum {
    SECOND_US = 1000000,
    MINUTE_S = 60,
    HOUR_S = 60 * MINUTE_S,
    DAY_S = 24 * HOUR_S,
};

/* "1 days 2h 3m 4.000000s", without leading parts that are zero. */
static void add_time(struct text *out, const char *name, uint64_t us)
{
    uint64_t s = us / SECOND_US;

    text_addf(out, "%s: ", name);
    if (s >= DAY_S)
        text_addf(out, "%" PRIu64 " days ", s / DAY_S);
    if (s >= HOUR_S)
        text_addf(out, "%" PRIu64 "h ", s % DAY_S / HOUR_S);
    if (s >= MINUTE_S)
        text_addf(out, "%" PRIu64 "m ", s % HOUR_S / MINUTE_S);
    text_addf(out, "%" PRIu64 ".%06" PRIu64 "s\n", s % MINUTE_S, us % SECOND_US);
}

static void add_uptime(struct text *out, uint64_t us)
{
    uint64_t s = us / SECOND_US;

    text_addf(out, "uptime: %" PRIu64 " days, %" PRIu64 "h %" PRIu64 "m %" PRIu64 "s\n", s / DAY_S,
              s % DAY_S / HOUR_S, s % HOUR_S / MINUTE_S, s % MINUTE_S);
}

enum { ORIGINAL_COUNTS = 12 };

#define COUNT(name_, member)                                                                       \
    {                                                                                              \
        .name = (name_), METRIC_MEMBER(COUNT, struct stats_figures, member)                        \
    }

static const struct metric counts[] = {
    COUNT("total_acquired", counters.acquired),
    COUNT("total_releases", counters.released),
    COUNT("hashtable_entries", counters.keys),
    COUNT("processing_workers", counters.held),
    COUNT("waiting_workers", counters.waiting),
    COUNT("connect_errors", stats[STAT_connect_errors]),
    COUNT("failed_sends", stats[STAT_failed_sends]),
    COUNT("full_queues", counters.full),
    COUNT("lock_mismatch", stats[STAT_lock_mismatch]),
    COUNT("lock_while_waiting", stats[STAT_lock_while_waiting]),
    COUNT("release_mismatch", stats[STAT_release_mismatch]),
    COUNT("processed_count", counters.processed),
    /* ours */
    COUNT("connections", stats[STAT_connections]),
    COUNT("done", counters.done),
    COUNT("timeouts", counters.timeouts),
    COUNT("immediate_timeouts", counters.timeouts_at_once),
    COUNT("abandoned_waits", counters.given_up),
    COUNT("out_of_memory", counters.no_room),
    COUNT("bad_commands", stats[STAT_bad_commands]),
};

static void add_count(struct text *out, const struct stats_figures *f, const struct metric *c)
{
    text_addf(out, "%s: %" PRIu64 "\n", c->name, (uint64_t)metric_value(c, f));
}

bool stats_text(const struct stats_figures *f, struct slice what, bool extra, struct text *out)
{
    const struct counter_stats *c = &f->counters;
    size_t ncounts = extra ? ARRAY_LEN(counts) : ORIGINAL_COUNTS;

    if (slice_eq_nocase(what, SLICE_LIT("FULL"))) {
        add_uptime(out, f->uptime_us);
        add_time(out, "total processing time", c->processing_us);
        add_time(out, "average processing time",
                 c->processed != 0 ? c->processing_us / c->processed : 0);
        add_time(out, "gained time", c->gained_us);
        add_time(out, "waiting time", c->waited_me_us + c->waited_any_us);
        add_time(out, "waiting time for me", c->waited_me_us);
        add_time(out, "waiting time for anyone", c->waited_any_us);
        add_time(out, "waiting time for good", c->waited_good_us);
        add_time(out, "wasted timeout time", c->wasted_us);
        for (size_t i = 0; i < ncounts; ++i)
            add_count(out, f, &counts[i]);
        text_add_char(out, '\n');
        return true;
    }
    if (slice_eq_nocase(what, SLICE_LIT("UPTIME"))) {
        add_uptime(out, f->uptime_us);
        return true;
    }
    if (slice_eq_nocase(what, SLICE_LIT("SLOTS"))) {
        text_add(out, SLICE_LIT("slots: 1\n"));
        return true;
    }
    for (size_t i = 0; i < ncounts; ++i) {
        if (slice_eq_nocase(what, slice_of(counts[i].name))) {
            add_count(out, f, &counts[i]);
            return true;
        }
    }
    return false;
}

/* ---- the snapshot ---- */

void server_snapshot(struct server *s, void *snapshot)
{
    struct server_snapshot *out = snapshot;
    const struct counter_lease *oldest = counter_oldest(s->table);
    struct topk_row rows[SNAPSHOT_KEYS_MAX];

    *out = (struct server_snapshot){
        .counters = *counter_stats(s->table),
        .uptime_us = s->now_us - s->started_us,
        .clients = s->nclients,
        .addresses = address_counts_size(s->sources),
        .types = xcalloc(map_count(&s->types.map) + 1, sizeof(*out->types)),
        .nkeys = topk_read(s->top, rows, SNAPSHOT_KEYS_MAX),
    };
    if (oldest != NULL) {
        const struct client_lock *cl =
            (const struct client_lock *)((const char *)oldest - offsetof(struct client_lock, lock));
        struct slice key = counter_key_of(oldest);
        struct addr a = {.len = sizeof(a.un)};

        out->has_oldest = true;
        out->oldest_us = s->now_us - oldest->since_us;
        out->oldest_key_bytes =
            key.len < sizeof(out->oldest_key) ? key.len : sizeof(out->oldest_key);
        memcpy(out->oldest_key, key.p, out->oldest_key_bytes);
        if (getpeername(cl->client->fd, &a.sa, &a.len) != 0)
            a.len = 0;
        if (a.len > sizeof(a.un))
            a.len = sizeof(a.un);
        a = addr_plain(&a);
        (void)addr_format(&a, out->oldest_client);
    }
    map_for_each (struct type_entry, entry, &s->types.map, node)
        out->types[out->ntypes++] =
            (struct type_row){.name = entry->name, .figures = entry->figures};
    out->types[out->ntypes++] = (struct type_row){.figures = s->types.others.figures};
    for (size_t i = 0; i < out->nkeys; ++i) {
        out->keys[i] = (struct key_row){
            .name = {xslicedup(rows[i].key), rows[i].key.len},
            .waited_us = rows[i].sum,
            .over_us = rows[i].over,
            .waits = rows[i].count,
        };
    }
}

void server_snapshot_fini(struct server_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->nkeys; ++i)
        free((char *)(uintptr_t)snapshot->keys[i].name.p);
    free(snapshot->types);
}
