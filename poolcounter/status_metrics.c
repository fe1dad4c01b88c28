/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics: the figures of stats.def, those that the counters count themselves
 * (counter_figure.def), and those by type. Types are named by strangers, but their number is
 * bounded (max_types).
 */
#include "poolcounter/status.h"

#include <inttypes.h>

struct figure {
    const char *name, *kind, *doc;
    double unit; /* what the value is divided by */
    size_t offset;
    bool is_size; /* a size_t, as gauges are; else a uint64_t */
};

#define ROW(strct, prefix, member, name_, kind_, unit_, doc_)                                      \
    {.name = prefix name_,                                                                         \
     .kind = (kind_),                                                                              \
     .doc = (doc_),                                                                                \
     .unit = (unit_),                                                                              \
     .offset = offsetof(strct, member),                                                            \
     .is_size = (kind_)[0] == 'g'},
static const struct figure figures[] = {
#define FIGURE(...) ROW(struct counter_stats, "", __VA_ARGS__)
#include "poolcounter/counter_figure.def"
#undef FIGURE
};
static const struct figure type_figures[] = {
#define FIGURE(...) ROW(struct type_figures, "type_", __VA_ARGS__)
#include "poolcounter/type_figure.def"
#undef FIGURE
};

static double value_of(const struct figure *f, const void *from)
{
    const void *at = (const char *)from + f->offset;
    double n = f->is_size ? (double)*(const size_t *)at : (double)*(const uint64_t *)at;

    return n / f->unit;
}

static void add_head(struct text *out, const char *name, const char *kind, const char *doc)
{
    text_addf(out, "# HELP %s_%s %s\n# TYPE %s_%s %s\n", POOLCOUNTER_PREFIX, name, doc,
              POOLCOUNTER_PREFIX, name, kind);
}

/* Backslash and quote are escaped in a label's value; so are the bytes of a type that no text
 * should have. */
static void add_type_label(struct text *out, struct slice name)
{
    struct text shown = {0};

    text_add_escaped(&shown, name);
    text_add(out, SLICE_LIT("{type=\""));
    for (size_t i = 0; i < shown.len; ++i) {
        if (shown.p[i] == '\\')
            text_add_char(out, '\\');
        text_add_char(out, shown.p[i]);
    }
    text_add(out, SLICE_LIT("\"} "));
    text_fini(&shown);
}

static void add_value(struct text *out, double v)
{
    text_add_real(out, v);
    text_add_char(out, '\n');
}

static void add_by_type(const struct server_snapshot *s, const struct figure *f, struct text *out)
{
    add_head(out, f->name, f->kind, f->doc);
    for (size_t i = 0; i < s->ntypes; ++i) {
        text_addf(out, "%s_%s", POOLCOUNTER_PREFIX, f->name);
        add_type_label(out, s->types[i].name);
        add_value(out, value_of(f, &s->types[i].figures));
    }
}

static void add_gauge(struct text *out, const char *name, const char *doc, double v)
{
    add_head(out, name, "gauge", doc);
    text_addf(out, "%s_%s ", POOLCOUNTER_PREFIX, name);
    add_value(out, v);
}

#define OLDEST_DOC "How long the one that holds the longest has held; 0 when nobody holds."
#define UPTIME_DOC "Time since the server started."
#define ADDRESSES_DOC "Addresses that clients are connected from."

void status_metrics(const struct server_snapshot *s, const struct stats *stats, struct text *out)
{
    const struct stats_set set = {stats, ""};

    stats_prometheus(POOLCOUNTER_PREFIX, &set, 1, out);
    for (size_t i = 0; i < ARRAY_LEN(figures); ++i) {
        add_head(out, figures[i].name, figures[i].kind, figures[i].doc);
        text_addf(out, "%s_%s ", POOLCOUNTER_PREFIX, figures[i].name);
        add_value(out, value_of(&figures[i], &s->counters));
    }
    for (size_t i = 0; i < ARRAY_LEN(type_figures); ++i)
        add_by_type(s, &type_figures[i], out);
    add_gauge(out, "oldest_holder_seconds", OLDEST_DOC, (double)s->oldest_us / 1e6);
    add_gauge(out, "uptime_seconds", UPTIME_DOC, (double)s->uptime_us / 1e6);
    add_gauge(out, "client_addresses", ADDRESSES_DOC, (double)s->addresses);
}

static void describe_row(FILE *out, const char *name, const char *kind, const char *label,
                         const char *doc)
{
    fprintf(out, "| `%s_%s` | %s | %s | %s |\n", POOLCOUNTER_PREFIX, name, kind, label, doc);
}

void status_describe(FILE *out)
{
    stats_describe(POOLCOUNTER_PREFIX, &poolcounter_stats_table, out);
    fputs("\nThose that the counters count themselves, and those by type of key (`types`).\n\n"
          "| metric | kind | label | meaning |\n| --- | --- | --- | --- |\n",
          out);
    for (size_t i = 0; i < ARRAY_LEN(figures); ++i)
        describe_row(out, figures[i].name, figures[i].kind, "", figures[i].doc);
    for (size_t i = 0; i < ARRAY_LEN(type_figures); ++i)
        describe_row(out, type_figures[i].name, type_figures[i].kind, "type", type_figures[i].doc);
    describe_row(out, "oldest_holder_seconds", "gauge", "", OLDEST_DOC);
    describe_row(out, "uptime_seconds", "gauge", "", UPTIME_DOC);
    describe_row(out, "client_addresses", "gauge", "", ADDRESSES_DOC);
}
