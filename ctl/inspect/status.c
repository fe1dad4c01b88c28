/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl status: one block per application.
 */
#include "common/base/json.h"
#include "ctl/cli/page.h"
#include "ctl/inspect/inspect.h"

#include <inttypes.h>

/* ---- an agent's page ---- */

static const char agent_columns[] =
    ">slot={slot:i}|>pid={process.pid:i}|state={process.state}[{succeeds:?} (replacement)]"
    "[, {process.going}]|>sessions={process.sessions:i}|>processed={process.processed:i}|"
    ">uptime={process.uptime_s:t}|>last used={process.last_used_s:t}|"
    ">cpu={process.cpu_percent:%.0f%%}|>memory={memory_mib:%.0fM}|>queue={waiting:i}|"
    "version={process.version}|id={process.id}";

/* Process P, if it is one, of SLOT; WAITING: what waits at the slot, or NULL. */
static void add_process(json_t *rows, const json_t *slot, json_t *p, json_t *waiting, bool succeeds)
{
    const json_t *bytes = json_object_get(p, "memory_bytes");

    if (json_is_object(p)) {
        json_array_append_new(
            rows,
            json_pack("{s:I, s:O, s:O*, s:b, s:o*}", "slot", (json_int_t)page_int(slot, "slot"),
                      "process", p, "waiting", waiting, "succeeds", succeeds, "memory_mib",
                      json_is_number(bytes) ? json_real(json_number_value(bytes) / (1024 * 1024))
                                            : NULL));
    }
}

/* A line for each setting of the tree that is rejected, and each link that does not resolve. */
static void print_rejected(const json_t *application, struct text *out)
{
    page_add_each(out, json_object_get(application, "rejected"),
                  "  rejected setting {name}: {why:w}\n");
    page_add_each(out, json_object_get(application, "broken_links"),
                  "  a link in the tree does not resolve: {}\n");
}

/* "NAME = value" of the settings that come from the tree. */
static void print_settings(const json_t *application, struct text *out)
{
    const char *before = "  settings: ";
    const char *name;
    json_t *row;

    json_object_foreach (json_object_get(application, "settings"), name, row) {
        if (!slice_is(json_text(row, "origin"), "tree"))
            continue;
        text_add(out, slice_of(before));
        text_add_escaped(out, slice_of(name));
        page_add(out, row, " = {value}");
        before = ", ";
    }
    if (strcmp(before, ", ") == 0)
        text_add(out, SLICE_LIT(" (from the tree)\n"));
    print_rejected(application, out);
}

static void print_agent_application(const char *name, json_t *a,
                                    unused_ const struct ctl_options *o, struct text *out)
{
    const json_t *failure = json_object_get(a, "last_failure");
    json_t *rows = json_array();
    json_t *v;
    size_t i;

    text_add_escaped(out, slice_of(name));
    page_add(out, a,
             ": {counts.processes:d} processes (min {min_processes:d}, max {max_processes:d}): "
             "{counts.busy:d} busy, {counts.idle:d} idle, {counts.starting:d} starting, "
             "{counts.leaving:d} leaving\n"
             "  {queue.policy} queue, {queue.waiting:d} waiting ({queue.waiting_any:d} for "
             "any process), generation {generation:d}\n");
    print_settings(a, out);
    if (json_is_object(failure))
        page_add(out, failure,
                 "  last failure {ago_s:t} ago: slot {slot:d}, pid {pid:d} {what}: {how}\n");
    json_array_foreach (json_object_get(failure, "lines"), i, v) {
        text_add(out, SLICE_LIT("    | "));
        text_add_visible(out, json_slice(v));
        text_add_char(out, '\n');
    }
    json_array_foreach (json_object_get(a, "slots"), i, v) {
        add_process(rows, v, json_object_get(v, "process"), json_object_get(v, "waiting"), false);
        add_process(rows, v, json_object_get(v, "successor"), NULL, true);
    }
    json_array_foreach (json_object_get(a, "leaving"), i, v)
        add_process(rows, v, v, NULL, false);
    if (json_array_size(rows) == 0)
        text_add(out, SLICE_LIT("  no processes\n"));
    page_print_rows(agent_columns, rows, 0, NULL, out);
    json_decref(rows);
}

/* ---- the load balancer's page ---- */

/* With what print_application() adds. */
static const char columns[] =
    "worker={name}|state={state}[{check.failing:?} ({check.why})][{ejected:?}, ejected "
    "({ejected_why})][{inactive:?}, inactive][, at its standby {at_standby}][, standby "
    "{other_standby}]|version={version}|known "
    "from={known_from}|>backlog={backlog:i}|>mean={mean_backlog:%.2f}|"
    ">oldest={oldest_s:%.1f s}|>skills={skills:i}|>requests={requests:i}|>failures={failures:i}|"
    ">service={service_ms:%.2f ms}|>connections="
    "[{connections:?}{connections.in_use:d}+{connections.idle:d}]"
    "[, {tunnels:d} tunnels][ ({connections.waiting:d} waiting)]";

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

    json_object_foreach (counts, name, v)
        total += json_number_value(v);
    if (!(total > 0))
        return;
    text_addf(out, "  %s", label);
    json_object_foreach (counts, name, v) {
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
static void print_warnings(const json_t *application, bool colours, struct text *out)
{
    const json_t *tree = json_object_get(application, "tree");
    struct slice begin = slice_of(colours ? table_styles[TABLE_WARNING] : "");
    size_t before = out->len + begin.len;

    text_add(out, begin);
    if (page_is_true(tree, "used") && json_is_false(json_object_get(tree, "connected")))
        text_add(out,
                 SLICE_LIT("  the tree cannot be reached: continuing with the last known state\n"));
    page_add_each(out, json_object_get(tree, "rejected_providers"),
                  "  rejected registration: {}\n");
    page_add_each(out, json_object_get(json_object_get(application, "calls"), "workers"),
                  "[{why:?}  rejected call: {name}: {why:w}\n]");
    page_add(out, tree,
             "[{confirm_removal:?}  workers held, because their registrations ended with many "
             "others: {held:d}; if they were removed on purpose, run: {confirm_removal}\n]");
    page_add(out, application,
             "[{checks_rejected:?}  all workers reject their health checks: status "
             "{checks_rejected.status:d}, Host {checks_rejected.host}; correct health_check_path, "
             "or set health_check_host\n]");
    page_add_each(out, json_object_get(application, "poison"),
                  "  kills workers, blocked: class {class}, path {path}\n");
    print_rejected(application, out);
    if (out->len == before)
        out->len -= begin.len;
    else if (colours)
        text_add(out, SLICE_LIT(TABLE_STYLE_END));
}

/* "list, tree" */
static void add_known_from(json_t *worker)
{
    struct text all = {0};
    json_t *v;
    size_t i;

    json_array_foreach (json_object_get(worker, "sources"), i, v) {
        if (i > 0)
            text_add(&all, SLICE_LIT(", "));
        text_add(&all, json_slice(v));
        if (slice_is(json_slice(v), "call") && json_is_number(json_object_get(worker, "ends_in_s")))
            page_add(&all, worker, " ({ends_in_s:t})");
    }
    json_object_set_new(worker, "known_from", json_string(text_cstr(&all)));
    text_fini(&all);
}

static void print_application(const char *name, json_t *a, const struct ctl_options *o,
                              struct text *out)
{
    const json_t *workers = json_object_get(a, "workers");
    json_t *w;
    size_t i;

    text_add_escaped(out, slice_of(name));
    page_add(out, a, ": policy {policy}, backlog {backlog:d} (mean {mean_backlog:%.4g}");
    page_add(out, a, page_has_cutoff(a) ? ", cutoff {max_backlog:%.4g}" : "");
    page_add(out, a, "), waiting {waiting:d}, classes {classes:d}\n");
    print_warnings(a, o->colours, out);
    print_shares("picks", json_object_get(a, "picks"), out);
    print_shares("outcomes", json_object_get(a, "outcomes"), out);
    page_add_each(out, json_object_get(a, "names"),
                  "  name {name}: {addresses:d} addresses[, {age_s:t} old, TTL {ttl_s:d} s]"
                  "[, too many: some are not used{truncated:?}][: {problem:w}]\n");
    if (json_array_size(workers) == 0)
        text_add(out, SLICE_LIT("  no workers\n"));
    json_array_foreach (workers, i, w) {
        int64_t requests = page_int(w, "requests");

        add_known_from(w);
        /* A further reason for which it gets no requests now; its address, if that differs from its
         * name or may differ; its mean service time. */
        if (!page_is_true(w, "ejected") && page_is_true(w, "available") &&
            json_is_false(json_object_get(w, "active")))
            json_object_set_new(w, "inactive", json_true());
        json_object_set(w, page_is_true(w, "on_standby") ? "at_standby" : "other_standby",
                        json_object_get(w, "standby"));
        if (requests > 0 && json_is_number(json_object_get(w, "service_s")))
            json_object_set_new(w, "service_ms",
                                json_real(page_number(w, "service_s") * 1000 / (double)requests));
    }
    page_print_rows(columns, workers, 0, o->colours ? worker_style : NULL, out);
}

enum err ctl_status_text(const json_t *page, const struct ctl_options *o, struct text *out)
{
    enum err e = page_check(page, o);
    bool of_agent = slice_is(json_text(page, "program"), "resumelb-agent");

    if (e != ERR_OK)
        return e;
    if (of_agent) {
        page_add(
            out, page,
            "resumelb-agent {version}, pid {pid:d}, supervisor {supervisor_pid:d}, {phase}, up "
            "{uptime_s:t}\n"
            "max      = [{max_processes:d}][{max_processes:!}no limit]\n"
            "count    = {processes:d}\n"
            "active   = {active_processes:d}\n");
        text_addf(out, "inactive = %" PRId64 "\n",
                  page_int(page, "processes") - page_int(page, "active_processes"));
        page_add(out, page, "waiting  = {waiting:d}\n");
        print_settings(json_object_get(page, "host"), out);
    } else {
        page_add(out, page,
                 "[{program} {version}, pid {pid:d}, {phase}, up {uptime_s:t}, {threads:d} "
                 "threads\n]");
    }
    return page_each_application(page, o, of_agent ? print_agent_application : print_application,
                                 out);
}
