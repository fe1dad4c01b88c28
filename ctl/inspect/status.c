/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl status: one block per application.
 */
#include "ctl/cli/ctl.h"
#include "ctl/cli/page.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- an agent's page ---- */

static const struct table_column agent_columns[] = {
    {"slot", true},      {"pid", true},    {"state", false},    {"sessions", true},
    {"processed", true}, {"uptime", true}, {"last used", true}, {"cpu", true},
    {"memory", true},    {"queue", true},  {"version", false},  {"id", false},
};

/* Whether PAGE is an agent's /status.json. */
static bool status_is_agent(const json_t *page)
{
    const char *program = json_string_value(json_object_get(page, "program"));

    return program != NULL && strcmp(program, "resumelb-agent") == 0;
}

/* ---- cells ---- */

static void cell_duration(struct table *t, const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    struct text shown = {0};

    if (json_is_number(v))
        page_add_duration(&shown, json_number_value(v));
    else
        text_add_char(&shown, '-');
    table_add(t, text_slice(&shown));
    text_fini(&shown);
}

static void cell_memory(struct table *t, const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);

    if (json_is_number(v))
        table_addf(t, "%.0fM", json_number_value(v) / (1024 * 1024));
    else
        table_add(t, SLICE_LIT("-"));
}

/* The state, and why it goes if it does. */
static void cell_state(struct table *t, const json_t *process, const char *role)
{
    const json_t *why = json_object_get(process, "going");
    struct text shown = {0};

    page_add_text(&shown, process, "state");
    if (role != NULL)
        text_add(&shown, slice_of(role));
    if (json_is_string(why)) {
        text_add(&shown, SLICE_LIT(", "));
        page_add_text(&shown, process, "going");
    }
    table_add(t, text_slice(&shown));
    text_fini(&shown);
}

static void add_process(struct table *t, int64_t slot, const json_t *p, const char *role,
                        const json_t *waits_at)
{
    table_addf(t, "%" PRId64, slot);
    cell_int(t, p, "pid");
    cell_state(t, p, role);
    cell_int(t, p, "sessions");
    cell_int(t, p, "processed");
    cell_duration(t, p, "uptime_s");
    cell_duration(t, p, "last_used_s");
    cell_real(t, p, "cpu_percent", "%.0f%%");
    cell_memory(t, p, "memory_bytes");
    cell_int(t, waits_at, "waiting");
    cell_text(t, p, "version");
    cell_text(t, p, "id");
}

static void add_slot(struct table *t, const json_t *slot)
{
    const json_t *p = json_object_get(slot, "process");
    const json_t *successor = json_object_get(slot, "successor");

    if (json_is_object(p))
        add_process(t, page_int(slot, "slot"), p, NULL, slot);
    if (json_is_object(successor))
        add_process(t, page_int(slot, "slot"), successor, " (replacement)", NULL);
}

static void print_processes(const json_t *application, struct text *out)
{
    struct table t;
    const json_t *v;
    size_t i;

    table_init(&t, agent_columns, ARRAY_LEN(agent_columns));
    json_array_foreach(json_object_get(application, "slots"), i, v)
    {
        add_slot(&t, v);
    }
    json_array_foreach(json_object_get(application, "leaving"), i, v)
    {
        add_process(&t, page_int(v, "slot"), v, NULL, NULL);
    }
    if (t.ncells == 0)
        text_add(out, SLICE_LIT("  no processes\n"));
    table_print(&t, 2, out);
    table_fini(&t);
}

/* ---- an application ---- */

static void print_failure(const json_t *application, struct text *out)
{
    const json_t *f = json_object_get(application, "last_failure");
    const json_t *line;
    size_t i;

    if (!json_is_object(f))
        return;
    text_add(out, SLICE_LIT("  last failure "));
    page_add_duration(out, json_number_value(json_object_get(f, "ago_s")));
    text_addf(out, " ago: slot %" PRId64 ", pid %" PRId64 " ", page_int(f, "slot"),
              page_int(f, "pid"));
    page_add_text(out, f, "what");
    text_add(out, SLICE_LIT(": "));
    page_add_text(out, f, "how");
    text_add_char(out, '\n');
    json_array_foreach(json_object_get(f, "lines"), i, line)
    {
        text_add(out, SLICE_LIT("    | "));
        text_add_visible(out, (struct slice){json_string_value(line), json_string_length(line)});
        text_add_char(out, '\n');
    }
}

/* "NAME = value" of those that are not as built in. */
static void print_settings(const json_t *application, struct text *out)
{
    const char *before = "  settings: ";
    const char *name;
    json_t *row;

    json_object_foreach(json_object_get(application, "settings"), name, row)
    {
        const char *origin = json_string_value(json_object_get(row, "origin"));

        if (origin == NULL || strcmp(origin, "tree") != 0)
            continue;
        text_add(out, slice_of(before));
        text_add_escaped(out, slice_of(name));
        text_add(out, SLICE_LIT(" = "));
        page_add_text(out, row, "value");
        before = ", ";
    }
    if (strcmp(before, ", ") == 0)
        text_add(out, SLICE_LIT(" (from the tree)\n"));
    page_print_refused(application, out);
}

static void print_agent_application(const char *name, json_t *a, const struct ctl_options *o,
                                    struct text *out)
{
    const json_t *queue = json_object_get(a, "queue");
    const json_t *counts = json_object_get(a, "counts");

    (void)o;
    text_add_escaped(out, slice_of(name));
    text_addf(out,
              ": %" PRId64 " processes (min %" PRId64 ", max %" PRId64 "): %" PRId64
              " busy, %" PRId64 " idle, %" PRId64 " starting, %" PRId64 " leaving\n  ",
              page_int(counts, "processes"), page_int(a, "min_processes"),
              page_int(a, "max_processes"), page_int(counts, "busy"), page_int(counts, "idle"),
              page_int(counts, "starting"), page_int(counts, "leaving"));
    page_add_text(out, queue, "policy");
    text_addf(
        out,
        " queue, %" PRId64 " waiting (%" PRId64 " for whichever process), generation %" PRId64 "\n",
        page_int(queue, "waiting"), page_int(queue, "waiting_any"), page_int(a, "generation"));
    print_settings(a, out);
    print_failure(a, out);
    print_processes(a, out);
}

static void print_pool(const json_t *page, struct text *out)
{
    json_t *host = json_object_get(page, "host");

    text_add(out, SLICE_LIT("resumelb-agent "));
    page_add_text(out, page, "version");
    text_addf(out, ", pid %" PRId64 ", supervisor %" PRId64 ", ", page_int(page, "pid"),
              page_int(page, "keeper_pid"));
    page_add_text(out, page, "phase");
    text_add(out, SLICE_LIT(", up "));
    page_add_duration(out, json_number_value(json_object_get(page, "uptime_s")));
    text_add(out, SLICE_LIT("\nmax      = "));
    if (page_int(page, "max_processes") == 0)
        text_add(out, SLICE_LIT("no limit"));
    else
        text_addf(out, "%" PRId64, page_int(page, "max_processes"));
    text_addf(out,
              "\ncount    = %" PRId64 "\nactive   = %" PRId64 "\ninactive = %" PRId64
              "\nwaiting  = %" PRId64 "\n",
              page_int(page, "processes"), page_int(page, "active_processes"),
              page_int(page, "processes") - page_int(page, "active_processes"),
              page_int(page, "waiting"));
    print_settings(host, out);
}

/* The page has passed page_check(). */
static void status_agent_print(const json_t *page, const struct ctl_options *o, struct text *out)
{
    print_pool(page, out);
    page_each_application(page, o, print_agent_application, out);
}

/* ---- the load balancer's page ---- */

static const struct table_column columns[] = {
    {"worker", false},  {"state", false},  {"version", false},    {"backlog", true},
    {"mean", true},     {"oldest", true},  {"skills", true},      {"requests", true},
    {"failures", true}, {"service", true}, {"connections", true},
};

/* Its address, if that differs from its name or may differ. */
static void add_standby(struct text *out, const json_t *w)
{
    if (!json_is_string(json_object_get(w, "standby")))
        return;
    text_add(out, json_is_true(json_object_get(w, "on_standby")) ? SLICE_LIT(", at its standby ")
                                                                 : SLICE_LIT(", standby "));
    page_add_text(out, w, "standby");
}

/* Reasons other than its state for which a worker gets no requests now; and its standby. */
static void add_state(struct table *t, const json_t *w)
{
    struct text state = {0};

    page_add_text(&state, w, "state");
    if (json_is_true(json_object_get(json_object_get(w, "check"), "failing"))) {
        text_add(&state, SLICE_LIT(" ("));
        page_add_text(&state, json_object_get(w, "check"), "why");
        text_add_char(&state, ')');
    }
    if (json_is_true(json_object_get(w, "ejected"))) {
        text_add(&state, SLICE_LIT(", ejected ("));
        page_add_text(&state, w, "ejected_why");
        text_add_char(&state, ')');
    } else if (json_is_false(json_object_get(w, "active")) &&
               json_is_true(json_object_get(w, "available"))) {
        text_add(&state, SLICE_LIT(", inactive"));
    }
    add_standby(&state, w);
    table_add(t, text_slice(&state));
    text_fini(&state);
}

static void add_service(struct table *t, const json_t *w)
{
    int64_t requests = page_int(w, "requests");
    const json_t *total = json_object_get(w, "service_s");

    if (requests > 0 && json_is_number(total))
        table_addf(t, "%.2f ms", json_number_value(total) * 1000 / (double)requests);
    else
        table_add(t, SLICE_LIT("-"));
}

static void add_connections(struct table *t, const json_t *w)
{
    const json_t *c = json_object_get(w, "connections");

    struct text cell = {0};

    if (!json_is_object(c)) {
        table_add(t, SLICE_LIT("-"));
        return;
    }
    text_addf(&cell, "%" PRId64 "+%" PRId64, page_int(c, "in_use"), page_int(c, "idle"));
    if (page_int(w, "tunnels") > 0)
        text_addf(&cell, ", %" PRId64 " tunnels", page_int(w, "tunnels"));
    if (page_int(c, "waiting") > 0)
        text_addf(&cell, " (%" PRId64 " waiting)", page_int(c, "waiting"));
    table_add(t, text_slice(&cell));
    text_fini(&cell);
}

/* Red: it fails; yellow: it gets nothing, or requests wait for a connection to it. */
static enum table_style worker_style(const json_t *w)
{
    if (json_is_true(json_object_get(w, "ejected")) ||
        json_is_true(json_object_get(json_object_get(w, "check"), "failing")))
        return TABLE_BAD;
    if (json_is_false(json_object_get(w, "available")) ||
        page_int(json_object_get(w, "connections"), "waiting") > 0)
        return TABLE_WARNING;
    return json_is_false(json_object_get(w, "active")) ? TABLE_FAINT : TABLE_PLAIN;
}

static void add_worker(struct table *t, const json_t *w)
{
    cell_text(t, w, "name");
    add_state(t, w);
    cell_text(t, w, "version");
    cell_int(t, w, "backlog");
    cell_real(t, w, "mean_backlog", "%.2f");
    cell_real(t, w, "oldest_s", "%.1f s");
    cell_int(t, w, "skills");
    cell_int(t, w, "requests");
    cell_int(t, w, "failures");
    add_service(t, w);
    add_connections(t, w);
    table_style(t, worker_style(w));
}

static void print_workers(const json_t *application, bool colours, struct text *out)
{
    const json_t *workers = json_object_get(application, "workers");
    struct table t;
    const json_t *w;
    size_t i;

    if (json_array_size(workers) == 0) {
        text_add(out, SLICE_LIT("  no workers\n"));
        return;
    }
    table_init(&t, columns, ARRAY_LEN(columns));
    t.colours = colours;
    json_array_foreach(workers, i, w)
    {
        add_worker(&t, w);
    }
    table_print(&t, 2, out);
    table_fini(&t);
}

/* "LABEL: name 12 (80.0 %), ..." of what is not 0; nothing when all is. */
static void print_shares(const char *label, json_t *counts, struct text *out)
{
    double total = 0;
    const char *name;
    json_t *v;
    const char *before = ": ";

    json_object_foreach(counts, name, v)
    {
        total += json_number_value(v);
    }
    if (!(total > 0))
        return;
    text_addf(out, "  %s", label);
    json_object_foreach(counts, name, v)
    {
        double n = json_number_value(v);

        if (!(n > 0))
            continue;
        text_add(out, slice_of(before));
        text_add_escaped(out, slice_of(name));
        text_addf(out, " %.0f (%.1f %%)", n, 100 * n / total);
        before = ", ";
    }
    text_add_char(out, '\n');
}

/* Problems that need an operator. */
static void add_warnings(const json_t *application, struct text *out)
{
    const json_t *tree = json_object_get(application, "tree");
    const json_t *row;
    size_t i;

    if (json_is_true(json_object_get(tree, "used")) &&
        json_is_false(json_object_get(tree, "connected")))
        text_add(out,
                 SLICE_LIT("  the tree cannot be reached: continuing with the last known state\n"));
    json_array_foreach(json_object_get(tree, "refused_providers"), i, row)
    {
        text_add(out, SLICE_LIT("  rejected registration: "));
        text_add_escaped(out, (struct slice){json_string_value(row), json_string_length(row)});
        text_add_char(out, '\n');
    }
    if (json_is_string(json_object_get(tree, "confirm_removal"))) {
        text_addf(out,
                  "  workers held, because their registrations ended with many others: %" PRId64,
                  page_int(tree, "held"));
        text_add(out, SLICE_LIT("; if they were removed on purpose, run: "));
        page_add_text(out, tree, "confirm_removal");
        text_add_char(out, '\n');
    }
    json_array_foreach(json_object_get(application, "poison"), i, row)
    {
        text_add(out, SLICE_LIT("  kills workers, blocked: class "));
        page_add_text(out, row, "class");
        text_add(out, SLICE_LIT(", path "));
        page_add_text(out, row, "path");
        text_add_char(out, '\n');
    }
    page_print_refused(application, out);
}

static void print_warnings(const json_t *application, bool colours, struct text *out)
{
    struct text warnings = {0};

    add_warnings(application, &warnings);
    if (warnings.len != 0 && colours)
        text_add(out, slice_of(table_style_begin(TABLE_WARNING)));
    text_add(out, text_slice(&warnings));
    if (warnings.len != 0 && colours)
        text_add(out, SLICE_LIT(TABLE_STYLE_END));
    text_fini(&warnings);
}

static void print_application(const char *name, json_t *a, const struct ctl_options *o,
                              struct text *out)
{
    text_add_escaped(out, slice_of(name));
    text_add(out, SLICE_LIT(": policy "));
    page_add_text(out, a, "policy");
    text_addf(out, ", backlog %" PRId64 " (mean ", page_int(a, "backlog"));
    page_add_real(out, a, "mean_backlog");
    page_add_cutoff(a, out);
    text_addf(out, "), waiting %" PRId64 ", classes %" PRId64 "\n", page_int(a, "waiting"),
              page_int(a, "classes"));
    print_warnings(a, o->colours, out);
    print_shares("picks", json_object_get(a, "picks"), out);
    print_shares("outcomes", json_object_get(a, "outcomes"), out);
    print_workers(a, o->colours, out);
}

static void print_program(const json_t *page, struct text *out)
{
    const json_t *uptime = json_object_get(page, "uptime_s");

    if (!json_is_string(json_object_get(page, "program")))
        return;
    page_add_text(out, page, "program");
    text_add_char(out, ' ');
    page_add_text(out, page, "version");
    text_addf(out, ", pid %" PRId64 ", ", page_int(page, "pid"));
    page_add_text(out, page, "phase");
    text_add(out, SLICE_LIT(", up "));
    page_add_duration(out, json_number_value(uptime));
    text_addf(out, ", %" PRId64 " threads\n", page_int(page, "threads"));
}

enum err ctl_status_text(const json_t *page, const struct ctl_options *o, struct text *out)
{
    enum err e = page_check(page, o);

    if (e == ERR_OK && status_is_agent(page)) {
        status_agent_print(page, o, out);
    } else if (e == ERR_OK) {
        print_program(page, out);
        page_each_application(page, o, print_application, out);
    }
    return e;
}
