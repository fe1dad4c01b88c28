/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl trace: evaluates a trace log.
 */
#include "common/base/json.h"
#include "ctl/cli/page.h"
#include "ctl/inspect/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- counting ---- */

/*
 *   B --> input -- I --> wait -- C --> application -- A --> output -- E --> finished
 *           \______________\_______________\_____________\
 *                            S, X, an end of another kind, the log's end: unfinished
 */

static uint64_t elapsed_since(uint64_t later, uint64_t earlier)
{
    return later > earlier ? later - earlier : 0;
}

static const char *const state_names[TRACE_STATES] = {"input", "waiting", "application", "output"};

static void trace_enter(struct trace_report *r, struct traced_request *a, enum trace_state s)
{
    --r->states[a->state];
    ++r->states[s];
    a->state = s;
}

static void remove_active(struct trace_report *r, struct traced_request *a)
{
    --r->states[a->state];
    map_remove(&r->active, &a->node);
}

static void trace_destroy(struct traced_request *a)
{
    free(a->method);
    free(a->why);
    free(a);
}

/* Ownership of WHY is taken. */
static void end_unfinished(struct trace_report *r, struct traced_request *a, char *why)
{
    remove_active(r, a);
    ++a->url->unfinished;
    ++r->unfinished_all;
    a->why = why;
    a->age_us = elapsed_since(r->last_us, a->begun_us);
    if (r->nunfinished == TRACE_UNFINISHED_MAX) {
        trace_destroy(a);
        return;
    }
    r->unfinished = xrealloc(r->unfinished, (r->nunfinished + 1) * sizeof(r->unfinished[0]));
    r->unfinished[r->nunfinished++] = a;
}

static void end_all(struct trace_report *r, const char *why)
{
    map_for_each_safe (struct traced_request, a, &r->active, node)
        end_unfinished(r, a, xstrdup(why));
}

/* A: a request in progress with the same id, or NULL. */
static void trace_begin(struct trace_report *r, const struct trace_line *l,
                        struct traced_request *a)
{
    struct slice path = l->path;

    if (a != NULL)
        end_unfinished(r, a, xstrdup("another request has its name"));
    ++r->requests;
    if (map_count(&r->active) == TRACE_ACTIVE_MAX) {
        ++r->left_out;
        return;
    }
    if (map_count(&r->urls) >= TRACE_URLS_MAX && map_find(&r->urls, path.p, path.len) == NULL)
        path = SLICE_LIT("(others)");
    struct trace_url *u = map_entry(map_find(&r->urls, path.p, path.len), struct trace_url, node);
    if (u == NULL) {
        u = xcalloc(1, sizeof(*u));
        u->path = xslicedup(path);
        map_add(&r->urls, &u->node, u->path, path.len);
    }
    a = xcalloc(1, sizeof(*a));
    memcpy(a->id, l->id.p, l->id.len);
    a->url = u;
    a->method = xslicedup(l->method);
    a->begun_us = l->time_us;
    a->state = TRACE_INPUT;
    map_add(&r->active, &a->node, a->id, l->id.len);
    ++r->states[TRACE_INPUT];
    if (map_count(&r->active) > r->busiest) {
        r->busiest = map_count(&r->active);
        r->busiest_us = l->time_us;
    }
}

static void trace_end(struct trace_report *r, struct traced_request *a, struct trace_minute *m)
{
    struct trace_url *u = a->url;
    uint64_t app_us = elapsed_since(a->responded_us, a->called_us);
    bool timed = a->called && a->responded;

    ++r->finished;
    ++u->finished;
    if (a->responded)
        ++u->statuses[a->status / 100 < 6 ? a->status / 100 : 0];
    if (timed) {
        u->min_us = u->timed == 0 || app_us < u->min_us ? app_us : u->min_us;
        u->max_us = app_us > u->max_us ? app_us : u->max_us;
        u->sum_us += app_us;
        ++u->timed;
    }
    if (timed && r->times < TRACE_TIMES_MAX) {
        ++r->times;
        u->times = xgrow(u->times, u->ntimes + 1, &u->room, sizeof(u->times[0]));
        u->times[u->ntimes++] = app_us;
    }
    ++m->finished;
    m->total_us += elapsed_since(r->last_us, a->begun_us);
    m->timed += timed;
    m->app_us += timed ? app_us : 0;
    remove_active(r, a);
    trace_destroy(a);
}

/* Further records of resumelb-agent; other servers have none. */
static void take_note(struct trace_report *r, struct traced_request *a, const struct trace_line *l)
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
    } else if (slice_is(name, "rejected")) {
        ++a->url->rejected;
        ++r->rejected;
        remove_active(r, a);
        trace_destroy(a);
    } else if (slice_is(name, "failed") || slice_is(name, "cut") || slice_is(name, "gone")) {
        end_unfinished(r, a,
                       xasprintf("%.*s%s%.*s", SLICE_FMT(name), l->text.len != 0 ? ": " : "",
                                 SLICE_FMT(l->text)));
    }
}

void trace_report_add(struct trace_report *r, const struct trace_line *l)
{
    uint64_t at_us = l->time_us - l->time_us % 60000000;
    size_t nactive = map_count(&r->active);
    struct traced_request *a =
        map_entry(map_find(&r->active, l->id.p, l->id.len), struct traced_request, node);

    if (r->records == 0)
        r->first_us = l->time_us;
    r->last_us = l->time_us;
    if (r->nminutes == 0 ||
        (r->nminutes <= TRACE_MINUTES_MAX && r->minutes[r->nminutes - 1].at_us != at_us)) {
        r->minutes = xrealloc(r->minutes, (r->nminutes + 1) * sizeof(r->minutes[0]));
        r->minutes[r->nminutes++] = (struct trace_minute){.at_us = at_us, .most = nactive};
    }
    struct trace_minute *m = &r->minutes[r->nminutes - 1];
    if (l->stage == 'S') {
        end_all(r, "the server was restarted");
        r->restarts += r->records != 0;
    } else if (l->stage == 'X') {
        end_all(r, "the server ended");
    } else if (l->stage == 'B') {
        trace_begin(r, l, a);
    } else if (l->stage == '-') {
        take_note(r, a, l);
    } else if (a != NULL && l->stage == 'I') {
        trace_enter(r, a, TRACE_WAIT);
    } else if (a != NULL && l->stage == 'C') {
        trace_enter(r, a, TRACE_APP);
        a->called = true;
        a->called_us = l->time_us;
    } else if (a != NULL && l->stage == 'A') {
        trace_enter(r, a, TRACE_OUTPUT);
        a->responded = true;
        a->responded_us = l->time_us;
        a->status = l->status;
    } else if (a != NULL && l->stage == 'E') {
        trace_end(r, a, m);
    }
    ++r->records;
    nactive = map_count(&r->active);
    m->most = nactive > m->most ? nactive : m->most;
    memcpy(m->states, r->states, sizeof(m->states));
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

void trace_report_end(struct trace_report *r)
{
    size_t nurls = map_count(&r->urls);
    size_t i = 0;

    end_all(r, "in progress at the end of the log");
    r->by_impact = xcalloc(nurls + 1, sizeof(r->by_impact[0]));
    map_for_each (struct trace_url, u, &r->urls, node) {
        size_t n = u->ntimes;

        r->by_impact[i++] = u;
        if (n == 0)
            continue;
        qsort(u->times, n, sizeof(u->times[0]), ascending_u64);
        u->median_us = n % 2 != 0 ? u->times[n / 2] : (u->times[n / 2 - 1] + u->times[n / 2]) / 2;
        u->impact = (double)u->sum_us / (double)u->timed * (double)(u->timed + u->unfinished) / 1e6;
    }
    qsort(r->by_impact, nurls, sizeof(r->by_impact[0]), compare_urls);
}

void trace_report_fini(struct trace_report *r)
{
    map_for_each_safe (struct traced_request, a, &r->active, node) {
        remove_active(r, a);
        trace_destroy(a);
    }
    map_for_each_safe (struct trace_url, u, &r->urls, node) {
        map_remove(&r->urls, &u->node);
        free(u->times);
        free(u->path);
        free(u);
    }
    for (size_t i = 0; i < r->nunfinished; ++i)
        trace_destroy(r->unfinished[i]);
    free(r->unfinished);
    free(r->by_impact);
    free(r->minutes);
    *r = (struct trace_report){0};
}

/* ---- JSON ---- */

static double trace_seconds(uint64_t us)
{
    return (double)us / 1e6;
}

static double mean_seconds(uint64_t sum_us, uint64_t n)
{
    return n != 0 ? trace_seconds(sum_us) / (double)n : 0;
}

/* Text from a log need not be UTF-8, which JSON requires. */
static void trace_put_bytes(struct json_writer *w, const char *name, const char *s)
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
    trace_put_bytes(w, "url", u->path);
    json_put_real(w, "impact_s", u->impact);
    json_put_int(w, "count", u->finished);
    json_put_int(w, "unfinished", u->unfinished);
    json_put_int(w, "rejected", u->rejected);
    json_put_real(w, "min_s", trace_seconds(u->min_us));
    json_put_real(w, "median_s", trace_seconds(u->median_us));
    json_put_real(w, "mean_s", mean_seconds(u->sum_us, u->timed));
    json_put_real(w, "max_s", trace_seconds(u->max_us));
    json_open_object(w, "statuses");
    for (size_t i = 0; i < ARRAY_LEN(names); ++i)
        json_put_int(w, names[i], u->statuses[i]);
    json_close_object(w);
    json_close_object(w);
}

void trace_report_json(const struct trace_report *r, uint64_t top, struct text *out)
{
    struct json_writer w = {.out = out};

    json_open_object(&w, NULL);
    json_put_int(&w, "records", r->records);
    json_put_int(&w, "bad_lines", r->bad_lines);
    json_put_int(&w, "requests", r->requests);
    json_put_int(&w, "finished", r->finished);
    json_put_int(&w, "unfinished_requests", r->unfinished_all);
    json_put_int(&w, "rejected", r->rejected);
    json_put_int(&w, "sent_again", r->again);
    json_put_int(&w, "left_out", r->left_out);
    json_put_int(&w, "restarts", r->restarts);
    json_put_int(&w, "upgrades", r->upgrades);
    json_put_real(&w, "from", trace_seconds(r->first_us));
    json_put_real(&w, "to", trace_seconds(r->last_us));
    json_open_object(&w, "busiest");
    json_put_int(&w, "requests", r->busiest);
    json_put_real(&w, "at", trace_seconds(r->busiest_us));
    json_close_object(&w);
    json_open_array(&w, "urls");
    for (size_t i = 0; i < map_count(&r->urls) && (top == 0 || i < top); ++i)
        put_url(&w, r->by_impact[i]);
    json_close_array(&w);
    json_open_array(&w, "minutes");
    for (size_t i = 0; i < r->nminutes && i < TRACE_MINUTES_MAX; ++i) {
        const struct trace_minute *m = &r->minutes[i];

        json_open_object(&w, NULL);
        json_put_real(&w, "at", trace_seconds(m->at_us));
        json_put_int(&w, "most", m->most);
        for (size_t s = 0; s < TRACE_STATES; ++s)
            json_put_int(&w, state_names[s], m->states[s]);
        json_put_int(&w, "finished", m->finished);
        json_put_real(&w, "mean_s", mean_seconds(m->total_us, m->finished));
        json_put_real(&w, "application_mean_s", mean_seconds(m->app_us, m->timed));
        json_close_object(&w);
    }
    json_close_array(&w);
    json_open_array(&w, "unfinished");
    for (size_t i = 0; i < r->nunfinished && (top == 0 || i < top); ++i) {
        const struct traced_request *u = r->unfinished[i];

        json_open_object(&w, NULL);
        trace_put_bytes(&w, "id", u->id);
        trace_put_bytes(&w, "method", u->method);
        trace_put_bytes(&w, "url", u->url->path);
        json_put_text(&w, "state", slice_of(state_names[u->state]));
        trace_put_bytes(&w, "why", u->why);
        json_put_real(&w, "began", trace_seconds(u->begun_us));
        json_put_real(&w, "after_s", trace_seconds(u->age_us));
        json_close_object(&w);
    }
    json_close_array(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
}

static const char minute_columns[] =
    "minute={at:m}|>most={most:i}|>input={input:i}|>waiting={waiting:i}|>app={application:i}|"
    ">output={output:i}|>ended={finished:i}|>mean s={mean_s:%.3f}|"
    ">app s={application_mean_s:%.3f}";

static const char url_columns[] =
    ">impact={impact_s:%.1f}|>count={count:i}|>min={min_s:%.3f}|>median={median_s:%.3f}|"
    ">mean={mean_s:%.3f}|>max={max_s:%.3f}|>unfinished={unfinished:i}|>rejected={rejected:i}|"
    ">2xx={statuses.2xx:i}|>3xx={statuses.3xx:i}|>4xx={statuses.4xx:i}|>5xx={statuses.5xx:i}|"
    "URL={url:w}";

static const char unfinished_columns[] =
    "request={id:w}|began={began:T}|>after s={after_s:%.3f}|was in={state}|why={why:w}|"
    "URL={method:w} {url:w}";

void trace_report_print(const struct trace_report *r, uint64_t top, bool minutes, struct text *out)
{
    struct text bytes = {0};

    trace_report_json(r, top, &bytes);
    json_t *page = json_loadb(bytes.p, bytes.len, 0, NULL);
    text_fini(&bytes);
    ASSERT(page != NULL);
    const json_t *urls = json_object_get(page, "urls");
    const json_t *unfinished = json_object_get(page, "unfinished");
    size_t n = json_array_size(unfinished);
    size_t nurls = map_count(&r->urls);
    page_add(out, page,
             "{records:d} records, {from:T} to {to:T}\n"
             "{requests:d} requests: {finished:d} finished, {unfinished_requests:d} unfinished, "
             "{rejected:d} rejected; {sent_again:d} sent again\n"
             "{restarts:d} restarts, {upgrades:d} upgrades\n"
             "[{busiest.requests:?}busiest moment: {busiest.requests:d} requests in progress at "
             "{busiest.at:T}\n]");
    if (r->bad_lines != 0)
        text_addf(out, "%" PRIu64 " lines skipped; the first, line %" PRIu64 ": %s\n", r->bad_lines,
                  r->first_bad, r->bad_why);
    page_add(out, page, "[{left_out:d} requests skipped: too many in progress at once\n]");
    if (minutes) {
        text_add(out, SLICE_LIT("\nrequests in progress at the end of each minute\n"));
        page_print_rows(minute_columns, json_object_get(page, "minutes"), 0, NULL, out);
        if (r->nminutes > TRACE_MINUTES_MAX)
            text_add(out, SLICE_LIT("  ... and more\n"));
    }
    if (nurls != 0)
        text_add(out, SLICE_LIT("\nseconds in the application, by URL\n"));
    page_print_rows(url_columns, urls, 0, NULL, out);
    if (nurls > json_array_size(urls))
        text_addf(out, "  ... and %zu more (--top 0 shows all)\n", nurls - json_array_size(urls));
    if (n != 0)
        text_add(out, SLICE_LIT("\nunfinished requests\n"));
    page_print_rows(unfinished_columns, unfinished, 0, NULL, out);
    if (r->unfinished_all > n)
        text_addf(out, "  ... and %" PRIu64 " more\n", r->unfinished_all - n);
    json_decref(page);
}

/* ---- the command ---- */

enum { TOP_DEFAULT = 20, TOP_MAX = TRACE_URLS_MAX };

struct trace_run {
    struct ctl_options o;
    bool minutes;
};

static int trace_main(const struct ctl_command *c, int argc, char **argv)
{
    struct trace_run run = {.o = {.top = TOP_DEFAULT}};
    struct trace_report r = {0};
    struct trace_line l;
    struct slice s;
    int code = ctl_parse(c, argc, argv, &run.o);

    if (code >= 0)
        return code;
    const char *file = run.o.words[0];
    if (file == NULL)
        return ctl_usage_error(c, "expected a file: a trace log, or -", NULL);
    FILE *in = ctl_open(file, &run.o.diag);
    if (in == NULL)
        return ctl_finish(&run.o, ERR_SYSTEM);
    char *line = xmalloc(TRACE_LINE_MAX + 1);
    for (uint64_t number = 1; ctl_read_line(in, line, TRACE_LINE_MAX, &s); ++number) {
        if (number == 1)
            s = utf8_skip_mark(s);
        const char *why = s.len != 0 ? trace_line_parse(s, &l) : NULL;

        if (s.len != 0 && why == NULL)
            trace_report_add(&r, &l);
        if (why == NULL || r.bad_lines++ != 0)
            continue;
        r.first_bad = number;
        r.bad_why = why;
    }
    free(line);
    enum err e = ctl_close(in, file, &run.o.diag);
    if (e == ERR_OK && r.records == 0) {
        diag_add(&run.o.diag, file, 0, 0, "%s", r.bad_why != NULL ? r.bad_why : "no records");
        e = ERR_SYNTAX;
    }
    if (e == ERR_OK) {
        trace_report_end(&r);
        if (run.o.json)
            trace_report_json(&r, run.o.top, &run.o.out);
        else
            trace_report_print(&r, run.o.top, run.minutes, &run.o.out);
    }
    trace_report_fini(&r);
    return ctl_finish(&run.o, e);
}

static const struct ctl_flag flags[] = {
    {'n', "top", "N", NULL, "number of URLs and unfinished requests (20); 0: all",
     CTL_NUMBER(struct ctl_options, top, 0, TOP_MAX)},
    {'m', "minutes", NULL, NULL, "requests in progress, minute by minute",
     CTL_SET(struct trace_run, minutes)},
    CTL_FLAG_JSON,
    CTL_FLAG_HELP,
};
const struct ctl_command ctl_word_trace = {
    .name = "trace",
    .arguments = "FILE",
    .summary = "times by URL and unfinished requests of an agent's trace log",
    .text = "FILE is a trace log of an agent (setting trace_log), of zc.resumelb or of\n"
            "zc.zservertracelog; - is standard input. Prints unfinished requests, and URLs by "
            "impact: mean\ntime in the application, times the number of requests.\n",
    .completes = CTL_FILES,
    CTL_FLAGS(flags),
    .run = trace_main,
};
