/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool first, then a block per application: its queues, its last failure, a line per process.
 * Uses the terms of passenger-status.
 */
#include "ctl/inspect/status_agent.h"
#include "ctl/cli/page.h"

#include <inttypes.h>

static const struct table_column columns[] = {
    {"slot", true},      {"pid", true},    {"state", false},    {"sessions", true},
    {"processed", true}, {"uptime", true}, {"last used", true}, {"cpu", true},
    {"memory", true},    {"queue", true},  {"version", false},  {"id", false},
};

bool status_is_agent(const json_t *page)
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
        add_process(t, page_int(slot, "slot"), successor, " (successor)", NULL);
}

static void print_processes(const json_t *application, struct text *out)
{
    struct table t;
    const json_t *v;
    size_t i;

    table_init(&t, columns, ARRAY_LEN(columns));
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

static void print_application(const char *name, json_t *a, const struct ctl_options *o,
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
    text_addf(out, ", pid %" PRId64 ", keeper %" PRId64 ", ", page_int(page, "pid"),
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

void status_agent_print(const json_t *page, const struct ctl_options *o, struct text *out)
{
    print_pool(page, out);
    page_each_application(page, o, print_application, out);
}
