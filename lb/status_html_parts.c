/* SPDX-License-Identifier: Apache-2.0
 *
 * Values, the map, and the table of classes.
 *
 * The map is a table, and its own text alternative: each cell says its share as a number, the
 * colour only repeats it. The scale is one hue from light to dark, which every eye can tell apart.
 */
#include "lb/status_html.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const char DASH[] = "\xe2\x80\x93";

void html_add(struct text *out, const char *markup)
{
    text_add(out, slice_of(markup));
}

struct slice html_text_of(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);

    return (struct slice){json_string_value(v), json_string_length(v)};
}

double html_real_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

void html_put_text(struct text *out, const json_t *object, const char *name)
{
    struct slice s = html_text_of(object, name);

    if (s.len != 0)
        text_add_html(out, s);
    else
        html_add(out, DASH);
}

static void put_number(struct text *out, double v)
{
    if (v != 0 && fabs(v) < 10)
        text_addf(out, "%.*f", fabs(v) < 1 ? 2 : 1, v);
    else
        text_addf(out, "%.0f", v);
}

void html_put_number(struct text *out, const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);

    if (json_is_integer(v))
        text_addf(out, "%" PRId64, (int64_t)json_integer_value(v));
    else if (json_is_real(v))
        put_number(out, json_real_value(v));
    else
        html_add(out, DASH);
}

void html_put_seconds(struct text *out, const json_t *object, const char *name)
{
    enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
    double s = html_real_of(object, name);

    if (!json_is_number(json_object_get(object, name)) || !(s >= 0 && s < 1e12))
        html_add(out, DASH);
    else if (s < 0.1)
        text_addf(out, "%.1f ms", s * 1000);
    else if (s < 1)
        text_addf(out, "%.0f ms", s * 1000);
    else if (s < 2 * MINUTE)
        text_addf(out, "%.1f s", s);
    else if (s < 2 * HOUR)
        text_addf(out, "%.0f min", s / MINUTE);
    else if (s < 2 * DAY)
        text_addf(out, "%.0f h", s / HOUR);
    else
        text_addf(out, "%.0f d", s / DAY);
}

void html_put_percent(struct text *out, const json_t *object, const char *name)
{
    if (json_is_number(json_object_get(object, name)))
        text_addf(out, "%.1f %%", 100 * html_real_of(object, name));
    else
        html_add(out, DASH);
}

void html_put_sort_key(struct text *out, double v)
{
    /* Whole numbers to the last digit, others as finely as anybody looks: a line of the page is
     * told anew when it has changed. */
    text_addf(out, v == floor(v) ? " data-v=\"%.9g\"" : " data-v=\"%.3g\"", isfinite(v) ? v : 0);
}

/* ---- the map ---- */

/* What tells a worker from its neighbours: the port, or the end of a path. */
static struct slice short_name(struct slice name)
{
    enum { SHOWN = 14 };
    struct slice s = name;

    for (size_t i = name.len; i-- != 0;) {
        if (name.p[i] == ':' || name.p[i] == '/') {
            if (i + 1 < name.len)
                s = (struct slice){name.p + i + 1, name.len - i - 1};
            break;
        }
    }
    return s.len > SHOWN ? (struct slice){s.p + s.len - SHOWN, SHOWN} : s;
}

static void put_class_name(struct text *out, struct slice name)
{
    if (name.len != 0)
        text_add_html(out, name);
    else
        html_add(out, "<i>(none)</i>");
}

static void add_map_head(const json_t *workers, struct text *out)
{
    const json_t *v;
    size_t i;

    html_add(out, "<thead><tr><th scope=\"col\">class</th>");
    json_array_foreach(workers, i, v)
    {
        struct slice name = {json_string_value(v), json_string_length(v)};

        html_add(out, "<th scope=\"col\" class=\"who\" title=\"");
        text_add_html(out, name);
        html_add(out, "\"><span>");
        text_add_html(out, short_name(name));
        html_add(out, "</span></th>");
    }
    html_add(out, "<th scope=\"col\" class=\"number\">requests/s</th></tr></thead>\n");
}

enum { STEPS = 8 /* colours but for nothing */ };

static int step_of(double part)
{
    int step = part < 0.005 ? 0 : (int)ceil(part * STEPS);

    return step > STEPS ? STEPS : step;
}

/* SHARE 0..1 of the class's requests. */
static void add_share(double share, double score, double best, struct text *out)
{
    (void)best;
    text_addf(out, "<td class=\"m%d%s\">", step_of(share), score > 0 ? " skill" : "");
    if (share >= 0.005)
        text_addf(out, "%.0f", 100 * share);
    else
        html_add(out, "<span class=\"hidden\">0</span>");
    html_add(out, "</td>");
}

/* SCORE 0: it has none. */
static void add_score(double share, double score, double best, struct text *out)
{
    (void)share;
    text_addf(out, "<td class=\"m%d\">", score > 0 ? step_of(score / best) : 0);
    if (score > 0)
        text_addf(out, score < 10 ? "%.1f" : "%.0f", score);
    else
        html_add(out, "<span class=\"hidden\">none</span>");
    html_add(out, "</td>");
}

typedef void (*cell_fn)(double share, double score, double best, struct text *out);

static void add_map_row(const json_t *row, size_t n, cell_fn add_cell, struct text *out)
{
    const json_t *shares = json_object_get(row, "share");
    const json_t *scores = json_object_get(row, "score");
    double best = 0;

    for (size_t i = 0; i < n; ++i)
        best = fmax(best, json_number_value(json_array_get(scores, i)));
    html_add(out, "<tr><th scope=\"row\" title=\"");
    text_add_html(out, html_text_of(row, "class"));
    html_add(out, "\">");
    put_class_name(out, html_text_of(row, "class"));
    html_add(out, "</th>");
    for (size_t i = 0; i < n; ++i)
        add_cell(json_number_value(json_array_get(shares, i)),
                 json_number_value(json_array_get(scores, i)), best, out);
    html_add(out, "<td class=\"number\">");
    html_put_number(out, row, "requests_per_s");
    html_add(out, "</td></tr>\n");
}

static const char map_words[] =
    "<p class=\"explain\">resumelb keeps each kind of request (a <b>class</b>, one per row) with "
    "the "
    "few <b>workers</b> (columns) whose caches are already warm for it. One or two strong cells in "
    "a "
    "row "
    "are good; a row that is pale all over is a class that nobody is good at yet.</p>\n"
    "<p class=\"legend\"><span class=\"key\"><i class=\"m0\">0</i><i class=\"m1\">12</i>"
    "<i class=\"m2\">25</i><i class=\"m4\">50</i><i class=\"m6\">75</i><i class=\"m8\">100</i> "
    "% of the class\xe2\x80\x99s requests, or of its best score</span> "
    "<span class=\"key\"><i class=\"m0 skill\">&nbsp;</i> framed: the worker has a score for the "
    "class</span></p>\n<div class=\"maps\">\n";

static void add_map(const char *name, const char *title, const json_t *map, cell_fn add_cell,
                    struct text *out)
{
    const json_t *workers = json_object_get(map, "workers");
    const json_t *row;
    size_t i;

    text_addf(out, "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"%s, ", title);
    text_add_html(out, slice_of(name));
    text_addf(out, "\"><table class=\"map\"><caption>%s</caption>\n", title);
    add_map_head(workers, out);
    html_add(out, "<tbody>\n");
    json_array_foreach(json_object_get(map, "classes"), i, row)
    {
        add_map_row(row, json_array_size(workers), add_cell, out);
    }
    html_add(out, "</tbody></table></div>\n");
}

void html_map(const char *name, const json_t *application, struct text *out)
{
    const json_t *map = json_object_get(application, "map");

    html_add(out, "<h3>Who serves what</h3>\n");
    html_add(out, map_words);
    if (json_array_size(json_object_get(map, "classes")) == 0)
        html_add(out, "<p class=\"soft\">No requests yet.</p>\n");
    else {
        add_map(name, "Traffic: % of a class\xe2\x80\x99s requests, last quarter minute", map,
                add_share, out);
        add_map(name, "Skills: scores, requests per second of work", map, add_score, out);
    }
    html_add(out, "</div>\n");
}

/* ---- tables of numbers ---- */

struct column {
    const char *title, *name;
    void (*put)(struct text *out, const json_t *object, const char *name);
    bool bad; /* unless it is 0 */
};

static void add_heads(const char *first, const struct column *c, size_t n, struct text *out)
{
    text_addf(out, "<thead><tr><th scope=\"col\">%s</th>", first);
    for (size_t i = 0; i < n; ++i)
        text_addf(out, "<th scope=\"col\" class=\"number\">%s</th>", c[i].title);
    html_add(out, "</tr></thead>\n<tbody>\n");
}

static void add_cells(const json_t *row, const struct column *c, size_t n, struct text *out)
{
    for (size_t i = 0; i < n; ++i) {
        double v = html_real_of(row, c[i].name);

        text_addf(out, "<td class=\"number%s\"", c[i].bad && v >= 0.005 ? " bad" : "");
        html_put_sort_key(out, v);
        html_add(out, ">");
        c[i].put(out, row, c[i].name);
        html_add(out, "</td>");
    }
    html_add(out, "</tr>\n");
}

void html_classes(const json_t *application, struct text *out)
{
    static const struct column columns[] = {
        {"requests/s", "requests_per_s", html_put_number, false},
        {"homes", "homes", html_put_number, false},
        {"workers with a score", "skilled_workers", html_put_number, false},
        {"spilled/s", "spilled_per_s", html_put_number, false},
        {"waited/s", "waited_per_s", html_put_number, true},
        {"mean wait", "wait_mean_s", html_put_seconds, false},
        {"limited/s", "limited_per_s", html_put_number, true},
        {"failed/s", "failed_per_s", html_put_number, true},
    };
    const json_t *rows = json_object_get(application, "classes_now");
    const json_t *row;
    size_t i;

    text_addf(out,
              "<details class=\"part\" open><summary><h3>Classes</h3> <span class=\"soft\">the "
              "busiest %zu of %" PRId64 " seen lately</span></summary>\n",
              json_array_size(rows),
              (int64_t)html_real_of(json_object_get(application, "now"), "classes"));
    html_add(out, "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Classes\">"
                  "<table class=\"sortable\">\n");
    add_heads("class", columns, ARRAY_LEN(columns), out);
    json_array_foreach(rows, i, row)
    {
        html_add(out, "<tr><th scope=\"row\">");
        put_class_name(out, html_text_of(row, "name"));
        html_add(out, "</th>");
        add_cells(row, columns, ARRAY_LEN(columns), out);
    }
    html_add(out, "</tbody></table></div></details>\n");
}
