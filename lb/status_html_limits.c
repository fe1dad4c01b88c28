/* SPDX-License-Identifier: Apache-2.0
 *
 * Pool counters: what each of them does, the keys that are waited for most, and the daemons. Keys
 * are made of requests: anybody's text.
 */
#include <stdlib.h>

#include "lb/status_html.h"

enum { TOP_KEYS = 10 };

static void open_table(const char *title, const char *heads, struct text *out)
{
    text_addf(out,
              "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">"
              "<table class=\"sortable\">\n<thead><tr>%s</tr></thead>\n<tbody>\n",
              title, heads);
}

static void close_table(struct text *out)
{
    html_add(out, "</tbody></table></div>\n");
}

typedef void (*put_fn)(struct text *out, const json_t *object, const char *name);

/* BAD as soon as there is one. */
static void add_number(const json_t *f, const char *name, put_fn put, bool bad, struct text *out)
{
    double v = html_real_of(f, name);

    text_addf(out, "<td class=\"number%s\"", bad && v > 0 ? " bad" : "");
    html_put_sort_key(out, v);
    html_add(out, ">");
    put(out, f, name);
    html_add(out, "</td>");
}

static void add_mode(const json_t *f, bool shadow, struct text *out)
{
    text_addf(out, "<td%s>", shadow ? " class=\"soft\"" : "");
    html_put_text(out, f, "mode");
    if (slice_is(html_text_of(f, "where"), "daemon"))
        html_add(out, ", at a daemon");
    html_add(out, shadow ? ", shadow</td>" : "</td>");
}

static void add_room(const json_t *f, struct text *out)
{
    html_add(out, "<td class=\"number\">");
    html_put_number(out, f, "workers");
    html_add(out, " a key");
    if (html_real_of(f, "slots") > 0) {
        html_add(out, ", ");
        html_put_number(out, f, "slots");
        html_add(out, " in all");
    }
    html_add(out, "</td>");
}

/* For a full queue, or as its daemon could not be asked; a shadow only says that it would. */
static void add_refused(const json_t *f, bool shadow, struct text *out)
{
    double n = shadow ? html_real_of(f, "shadow_full")
                      : html_real_of(f, "refused_full") + html_real_of(f, "refused_connections") +
                            html_real_of(f, "unreachable_closed");

    text_addf(out, "<td class=\"number%s\"", shadow ? " soft" : n > 0 ? " bad" : "");
    html_put_sort_key(out, n);
    text_addf(out, ">%.0f</td>", n);
}

static void add_longest(const json_t *longest, struct text *out)
{
    html_add(out, "<td class=\"classes\">");
    if (json_is_object(longest)) {
        html_put_seconds(out, longest, "for_s");
        html_add(out, " ");
    }
    html_put_text(out, longest, "key");
    html_add(out, "</td>");
}

static void add_limit(const json_t *row, struct text *out)
{
    const json_t *f = json_object_get(row, "figures");
    bool shadow = json_is_true(json_object_get(f, "shadow"));

    html_add(out, "<tr><th scope=\"row\">");
    html_put_text(out, row, "name");
    html_add(out, "</th>");
    if (!json_is_object(f)) {
        html_add(out, "<td colspan=\"11\" class=\"soft\">not in force: ");
        html_put_text(out, row, "why");
        html_add(out, "</td></tr>\n");
        return;
    }
    add_mode(f, shadow, out);
    add_number(f, "held", html_put_number, false, out);
    add_room(f, out);
    add_number(f, "waiting", html_put_number, true, out);
    add_refused(f, shadow, out);
    add_number(f, "refused_timeout", html_put_number, true, out);
    add_number(f, "coalesced", html_put_number, false, out);
    add_number(f, "stale", html_put_number, false, out);
    add_number(f, "unreachable_open", html_put_number, true, out);
    add_number(f, "waited_s", html_put_seconds, false, out);
    add_longest(json_object_get(f, "longest"), out);
    html_add(out, "</tr>\n");
}

/* ---- keys ---- */

static int by_waited(const void *a, const void *b)
{
    double x = html_real_of(*(const json_t *const *)a, "waited_s");
    double y = html_real_of(*(const json_t *const *)b, "waited_s");

    return (x < y) - (x > y);
}

/* Those of all counters, the most waited for first. Free *ALL. */
static size_t top_keys(const json_t *limits, const json_t ***all)
{
    const json_t *row;
    const json_t *key;
    size_t room = 0;
    size_t n = 0;
    size_t i, k;

    json_array_foreach(limits, i, row)
    {
        room += json_array_size(json_object_get(json_object_get(row, "figures"), "top"));
    }
    *all = xcalloc(room + 1, sizeof(**all));
    json_array_foreach(limits, i, row)
    {
        json_array_foreach(json_object_get(json_object_get(row, "figures"), "top"), k, key)
        {
            (*all)[n++] = key;
        }
    }
    qsort(*all, n, sizeof(**all), by_waited);
    return n;
}

static void add_keys(const json_t *limits, struct text *out)
{
    const json_t **all;
    size_t n = top_keys(limits, &all);

    if (n != 0) {
        html_add(out, "<h3>Keys most waited for</h3>\n");
        open_table("Keys most waited for",
                   "<th scope=\"col\">key</th><th scope=\"col\" class=\"number\">waited</th>"
                   "<th scope=\"col\" class=\"number\">waits</th>",
                   out);
        for (size_t i = 0; i < n && i < TOP_KEYS; ++i) {
            html_add(out, "<tr><th scope=\"row\" class=\"classes\">");
            html_put_text(out, all[i], "key");
            html_add(out, "</th>");
            add_number(all[i], "waited_s", html_put_seconds, false, out);
            add_number(all[i], "waits", html_put_number, false, out);
            html_add(out, "</tr>\n");
        }
        close_table(out);
    }
    free(all);
}

/* ---- daemons ---- */

static void add_daemons(const json_t *daemons, struct text *out)
{
    const json_t *d;
    size_t i;

    if (json_array_size(daemons) == 0)
        return;
    html_add(out, "<h3>Pool counter daemons</h3>\n");
    open_table("Pool counter daemons",
               "<th scope=\"col\">daemon</th><th scope=\"col\">state</th>"
               "<th scope=\"col\" class=\"number\">connections</th>"
               "<th scope=\"col\" class=\"number\">of them idle</th>",
               out);
    json_array_foreach(daemons, i, d)
    {
        html_add(out, "<tr><th scope=\"row\">");
        html_put_text(out, d, "name");
        html_add(out, json_is_true(json_object_get(d, "resting"))
                          ? "</th><td class=\"bad\">left alone for a while</td>"
                          : "</th><td class=\"good\">in use</td>");
        add_number(d, "connections", html_put_number, false, out);
        add_number(d, "idle", html_put_number, false, out);
        html_add(out, "</tr>\n");
    }
    close_table(out);
}

void html_limits(const json_t *application, struct text *out)
{
    const json_t *limits = json_object_get(application, "limits");
    const json_t *row;
    size_t i;

    if (json_array_size(limits) == 0)
        return;
    html_add(out, "<h3>Pool counters</h3>\n");
    open_table("Pool counters",
               "<th scope=\"col\">counter</th><th scope=\"col\">mode</th>"
               "<th scope=\"col\" class=\"number\">held</th>"
               "<th scope=\"col\" class=\"number\">limit</th>"
               "<th scope=\"col\" class=\"number\">waiting</th>"
               "<th scope=\"col\" class=\"number\">refused</th>"
               "<th scope=\"col\" class=\"number\">timed out</th>"
               "<th scope=\"col\" class=\"number\">coalesced</th>"
               "<th scope=\"col\" class=\"number\">stale</th>"
               "<th scope=\"col\" class=\"number\">let through</th>"
               "<th scope=\"col\" class=\"number\">waited</th>"
               "<th scope=\"col\">longest holder</th>",
               out);
    json_array_foreach(limits, i, row)
    {
        add_limit(row, out);
    }
    close_table(out);
    add_keys(limits, out);
    add_daemons(json_object_get(application, "pool_counter_servers"), out);
}
