/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl check: a plugin of Nagios, Icinga and compatible monitors. One line, exit codes 0 to
 * 3: an unreachable server is CRITICAL, an unexpected response UNKNOWN.
 */
#include "common/base/json.h"
#include "ctl/cli/page.h"
#include "ctl/inspect/inspect.h"

#include <math.h>
#include <stdio.h>

/* ---- ranges ---- */

/*
 * Texts and the meaning of a bare number: as rlb-nagios of zc.resumelb. Ranges, performance data:
 * guidelines of the monitoring plugins, "Threshold and Ranges" and "Performance data".
 */

/* By enum check_state. */
static const char *const state_names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

bool check_range_parse(const char *text, enum check_bare bare, struct check_range *out)
{
    struct check_range r = {.set = true, .low = 0, .high = HUGE_VAL};
    struct slice rest = slice_of(text);
    double n = 0;

    if (parse_double(rest, &n)) {
        *out = bare == CHECK_BARE_LOW ? (struct check_range){true, true, -HUGE_VAL, n}
                                      : (struct check_range){true, true, n, HUGE_VAL};
        return true;
    }
    if (rest.len != 0 && rest.p[0] == '@') {
        r.turned = true;
        rest = (struct slice){rest.p + 1, rest.len - 1};
    }
    bool has_colon = slice_find(rest, ':') != SIZE_MAX;
    struct slice low = has_colon ? slice_cut(&rest, ':') : SLICE_LIT("");
    if (slice_is(low, "~"))
        r.low = -HUGE_VAL;
    else if (low.len != 0 && !parse_double(low, &r.low))
        return false;
    if (rest.len != 0 ? !parse_double(rest, &r.high) : !has_colon || (low.len == 0 && !r.turned))
        return false;
    if (r.low > r.high)
        return false;
    *out = r;
    return true;
}

bool check_range_alerts(const struct check_range *r, double v)
{
    bool within = v >= r->low && v <= r->high;

    return r->set && within == r->turned;
}

void check_range_print(const struct check_range *r, struct text *out)
{
    if (!r->set)
        return;
    if (r->turned)
        text_add_char(out, '@');
    if (isinf(r->low))
        text_add_char(out, '~');
    else
        text_add_real(out, r->low);
    text_add_char(out, ':');
    if (!isinf(r->high))
        text_add_real(out, r->high);
}

static const struct {
    const char *name, *unit;
    const char *complaint; /* "%s": the value */
    bool tenths;           /* it is shown in them; else with as many digits as it needs */
} metrics[CHECK_METRICS] = {
    [CHECK_WORKERS] = {"workers", "", "too few workers", false},
    [CHECK_MEAN_BACKLOG] = {"mean_backlog", "", "mean backlog high", false},
    [CHECK_MAX_BACKLOG] = {"max_backlog", "", "max backlog high", false},
    [CHECK_MAX_AGE] = {"max_age", "s", "max age too high", true},
};

/* PREFIX in quotes; a quote in it is doubled. '=' cannot be in one. */
static void add_metric(const struct check_thresholds *t, enum check_metric m, double v,
                       const char *prefix, struct text *out)
{
    struct text shown = {0};

    if (out->len != 0)
        text_add_char(out, ' ');
    if (prefix != NULL)
        text_add_char(out, '\'');
    text_add_visible(&shown, slice_of(prefix));
    for (size_t i = 0; i < shown.len; ++i) {
        char c = shown.p[i];

        if (c == '\'')
            text_add_char(out, '\'');
        /* '|' begins the performance data; a label never has a tab. */
        text_add_char(out, c == '=' || c == '|' || c == '\t' ? '_' : c);
    }
    text_fini(&shown);
    text_addf(out, prefix != NULL ? " %s'" : "%s", metrics[m].name);
    text_add_char(out, '=');
    text_addf(out, metrics[m].tenths ? "%.1f" : "%.6g", v);
    text_add(out, slice_of(metrics[m].unit));
    text_add_char(out, ';');
    check_range_print(&t->warn[m], out);
    text_add_char(out, ';');
    check_range_print(&t->error[m], out);
    text_add(out, SLICE_LIT(";0"));
}

enum check_state check_pool(const struct check_thresholds *t, const double facts[CHECK_METRICS],
                            const char *prefix, struct text *out, struct text *perf)
{
    enum check_state state = CHECK_OK;
    size_t before = out->len;

    for (size_t i = 0; i < CHECK_METRICS; ++i) {
        /* The workers last. */
        enum check_metric m = (enum check_metric)((i + 1) % CHECK_METRICS);
        enum check_state s = check_range_alerts(&t->error[m], facts[m])  ? CHECK_CRITICAL
                             : check_range_alerts(&t->warn[m], facts[m]) ? CHECK_WARNING
                                                                         : CHECK_OK;

        if (s == CHECK_OK)
            continue;
        state = s > state ? s : state;
        text_addf(out, "%s%s (", out->len != before ? " " : "", metrics[m].complaint);
        text_addf(out, metrics[m].tenths ? "%.1f" : "%.6g", facts[m]);
        text_add_char(out, ')');
    }
    if (state == CHECK_OK)
        text_addf(out, "OK %.0f %.6g %.0f %.0f", facts[CHECK_WORKERS], facts[CHECK_MEAN_BACKLOG],
                  facts[CHECK_MAX_BACKLOG], facts[CHECK_MAX_AGE]);
    if (t->metrics) {
        for (size_t i = 0; i < CHECK_METRICS; ++i)
            add_metric(t, (enum check_metric)i, facts[i], prefix, perf);
    }
    return state;
}

enum check_state check_page(const json_t *page, const struct ctl_options *o,
                            const struct check_thresholds *t, struct text *out)
{
    json_t *applications = json_object_get(page, "applications");
    enum check_state state = CHECK_OK;
    struct text perf = {0};
    struct text safe = {0};
    bool several = o->application == NULL && json_object_size(applications) > 1;
    size_t shown = 0;
    const char *name;
    json_t *a;
    const json_t *w;
    size_t i;

    json_object_foreach (applications, name, a) {
        double facts[CHECK_METRICS] = {[CHECK_MEAN_BACKLOG] = page_number(a, "mean_backlog")};

        /* An agent's page has applications too, but no pools. */
        if ((o->application != NULL && strcmp(o->application, name) != 0) ||
            !json_is_array(json_object_get(a, "workers")))
            continue;
        /* Workers that are there to get requests. */
        json_array_foreach (json_object_get(a, "workers"), i, w) {
            facts[CHECK_WORKERS] += page_is_true(w, "available") && !page_is_true(w, "ejected");
            facts[CHECK_MAX_BACKLOG] = fmax(facts[CHECK_MAX_BACKLOG], page_number(w, "backlog"));
            facts[CHECK_MAX_AGE] = fmax(facts[CHECK_MAX_AGE], page_number(w, "oldest_s"));
        }
        if (shown++ != 0)
            text_add(out, SLICE_LIT("; "));
        if (several) {
            text_clear(&safe);
            text_add_escaped(&safe, slice_of(name));
            /* A monitor cuts the line at '|'. */
            for (i = 0; i < safe.len; ++i)
                text_add_char(out, safe.p[i] == '|' ? '_' : safe.p[i]);
            text_add(out, SLICE_LIT(": "));
        }
        enum check_state s = check_pool(t, facts, several ? name : NULL, out, &perf);
        state = s > state ? s : state;
    }
    if (shown == 0) {
        text_add(out, o->application != NULL ? SLICE_LIT("UNKNOWN: no such application")
                                             : SLICE_LIT("UNKNOWN: no pool on this page; is it the "
                                                         "admin address of a resumelb?"));
        state = CHECK_UNKNOWN;
    } else if (t->metrics) {
        text_add_char(out, '|');
        text_add(out, text_slice(&perf));
    }
    text_fini(&safe);
    text_fini(&perf);
    return state;
}

/* ---- the command ---- */

struct check_run {
    struct ctl_options o;
    struct check_thresholds t;
};

/* Sets the range at F->at. F->min is the enum check_bare of a bare number. */
static int take_range(struct ctl_options *o, const struct ctl_flag *f, const char *value)
{
    char what[120];

    if (check_range_parse(value, (enum check_bare)f->min, (void *)((char *)o + f->at)))
        return CTL_OK;
    snprintf(what, sizeof(what), "--%s: expected a number or a range, not", f->name);
    return ctl_usage_error(o->command, what, value);
}

static int check_main(const struct ctl_command *c, int argc, char **argv)
{
    struct check_run r = {0};
    struct text line = {0};
    struct json_writer w = {.out = &r.o.out};
    json_t *page = NULL;
    enum check_state state;
    int code = ctl_parse(c, argc, argv, &r.o);

    if (code == CTL_OK)
        return CHECK_OK; /* --help */
    if (code > 0)
        return CHECK_UNKNOWN;
    if (r.o.words[0] != NULL)
        r.o.address = r.o.words[0];
    bool requested = r.t.metrics;
    for (size_t i = 0; i < CHECK_METRICS; ++i)
        requested = requested || r.t.warn[i].set || r.t.error[i].set;
    if (!requested) {
        fputs("You need to request metrics and/or alert settings\n", stdout);
        return CHECK_UNKNOWN;
    }
    enum err e = ctl_get_json(&r.o, "/status.json", &page);
    if (e == ERR_OK) {
        state = check_page(page, &r.o, &r.t, &line);
    } else {
        struct slice why = slice_of(r.o.diag.text != NULL ? r.o.diag.text : err_text(e));

        /* The server is reachable but its response is not the expected one, for instance because a
         * token is missing. */
        state = e == ERR_BAD_RESPONSE || e == ERR_SYNTAX || e == ERR_TOO_LARGE ? CHECK_UNKNOWN
                                                                               : CHECK_CRITICAL;
        text_addf(&line, "%s: ", state_names[state]);
        text_add_escaped(&line, slice_cut(&why, '\n'));
    }
    json_decref(page);
    diag_fini(&r.o.diag);
    struct slice perf = text_slice(&line);
    if (r.o.json) {
        struct slice text = slice_cut(&perf, '|');

        json_open_object(&w, NULL);
        json_put_text(&w, "state", slice_of(state_names[state]));
        json_put_int(&w, "code", state);
        json_put_text(&w, "text", text);
        json_put_text(&w, "performance_data", perf);
        json_close_object(&w);
    } else {
        text_add(&r.o.out, perf);
    }
    text_fini(&line);
    text_add_char(&r.o.out, '\n');
    if (ctl_finish(&r.o, ERR_OK) != CTL_OK)
        state = CHECK_UNKNOWN;
    return (int)state;
}

#define CHECK_FLAG(letter, name, metric, level, bare, help)                                        \
    CTL_FLAG(letter, name, "RANGE", NULL, help, take_range,                                        \
             offsetof(struct check_run, t.level[CHECK_##metric]), CHECK_BARE_##bare, 0)

static const struct ctl_flag flags[] = {
    CHECK_FLAG('b', "worker-mean-backlog-warn", MEAN_BACKLOG, warn, HIGH,
               "mean backlog at which to warn"),
    CHECK_FLAG('B', "worker-mean-backlog-error", MEAN_BACKLOG, error, HIGH,
               "... and at which it is critical"),
    CHECK_FLAG('x', "worker-max-backlog-warn", MAX_BACKLOG, warn, HIGH,
               "maximum backlog of a worker"),
    CHECK_FLAG('X', "worker-max-backlog-error", MAX_BACKLOG, error, HIGH,
               "... and at which it is critical"),
    CHECK_FLAG('a', "worker-request-age-warn", MAX_AGE, warn, HIGH,
               "age of the oldest request in seconds"),
    CHECK_FLAG('A', "worker-request-age-error", MAX_AGE, error, HIGH,
               "... and at which it is critical"),
    CHECK_FLAG('w', "minimum-worker-warn", WORKERS, warn, LOW, "number of workers, or fewer"),
    CHECK_FLAG('W', "minimum-worker-error", WORKERS, error, LOW, "... and at which it is critical"),
    {'m', "metrics", NULL, NULL, "print performance data", CTL_SET(struct check_run, t.metrics)},
    {'p', "application", "NAME", NULL, "only this one; default: all, and the worst counts",
     CTL_TEXT(struct ctl_options, application)},
    {0, "address", "ADDRESS", NULL, "same as the argument", CTL_TEXT(struct ctl_options, address)},
    CTL_FLAG_JSON,
    CTL_FLAG_TOKEN,
    CTL_FLAG_TIMEOUT,
    CTL_FLAG_HELP,
};
const struct ctl_command ctl_word_check = {
    .name = "check",
    .arguments = "[ADDRESS]",
    .summary =
        "plugin of Nagios and Icinga: checks thresholds, prints one line, sets the exit status",
    .text = "Options and texts are those of rlb-nagios. A bare number N alerts at N and above (of "
            "workers: at N\nand below); a range (10:, ~:10, 10:20, @10:20) alerts as in the "
            "monitoring plugins' guidelines.\nAll is well: OK WORKERS MEAN-BACKLOG MAX-BACKLOG "
            "MAX-AGE. Exit codes: 0 OK, 1 WARNING,\n2 CRITICAL (also: unreachable), 3 UNKNOWN.\n",
    CTL_FLAGS(flags),
    .run = check_main,
};
