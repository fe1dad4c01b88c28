/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of a screen. Rates are differences of counters of two pages; a worker that was not on the
 * first has none yet, one whose counter fell (it began anew) has that of its new life.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/page.h"
#include "ctl/top.h"

enum { HEAD_LINES = 4, STEP_MAX_S = 60 };

static const struct {
    char letter;
    const char *what;
    bool ascending; /* by nature: names */
} keys[TOP_KEYS] = {
    [TOP_NAME] = {'n', "name", true},
    [TOP_BACKLOG] = {'b', "backlog", false},
    [TOP_MEAN] = {'m', "mean backlog", false},
    [TOP_OLDEST] = {'o', "oldest request", false},
    [TOP_REQUESTS] = {'r', "requests/s", false},
    [TOP_FAILURES] = {'f', "failures/s", false},
    [TOP_SERVICE] = {'s', "service time", false},
    [TOP_SKILLS] = {'k', "skills", false},
};

/* ---- keys ---- */

static void scroll(struct top_view *v, long lines)
{
    if (lines < 0 && v->first < (size_t)-lines)
        v->first = 0;
    else
        v->first += (size_t)lines;
}

bool top_press(struct top_view *v, int key)
{
    long page = v->rows > HEAD_LINES + 2 ? (long)v->rows - HEAD_LINES - 2 : 1;

    for (size_t i = 0; i < TOP_KEYS; ++i) {
        if (key == keys[i].letter) {
            v->key = (enum top_key)i;
            v->first = 0;
            return true;
        }
    }
    switch (key) {
    case 'q':
        v->quit = true;
        return true;
    case 'R':
        v->reverse = !v->reverse;
        return true;
    case 'p':
    case ' ':
        v->paused = !v->paused;
        return true;
    case 'h':
    case '?':
        v->help = !v->help;
        return true;
    case 'a':
    case '\t':
        ++v->application;
        v->first = 0;
        return true;
    case '+':
        v->interval_s += v->interval_s < STEP_MAX_S;
        return true;
    case '-':
        v->interval_s -= v->interval_s > 1;
        return true;
    case TOP_UP:
        scroll(v, -1);
        return true;
    case TOP_DOWN:
        scroll(v, 1);
        return true;
    case TOP_PAGE_UP:
        scroll(v, -page);
        return true;
    case TOP_PAGE_DOWN:
        scroll(v, page);
        return true;
    default:
        return false;
    }
}

/* ---- lines ---- */

/* A screen that is filled line by line. */
struct screen {
    const struct top_view *view;
    struct text *out;
    unsigned lines;
};

/* Cut to the columns; letters beyond ASCII are shown escaped, so that a byte is a column. */
static void add_line(struct screen *s, struct slice line, enum table_style style)
{
    bool styled = s->view->colours && style != TABLE_PLAIN;

    if (s->lines == s->view->rows)
        return;
    if (s->lines++ != 0)
        text_add(s->out, SLICE_LIT("\r\n"));
    if (line.len > s->view->columns)
        line.len = s->view->columns;
    /* Cleared before and not after: behind a line that is full, that would take its last letter. */
    text_add(s->out, SLICE_LIT("\033[K"));
    if (styled)
        text_add(s->out, slice_of(table_style_begin(style)));
    text_add(s->out, line);
    if (styled)
        text_add(s->out, SLICE_LIT(TABLE_STYLE_END));
}

/* What is below the last line goes. */
static void end_screen(struct screen *s)
{
    if (s->lines < s->view->rows)
        text_add(s->out, SLICE_LIT("\r\n\033[J"));
}

static double number(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);

    return json_is_number(v) ? json_number_value(v) : 0;
}

/* ---- workers ---- */

struct row {
    const json_t *worker;
    double values[TOP_KEYS];
    bool has_rates;
};

static const json_t *find_worker(const json_t *application, const json_t *name)
{
    const json_t *w;
    size_t i;

    json_array_foreach(json_object_get(application, "workers"), i, w)
    {
        if (json_equal(json_object_get(w, "name"), name))
            return w;
    }
    return NULL;
}

static double rate(const json_t *then, const json_t *now, const char *name, double span_s)
{
    double before = number(then, name);
    double after = number(now, name);

    return (after >= before ? after - before : after) / span_s;
}

static void fill_row(struct row *r, const json_t *w, const json_t *then, double span_s)
{
    double requests = number(w, "requests");

    *r = (struct row){.worker = w, .has_rates = then != NULL && span_s > 0};
    r->values[TOP_BACKLOG] = number(w, "backlog");
    r->values[TOP_MEAN] = number(w, "mean_backlog");
    r->values[TOP_OLDEST] = number(w, "oldest_s");
    r->values[TOP_SKILLS] = number(w, "skills");
    r->values[TOP_SERVICE] = requests > 0 ? number(w, "service_s") * 1000 / requests : 0;
    if (!r->has_rates)
        return;
    r->values[TOP_REQUESTS] = rate(then, w, "requests", span_s);
    r->values[TOP_FAILURES] = rate(then, w, "failures", span_s);
    /* Of those it has served since: what is going on now. */
    double served = requests - number(then, "requests");
    if (served > 0)
        r->values[TOP_SERVICE] =
            (number(w, "service_s") - number(then, "service_s")) * 1000 / served;
}

static int compare_rows(const void *a, const void *b, void *context)
{
    const struct row *x = a;
    const struct row *y = b;
    const struct top_view *v = context;
    const char *x_name = json_string_value(json_object_get(x->worker, "name"));
    const char *y_name = json_string_value(json_object_get(y->worker, "name"));
    int by_name = strcmp(x_name != NULL ? x_name : "", y_name != NULL ? y_name : "");
    int order = by_name;

    if (v->key != TOP_NAME && x->values[v->key] != y->values[v->key])
        order = x->values[v->key] > y->values[v->key] ? -1 : 1;
    return v->reverse ? -order : order;
}

static enum table_style row_style(const struct row *r)
{
    if (json_is_true(json_object_get(r->worker, "ejected")) || r->values[TOP_FAILURES] > 0)
        return TABLE_BAD;
    if (json_is_false(json_object_get(r->worker, "available")))
        return TABLE_WARNING;
    return json_is_false(json_object_get(r->worker, "active")) ? TABLE_FAINT : TABLE_PLAIN;
}

static void draw_row(struct screen *s, const struct row *r)
{
    struct text name = {0};
    struct text state = {0};
    struct text line = {0};

    page_add_text(&name, r->worker, "name");
    page_add_text(&state, r->worker, "state");
    if (json_is_true(json_object_get(r->worker, "ejected"))) {
        text_clear(&state);
        text_add(&state, SLICE_LIT("ejected"));
    }
    text_addf(&line, "%-24s %-9.9s %7.0f %7.2f %8.1f", text_cstr(&name), text_cstr(&state),
              r->values[TOP_BACKLOG], r->values[TOP_MEAN], r->values[TOP_OLDEST]);
    if (r->has_rates)
        text_addf(&line, " %9.1f %8.1f", r->values[TOP_REQUESTS], r->values[TOP_FAILURES]);
    else
        text_addf(&line, " %9s %8s", "-", "-");
    text_addf(&line, " %9.2f %7.0f", r->values[TOP_SERVICE], r->values[TOP_SKILLS]);
    add_line(s, text_slice(&line), row_style(r));
    text_fini(&name);
    text_fini(&state);
    text_fini(&line);
}

static void draw_workers(struct screen *s, const json_t *then, const json_t *now, double span_s)
{
    const struct top_view *v = s->view;
    const json_t *workers = json_object_get(now, "workers");
    size_t n = json_array_size(workers);
    struct row *rows = xcalloc(n, sizeof(rows[0]));
    const json_t *w;
    size_t i;

    json_array_foreach(workers, i, w)
    {
        fill_row(&rows[i], w, find_worker(then, json_object_get(w, "name")), span_s);
    }
    if (n != 0)
        qsort_r(rows, n, sizeof(rows[0]), compare_rows, (void *)(uintptr_t)v);
    size_t first = n != 0 && v->first >= n ? n - 1 : v->first;
    for (i = first; i < n && s->lines < v->rows; ++i)
        draw_row(s, &rows[i]);
    free(rows);
}

/* ---- the rest ---- */

static void draw_help(struct screen *s)
{
    char line[80];

    add_line(s, SLICE_LIT(""), TABLE_PLAIN);
    for (size_t i = 0; i < TOP_KEYS; ++i) {
        snprintf(line, sizeof(line), "  %c       sort by %s", keys[i].letter, keys[i].what);
        add_line(s, slice_of(line), TABLE_PLAIN);
    }
    add_line(s, SLICE_LIT("  R       the other way round"), TABLE_PLAIN);
    add_line(s, SLICE_LIT("  a, tab  the next application"), TABLE_PLAIN);
    add_line(s, SLICE_LIT("  arrows  scroll; page up, page down"), TABLE_PLAIN);
    add_line(s, SLICE_LIT("  p       pause; + and - change the interval"), TABLE_PLAIN);
    add_line(s, SLICE_LIT("  h, q    this help; the end"), TABLE_PLAIN);
}

/* Application NUMBER (in a circle) and its name; NULL: there are none. */
static const json_t *pick_application(const json_t *page, size_t which, const char **name)
{
    json_t *applications = json_object_get(page, "applications");
    size_t n = json_object_size(applications);
    const char *k;
    json_t *a;
    size_t i = 0;

    *name = "";
    json_object_foreach(applications, k, a)
    {
        *name = k;
        if (i++ == which % n)
            return a;
    }
    return NULL;
}

static double total(const json_t *application, const char *member)
{
    double sum = 0;
    const json_t *w;
    size_t i;

    json_array_foreach(json_object_get(application, "workers"), i, w)
    {
        sum += number(w, member);
    }
    return sum;
}

static void draw_head(struct screen *s, const json_t *page, const char *problem)
{
    const struct top_view *v = s->view;
    struct text line = {0};

    page_add_text(&line, page, "program");
    text_add_char(&line, ' ');
    page_add_text(&line, page, "version");
    text_add(&line, SLICE_LIT(", "));
    page_add_text(&line, page, "phase");
    text_add(&line, SLICE_LIT(", up "));
    page_add_duration(&line, number(page, "uptime_s"));
    text_addf(&line, "; every %u s, by %s%s%s (h: help)", v->interval_s, keys[v->key].what,
              v->reverse ? ", reversed" : "", v->paused ? ", PAUSED" : "");
    add_line(s, text_slice(&line), TABLE_PLAIN);
    text_fini(&line);
    if (problem != NULL) {
        struct text safe = {0};

        text_add_escaped(&safe, slice_of(problem));
        add_line(s, text_slice(&safe), TABLE_BAD);
        text_fini(&safe);
    }
}

static void draw_application(struct screen *s, const char *name, const json_t *then,
                             const json_t *now, double span_s)
{
    struct text line = {0};

    text_add_escaped(&line, slice_of(name));
    text_add(&line, SLICE_LIT(": policy "));
    page_add_text(&line, now, "policy");
    text_addf(&line, ", %zu workers", json_array_size(json_object_get(now, "workers")));
    if (then != NULL && span_s > 0) {
        double grown = total(now, "requests") - total(then, "requests");
        text_addf(&line, ", %.1f requests/s", grown > 0 ? grown / span_s : 0);
    }
    text_addf(&line, ", backlog %.0f, mean ", number(now, "backlog"));
    page_add_real(&line, now, "mean_backlog");
    page_add_cutoff(now, &line);
    text_addf(&line, ", waiting %.0f, classes %.0f", number(now, "waiting"),
              number(now, "classes"));
    add_line(s, text_slice(&line), TABLE_PLAIN);
    text_fini(&line);
}

void top_draw(const struct top_view *v, const json_t *before, const json_t *now, double span_s,
              const char *problem, struct text *out)
{
    struct screen s = {.view = v, .out = out};
    const char *name;
    const json_t *app = pick_application(now, v->application, &name);
    const json_t *then = json_object_get(json_object_get(before, "applications"), name);
    char titles[128];

    draw_head(&s, now, problem);
    if (v->help || app == NULL) {
        if (v->help)
            draw_help(&s);
        else
            add_line(&s, SLICE_LIT("no applications"), TABLE_PLAIN);
        end_screen(&s);
        return;
    }
    draw_application(&s, name, then, app, span_s);
    add_line(&s, SLICE_LIT(""), TABLE_PLAIN);
    snprintf(titles, sizeof(titles), "%-24s %-9s %7s %7s %8s %9s %8s %9s %7s", "worker", "state",
             "backlog", "mean", "oldest s", "req/s", "fail/s", "service ms", "skills");
    add_line(&s, slice_of(titles), TABLE_FAINT);
    draw_workers(&s, then, app, span_s);
    end_screen(&s);
}
