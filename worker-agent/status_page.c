/* SPDX-License-Identifier: Apache-2.0
 *
 * Made of the JSON rather than of the pool, so that both say the same, and a test needs no pool.
 * Every text goes through text_add_html: names, versions and output lines are the application's.
 */
#include "worker-agent/status_page.h"

#include <inttypes.h>

static void add(struct text *out, const char *markup)
{
    text_add(out, slice_of(markup));
}

static struct slice text_of(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);

    return (struct slice){json_string_value(v), json_string_length(v)};
}

static double real_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static int64_t int_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* ---- values, each a text of the page ---- */

static void put_text(struct text *out, const json_t *object, const char *name)
{
    struct slice s = text_of(object, name);

    if (s.len != 0)
        text_add_html(out, s);
    else
        add(out, "\xe2\x80\x93");
}

static void put_int(struct text *out, const json_t *object, const char *name)
{
    if (json_is_integer(json_object_get(object, name)))
        text_addf(out, "%" PRId64, int_of(object, name));
    else
        add(out, "\xe2\x80\x93");
}

static void put_duration(struct text *out, const json_t *object, const char *name)
{
    enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
    double s = real_of(object, name);

    if (!json_is_number(json_object_get(object, name)) || !(s >= 0 && s < 1e12))
        add(out, "\xe2\x80\x93");
    else if (s < 10)
        text_addf(out, "%.1f s", s);
    else if (s < MINUTE)
        text_addf(out, "%.0f s", s);
    else if (s < HOUR)
        text_addf(out, "%" PRIu64 " min %" PRIu64 " s", (uint64_t)s / MINUTE, (uint64_t)s % MINUTE);
    else if (s < DAY)
        text_addf(out, "%" PRIu64 " h %" PRIu64 " min", (uint64_t)s / HOUR,
                  (uint64_t)s % HOUR / MINUTE);
    else
        text_addf(out, "%" PRIu64 " d %" PRIu64 " h", (uint64_t)s / DAY, (uint64_t)s % DAY / HOUR);
}

static void put_percent(struct text *out, const json_t *object, const char *name)
{
    if (json_is_number(json_object_get(object, name)))
        text_addf(out, "%.0f %%", real_of(object, name));
    else
        add(out, "\xe2\x80\x93");
}

static void put_memory(struct text *out, const json_t *object, const char *name)
{
    if (json_is_number(json_object_get(object, name)))
        text_addf(out, "%.1f MiB", real_of(object, name) / (1024 * 1024));
    else
        add(out, "\xe2\x80\x93");
}

static void put_limit(struct text *out, const json_t *object, const char *name)
{
    if (int_of(object, name) == 0)
        add(out, "no limit");
    else
        put_int(out, object, name);
}

typedef void (*put_fn)(struct text *out, const json_t *object, const char *name);

/* ---- figures ---- */

struct figure {
    const char *title;
    const char *within; /* the member that has it; NULL: the object itself */
    const char *name;
    put_fn put;
    bool bad; /* unless it is 0 */
};

static void add_figures(const json_t *object, const struct figure *figures, size_t n,
                        struct text *out)
{
    add(out, "<dl>\n");
    for (size_t i = 0; i < n; ++i) {
        const struct figure *f = &figures[i];
        const json_t *from = f->within != NULL ? json_object_get(object, f->within) : object;

        text_addf(out, "<div><dt>%s</dt><dd%s>", f->title,
                  f->bad && int_of(from, f->name) != 0 ? " class=\"bad\"" : "");
        f->put(out, from, f->name);
        add(out, "</dd></div>\n");
    }
    add(out, "</dl>\n");
}

/* ---- settings, of the host and of an application ---- */

static void add_refused(const json_t *whose, struct text *out)
{
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(whose, "refused"), i, row)
    {
        add(out, "<p class=\"bad\">Refused setting ");
        put_text(out, row, "name");
        add(out, ": ");
        put_text(out, row, "why");
        add(out, "</p>\n");
    }
    json_array_foreach(json_object_get(whose, "broken_links"), i, row)
    {
        add(out, "<p class=\"bad\">A link in the tree does not resolve: ");
        text_add_html(out, (struct slice){json_string_value(row), json_string_length(row)});
        add(out, "</p>\n");
    }
    if (json_is_true(json_object_get(whose, "held")))
        add(out, "<p class=\"bad\">The settings of the tree are held: their node is gone or cannot "
                 "be read.</p>\n");
}

/* ID: by it the script knows which ones are open. */
static void add_settings(const char *id, const char *name_of, json_t *settings, struct text *out)
{
    const char *name;
    json_t *row;

    if (json_object_size(settings) == 0)
        return;
    text_addf(out, "<details id=\"%s", id);
    text_add_html(out, slice_of(name_of));
    add(out, "\"><summary>settings in force</summary>\n<table>\n<thead><tr><th>setting</th>"
             "<th>value</th><th>from</th></tr></thead>\n<tbody>\n");
    json_object_foreach(settings, name, row)
    {
        add(out, "<tr><td>");
        text_add_html(out, slice_of(name));
        add(out, "</td><td class=\"classes\">");
        put_text(out, row, "value");
        add(out, "</td><td>");
        put_text(out, row, "origin");
        add(out, "</td></tr>\n");
    }
    add(out, "</tbody>\n</table>\n</details>\n");
}

/* ---- the pool ---- */

static void add_pool(const json_t *status, struct text *out)
{
    static const struct figure figures[] = {
        {"max processes", NULL, "max_processes", put_limit, false},
        {"processes", NULL, "processes", put_int, false},
        {"busy", NULL, "active_processes", put_int, false},
        {"requests waiting", NULL, "waiting", put_int, true},
        {"connections", NULL, "connections", put_int, false},
    };
    const json_t *tree = json_object_get(status, "tree");
    const json_t *host = json_object_get(status, "host");

    add(out, "<section id=\"pool\">\n<h2>pool</h2>\n");
    add_figures(status, figures, ARRAY_LEN(figures), out);
    if (json_is_false(json_object_get(tree, "connected")))
        add(out,
            "<p class=\"bad\">The tree cannot be reached: going on with what was known.</p>\n");
    add_refused(host, out);
    add_settings("host-settings", "", json_object_get(host, "settings"), out);
    add(out, "</section>\n");
}

/* ---- processes ---- */

/* Whose member a column shows. */
enum whose { SLOT, QUEUE, PROCESS };

struct column {
    const char *title, *name;
    put_fn put;
    enum whose whose;
    bool number;
};

static void put_state(struct text *out, const json_t *process, const char *name)
{
    bool starts = json_is_true(json_object_get(process, "successor"));

    put_text(out, process, name);
    if (starts)
        add(out, " (successor)");
    if (text_of(process, "going").len != 0) {
        add(out, ", ");
        put_text(out, process, "going");
    }
}

static void put_code(struct text *out, const json_t *object, const char *name)
{
    add(out, "<code>");
    put_text(out, object, name);
    add(out, "</code>");
}

static const struct column columns[] = {
    {"slot", "slot", put_int, SLOT, true},
    {"address", "address", put_text, SLOT, false},
    {"pid", "pid", put_int, PROCESS, true},
    {"state", "state", put_state, PROCESS, false},
    {"sessions", "sessions", put_int, PROCESS, true},
    {"processed", "processed", put_int, PROCESS, true},
    {"uptime", "uptime_s", put_duration, PROCESS, true},
    {"last used", "last_used_s", put_duration, PROCESS, true},
    {"CPU", "cpu_percent", put_percent, PROCESS, true},
    {"memory", "memory_bytes", put_memory, PROCESS, true},
    {"queue", "waiting", put_int, QUEUE, true},
    {"generation", "generation", put_int, PROCESS, true},
    {"version", "version", put_text, PROCESS, false},
    {"id", "id", put_code, PROCESS, false},
};

/* QUEUE: where those wait who want this process; or NULL. */
static void add_row(const json_t *slot, const json_t *queue, const json_t *process,
                    struct text *out)
{
    const json_t *const from[] = {[SLOT] = slot, [QUEUE] = queue, [PROCESS] = process};

    add(out, "<tr>");
    for (size_t i = 0; i < ARRAY_LEN(columns); ++i) {
        const struct column *c = &columns[i];

        text_addf(out, "<td%s>", c->number ? " class=\"number\"" : "");
        c->put(out, from[c->whose], c->name);
        add(out, "</td>");
    }
    add(out, "</tr>\n");
}

static void add_slot(const json_t *slot, struct text *out)
{
    const json_t *process = json_object_get(slot, "process");
    const json_t *successor = json_object_get(slot, "successor");

    /* A cold one shows its own state in the place of a process's. */
    add_row(slot, slot, json_is_object(process) ? process : slot, out);
    if (json_is_object(successor))
        add_row(slot, NULL, successor, out);
}

static void add_processes(const json_t *application, struct text *out)
{
    const json_t *slots = json_object_get(application, "slots");
    const json_t *v;
    size_t i;

    add(out, "<table>\n<thead><tr>");
    for (i = 0; i < ARRAY_LEN(columns); ++i)
        text_addf(out, "<th%s>%s</th>", columns[i].number ? " class=\"number\"" : "",
                  columns[i].title);
    add(out, "</tr></thead>\n<tbody>\n");
    json_array_foreach(slots, i, v)
    {
        add_slot(v, out);
    }
    json_array_foreach(json_object_get(application, "leaving"), i, v)
    {
        add_row(json_array_get(slots, (size_t)int_of(v, "slot")), NULL, v, out);
    }
    add(out, "</tbody>\n</table>\n");
}

/* ---- an application ---- */

static void add_failure(const json_t *application, struct text *out)
{
    const json_t *f = json_object_get(application, "last_failure");
    const json_t *line;
    size_t i;

    if (!json_is_object(f))
        return;
    add(out, "<p class=\"bad\">Last failure ");
    put_duration(out, f, "ago_s");
    add(out, " ago (");
    put_text(out, f, "at");
    text_addf(out, "): slot %" PRId64 ", pid %" PRId64 " ", int_of(f, "slot"), int_of(f, "pid"));
    put_text(out, f, "what");
    if (text_of(f, "how").len != 0) {
        add(out, ": ");
        put_text(out, f, "how");
    }
    add(out, "</p>\n");
    if (json_array_size(json_object_get(f, "lines")) == 0)
        return;
    add(out, "<pre>");
    json_array_foreach(json_object_get(f, "lines"), i, line)
    {
        text_add_html(out, (struct slice){json_string_value(line), json_string_length(line)});
        text_add_char(out, '\n');
    }
    add(out, "</pre>\n");
}

static void add_over_memory(const json_t *application, struct text *out)
{
    const json_t *o = json_object_get(application, "over_memory");

    if (!json_is_true(json_object_get(o, "too_low")))
        return;
    add(out,
        "<p class=\"bad\">max_memory is too low: processes are over it soon after they are ready. "
        "They are replaced every ");
    put_duration(out, o, "interval_s");
    add(out, ", more and more seldom.</p>\n");
}

static void add_application(const char *name, const json_t *a, struct text *out)
{
    static const struct figure figures[] = {
        {"processes", "counts", "processes", put_int, false},
        {"at least", NULL, "min_processes", put_int, false},
        {"at most", NULL, "max_processes", put_int, false},
        {"busy", "counts", "busy", put_int, false},
        {"idle", "counts", "idle", put_int, false},
        {"starting", "counts", "starting", put_int, false},
        {"leaving", "counts", "leaving", put_int, false},
        {"queue", "queue", "policy", put_text, false},
        {"waiting", "queue", "waiting", put_int, true},
        {"for whichever process", "queue", "waiting_any", put_int, true},
        {"requests", "figures", "requests", put_int, false},
        {"running", "figures", "requests_running", put_int, false},
        {"tunnels", "figures", "tunnels_open", put_int, false},
        {"generation", NULL, "generation", put_int, false},
        {"started", "figures", "spawns", put_int, false},
        {"starts failed", "figures", "spawn_failures", put_int, true},
        {"deaths", "figures", "deaths", put_int, true},
    };

    add(out, "<section id=\"application-");
    text_add_html(out, slice_of(name));
    add(out, "\">\n<h2>");
    text_add_html(out, slice_of(name));
    add(out, "</h2>\n");
    add_figures(a, figures, ARRAY_LEN(figures), out);
    add_refused(a, out);
    add_over_memory(a, out);
    add_failure(a, out);
    add_processes(a, out);
    add_settings("settings-", name, json_object_get(a, "settings"), out);
    add(out, "</section>\n");
}

/* ---- the page ---- */

static const char page_head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<title>resumelb-agent</title>\n"
    "<link rel=\"stylesheet\" href=\"/status.css\">\n"
    "<script src=\"/status.js\" defer></script>\n"
    "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n"
    "</head>\n<body>\n<header>\n<h1>resumelb-agent</h1>\n<p id=\"program\">";

static const char page_links[] =
    "</p>\n<p id=\"state\" role=\"status\"></p>\n<nav><a href=\"/status.json\">status.json</a> "
    "<a href=\"/resumes.json\">resumes.json</a> <a href=\"/metrics\">metrics</a></nav>\n"
    "</header>\n<main>\n";

void status_page(const json_t *status, struct text *out)
{
    const char *name;
    json_t *a;

    add(out, page_head);
    add(out, "version ");
    put_text(out, status, "version");
    text_addf(out, ", pid %" PRId64 ", keeper %" PRId64 ", up ", int_of(status, "pid"),
              int_of(status, "keeper_pid"));
    put_duration(out, status, "uptime_s");
    add(out, ", ");
    put_text(out, status, "phase");
    add(out, page_links);
    add_pool(status, out);
    json_object_foreach(json_object_get(status, "applications"), name, a)
    {
        add_application(name, a, out);
    }
    add(out, "</main>\n</body>\n</html>\n");
}
