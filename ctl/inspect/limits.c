/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl limits: pool counters of each application, the keys most waited for, their daemons,
 * copies. A pool counter daemon's own page has types of keys in place of applications.
 */
#include "ctl/cli/ctl.h"
#include "ctl/cli/page.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- counters ---- */

static const struct table_column counter_columns[] = {
    {"counter", false}, {"where", false}, {"mode", false},           {"held", true},
    {"workers", true},  {"slots", true},  {"waiting", true},         {"acquired", true},
    {"full", true},     {"late", true},   {"coalesced", true},       {"stale", true},
    {"left", true},     {"waited", true}, {"longest holder", false},
};

static void cell_mode(struct table *t, const json_t *figures)
{
    struct text mode = {0};

    page_add_text(&mode, figures, "mode");
    if (json_is_true(json_object_get(figures, "shadow")))
        text_add(&mode, SLICE_LIT(", shadow"));
    table_add(t, text_slice(&mode));
    text_fini(&mode);
}

static void cell_slots(struct table *t, const json_t *figures)
{
    if (page_int(figures, "slots") == 0)
        table_add(t, SLICE_LIT("-"));
    else
        cell_int(t, figures, "slots");
}

static void cell_longest(struct table *t, const json_t *figures)
{
    const json_t *longest = json_object_get(figures, "longest");
    const json_t *key = json_object_get(longest, "key");
    const json_t *for_s = json_object_get(longest, "for_s");
    struct text shown = {0};

    if (json_is_string(key) && json_is_number(for_s)) {
        text_addf(&shown, "%.1f s ", json_number_value(for_s));
        text_add(&shown, (struct slice){json_string_value(key), json_string_length(key)});
    } else {
        text_add_char(&shown, '-');
    }
    table_add(t, text_slice(&shown));
    text_fini(&shown);
}

static void add_counter(struct table *t, const json_t *counter)
{
    const json_t *f = json_object_get(counter, "figures");

    cell_text(t, counter, "name");
    cell_text(t, f, "where");
    cell_mode(t, f);
    cell_int(t, f, "held");
    cell_int(t, f, "workers");
    cell_slots(t, f);
    cell_int(t, f, "waiting");
    cell_int(t, f, "acquired");
    cell_int(t, f, "refused_full");
    cell_int(t, f, "refused_timeout");
    cell_int(t, f, "coalesced");
    cell_int(t, f, "stale");
    cell_int(t, f, "abandoned");
    cell_real(t, f, "waited_s", "%.1f s");
    cell_longest(t, f);
}

/* Appends "  NAME: 2 TEXT" unless the figure is 0. */
static void print_remark(const json_t *counter, const char *figure, const char *says,
                         struct text *out)
{
    int64_t n = page_int(json_object_get(counter, "figures"), figure);

    if (n == 0)
        return;
    text_add(out, SLICE_LIT("  "));
    page_add_text(out, counter, "name");
    text_addf(out, ": %" PRId64 " %s\n", n, says);
}

/* Appends remarks about one counter, each in its own line. */
static void print_remarks(const json_t *counter, struct text *out)
{
    const json_t *row;
    size_t i;

    if (json_is_false(json_object_get(counter, "in_force"))) {
        text_add(out, SLICE_LIT("  "));
        page_add_text(out, counter, "name");
        text_add(out, SLICE_LIT(": not effective: "));
        page_add_why(out, counter);
        text_add_char(out, '\n');
    }
    json_array_foreach(json_object_get(counter, "refused"), i, row)
    {
        text_add(out, SLICE_LIT("  "));
        page_add_text(out, counter, "name");
        text_add(out, SLICE_LIT(": rejected setting "));
        page_add_text(out, row, "name");
        text_add(out, SLICE_LIT(": "));
        page_add_why(out, row);
        text_add_char(out, '\n');
    }
    print_remark(counter, "shadow_full", "would have been rejected (shadow)", out);
    print_remark(counter, "shadow_busy", "would have waited (shadow)", out);
    print_remark(counter, "unreachable_open", "admitted uncounted, daemon unreachable", out);
    print_remark(counter, "unreachable_closed", "rejected, daemon unreachable", out);
    print_remark(counter, "lost", "locks lost at the daemon", out);
}

static void print_counters(const json_t *limits, struct text *out)
{
    struct table t;
    const json_t *counter;
    size_t i;

    table_init(&t, counter_columns, ARRAY_LEN(counter_columns));
    json_array_foreach(limits, i, counter)
    {
        add_counter(&t, counter);
    }
    table_print(&t, 2, out);
    table_fini(&t);
    json_array_foreach(limits, i, counter)
    {
        print_remarks(counter, out);
    }
}

/* ---- keys ---- */

static const struct table_column key_columns[] = {
    {"key most waited for", false}, {"waited", true}, {"waits", true}};

static size_t count_keys(const json_t *limits)
{
    const json_t *counter;
    size_t n = 0;
    size_t i;

    json_array_foreach(limits, i, counter)
    {
        n += json_array_size(json_object_get(json_object_get(counter, "figures"), "top"));
    }
    return n;
}

/* Most waited for first. */
static int compare_keys(const void *a, const void *b)
{
    double x = json_number_value(json_object_get(*(const json_t *const *)a, "waited_s"));
    double y = json_number_value(json_object_get(*(const json_t *const *)b, "waited_s"));

    return (x < y) - (x > y);
}

/* The first TOP of ALL; 0: all. */
static void print_sorted_keys(const json_t *const *all, size_t n, size_t top, struct text *out)
{
    struct table t;

    table_init(&t, key_columns, ARRAY_LEN(key_columns));
    for (size_t i = 0; i < n && (top == 0 || i < top); ++i) {
        cell_text(&t, all[i], "key");
        cell_real(&t, all[i], "waited_s", "%.1f s");
        cell_int(&t, all[i], "waits");
    }
    table_print(&t, 2, out);
    table_fini(&t);
}

/* Of all counters together: a key begins with its counter's name. */
static void print_keys(const json_t *limits, size_t top, struct text *out)
{
    const json_t **all = xcalloc(count_keys(limits) + 1, sizeof(const json_t *));
    const json_t *counter;
    const json_t *key;
    size_t n = 0;
    size_t i;
    size_t k;

    json_array_foreach(limits, i, counter)
    {
        json_array_foreach(json_object_get(json_object_get(counter, "figures"), "top"), k, key)
        {
            all[n++] = key;
        }
    }
    qsort(all, n, sizeof(const json_t *), compare_keys);
    print_sorted_keys(all, n, top, out);
    free(all);
}

/* ---- daemons, copies ---- */

static const struct table_column daemon_columns[] = {
    {"daemon", false}, {"state", false}, {"connections", true}, {"idle", true}};

static void print_daemons(const json_t *application, struct text *out)
{
    struct table t;
    const json_t *d;
    size_t i;

    table_init(&t, daemon_columns, ARRAY_LEN(daemon_columns));
    json_array_foreach(json_object_get(application, "pool_counter_servers"), i, d)
    {
        bool resting = json_is_true(json_object_get(d, "resting"));

        cell_text(&t, d, "name");
        table_add(&t, resting ? SLICE_LIT("suspended") : SLICE_LIT("in use"));
        cell_int(&t, d, "connections");
        cell_int(&t, d, "idle");
    }
    table_print(&t, 2, out);
    table_fini(&t);
}

static void print_copies(const json_t *application, struct text *out)
{
    const json_t *c = json_object_get(application, "copies");

    if (page_int(c, "stored") == 0 && page_int(c, "refused") == 0)
        return;
    text_addf(out,
              "  copies of responses: %" PRId64 " in %.1f KiB; answers: %" PRId64
              " coalesced, %" PRId64 " stale\n",
              page_int(c, "copies"), (double)page_int(c, "bytes") / 1024,
              page_int(c, "hits_coalesced"), page_int(c, "hits_stale"));
}

static void print_application(const char *name, json_t *a, const struct ctl_options *o,
                              struct text *out)
{
    const json_t *limits = json_object_get(a, "limits");

    text_add_escaped(out, slice_of(name));
    if (json_array_size(limits) == 0) {
        text_add(out, SLICE_LIT(": no pool counters\n"));
        return;
    }
    text_add(out, SLICE_LIT(":\n"));
    print_counters(limits, out);
    print_keys(limits, o->top, out);
    print_daemons(a, out);
    print_copies(a, out);
}

/* ---- a daemon's own page ---- */

static const struct table_column type_columns[] = {
    {"type of key", false}, {"held", true}, {"waiting", true}, {"acquired", true},
    {"done", true},         {"full", true}, {"late", true},    {"waited", true},
};

static bool is_daemon(const json_t *page)
{
    return json_is_array(json_object_get(page, "types")) &&
           json_is_object(json_object_get(page, "counters"));
}

static void print_oldest(const json_t *page, struct text *out)
{
    const json_t *oldest = json_object_get(page, "oldest_holder");

    if (!json_is_object(oldest))
        return;
    text_add(out, SLICE_LIT("  longest holder: "));
    page_add_text(out, oldest, "key");
    text_add(out, SLICE_LIT(" by "));
    page_add_text(out, oldest, "client");
    text_addf(out, " for %.1f s\n", json_number_value(json_object_get(oldest, "held_s")));
}

/* As the daemon has sorted them. */
static void print_daemon_keys(const json_t *page, size_t top, struct text *out)
{
    const json_t *keys = json_object_get(page, "most_waited_for");
    const json_t **all = xcalloc(json_array_size(keys) + 1, sizeof(const json_t *));
    const json_t *key;
    size_t i;

    json_array_foreach(keys, i, key)
    {
        all[i] = key;
    }
    print_sorted_keys(all, json_array_size(keys), top, out);
    free(all);
}

/* Without a name: those beyond as many as it counts each by itself. */
static void cell_type(struct table *t, const json_t *row)
{
    if (json_string_length(json_object_get(row, "type")) == 0)
        table_add(t, SLICE_LIT("(others)"));
    else
        cell_text(t, row, "type");
}

static void print_daemon(const json_t *page, const struct ctl_options *o, struct text *out)
{
    struct table t;
    const json_t *row;
    size_t i;

    text_add(out, SLICE_LIT("resumelb-poolcounter "));
    page_add_text(out, page, "version");
    text_addf(out, ", %" PRId64 " clients, up ", page_int(page, "clients"));
    page_add_duration(out, json_number_value(json_object_get(page, "uptime_s")));
    text_add_char(out, '\n');
    table_init(&t, type_columns, ARRAY_LEN(type_columns));
    json_array_foreach(json_object_get(page, "types"), i, row)
    {
        cell_type(&t, row);
        cell_int(&t, row, "held");
        cell_int(&t, row, "waiting");
        cell_int(&t, row, "acquired");
        cell_int(&t, row, "done");
        cell_int(&t, row, "queue_full");
        cell_int(&t, row, "timeouts");
        cell_real(&t, row, "waited_s", "%.1f s");
    }
    table_print(&t, 2, out);
    table_fini(&t);
    print_daemon_keys(page, o->top, out);
    print_oldest(page, out);
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
