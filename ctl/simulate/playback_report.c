/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of each class, of one server or of two side by side.
 */
#include <stdlib.h>

#include "common/base/json.h"
#include "ctl/cli/command.h"
#include "ctl/cli/table.h"
#include "ctl/simulate/playback.h"

enum { FIRST_SERVER_ERROR = 500 };

static int compare_latency(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* The smallest that SHARE of all are not above (nearest rank). */
static double percentile_ms(const uint32_t *sorted, size_t n, unsigned percent)
{
    size_t rank = n != 0 ? (n * percent + 99) / 100 : 0;

    return rank != 0 ? sorted[rank - 1] / 1e3 : 0;
}

void playback_figures(const struct playback *p, const struct playback_server *s, uint32_t cls,
                      struct playback_figures *out)
{
    uint32_t *latencies = xmalloc((p->n + 1) * sizeof(latencies[0]));
    size_t answered = 0, told = 0;
    double loads = 0;

    *out = (struct playback_figures){.loads = -1};
    for (size_t i = 0; i < p->n; ++i) {
        const struct playback_record *r = &s->records[i];

        if (!r->played || (cls != UINT32_MAX && p->requests[i].cls != cls))
            continue;
        ++out->n;
        out->errors += r->status == 0 || r->status >= FIRST_SERVER_ERROR;
        if (r->status == 0)
            continue;
        latencies[answered++] = r->latency_us;
        if (r->loads != PLAYBACK_NO_LOADS) {
            loads += r->loads;
            ++told;
        }
    }
    qsort(latencies, answered, sizeof(latencies[0]), compare_latency);
    out->p50_ms = percentile_ms(latencies, answered, 50);
    out->p90_ms = percentile_ms(latencies, answered, 90);
    out->p99_ms = percentile_ms(latencies, answered, 99);
    out->max_ms = percentile_ms(latencies, answered, 100);
    if (told != 0)
        out->loads = loads / (double)told;
    free(latencies);
}

/* ---- classes, the largest first ---- */

struct ranked {
    uint32_t cls;
    size_t requests;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;

    if (x->requests != y->requests)
        return x->requests > y->requests ? -1 : 1;
    return x->cls < y->cls ? -1 : x->cls > y->cls;
}

/* The classes that are to be shown; the caller frees them. */
static struct ranked *rank_classes(const struct playback *p, size_t *n)
{
    size_t all = p->classifier.classes.names.n;
    struct ranked *out = xcalloc(all, sizeof(out[0]));

    for (size_t i = 0; i < all; ++i)
        out[i].cls = (uint32_t)i;
    for (size_t i = 0; i < p->n; ++i)
        ++out[p->requests[i].cls].requests;
    qsort(out, all, sizeof(out[0]), compare_ranked);
    *n = p->top != 0 && p->top < all ? (size_t)p->top : all;
    return out;
}

/* ---- text ---- */

static void add_figures(struct table *t, const struct playback_figures *f)
{
    table_addf(t, "%zu", f->n);
    table_addf(t, "%zu", f->errors);
    table_addf(t, "%.2f", f->p50_ms);
    table_addf(t, "%.2f", f->p90_ms);
    table_addf(t, "%.2f", f->p99_ms);
    if (f->loads >= 0)
        table_addf(t, "%.2f", f->loads);
    else
        table_add(t, SLICE_LIT("-"));
}

/* "-50 %" of one figure to another. */
static void add_change(struct table *t, double from, double to)
{
    if (from > 0)
        table_addf(t, "%+.0f %%", 100 * (to - from) / from);
    else
        table_add(t, SLICE_LIT("-"));
}

static const struct table_column columns[] = {
    {"class", false}, {"requests", true}, {"errors", true},   {"p50 ms", true}, {"p90 ms", true},
    {"p99 ms", true}, {"loads", true},    {"requests", true}, {"errors", true}, {"p50 ms", true},
    {"p90 ms", true}, {"p99 ms", true},   {"loads", true},    {"p50", true},    {"p99", true},
};
enum { COLUMNS_OF_ONE = 7, COLUMNS_OF_TWO = 15 };

static void add_row(const struct playback *p, struct table *t, struct slice name, uint32_t cls)
{
    struct playback_figures f[PLAYBACK_SERVERS_MAX];

    table_add(t, name.len != 0 ? name : SLICE_LIT("(none)"));
    for (size_t i = 0; i < p->nservers; ++i) {
        playback_figures(p, &p->servers[i], cls, &f[i]);
        add_figures(t, &f[i]);
    }
    if (p->nservers == 2) {
        add_change(t, f[0].p50_ms, f[1].p50_ms);
        add_change(t, f[0].p99_ms, f[1].p99_ms);
    }
}

static void print_errors(const struct playback *p, const struct playback_server *s,
                         struct text *out)
{
    for (int e = ERR_OK + 1; e < ERR_COUNT; ++e) {
        size_t n = 0;

        for (size_t i = 0; i < p->n; ++i)
            n += s->records[i].played && s->records[i].error == e;
        if (n != 0)
            text_addf(out, "  %zu without an answer: %s\n", n, err_text((enum err)e));
    }
}

static void print_server(const struct playback *p, size_t i, struct text *out)
{
    const struct playback_server *s = &p->servers[i];
    struct playback_figures f;

    playback_figures(p, s, UINT32_MAX, &f);
    text_addf(out, "%s%s: %zu requests in %.1f s, %.1f/s, %zu errors\n",
              p->nservers == 2 ? (i == 0 ? "1 " : "2 ") : "", s->url, f.n, s->wall_s,
              s->wall_s > 0 ? (double)f.n / s->wall_s : 0, f.errors);
    print_errors(p, s, out);
}

static void print_text(const struct playback *p, struct text *out)
{
    size_t n = 0;
    struct ranked *ranked = rank_classes(p, &n);
    struct table t;

    text_add(out, text_slice(&p->bad));
    if (p->others != 0)
        text_addf(out, "%zu requests left out, which are no GETs\n", p->others);
    for (size_t i = 0; i < p->nservers; ++i)
        print_server(p, i, out);
    if (p->interrupted)
        text_add(out, SLICE_LIT("interrupted: not all of it was played\n"));
    table_init(&t, columns, p->nservers == 2 ? COLUMNS_OF_TWO : COLUMNS_OF_ONE);
    t.colours = ctl_colours();
    add_row(p, &t, SLICE_LIT("all"), UINT32_MAX);
    for (size_t i = 0; i < n; ++i)
        add_row(p, &t, names_get(&p->classifier.classes.names, ranked[i].cls), ranked[i].cls);
    table_print(&t, 2, out);
    table_fini(&t);
    free(ranked);
}

/* ---- JSON ---- */

static void put_figures(const struct playback *p, const struct playback_server *s, uint32_t cls,
                        struct json_writer *w)
{
    struct playback_figures f;

    playback_figures(p, s, cls, &f);
    json_put_int(w, "requests", (int64_t)f.n);
    json_put_int(w, "errors", (int64_t)f.errors);
    json_put_real(w, "p50_ms", f.p50_ms);
    json_put_real(w, "p90_ms", f.p90_ms);
    json_put_real(w, "p99_ms", f.p99_ms);
    json_put_real(w, "max_ms", f.max_ms);
    if (f.loads >= 0)
        json_put_real(w, "loads_per_request", f.loads);
    else
        json_put_null(w, "loads_per_request");
}

static void put_server(const struct playback *p, const struct playback_server *s,
                       const struct ranked *ranked, size_t n, struct json_writer *w)
{
    json_open_object(w, NULL);
    json_put_text(w, "url", slice_of(s->url));
    json_put_real(w, "seconds", s->wall_s);
    put_figures(p, s, UINT32_MAX, w);
    json_open_array(w, "classes");
    for (size_t i = 0; i < n; ++i) {
        json_open_object(w, NULL);
        json_put_text(w, "class", names_get(&p->classifier.classes.names, ranked[i].cls));
        put_figures(p, s, ranked[i].cls, w);
        json_close_object(w);
    }
    json_close_array(w);
    json_close_object(w);
}

static void print_json(const struct playback *p, struct text *out)
{
    struct json_writer w = {.out = out};
    size_t n = 0;
    struct ranked *ranked = rank_classes(p, &n);

    json_open_object(&w, NULL);
    json_put_int(&w, "left_out", (int64_t)p->others);
    json_put_bool(&w, "interrupted", p->interrupted);
    json_open_array(&w, "servers");
    for (size_t i = 0; i < p->nservers; ++i)
        put_server(p, &p->servers[i], ranked, n, &w);
    json_close_array(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
    free(ranked);
}

void playback_report(const struct playback *p, struct text *out)
{
    if (p->json)
        print_json(p, out);
    else
        print_text(p, out);
}
