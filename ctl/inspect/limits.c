/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl limits: pool counters of each application, the keys most waited for, their daemons,
 * copies. A pool counter daemon's own page has types of keys in place of applications.
 */
#include "common/base/json.h"
#include "ctl/cli/ctl.h"
#include "ctl/cli/page.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- counters ---- */

static void cell_mode(struct table *t, const json_t *counter)
{
    struct text mode = {0};

    page_add(&mode, counter, "{figures.mode}");
    if (page_is_true(json_object_get(counter, "figures"), "shadow"))
        text_add(&mode, SLICE_LIT(", shadow"));
    table_add(t, text_slice(&mode));
    text_fini(&mode);
}

static void cell_slots(struct table *t, const json_t *counter)
{
    int64_t slots = page_int(json_object_get(counter, "figures"), "slots");

    if (slots == 0)
        table_add(t, SLICE_LIT("-"));
    else
        table_addf(t, "%" PRId64, slots);
}

static void cell_longest(struct table *t, const json_t *counter)
{
    const json_t *longest = json_object_get(json_object_get(counter, "figures"), "longest");
    const json_t *for_s = json_object_get(longest, "for_s");
    struct slice key = json_text(longest, "key");
    struct text shown = {0};

    if (key.p != NULL && json_is_number(for_s)) {
        text_addf(&shown, "%.1f s ", json_number_value(for_s));
        text_add(&shown, key);
    } else {
        text_add_char(&shown, '-');
    }
    table_add(t, text_slice(&shown));
    text_fini(&shown);
}

static const struct page_column counter_columns[] = {
    PAGE_TEXT("counter", "name"),
    PAGE_TEXT("where", "figures.where"),
    PAGE_CELL("mode", false, cell_mode),
    PAGE_INT("held", "figures.held"),
    PAGE_INT("workers", "figures.workers"),
    PAGE_CELL("slots", true, cell_slots),
    PAGE_INT("waiting", "figures.waiting"),
    PAGE_INT("acquired", "figures.acquired"),
    PAGE_INT("full", "figures.refused_full"),
    PAGE_INT("late", "figures.refused_timeout"),
    PAGE_INT("coalesced", "figures.coalesced"),
    PAGE_INT("stale", "figures.stale"),
    PAGE_INT("left", "figures.abandoned"),
    PAGE_REAL("waited", "figures.waited_s", "%.1f s"),
    PAGE_CELL("longest holder", false, cell_longest),
};

/* "  NAME: 2 SAYS" where the figure is not 0. */
static void print_remark(const json_t *counter, const char *figure, const char *says,
                         struct text *out)
{
    int64_t n = page_int(json_object_get(counter, "figures"), figure);

    if (n != 0) {
        page_add(out, counter, "  {name}");
        text_addf(out, ": %" PRId64 " %s\n", n, says);
    }
}

/* What is special about one counter, in lines of its own. */
static void print_remarks(const json_t *counter, struct text *out)
{
    const json_t *row;
    size_t i;

    if (json_is_false(json_object_get(counter, "in_force")))
        page_add(out, counter, "  {name}: not effective: {why:w}\n");
    json_array_foreach(json_object_get(counter, "refused"), i, row)
    {
        page_add(out, counter, "  {name}");
        page_add(out, row, ": refused setting {name}: {why:w}\n");
    }
    print_remark(counter, "shadow_full", "would have been refused (shadow)", out);
    print_remark(counter, "shadow_busy", "would have waited (shadow)", out);
    print_remark(counter, "unreachable_open", "let through, the daemon being unreachable", out);
    print_remark(counter, "unreachable_closed", "refused, the daemon being unreachable", out);
    print_remark(counter, "lost", "locks lost at the daemon", out);
}

/* ---- keys ---- */

static const struct page_column key_columns[] = {
    PAGE_TEXT("key most waited for", "key"),
    PAGE_REAL("waited", "waited_s", "%.1f s"),
    PAGE_INT("waits", "waits"),
};

/* Most waited for first. */
static int compare_keys(const void *a, const void *b)
{
    double x = json_number_value(json_object_get(*(const json_t *const *)a, "waited_s"));
    double y = json_number_value(json_object_get(*(const json_t *const *)b, "waited_s"));

    return (x < y) - (x > y);
}

/* Of all counters together, the first TOP; 0: all. A key begins with its counter's name. */
static void print_keys(const json_t *limits, size_t top, struct text *out)
{
    const json_t **all = NULL;
    const json_t *counter;
    const json_t *key;
    struct table t;
    size_t n = 0;
    size_t i;
    size_t k;

    json_array_foreach(limits, i, counter)
    {
        const json_t *keys = json_object_get(json_object_get(counter, "figures"), "top");

        all = xrealloc(all, (n + json_array_size(keys) + 1) * sizeof(const json_t *));
        json_array_foreach(keys, k, key)
        {
            all[n++] = key;
        }
    }
    if (n != 0)
        qsort(all, n, sizeof(const json_t *), compare_keys);
    page_table_init(&t, key_columns, ARRAY_LEN(key_columns));
    for (i = 0; i < n && (top == 0 || i < top); ++i)
        page_add_row(&t, all[i]);
    table_print(&t, 2, out);
    table_fini(&t);
    free(all);
}

/* ---- daemons, copies ---- */

static void cell_daemon_state(struct table *t, const json_t *daemon)
{
    table_add(t, page_is_true(daemon, "resting") ? SLICE_LIT("left alone for a while")
                                                 : SLICE_LIT("in use"));
}

static const struct page_column daemon_columns[] = {
    PAGE_TEXT("daemon", "name"),
    PAGE_CELL("state", false, cell_daemon_state),
    PAGE_INT("connections", "connections"),
    PAGE_INT("idle", "idle"),
};

static void print_copies(const json_t *application, struct text *out)
{
    const json_t *c = json_object_get(application, "copies");

    if (page_int(c, "stored") == 0 && page_int(c, "refused") == 0)
        return;
    page_add(out, c, "  copies of responses: {copies:d} in ");
    text_addf(out, "%.1f KiB", (double)page_int(c, "bytes") / 1024);
    page_add(out, c, "; answers: {hits_coalesced:d} coalesced, {hits_stale:d} stale\n");
}

static void print_application(const char *name, json_t *a, const struct ctl_options *o,
                              struct text *out)
{
    const json_t *limits = json_object_get(a, "limits");
    const json_t *counter;
    size_t i;

    text_add_escaped(out, slice_of(name));
    if (json_array_size(limits) == 0) {
        text_add(out, SLICE_LIT(": no pool counters\n"));
        return;
    }
    text_add(out, SLICE_LIT(":\n"));
    page_print_rows(counter_columns, ARRAY_LEN(counter_columns), limits, out);
    json_array_foreach(limits, i, counter)
    {
        print_remarks(counter, out);
    }
    print_keys(limits, o->top, out);
    page_print_rows(daemon_columns, ARRAY_LEN(daemon_columns),
                    json_object_get(a, "pool_counter_servers"), out);
    print_copies(a, out);
}

/* ---- a daemon's own page ---- */

/* Without a name: those beyond as many as it counts each by itself. */
static void cell_type(struct table *t, const json_t *row)
{
    struct slice type = json_text(row, "type");

    table_add(t, type.len != 0 ? type : SLICE_LIT("(others)"));
}

static const struct page_column type_columns[] = {
    PAGE_CELL("type of key", false, cell_type),
    PAGE_INT("held", "held"),
    PAGE_INT("waiting", "waiting"),
    PAGE_INT("acquired", "acquired"),
    PAGE_INT("done", "done"),
    PAGE_INT("full", "queue_full"),
    PAGE_INT("late", "timeouts"),
    PAGE_REAL("waited", "waited_s", "%.1f s"),
};

static bool is_daemon(const json_t *page)
{
    return json_is_array(json_object_get(page, "types")) &&
           json_is_object(json_object_get(page, "counters"));
}

static void print_daemon(const json_t *page, const struct ctl_options *o, struct text *out)
{
    const json_t *keys = json_object_get(page, "most_waited_for");
    const json_t *oldest = json_object_get(page, "oldest_holder");
    struct table t;

    page_add(out, page, "resumelb-poolcounter {version}, {clients:d} clients, up {uptime_s:t}\n");
    page_print_rows(type_columns, ARRAY_LEN(type_columns), json_object_get(page, "types"), out);
    page_table_init(&t, key_columns, ARRAY_LEN(key_columns)); /* as the daemon has sorted them */
    for (size_t i = 0; i < json_array_size(keys) && (o->top == 0 || i < o->top); ++i)
        page_add_row(&t, json_array_get(keys, i));
    table_print(&t, 2, out);
    table_fini(&t);
    if (!json_is_object(oldest))
        return;
    page_add(out, oldest, "  longest holder: {key} by {client}");
    text_addf(out, " for %.1f s\n", json_number_value(json_object_get(oldest, "held_s")));
}

enum err ctl_limits_text(const json_t *page, const struct ctl_options *o, struct text *out)
{
    if (is_daemon(page)) {
        if (o->application != NULL)
            return ERR_NOT_FOUND;
        print_daemon(page, o, out);
        return ERR_OK;
    }
    enum err e = page_check(page, o);
    if (e == ERR_OK)
        page_each_application(page, o, print_application, out);
    return e;
}
