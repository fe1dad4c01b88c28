/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl status: one block per application.
 */
#include "common/base/json.h"
#include "ctl/cli/page.h"
#include "ctl/inspect/inspect.h"

#include <inttypes.h>

/* ---- an agent's page ---- */

static void cell_memory(struct text *out, const json_t *process)
{
    const json_t *v = json_object_get(process, "memory_bytes");

    if (json_is_number(v))
        text_addf(out, "%.0fM", json_number_value(v) / (1024 * 1024));
    else
        text_add_char(out, '-');
}

static const struct page_column agent_columns[] = {
    {"slot", true, "{slot:i}", NULL},
    {"pid", true, "{pid:i}", NULL},
    {"state", false, "{state}[{succeeds:?} (replacement)][, {going}]", NULL},
    {"sessions", true, "{sessions:i}", NULL},
    {"processed", true, "{processed:i}", NULL},
    {"uptime", true, "{uptime_s:t}", NULL},
    {"last used", true, "{last_used_s:t}", NULL},
    {"cpu", true, "{cpu_percent:%.0f%%}", NULL},
    {"memory", true, NULL, cell_memory},
    {"queue", true, "{waiting:i}", NULL},
    {"version", false, "{version}", NULL},
    {"id", false, "{id}", NULL},
};

/* Process P, unless it is none, in what holds its slot's number; WAITING: what waits at the slot,
 * or NULL. */
static void add_process(json_t *rows, const json_t *slot, json_t *p, json_t *waiting, bool succeeds)
{
    json_t *row = json_copy(p);

    if (!json_is_object(row)) {
        json_decref(row);
        return;
    }
    json_object_del(row, "waiting");
    json_object_set(row, "waiting", waiting);
    json_object_set_new(row, "slot", json_integer(page_int(slot, "slot")));
    json_object_set_new(row, "succeeds", json_boolean(succeeds));
    json_array_append_new(rows, row);
}

static void print_processes(const json_t *application, struct text *out)
{
    json_t *rows = json_array();
    json_t *v;
    size_t i;

    json_array_foreach(json_object_get(application, "slots"), i, v)
    {
        add_process(rows, v, json_object_get(v, "process"), json_object_get(v, "waiting"), false);
        add_process(rows, v, json_object_get(v, "successor"), NULL, true);
    }
    json_array_foreach(json_object_get(application, "leaving"), i, v)
    {
        add_process(rows, v, v, NULL, false);
    }
    if (json_array_size(rows) == 0)
        text_add(out, SLICE_LIT("  no processes\n"));
    page_print_rows(agent_columns, ARRAY_LEN(agent_columns), rows, 0, NULL, out);
    json_decref(rows);
}

static void print_failure(const json_t *application, struct text *out)
{
    const json_t *f = json_object_get(application, "last_failure");
    const json_t *line;
    size_t i;

    if (!json_is_object(f))
        return;
    page_add(out, f, "  last failure {ago_s:t} ago: slot {slot:d}, pid {pid:d} {what}: {how}\n");
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
        if (!slice_is(json_text(row, "origin"), "tree"))
            continue;
        text_add(out, slice_of(before));
        text_add_escaped(out, slice_of(name));
        page_add(out, row, " = {value}");
        before = ", ";
    }
    if (strcmp(before, ", ") == 0)
        text_add(out, SLICE_LIT(" (from the tree)\n"));
    page_print_refused(application, out);
}

static void print_agent_application(const char *name, json_t *a, const struct ctl_options *o,
                                    struct text *out)
{
    (void)o;
    text_add_escaped(out, slice_of(name));
    page_add(out, a,
             ": {counts.processes:d} processes (min {min_processes:d}, max {max_processes:d}): "
             "{counts.busy:d} busy, {counts.idle:d} idle, {counts.starting:d} starting, "
             "{counts.leaving:d} leaving\n"
             "  {queue.policy} queue, {queue.waiting:d} waiting ({queue.waiting_any:d} for "
             "whichever process), generation {generation:d}\n");
    print_settings(a, out);
    print_failure(a, out);
    print_processes(a, out);
}

static void print_pool(const json_t *page, struct text *out)
{
    page_add(out, page,
             "resumelb-agent {version}, pid {pid:d}, supervisor {keeper_pid:d}, {phase}, up "
             "{uptime_s:t}\n"
             "max      = [{max_processes:d}][{max_processes:!}no limit]\n"
             "count    = {processes:d}\n"
             "active   = {active_processes:d}\n");
    text_addf(out, "inactive = %" PRId64 "\n",
              page_int(page, "processes") - page_int(page, "active_processes"));
    page_add(out, page, "waiting  = {waiting:d}\n");
    print_settings(json_object_get(page, "host"), out);
}

/* ---- the load balancer's page ---- */

/* Reasons other than its state for which a worker gets no requests now; and its address, if that
 * differs from its name or may differ. */
static void cell_state(struct text *out, const json_t *w)
{
    page_add(out, w,
             "{state}[{check.failing:?} ({check.why})][{ejected:?}, ejected ({ejected_why})]");
    if (!page_is_true(w, "ejected") && page_is_true(w, "available") &&
        json_is_false(json_object_get(w, "active")))
        text_add(out, SLICE_LIT(", inactive"));
    page_add(out, w,
             page_is_true(w, "on_standby") ? "[, at its standby {standby}]"
                                           : "[, standby {standby}]");
}

static void cell_service(struct text *out, const json_t *w)
{
    int64_t requests = page_int(w, "requests");
    const json_t *total = json_object_get(w, "service_s");

    if (requests > 0 && json_is_number(total))
        text_addf(out, "%.2f ms", json_number_value(total) * 1000 / (double)requests);
    else
        text_add_char(out, '-');
}

static const struct page_column columns[] = {
    {"worker", false, "{name}", NULL},
    {"state", false, NULL, cell_state},
    {"version", false, "{version}", NULL},
    {"backlog", true, "{backlog:i}", NULL},
    {"mean", true, "{mean_backlog:%.2f}", NULL},
    {"oldest", true, "{oldest_s:%.1f s}", NULL},
    {"skills", true, "{skills:i}", NULL},
    {"requests", true, "{requests:i}", NULL},
    {"failures", true, "{failures:i}", NULL},
    {"service", true, NULL, cell_service},
    {"connections", true,
     "[{connections:?}{connections.in_use:d}+{connections.idle:d}]"
     "[, {tunnels:d} tunnels][ ({connections.waiting:d} waiting)]",
     NULL},
};

/* Red: it fails; yellow: it gets nothing, or requests wait for a connection to it. */
static enum table_style worker_style(const json_t *w)
{
    if (page_is_true(w, "ejected") || page_is_true(json_object_get(w, "check"), "failing"))
        return TABLE_BAD;
    if (json_is_false(json_object_get(w, "available")) ||
        page_int(json_object_get(w, "connections"), "waiting") > 0)
        return TABLE_WARNING;
    return json_is_false(json_object_get(w, "active")) ? TABLE_FAINT : TABLE_PLAIN;
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

    if (page_is_true(tree, "used") && json_is_false(json_object_get(tree, "connected")))
        text_add(out,
                 SLICE_LIT("  the tree cannot be reached: continuing with the last known state\n"));
    page_add_each(out, json_object_get(tree, "refused_providers"), "  rejected registration: {}\n");
    page_add(out, tree,
             "[{confirm_removal:?}  workers held, because their registrations ended with many "
             "others: {held:d}; if they were removed on purpose, run: {confirm_removal}\n]");
    page_add_each(out, json_object_get(application, "poison"),
                  "  kills workers, blocked: class {class}, path {path}\n");
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
    const json_t *workers = json_object_get(a, "workers");

    text_add_escaped(out, slice_of(name));
    page_add(out, a, ": policy {policy}, backlog {backlog:d} (mean {mean_backlog:%.4g}");
    page_add(out, a, page_has_cutoff(a) ? ", cutoff {max_backlog:%.4g}" : "");
    page_add(out, a, "), waiting {waiting:d}, classes {classes:d}\n");
    print_warnings(a, o->colours, out);
    print_shares("picks", json_object_get(a, "picks"), out);
    print_shares("outcomes", json_object_get(a, "outcomes"), out);
    if (json_array_size(workers) == 0)
        text_add(out, SLICE_LIT("  no workers\n"));
    page_print_rows(columns, ARRAY_LEN(columns), workers, 0, o->colours ? worker_style : NULL, out);
}

enum err ctl_status_text(const json_t *page, const struct ctl_options *o, struct text *out)
{
    enum err e = page_check(page, o);

    if (e != ERR_OK)
        return e;
    if (slice_is(json_text(page, "program"), "resumelb-agent")) {
        print_pool(page, out);
        page_each_application(page, o, print_agent_application, out);
        return ERR_OK;
    }
    page_add(out, page,
             "[{program} {version}, pid {pid:d}, {phase}, up {uptime_s:t}, {threads:d} threads\n]");
    page_each_application(page, o, print_application, out);
    return ERR_OK;
}
