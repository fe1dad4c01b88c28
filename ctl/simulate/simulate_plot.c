/* SPDX-License-Identifier: Apache-2.0
 *
 * The picture: in words what changes, then four figures as bars, the course of the loads, and how
 * even the work is. One colour is one variant all over. SVG by hand: a few rectangles and lines.
 *
 *     +------------------------------------------------+
 *     | title, model, the gain in words                |
 *     | labels | loads | requests/s | p99 | busiest    |
 *     | loads per request, over time                   |
 *     | requests of each worker, the busiest first     |
 *     +------------------------------------------------+
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "ctl/simulate/simulate.h"

enum {
    VARIANTS_MAX = 12, /* more colors could not be distinguished */
    WIDTH = 1080,
    MARGIN = 32,
    HEAD = 158,
    LABEL = 208,
    BAR = 26,
    GAP = 16,
    CHART = 210,
    WORDS_PER_LINE = 118,
};

static const char *const colours[VARIANTS_MAX] = {
    "#0b6bb8", "#d1652a", "#2a9d6f", "#b8438d", "#8a6d00", "#5b5bd6",
    "#c23b3b", "#3f8f9f", "#7a7a2a", "#a05fc0", "#555555", "#9c5a3c",
};

/* A panel of bars: one figure of all variants. */
struct bars {
    const char *title;
    const char *hint;
    double (*of)(const struct plan_result *r);
    int decimals;
    bool more_is_better;
};

static double loads(const struct plan_result *r)
{
    return r->main.loads;
}

static double rate(const struct plan_result *r)
{
    return r->main.rate;
}

static double p99(const struct plan_result *r)
{
    return r->main.p99_ms;
}

static double busiest(const struct plan_result *r)
{
    return r->main.busy_max;
}

static const struct bars panels[] = {
    {"Loads per request", "fewer is better", loads, 2, false},
    {"Requests a second", "more is better", rate, 0, true},
    {"99 % answered within", "ms; less is better", p99, 0, false},
    {"Busiest worker", "its work; 1 is even", busiest, 2, false},
};

/* ---- pieces ---- */

struct plot {
    const struct simulate_story *story;
    struct text *out;
    size_t n; /* variants shown */
    const struct simulate_variant *best, *baseline;
};

static void add_text(struct text *out, double x, double y, const char *style, struct slice s)
{
    text_addf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    text_add_html(out, s);
    text_add(out, SLICE_LIT("</text>\n"));
}

/* Words in lines; returns where the next line would be. */
static double add_words(struct text *out, double y, const char *style, struct slice s)
{
    enum { LINE = 19 };

    while (s.len != 0) {
        size_t n = s.len;

        if (n > WORDS_PER_LINE) {
            n = WORDS_PER_LINE;
            while (n != 0 && s.p[n] != ' ')
                --n;
            if (n == 0)
                n = WORDS_PER_LINE;
        }
        add_text(out, MARGIN, y, style, (struct slice){s.p, n});
        y += LINE;
        s = slice_trim((struct slice){s.p + n, s.len - n});
    }
    return y;
}

static void add_head(const struct plot *p)
{
    const struct plan_options *o = &p->story->plan->options;
    const struct plan *plan = p->story->plan;
    const struct simulate *s = p->story->simulate;
    struct text t = {0};

    add_text(p->out, MARGIN, 44, "class=\"title\"", SLICE_LIT("What would resumelb do?"));
    if (s->log_file != NULL)
        text_addf(&t, "%zu requests of the access log %s", s->log.requests, s->log_file);
    else
        text_addf(&t, "%s: %s", scenario_name(plan->scenario), scenario_doc(plan->scenario));
    add_text(p->out, MARGIN, 68, "class=\"sub\"", text_slice(&t));
    text_clear(&t);
    text_addf(&t,
              "%u workers with caches of %" PRIu32
              " objects; a request takes %g ms, and %g ms more for each load",
              o->world.workers, o->world.cache, (double)o->world.base_ns / 1e6,
              (double)o->world.load_ns / 1e6);
    add_text(p->out, MARGIN, 87, "class=\"sub\"", text_slice(&t));
    text_clear(&t);
    simulate_print_gain(p->story, &t);
    add_words(p->out, 116, "class=\"gain\"", text_slice(&t));
    text_fini(&t);
}

/* ---- bars ---- */

static double most(const struct plot *p, const struct bars *b)
{
    double max = 0;

    for (size_t i = 0; i < p->n; ++i)
        max = fmax(max, b->of(&p->story->variants[i].result));
    return max > 0 ? max : 1;
}

static void add_panel(const struct plot *p, const struct bars *b, double x, double width)
{
    enum { VALUE = 52, TITLE = 20, HINT = 37, FIRST = 48 };
    double max = most(p, b);
    double room = width - VALUE;
    char value[32];

    add_text(p->out, x, HEAD + TITLE, "class=\"h\"", slice_of(b->title));
    add_text(p->out, x, HEAD + HINT, "class=\"hint\"", slice_of(b->hint));
    for (size_t i = 0; i < p->n; ++i) {
        double v = b->of(&p->story->variants[i].result);
        double y = HEAD + FIRST + (double)(i * BAR);
        bool is_best = &p->story->variants[i] == p->best;

        text_addf(p->out,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\" fill=\"%s\" "
                  "opacity=\"%s\"/>\n",
                  x, y, fmax(1, room * v / max), BAR - 8, colours[i], is_best ? "1" : "0.72");
        snprintf(value, sizeof(value), "%.*f", b->decimals, v);
        add_text(p->out, x + fmax(1, room * v / max) + 5, y + 13.5,
                 is_best ? "class=\"v b\"" : "class=\"v\"", slice_of(value));
    }
}

static double add_bars(const struct plot *p)
{
    enum { FIRST = 48, LABEL_BYTES = 30 };
    size_t npanels = ARRAY_LEN(panels);
    double width = (WIDTH - 2.0 * MARGIN - LABEL) / (double)npanels;
    struct text label = {0};

    for (size_t i = 0; i < p->n; ++i) {
        const struct simulate_variant *v = &p->story->variants[i];

        text_clear(&label);
        simulate_label(p->story->simulate, v, &label);
        if (label.len > LABEL_BYTES) {
            label.len = LABEL_BYTES - 3;
            text_add(&label, SLICE_LIT("..."));
        }
        text_addf(p->out, "<g fill=\"%s\">", colours[i]);
        add_text(p->out, MARGIN, HEAD + FIRST + (double)(i * BAR) + 13.5,
                 v == p->best ? "class=\"l b\"" : "class=\"l\"", text_slice(&label));
        text_add(p->out, SLICE_LIT("</g>\n"));
    }
    text_fini(&label);
    for (size_t k = 0; k < ARRAY_LEN(panels); ++k)
        add_panel(p, &panels[k], MARGIN + LABEL + (double)k * width, width - GAP);
    return HEAD + FIRST + (double)(p->n * BAR) + GAP;
}

/* ---- lines ---- */

struct chart {
    const char *title, *hint;
    double x, y, width;
    double max; /* of the values */
    size_t points;
};

/* A round number that is not below V / 4: about four lines across. */
static double step_of(double v)
{
    double size = pow(10, floor(log10(v / 4)));
    double digits = v / 4 / size;

    return size * (digits <= 1 ? 1 : digits <= 2 ? 2 : digits <= 5 ? 5 : 10);
}

static double chart_y(const struct chart *c, double v)
{
    return c->y + CHART - CHART * fmin(v, c->max) / c->max;
}

static void add_frame(const struct plot *p, const struct chart *c)
{
    double step = step_of(c->max);
    char tick[32];

    add_text(p->out, c->x, c->y - 30, "class=\"h\"", slice_of(c->title));
    add_text(p->out, c->x, c->y - 13, "class=\"hint\"", slice_of(c->hint));
    for (unsigned i = 0; i * step <= c->max * 1.0001; ++i) {
        double y = chart_y(c, i * step);

        text_addf(p->out,
                  "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#dfe3e8\"/>\n",
                  c->x, y, c->x + c->width, y);
        snprintf(tick, sizeof(tick), "%g", i * step);
        add_text(p->out, c->x - 6, y + 4, "class=\"tick\"", slice_of(tick));
    }
}

static void add_line(const struct plot *p, const struct chart *c, size_t variant,
                     double (*at)(const struct plan_result *r, size_t i))
{
    const struct simulate_variant *v = &p->story->variants[variant];

    text_add(p->out, SLICE_LIT("<polyline fill=\"none\" points=\""));
    for (size_t i = 0; i < c->points; ++i)
        text_addf(p->out, "%.1f,%.1f ", c->x + c->width * ((double)i + .5) / (double)c->points,
                  chart_y(c, at(&v->result, i)));
    text_addf(p->out, "\" stroke=\"%s\" stroke-width=\"%s\" stroke-linejoin=\"round\"/>\n",
              colours[variant], v == p->best ? "3" : "1.6");
}

static void add_lines(const struct plot *p, struct chart *c,
                      double (*at)(const struct plan_result *r, size_t i))
{
    c->max = 0;
    for (size_t i = 0; i < p->n; ++i) {
        for (size_t k = 0; k < c->points; ++k)
            c->max = fmax(c->max, at(&p->story->variants[i].result, k));
    }
    c->max = c->max > 0 ? c->max * 1.05 : 1;
    add_frame(p, c);
    /* The best on top of the others. */
    for (size_t i = 0; i < p->n; ++i) {
        if (&p->story->variants[i] != p->best)
            add_line(p, c, i, at);
    }
    for (size_t i = 0; i < p->n; ++i) {
        if (&p->story->variants[i] == p->best)
            add_line(p, c, i, at);
    }
}

static double window_loads(const struct plan_result *r, size_t i)
{
    return r->windows[i].loads;
}

static double window_p99(const struct plan_result *r, size_t i)
{
    return r->windows[i].p99_ms;
}

static double share(const struct plan_result *r, size_t i)
{
    return r->shares[i] * r->nshares;
}

/* Where phases begin; the one that counts in bold. */
static void mark_phases(const struct plot *p, const struct chart *c)
{
    enum { BELOW = 16 };
    const struct plan_result *r = &p->story->variants[0].result;
    const struct plan *plan = p->story->plan;

    for (size_t i = 0; i < plan->nphases; ++i) {
        double x = c->x + c->width * (double)r->begins[i] / (double)r->nwindows;

        text_addf(p->out,
                  "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#8a929c\" "
                  "stroke-dasharray=\"4 4\"/>\n",
                  x, c->y, x, c->y + CHART + BELOW);
        add_text(p->out, x + 4, c->y + CHART + BELOW,
                 i == plan->main ? "class=\"hint b\"" : "class=\"hint\"",
                 slice_of(plan->phases[i].name));
    }
}

/* Three charts beside and below one another; returns where they end. */
static double add_charts(const struct plot *p, double y)
{
    enum { TITLES = 56, AXIS = 34, SHARES = 300 };
    const struct plan_result *first = &p->story->variants[0].result;
    double all = WIDTH - 2 * MARGIN - AXIS;
    double half = (all - SHARES - 2 * (AXIS + GAP)) / 2;
    struct chart course = {.title = "Loads per request, over time",
                           .hint = "as caches fill and classes find their workers",
                           .x = MARGIN + AXIS,
                           .y = y + TITLES,
                           .width = half,
                           .points = first->nwindows};
    struct chart latency = course;
    struct chart shares = course;

    add_lines(p, &course, window_loads);
    mark_phases(p, &course);
    latency.title = "99 % answered within, over time";
    latency.hint = "ms";
    latency.x += half + AXIS + GAP;
    add_lines(p, &latency, window_p99);
    mark_phases(p, &latency);
    shares.title = "Requests of each worker";
    shares.hint = "over the mean; the busiest is on the left";
    shares.x = latency.x + half + AXIS + GAP;
    shares.width = SHARES;
    shares.points = first->nshares;
    add_lines(p, &shares, share);
    return y + TITLES + CHART;
}

static const char style[] =
    "<style>text{font-family:system-ui,'Segoe UI','DejaVu Sans',sans-serif;font-size:13px;"
    "fill:#1c2733}.title{font-size:25px;font-weight:700}.sub{fill:#55606e}.gain{font-size:15px;"
    "font-weight:600}.h{font-size:14px;font-weight:600}.hint{font-size:12px;fill:#6a7480}"
    ".tick{font-size:11px;fill:#6a7480;text-anchor:end}.l{fill:inherit}.v{font-size:12.5px}"
    ".b{font-weight:700}</style>\n";

void simulate_plot(const struct simulate_story *t, struct text *out)
{
    enum { FOOT = 64 };
    struct text body = {0};
    struct plot p = {.story = t,
                     .out = &body,
                     .n = t->nvariants < VARIANTS_MAX ? t->nvariants : VARIANTS_MAX,
                     .best = simulate_best(t),
                     .baseline = simulate_baseline(t)};

    add_head(&p);
    double y = add_charts(&p, add_bars(&p));
    if (p.n < t->nvariants)
        add_text(&body, MARGIN, y + FOOT - 14, "class=\"hint\"",
                 SLICE_LIT("The first twelve are shown."));
    int height = (int)y + FOOT;
    text_addf(out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 "
              "%d %d\">\n",
              WIDTH, height, WIDTH, height);
    text_add(out, slice_of(style));
    text_add(out, SLICE_LIT("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"));
    text_add(out, text_slice(&body));
    text_add(out, SLICE_LIT("</svg>\n"));
    text_fini(&body);
}
