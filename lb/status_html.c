/* SPDX-License-Identifier: Apache-2.0
 *
 * The page from top to bottom: what is wrong, each application (figures, map, workers, classes,
 * pool counters, tree, settings), events. It is whole without a script; with one it is told anew
 * each second, sorted, paused (assets/page.js).
 */
#include "lb/status_html.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

typedef void (*put_fn)(struct text *out, const json_t *object, const char *name);

/* ---- figures ---- */

struct figure {
    const char *title;
    const char *within; /* the member that has it; NULL: the object itself */
    const char *name;
    put_fn put;
    const char *help;
    bool bad; /* unless it is 0 */
    bool big;
};

static void add_figures(const json_t *object, const struct figure *f, size_t n, struct text *out)
{
    html_add(out, "<dl class=\"figures\">\n");
    for (size_t i = 0; i < n; ++i) {
        const json_t *from = f[i].within != NULL ? json_object_get(object, f[i].within) : object;
        bool bad = f[i].bad && html_real_of(from, f[i].name) >= 0.005;

        text_addf(out, "<div%s title=\"%s\"><dt>%s</dt><dd%s>", f[i].big ? " class=\"big\"" : "",
                  f[i].help, f[i].title, bad ? " class=\"bad\"" : "");
        f[i].put(out, from, f[i].name);
        html_add(out, "</dd></div>\n");
    }
    html_add(out, "</dl>\n");
}

static void put_workers(struct text *out, const json_t *application, const char *name)
{
    html_put_number(out, application, name);
    html_add(out, "<small> of ");
    html_put_number(out, application, "workers_known");
    html_add(out, "</small>");
}

/* Of the one policy that has it. */
static void put_cutoff(struct text *out, const json_t *application, const char *name)
{
    if (slice_is(html_text_of(application, "policy"), "resume"))
        html_put_number(out, application, name);
    else
        html_add(out, "&ndash;");
}

static void add_pool(const json_t *application, struct text *out)
{
    static const struct figure figures[] = {
        {"requests/s", "now", "requests_per_s", html_put_number,
         "Over the last quarter of a minute.", false, true},
        {"half within", "now", "p50_s", html_put_seconds, "Median time of a request, lately (p50).",
         false, true},
        {"99 % within", "now", "p99_s", html_put_seconds,
         "Of a hundred requests one took longer, lately (p99).", false, true},
        {"to skilled workers", "now", "skilled_share", html_put_percent,
         "Share of requests that a worker got which their class lives at, or which is known to be "
         "good at it.",
         false, true},
        {"failed/s", "now", "failed_per_s", html_put_number,
         "Answers 5xx and requests without a whole answer.", true, true},
        {"workers active", NULL, "workers_active", put_workers, "In the line, of those known.",
         false, true},
        {"backlog", NULL, "backlog", html_put_number,
         "Requests handed to workers and not finished.", false, false},
        {"mean backlog", NULL, "mean_backlog", html_put_number, "Its decayed average.", false,
         false},
        {"cutoff", NULL, "max_backlog", put_cutoff,
         "Policy resume: how far above the front of the line a skilled worker may stand.", false,
         false},
        {"queue", NULL, "waiting", html_put_number, "Requests that wait for any worker.", true,
         false},
        {"classes with scores", NULL, "classes", html_put_number,
         "Classes that some worker is known to be good at.", false, false},
        {"policy", NULL, "policy", html_put_text, "How a worker is picked.", false, false},
    };

    add_figures(application, figures, ARRAY_LEN(figures), out);
}

/* ---- workers ---- */

static bool is_bad(const json_t *w)
{
    static const char *const bad[] = {"absent", "silent", "unhealthy"};
    struct slice state = html_text_of(w, "state");

    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        if (slice_is(state, bad[i]))
            return true;
    }
    return json_is_true(json_object_get(w, "ejected"));
}

static int by_name(const void *a, const void *b)
{
    const json_t *x = *(const json_t *const *)a;
    const json_t *y = *(const json_t *const *)b;

    if (is_bad(x) != is_bad(y))
        return is_bad(x) ? -1 : 1;
    return strverscmp(json_string_value(json_object_get(x, "name")),
                      json_string_value(json_object_get(y, "name")));
}

static int by_rate(const void *a, const void *b)
{
    const json_t *x = *(const json_t *const *)a;
    const json_t *y = *(const json_t *const *)b;
    double rx = html_real_of(x, "requests_per_s");
    double ry = html_real_of(y, "requests_per_s");

    if (is_bad(x) != is_bad(y))
        return is_bad(x) ? -1 : 1;
    return (rx < ry) - (rx > ry);
}

/* Backlog as a bar of SCALE in all, with a mark at its mean. */
static void add_bar(const json_t *w, double scale, struct text *out)
{
    enum { WIDTH = 72 };
    double now = html_real_of(w, "backlog") / scale * WIDTH;
    double mean = html_real_of(w, "mean_backlog") / scale * WIDTH;

    text_addf(out,
              "<svg class=\"bar\" width=\"%d\" height=\"10\" viewBox=\"0 0 %d 10\" "
              "aria-hidden=\"true\"><rect class=\"track\" width=\"%d\" height=\"10\" rx=\"2\"/>"
              "<rect class=\"fill\" width=\"%.1f\" height=\"10\" rx=\"2\"/>"
              "<rect class=\"mean\" x=\"%.1f\" width=\"2\" height=\"10\"/></svg>",
              WIDTH, WIDTH, WIDTH, now < WIDTH ? now : WIDTH, mean < WIDTH - 2 ? mean : WIDTH - 2);
}

static void add_state(const json_t *w, struct text *out)
{
    bool ejected = json_is_true(json_object_get(w, "ejected"));
    bool active = json_is_true(json_object_get(w, "active"));
    bool ready = slice_is(html_text_of(w, "state"), "ready");

    text_addf(out, "<td><span class=\"state %s\">",
              is_bad(w)         ? "bad"
              : ready && active ? "good"
                                : "soft");
    if (ejected) {
        html_add(out, "ejected: ");
        html_put_text(out, w, "ejected_why");
        html_add(out, ", for ");
        html_put_seconds(out, w, "ejected_for_s");
    } else {
        html_put_text(out, w, "state");
        if (ready && !active)
            html_add(out, ", inactive");
    }
    html_add(out, "</span>");
    if (json_is_true(json_object_get(json_object_get(w, "check"), "failing"))) {
        html_add(out, " <span class=\"bad\">");
        html_put_text(out, json_object_get(w, "check"), "why");
        html_add(out, "</span>");
    }
    if (json_is_string(json_object_get(w, "standby"))) {
        html_add(out, json_is_true(json_object_get(w, "on_standby"))
                          ? " <span class=\"bad\">at standby "
                          : " <span class=\"soft\">standby ");
        html_put_text(out, w, "standby");
        html_add(out, "</span>");
    }
    html_add(out, "</td>");
}

static void add_number(const json_t *w, const char *name, put_fn put, const char *class_of,
                       struct text *out)
{
    text_addf(out, "<td class=\"number %s\"", class_of);
    html_put_sort_key(out, html_real_of(w, name));
    html_add(out, ">");
    put(out, w, name);
    html_add(out, "</td>");
}

/* What it has to do, in its own time, as far as its service times tell. */
static void add_work(const json_t *w, struct text *out)
{
    json_t *work = json_null();

    if (json_is_number(json_object_get(w, "service_mean_s")))
        work = json_real(html_real_of(w, "backlog") * html_real_of(w, "service_mean_s"));
    json_t *holder = json_pack("{s:o}", "work_s", work);
    add_number(holder, "work_s", html_put_seconds, "", out);
    json_decref(holder);
}

static void add_connections(const json_t *w, struct text *out)
{
    const json_t *c = json_object_get(w, "connections");

    html_add(out, "<td class=\"number\"");
    html_put_sort_key(out, html_real_of(c, "in_use") + html_real_of(c, "idle"));
    html_add(out, ">");
    html_put_number(out, c, "in_use");
    html_add(out, "<small> + ");
    html_put_number(out, c, "idle");
    html_add(out, " idle");
    if (html_real_of(w, "tunnels") > 0) {
        html_add(out, " + ");
        html_put_number(out, w, "tunnels");
        html_add(out, " tunnels");
    }
    html_add(out, "</small></td>");
}

static void add_worker(const json_t *w, double scale, struct text *out)
{
    const json_t *v;
    size_t i;

    html_add(out, "<tr><th scope=\"row\">");
    html_put_text(out, w, "name");
    html_add(out, "</th>");
    add_state(w, out);
    html_add(out, "<td>");
    html_put_text(out, w, "version");
    html_add(out, "</td><td class=\"number\"");
    html_put_sort_key(out, html_real_of(w, "backlog"));
    html_add(out, ">");
    html_put_number(out, w, "backlog");
    text_addf(out, "<small> of %.0f</small></td><td>",
              html_real_of(w, "backlog") + html_real_of(w, "backlog_others"));
    add_bar(w, scale, out);
    html_add(out, "</td>");
    add_number(w, "mean_backlog", html_put_number, "", out);
    add_work(w, out);
    add_number(w, "oldest_s", html_put_seconds, "", out);
    add_number(w, "requests_per_s", html_put_number, "", out);
    add_number(w, "failures", html_put_number,
               html_real_of(w, "failures_per_s") > 0.005 ? "bad" : "", out);
    add_connections(w, out);
    add_number(w, "skills", html_put_number, "", out);
    html_add(out, "<td class=\"classes\">");
    json_array_foreach(json_object_get(w, "top_classes"), i, v)
    {
        html_add(out, i != 0 ? ", " : "");
        text_add_html(out, (struct slice){json_string_value(v), json_string_length(v)});
    }
    html_add(out, "</td></tr>\n");
}

static const char worker_heads[] =
    "<thead><tr><th scope=\"col\">worker</th><th scope=\"col\">state</th><th "
    "scope=\"col\">version</th>"
    "<th scope=\"col\" class=\"number\" title=\"requests in hand: ours, of all that is known "
    "of\">backlog "
    "here, in all</th><th scope=\"col\"><span class=\"hidden\">bar</span></th>"
    "<th scope=\"col\" class=\"number\">mean</th>"
    "<th scope=\"col\" class=\"number\" title=\"backlog times what a request takes it\">work</th>"
    "<th scope=\"col\" class=\"number\">oldest</th><th scope=\"col\" "
    "class=\"number\">requests/s</th>"
    "<th scope=\"col\" class=\"number\">errors</th>"
    "<th scope=\"col\" class=\"number\">connections</th><th scope=\"col\" "
    "class=\"number\">skills</th>"
    "<th scope=\"col\">most of its requests</th></tr></thead>\n<tbody>\n";

static void add_workers(const json_t *application, struct text *out)
{
    const json_t *workers = json_object_get(application, "workers");
    size_t shown = json_array_size(workers);
    int64_t known = json_integer_value(json_object_get(application, "workers_known"));
    int64_t found = json_integer_value(json_object_get(application, "workers_found"));
    const json_t **all = xcalloc(shown + 1, sizeof(*all));
    double scale = 2;

    for (size_t i = 0; i < shown; ++i) {
        all[i] = json_array_get(workers, i);
        double backlog = html_real_of(all[i], "backlog");
        scale = backlog > scale ? backlog : scale;
    }
    qsort(all, shown, sizeof(*all), found > STATUS_WORKERS_MAX ? by_rate : by_name);
    text_addf(out,
              "<details class=\"part\" open><summary><h3>Workers</h3> <span class=\"soft\">%zu",
              shown);
    if ((int64_t)shown != known)
        text_addf(out, " of %" PRId64 "%s", known,
                  (int64_t)shown < found ? ", the busiest; search finds the others" : "");
    html_add(out, "</span></summary>\n");
    if (known == 0)
        html_add(out, "<p class=\"bad\">No worker is known.</p>\n");
    html_add(out, "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Workers\">"
                  "<table class=\"sortable\">\n");
    html_add(out, worker_heads);
    for (size_t i = 0; i < shown; ++i)
        add_worker(all[i], scale, out);
    html_add(out, "</tbody></table></div></details>\n");
    free(all);
}

/* ---- tree and settings ---- */

static void add_tree_problems(const json_t *settings, struct text *out)
{
    const json_t *problem = json_object_get(settings, "problem");
    bool is_link = false;
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(settings, "broken_links"), i, row)
    {
        is_link = is_link || json_equal(row, problem);
        html_add(out, "<p class=\"bad notice\">A link in the tree does not resolve: ");
        text_add_html(out, (struct slice){json_string_value(row), json_string_length(row)});
        html_add(out, "</p>\n");
    }
    if (!json_is_string(problem) || is_link)
        return;
    html_add(out, "<p class=\"bad notice\">The tree\xe2\x80\x99s node: ");
    html_put_text(out, settings, "problem");
    html_add(out, "</p>\n");
}

static void add_refused(const json_t *settings, struct text *out)
{
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(settings, "refused"), i, row)
    {
        html_add(out, "<p class=\"bad notice\">Setting <code>");
        html_put_text(out, row, "name");
        html_add(out, "</code> = <code>");
        html_put_text(out, row, "value");
        html_add(out, "</code> of the tree is refused: ");
        html_put_text(out, row, "why");
        html_add(out, "</p>\n");
    }
    if (json_is_true(json_object_get(settings, "held")))
        html_add(out,
                 "<p class=\"bad notice\">The settings of the tree are held: their node is gone "
                 "or cannot be read.</p>\n");
    add_tree_problems(settings, out);
}

static void put_yes(struct text *out, const json_t *object, const char *name)
{
    html_add(out, json_is_true(json_object_get(object, name)) ? "yes" : "no");
}

static void add_tree(const json_t *settings, struct text *out)
{
    static const struct figure figures[] = {
        {"tree connected", NULL, "connected", put_yes,
         "Whether it can be reached; else all goes on with what was known.", false, false},
        {"registered there", NULL, "registered", put_yes,
         "This load balancer, under all its names.", false, false},
        {"providers", NULL, "providers", html_put_number, "Workers registered.", false, false},
        {"refused", NULL, "refused", html_put_number,
         "Registrations of another application, or without an address.", true, false},
        {"held", NULL, "held", html_put_number,
         "Workers kept although their registration vanished with many others.", true, false},
        {"remembered for", NULL, "remembered_age_s", html_put_seconds,
         "How old the list of workers is, where it is the one kept on disk.", true, false},
        {"sessions expired", NULL, "expired", html_put_number,
         "Given up by ZooKeeper; what was registered was registered anew.", false, false},
        {"nodes not read", NULL, "quarantined", html_put_number,
         "Because reading them broke the connection.", true, false},
    };
    const json_t *tree = json_object_get(settings, "tree");

    if (!json_is_true(json_object_get(tree, "used")))
        return;
    if (json_is_false(json_object_get(tree, "connected")))
        html_add(out, "<p class=\"bad notice\">The tree cannot be reached: going on with what was "
                      "known.</p>\n");
    if (json_is_string(json_object_get(tree, "confirm_removal"))) {
        html_add(out, "<p class=\"bad notice\">Workers are held, because their registrations ended "
                      "with many others. If they were removed on purpose, run: <code>");
        html_put_text(out, tree, "confirm_removal");
        html_add(out, "</code></p>\n");
    }
    html_add(out, "<h3>Tree</h3>\n");
    add_figures(tree, figures, ARRAY_LEN(figures), out);
}

static void add_settings(const char *title, const json_t *settings, struct text *out)
{
    const char *name;
    json_t *row;

    text_addf(out,
              "<details class=\"part\"><summary><h3>%s</h3> <span class=\"soft\">%zu, each with "
              "where its value is from</span></summary>\n"
              "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">"
              "<table class=\"sortable settings\">\n"
              "<thead><tr><th scope=\"col\">setting</th><th scope=\"col\">value</th>"
              "<th scope=\"col\">from</th><th scope=\"col\">refused</th></tr></thead><tbody>\n",
              title, json_object_size(settings), title);
    json_object_foreach((json_t *)(uintptr_t)settings, name, row)
    {
        html_add(out, "<tr><th scope=\"row\">");
        text_add_html(out, slice_of(name));
        html_add(out, "</th><td><code>");
        html_put_text(out, row, "value");
        text_addf(out, "</code></td><td class=\"%s\">",
                  slice_is(html_text_of(row, "origin"), "default") ? "soft" : "");
        html_put_text(out, row, "origin");
        html_add(out, "</td><td class=\"bad\">");
        if (html_text_of(row, "refused").len != 0)
            html_put_text(out, row, "refused");
        html_add(out, "</td></tr>\n");
    }
    html_add(out, "</tbody></table></div></details>\n");
}

static void add_application(const char *name, const json_t *a, const json_t *settings,
                            struct text *out)
{
    html_add(out, "<section aria-label=\"Application ");
    text_add_html(out, slice_of(name));
    html_add(out, "\">\n<h2>");
    text_add_html(out, slice_of(name));
    html_add(out, "</h2>\n");
    add_refused(settings, out);
    add_pool(a, out);
    html_map(name, a, out);
    add_workers(a, out);
    html_classes(a, out);
    html_limits(a, out);
    add_tree(settings, out);
    add_settings("Settings of the application", json_object_get(settings, "settings"), out);
    html_add(out, "</section>\n");
}

/* ---- events ---- */

static void add_time(const json_t *event, struct text *out)
{
    time_t at = (time_t)html_real_of(event, "time");
    struct tm tm;
    char iso[32];
    char clock[16];

    gmtime_r(&at, &tm);
    strftime(iso, sizeof(iso), "%Y-%m-%dT%H:%M:%SZ", &tm);
    strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
    text_addf(out, "<td><time datetime=\"%s\">%s</time></td>", iso, clock);
}

static void add_events(const json_t *events, struct text *out)
{
    size_t n = json_array_size(events);

    text_addf(
        out,
        "<section aria-label=\"Events\">\n<details class=\"part\" open><summary><h2>Events</h2> "
        "<span class=\"soft\">%zu in the last hour (UTC)</span></summary>\n",
        n);
    if (n == 0)
        html_add(out, "<p class=\"soft\">Nothing has changed.</p>\n");
    html_add(out,
             "<div class=\"wide events\" tabindex=\"0\" role=\"region\" aria-label=\"Events\">"
             "<table>\n<thead><tr><th scope=\"col\">time</th><th scope=\"col\">what</th>"
             "<th scope=\"col\">application</th><th scope=\"col\">whom</th><th scope=\"col\">how"
             "</th></tr></thead><tbody>\n");
    while (n-- != 0) {
        const json_t *e = json_array_get(events, n);

        html_add(out, "<tr>");
        add_time(e, out);
        text_addf(out, "<td class=\"%s\">", json_is_true(json_object_get(e, "bad")) ? "bad" : "");
        html_put_text(out, e, "kind");
        html_add(out, "</td><td>");
        html_put_text(out, e, "application");
        html_add(out, "</td><td>");
        html_put_text(out, e, "subject");
        html_add(out, "</td><td class=\"classes\">");
        html_put_text(out, e, "text");
        html_add(out, "</td></tr>\n");
    }
    html_add(out, "</tbody></table></div></details></section>\n");
}

/* ---- the page ---- */

void status_html_main(const struct status_documents *d, struct text *out)
{
    const json_t *settings = json_object_get(d->settings, "applications");
    const char *name;
    json_t *a;

    html_add(out, "<main id=\"main\">\n<p id=\"program\">version ");
    html_put_text(out, d->status, "version");
    text_addf(out, ", pid %" PRId64 ", up ",
              (int64_t)json_integer_value(json_object_get(d->status, "pid")));
    html_put_seconds(out, d->status, "uptime_s");
    html_add(out, ", ");
    html_put_text(out, d->status, "phase");
    html_add(out, "</p>\n");
    json_object_foreach(json_object_get(d->status, "applications"), name, a)
    {
        add_application(name, a, json_object_get(settings, name), out);
    }
    add_events(json_object_get(d->events, "events"), out);
    html_add(out, "<section aria-label=\"Program\">\n");
    add_settings("Settings of the program",
                 json_object_get(json_object_get(d->settings, "program"), "settings"), out);
    html_add(out, "</section>\n</main>\n");
}

static const char page_head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<title>resumelb status</title>\n"
    "<link rel=\"icon\" href=\"/icon.svg\" type=\"image/svg+xml\">\n"
    "<link rel=\"stylesheet\" href=\"/page.css\">\n<script src=\"/page.js\" defer></script>\n"
    "<noscript><meta http-equiv=\"refresh\" content=\"10\"></noscript>\n</head>\n<body>\n"
    "<a class=\"skip\" href=\"#main\">To the figures</a>\n"
    "<header>\n<h1>resumelb</h1>\n<p id=\"live\" role=\"status\"></p>\n"
    "<form role=\"search\" method=\"get\" action=\"/\"><label for=\"q\">Search</label> "
    "<input id=\"q\" name=\"q\" type=\"search\" maxlength=\"100\" autocomplete=\"off\" "
    "placeholder=\"worker, state or class\" value=\"";

static const char page_links[] =
    "\"><button id=\"go\">Find</button></form>\n"
    "<button id=\"pause\" type=\"button\" aria-pressed=\"false\" hidden>Pause</button>\n"
    "<nav aria-label=\"Data\"><a href=\"/status.json\">status</a> <a "
    "href=\"/resumes.json\">resumes</a> "
    "<a href=\"/settings.json\">settings</a> <a href=\"/events\">events</a> "
    "<a href=\"/metrics\">metrics</a></nav>\n</header>\n";

void status_html(const struct status_documents *d, struct text *out)
{
    html_add(out, page_head);
    text_add_html(out, d->q);
    html_add(out, page_links);
    status_html_main(d, out);
    html_add(out, "</body>\n</html>\n");
}
