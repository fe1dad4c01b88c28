/* SPDX-License-Identifier: Apache-2.0
 *
 * The families of classes, by application and class. A class is somebody else's text: at most
 * CLASS_BYTES_MAX bytes of visible ASCII (classify.c), which a label escapes (status_add_label).
 * The names that we give have a blank, which no class has.
 */
#include "lb/class_metrics.h"

#include <inttypes.h>

#include "lb/lb.h"
#include "lb/observer.h"
#include "lb/pool.h"
#include "lb/status.h"

static const char NO_CLASS[] = "no class";
static const char OTHERS[] = "other classes";

struct class_family {
    const char *name, *unit, *doc;
    double (*of)(const struct class_figures *f);
    bool seconds; /* else whole numbers */
};

#define FIGURE(name)                                                                               \
    static double name##_of(const struct class_figures *f)                                         \
    {                                                                                              \
        return f->name;                                                                            \
    }
FIGURE(requests)
FIGURE(failed)
FIGURE(limited)
FIGURE(waited)
FIGURE(seconds)
FIGURE(wait_seconds)
FIGURE(skilled)
FIGURE(spilled)
FIGURE(unskilled)
#undef FIGURE

static const struct class_family families[] = {
    {"class_requests_total", "requests", "Requests of the class.", requests_of, false},
    {"class_failures_total", "requests", "Of these: answers 5xx, and those without a whole answer.",
     failed_of, false},
    {"class_limited_total", "requests",
     "Of these: ended at a pool counter or a rate, or waited a millisecond or more for one.",
     limited_of, false},
    {"class_waited_total", "requests",
     "Of these: waited a millisecond or more until a worker was picked.", waited_of, false},
    {"class_skilled_total", "requests",
     "Of these: given to a worker known to be good at the class.", skilled_of, false},
    {"class_spilled_total", "requests",
     "Of these: given to another, as those that are good at it had too much.", spilled_of, false},
    {"class_unskilled_total", "requests",
     "Of these: given to a worker for any other reason, as one's first.", unskilled_of, false},
    {"class_seconds_total", "seconds",
     "Time from a request's arrival to the last byte taken by the client; by class_requests_total, "
     "the mean.",
     seconds_of, true},
    {"class_wait_seconds_total", "seconds", "Of it: for a worker and a connection to it.",
     wait_seconds_of, true},
};

struct class_page {
    const struct lb *lb;
    const struct application *app;
    const struct class_family *family; /* NULL: the gauge of workers */
    struct text *out;
};

static void add_head(struct text *out, const char *name, const char *kind, const char *doc)
{
    text_addf(out, "# HELP resumelb_%s %s\n# TYPE resumelb_%s %s\n", name, doc, name, kind);
}

static void add_series(const struct class_page *p, const char *name, const char *cls)
{
    const char *shown = cls == NULL ? OTHERS : *cls == '\0' ? NO_CLASS : cls;

    text_addf(p->out, "resumelb_%s{", name);
    status_add_label(p->out, "application", slice_of(p->app->name));
    text_add_char(p->out, ',');
    status_add_label(p->out, "class", slice_of(shown));
    text_add(p->out, SLICE_LIT("} "));
}

static void add_figure(void *context, const char *cls, const struct class_figures *f)
{
    const struct class_page *p = context;
    double v = p->family->of(f);

    add_series(p, p->family->name, cls);
    if (p->family->seconds)
        text_add_real(p->out, (double)(uint64_t)(v * 1e6) / 1e6);
    else
        text_add_u64(p->out, (uint64_t)v);
    text_add_char(p->out, '\n');
}

static void add_workers(void *context, const char *cls, const struct class_figures *f)
{
    const struct class_page *p = context;
    struct pool_class_view v;

    (void)f;
    if (cls == NULL)
        return;
    pool_class_view(p->app->pool, slice_of(cls), &v);
    add_series(p, "class_workers", cls);
    text_add_u64(p->out, v.lives ? v.homes : v.total);
    text_add_char(p->out, '\n');
}

/* Of those applications that have any. */
static void add_family(struct class_page *p,
                       void (*each)(void *context, const char *cls, const struct class_figures *f))
{
    for (size_t i = 0; i < p->lb->napplications; ++i) {
        const struct class_metrics *m = observer_class_metrics(p->lb->observer, i);

        p->app = p->lb->applications[i];
        if (p->app->settings->s.metrics_classes != 0)
            class_metrics_each(m, each, p);
    }
}

static const char workers_doc[] = "Workers where the class lives: its homes with policy adaptive, "
                                  "else those of the line with a score for it.";

void class_metrics_page(const struct lb *lb, struct text *out)
{
    struct class_page p = {.lb = lb, .out = out};

    for (size_t i = 0; i < ARRAY_LEN(families); ++i) {
        p.family = &families[i];
        add_head(out, families[i].name, "counter", families[i].doc);
        add_family(&p, add_figure);
    }
    p.family = NULL;
    add_head(out, "class_workers", "gauge", workers_doc);
    add_family(&p, add_workers);
}

void class_metrics_describe(FILE *out)
{
    fprintf(out,
            "\nOf classes: of each application the busiest `metrics_classes`, by `class`; what the "
            "others have "
            "counted is `%s`, requests without a class are `%s`. A class keeps its series until "
            "another has %d "
            "times as many requests over the last %d s or so (at most one in 10 s is replaced), "
            "and one that "
            "was replaced begins at 0 when it comes back; the sum over `class` is the "
            "application's. Beyond "
            "some thousand requests a second some of them stand for others, so that these figures "
            "are estimates; "
            "those by application are not.\n\n"
            "| metric | kind | unit | label | meaning |\n| --- | --- | --- | --- | --- |\n",
            OTHERS, NO_CLASS, CLASS_METRICS_LEAD, CLASS_METRICS_FADE_S);
    for (size_t i = 0; i < ARRAY_LEN(families); ++i)
        fprintf(out, "| `resumelb_%s` | counter | %s | class | %s |\n", families[i].name,
                families[i].unit, families[i].doc);
    fprintf(out, "| `resumelb_class_workers` | gauge | workers | class | %s |\n", workers_doc);
}
