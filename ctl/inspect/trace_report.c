/* SPDX-License-Identifier: Apache-2.0
 *
 *   B --> input -- I --> wait -- C --> application -- A --> output -- E --> finished
 *           \______________\_______________\_____________\
 *                            S, X, an end of another kind, the log's end: unfinished
 */
#include <stdlib.h>

#include "ctl/inspect/trace.h"

/* A request under way. */
struct active {
    struct map_node node;
    char id[TRACE_LINE_ID_MAX + 1];
    struct trace_url *url;
    char *method;
    enum trace_state state;
    bool called, answered;
    unsigned status;
    uint64_t begun_us, called_us, answered_us;
};

static uint64_t since(uint64_t later, uint64_t earlier)
{
    return later > earlier ? later - earlier : 0;
}

const char *trace_state_name(enum trace_state s)
{
    static const char *const names[TRACE_STATES] = {"input", "waiting", "application", "output"};

    return names[s];
}

/* ---- URLs ---- */

static struct trace_url *url_of(struct trace_report *r, struct slice path)
{
    if (r->nurls >= TRACE_URLS_MAX && map_find(&r->urls, path.p, path.len) == NULL)
        path = SLICE_LIT("(others)");
    struct trace_url *u = map_entry(map_find(&r->urls, path.p, path.len), struct trace_url, node);

    if (u != NULL)
        return u;
    u = xcalloc(1, sizeof(*u));
    u->path = xslicedup(path);
    map_add(&r->urls, &u->node, u->path, path.len);
    ++r->nurls;
    return u;
}

static void keep_time(struct trace_report *r, struct trace_url *u, uint64_t us)
{
    u->min_us = u->timed == 0 || us < u->min_us ? us : u->min_us;
    u->max_us = us > u->max_us ? us : u->max_us;
    u->sum_us += us;
    ++u->timed;
    if (r->times >= TRACE_TIMES_MAX)
        return;
    ++r->times;
    if (u->ntimes == u->room) {
        u->room = u->room != 0 ? u->room * 2 : 8;
        u->times = xrealloc(u->times, u->room * sizeof(u->times[0]));
    }
    u->times[u->ntimes++] = us;
}

/* ---- requests ---- */

static struct active *find(const struct trace_report *r, struct slice id)
{
    return map_entry(map_find(&r->active, id.p, id.len), struct active, node);
}

static void enter(struct trace_report *r, struct active *a, enum trace_state s)
{
    --r->states[a->state];
    ++r->states[s];
    a->state = s;
}

static void leave(struct trace_report *r, struct active *a)
{
    --r->states[a->state];
    --r->nactive;
    map_remove(&r->active, &a->node);
    free(a->method);
    free(a);
}

/* NAME and TEXT say why. */
static void note_unfinished(struct trace_report *r, const struct active *a, struct slice name,
                            struct slice text)
{
    struct text why = {0};

    if (r->nunfinished == TRACE_UNFINISHED_MAX)
        return;
    r->unfinished = xrealloc(r->unfinished, (r->nunfinished + 1) * sizeof(r->unfinished[0]));
    struct trace_unfinished *u = &r->unfinished[r->nunfinished++];

    text_add(&why, name);
    if (text.len != 0)
        text_add(&why, SLICE_LIT(": "));
    text_add(&why, text);
    *u = (struct trace_unfinished){.url = a->url,
                                   .method = xstrdup(a->method),
                                   .why = xslicedup(text_slice(&why)),
                                   .state = a->state,
                                   .begun_us = a->begun_us,
                                   .age_us = since(r->last_us, a->begun_us)};
    memcpy(u->id, a->id, sizeof(u->id));
    text_fini(&why);
}

static void end_unfinished(struct trace_report *r, struct active *a, struct slice name,
                           struct slice text)
{
    ++a->url->unfinished;
    ++r->unfinished_all;
    note_unfinished(r, a, name, text);
    leave(r, a);
}

static void end_all(struct trace_report *r, struct slice why)
{
    map_for_each_safe (struct active, a, &r->active, node)
        end_unfinished(r, a, why, SLICE_NULL);
}

static void begin(struct trace_report *r, const struct trace_line *l)
{
    struct active *a = find(r, l->id);

    if (a != NULL)
        end_unfinished(r, a, SLICE_LIT("another request has its name"), SLICE_NULL);
    ++r->requests;
    if (r->nactive == TRACE_ACTIVE_MAX) {
        ++r->left_out;
        return;
    }
    a = xcalloc(1, sizeof(*a));
    memcpy(a->id, l->id.p, l->id.len);
    a->url = url_of(r, l->path);
    a->method = xslicedup(l->method);
    a->begun_us = l->time_us;
    a->state = TRACE_INPUT;
    map_add(&r->active, &a->node, a->id, l->id.len);
    ++r->states[TRACE_INPUT];
    if (++r->nactive > r->busiest) {
        r->busiest = r->nactive;
        r->busiest_us = l->time_us;
    }
}

static void end(struct trace_report *r, struct active *a, uint64_t now_us)
{
    struct trace_minute *m = r->nminutes != 0 ? &r->minutes[r->nminutes - 1] : NULL;
    uint64_t app_us = since(a->answered_us, a->called_us);
    bool timed = a->called && a->answered;

    ++r->finished;
    ++a->url->finished;
    if (a->answered)
        ++a->url->statuses[a->status / 100 < 6 ? a->status / 100 : 0];
    if (timed)
        keep_time(r, a->url, app_us);
    if (m != NULL && !r->minutes_cut) {
        ++m->finished;
        m->total_us += since(now_us, a->begun_us);
        m->timed += timed;
        m->app_us += timed ? app_us : 0;
    }
    leave(r, a);
}

/* What agents of ours say beside; of others, nothing is known. */
static void take_note(struct trace_report *r, struct active *a, const struct trace_line *l)
{
    struct slice name = l->name;

    if (slice_is(name, "resumelb.upgraded"))
        ++r->upgrades;
    if (a == NULL || !slice_starts(name, SLICE_LIT("resumelb.")))
        return;
    name.p += strlen("resumelb.");
    name.len -= strlen("resumelb.");
    if (slice_is(name, "again")) {
        ++r->again;
    } else if (slice_is(name, "refused")) {
        ++a->url->refused;
        ++r->refused;
        leave(r, a);
    } else if (slice_is(name, "failed") || slice_is(name, "cut") || slice_is(name, "gone")) {
        end_unfinished(r, a, name, l->text);
    }
}

/* ---- minutes ---- */

static void close_minute(struct trace_report *r)
{
    if (r->nminutes != 0 && !r->minutes_cut)
        memcpy(r->minutes[r->nminutes - 1].states, r->states, sizeof(r->states));
}

static void take_time(struct trace_report *r, uint64_t now_us)
{
    uint64_t at_us = now_us - now_us % 60000000;

    if (r->records == 0)
        r->first_us = now_us;
    r->last_us = now_us;
    if (r->nminutes != 0 && r->minutes[r->nminutes - 1].at_us == at_us)
        return;
    close_minute(r);
    if (r->nminutes == TRACE_MINUTES_MAX) {
        r->minutes_cut = true;
        return;
    }
    r->minutes = xrealloc(r->minutes, (r->nminutes + 1) * sizeof(r->minutes[0]));
    r->minutes[r->nminutes++] = (struct trace_minute){.at_us = at_us, .most = r->nactive};
}

/* ---- records ---- */

static void answered(struct trace_report *r, struct active *a, const struct trace_line *l)
{
    enter(r, a, TRACE_OUTPUT);
    a->answered = true;
    a->answered_us = l->time_us;
    a->status = l->status;
}

static void called(struct trace_report *r, struct active *a, const struct trace_line *l)
{
    enter(r, a, TRACE_APP);
    a->called = true;
    a->called_us = l->time_us;
}

static void take_stage(struct trace_report *r, const struct trace_line *l)
{
    struct active *a = find(r, l->id);

    switch (l->stage) {
    case 'I':
        if (a != NULL)
            enter(r, a, TRACE_WAIT);
        break;
    case 'C':
        if (a != NULL)
            called(r, a, l);
        break;
    case 'A':
        if (a != NULL)
            answered(r, a, l);
        break;
    case 'E':
        if (a != NULL)
            end(r, a, l->time_us);
        break;
    case '-':
        take_note(r, a, l);
        break;
    default: /* D */
        break;
    }
}

void trace_report_add(struct trace_report *r, const struct trace_line *l)
{
    take_time(r, l->time_us);
    if (l->stage == 'S') {
        end_all(r, SLICE_LIT("the server was restarted"));
        ++r->starts;
        r->restarts += r->records != 0;
    } else if (l->stage == 'X') {
        end_all(r, SLICE_LIT("the server ended"));
        ++r->ends;
    } else if (l->stage == 'B') {
        begin(r, l);
    } else {
        take_stage(r, l);
    }
    ++r->records;
    if (r->nminutes != 0 && !r->minutes_cut && r->nactive > r->minutes[r->nminutes - 1].most)
        r->minutes[r->nminutes - 1].most = r->nactive;
}

/* ---- the end ---- */

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The largest impact first, then the most unfinished, then by name. */
static int compare_urls(const void *a, const void *b)
{
    const struct trace_url *x = *(struct trace_url *const *)a;
    const struct trace_url *y = *(struct trace_url *const *)b;

    if (x->impact < y->impact || x->impact > y->impact)
        return x->impact < y->impact ? 1 : -1;
    if (x->unfinished != y->unfinished)
        return x->unfinished < y->unfinished ? 1 : -1;
    return strcmp(x->path, y->path);
}

static void settle(struct trace_url *u)
{
    size_t n = u->ntimes;

    if (n == 0)
        return;
    qsort(u->times, n, sizeof(u->times[0]), compare_times);
    u->median_us = n % 2 != 0 ? u->times[n / 2] : (u->times[n / 2 - 1] + u->times[n / 2]) / 2;
    u->impact = (double)u->sum_us / (double)u->timed * (double)(u->timed + u->unfinished) / 1e6;
}

void trace_report_end(struct trace_report *r)
{
    size_t i = 0;

    close_minute(r);
    end_all(r, SLICE_LIT("under way at the end of the log"));
    r->by_impact = xcalloc(r->nurls + 1, sizeof(r->by_impact[0]));
    map_for_each (struct trace_url, u, &r->urls, node) {
        settle(u);
        r->by_impact[i++] = u;
    }
    qsort(r->by_impact, r->nurls, sizeof(r->by_impact[0]), compare_urls);
}

void trace_report_fini(struct trace_report *r)
{
    map_for_each_safe (struct active, a, &r->active, node)
        leave(r, a);
    map_for_each_safe (struct trace_url, u, &r->urls, node) {
        map_remove(&r->urls, &u->node);
        free(u->times);
        free(u->path);
        free(u);
    }
    for (size_t i = 0; i < r->nunfinished; ++i) {
        free(r->unfinished[i].method);
        free(r->unfinished[i].why);
    }
    free(r->unfinished);
    free(r->by_impact);
    free(r->minutes);
    *r = (struct trace_report){0};
}
