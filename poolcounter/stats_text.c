/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of FULL in their order. The original computes times in single precision, so that its
 * fractions mean little after some days; ours are exact.
 */
#include "poolcounter/stats_text.h"

#include <inttypes.h>

enum {
    SECOND_US = 1000000,
    MINUTE_S = 60,
    HOUR_S = 60 * MINUTE_S,
    DAY_S = 24 * HOUR_S,
};

/* ---- times ---- */

static uint64_t processing(const struct stats_figures *f)
{
    return f->counters.processing_us;
}

static uint64_t average(const struct stats_figures *f)
{
    return f->counters.processed != 0 ? f->counters.processing_us / f->counters.processed : 0;
}

static uint64_t gained(const struct stats_figures *f)
{
    return f->counters.gained_us;
}

static uint64_t waited(const struct stats_figures *f)
{
    return f->counters.waited_me_us + f->counters.waited_any_us;
}

static uint64_t waited_me(const struct stats_figures *f)
{
    return f->counters.waited_me_us;
}

static uint64_t waited_any(const struct stats_figures *f)
{
    return f->counters.waited_any_us;
}

static uint64_t waited_good(const struct stats_figures *f)
{
    return f->counters.waited_good_us;
}

static uint64_t wasted(const struct stats_figures *f)
{
    return f->counters.wasted_us;
}

static const struct {
    const char *name;
    uint64_t (*value_us)(const struct stats_figures *f);
} times[] = {
    {"total processing time", processing},
    {"average processing time", average},
    {"gained time", gained},
    {"waiting time", waited},
    {"waiting time for me", waited_me},
    {"waiting time for anyone", waited_any},
    {"waiting time for good", waited_good},
    {"wasted timeout time", wasted},
};

/* "1 days 2h 3m 4.000000s", from the first part of which there is one at least. */
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

/* ---- counters ---- */

struct count {
    const char *name;
    size_t offset; /* in struct stats_figures */
    bool is_size;  /* a size_t, else a uint64_t */
};

#define COUNT(name, member)                                                                        \
    {                                                                                              \
        name, offsetof(struct stats_figures, member), false                                        \
    }
#define GAUGE(name, member)                                                                        \
    {                                                                                              \
        name, offsetof(struct stats_figures, member), true                                         \
    }

static const struct count counts[] = {
    COUNT("total_acquired", counters.acquired),  COUNT("total_releases", counters.released),
    GAUGE("hashtable_entries", counters.keys),   GAUGE("processing_workers", counters.held),
    GAUGE("waiting_workers", counters.waiting),  COUNT("connect_errors", connect_errors),
    COUNT("failed_sends", failed_sends),         COUNT("full_queues", counters.full),
    COUNT("lock_mismatch", lock_mismatch),       COUNT("lock_while_waiting", lock_while_waiting),
    COUNT("release_mismatch", release_mismatch), COUNT("processed_count", counters.processed),
};

static const struct count extra_counts[] = {
    COUNT("connections", connections),
    COUNT("done", counters.done),
    COUNT("timeouts", counters.timeouts),
    COUNT("immediate_timeouts", counters.timeouts_at_once),
    COUNT("abandoned_waits", counters.given_up),
    COUNT("out_of_memory", counters.no_room),
    COUNT("bad_commands", bad_commands),
};

static void add_count(struct text *out, const struct stats_figures *f, const struct count *c)
{
    const void *at = (const char *)f + c->offset;
    uint64_t n = c->is_size ? *(const size_t *)at : *(const uint64_t *)at;

    text_addf(out, "%s: %" PRIu64 "\n", c->name, n);
}

static void add_counts(struct text *out, const struct stats_figures *f, const struct count *c,
                       size_t n)
{
    for (size_t i = 0; i < n; ++i)
        add_count(out, f, &c[i]);
}

static const struct count *find_count(struct slice name, const struct count *c, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        if (slice_eq_nocase(name, slice_of(c[i].name)))
            return &c[i];
    }
    return NULL;
}

/* ---- all ---- */

static void add_full(struct text *out, const struct stats_figures *f, bool extra)
{
    add_uptime(out, f->uptime_us);
    for (size_t i = 0; i < ARRAY_LEN(times); ++i)
        add_time(out, times[i].name, times[i].value_us(f));
    add_counts(out, f, counts, ARRAY_LEN(counts));
    if (extra)
        add_counts(out, f, extra_counts, ARRAY_LEN(extra_counts));
    text_add_char(out, '\n');
}

bool stats_text(const struct stats_figures *f, struct slice what, bool extra, struct text *out)
{
    if (slice_eq_nocase(what, SLICE_LIT("FULL"))) {
        add_full(out, f, extra);
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
    const struct count *c = find_count(what, counts, ARRAY_LEN(counts));
    if (c == NULL && extra)
        c = find_count(what, extra_counts, ARRAY_LEN(extra_counts));
    if (c == NULL)
        return false;
    add_count(out, f, c);
    return true;
}
