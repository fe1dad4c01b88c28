/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl classify: requests of a log or a list, through one or several classifiers.
 */
#include "common/base/json.h"
#include "ctl/simulate/simulate.h"

#include <math.h>
#include <stdlib.h>

enum {
    /* Fewer are not significant. */
    REQUESTS_MIN = 20,
    /* In percent of all requests. */
    LARGEST_PERCENT = 50,
    FIRST_PERCENT = 25,
    NAMELESS_PERCENT = 10,
    PERCENT = 100,
};

static int sim_classify_compare(const void *a, const void *b)
{
    const struct class_count *x = a;
    const struct class_count *y = b;

    if (x->requests != y->requests)
        return x->requests > y->requests ? -1 : 1;
    size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = n != 0 ? memcmp(x->name.p, y->name.p, n) : 0;
    if (order != 0)
        return order;
    return x->name.len < y->name.len ? -1 : x->name.len > y->name.len;
}

void classify_sort(struct class_counts *c)
{
    if (c->n != 0)
        qsort(c->classes, c->n, sizeof(c->classes[0]), sim_classify_compare);
}

void classify_collect(const struct simulate_classifier *c, struct class_counts *out)
{
    const struct names *names = &c->classes.names;

    *out = (struct class_counts){.label = c->label, .n = names->n};
    out->classes = xcalloc(names->n, sizeof(out->classes[0]));
    for (uint32_t i = 0; i < names->n; ++i) {
        out->classes[i] = (struct class_count){names_get(names, i), names_uses(names, i), i};
        out->requests += names_uses(names, i);
    }
    classify_sort(out);
}

void classify_facts(const struct class_counts *c, struct class_facts *out)
{
    struct text *warnings = &out->warnings;
    double entropy = 0;

    *out = (struct class_facts){0};
    for (size_t i = 0; i < c->n; ++i) {
        double share = (double)c->classes[i].requests / (double)c->requests;

        entropy -= share * log(share);
        out->single += c->classes[i].requests == 1;
        if (c->classes[i].name.len == 0)
            out->nameless = share;
        else if (share > out->largest)
            out->largest = share;
    }
    out->as_if_equal = c->n != 0 ? exp(entropy) : 0;
    if (c->requests < REQUESTS_MIN)
        return;
    if (out->nameless * PERCENT >= NAMELESS_PERCENT) {
        text_addf(warnings,
                  "%.0f %% of the requests have no class: they go to the least loaded worker\n",
                  out->nameless * PERCENT);
    }
    if (c->n == 1 && out->nameless < 1) {
        text_addf(warnings, "all requests are of one class: every worker needs all data\n");
    } else if (out->largest * PERCENT >= LARGEST_PERCENT) {
        text_addf(warnings, "one class has %.0f %% of the traffic (", out->largest * PERCENT);
        text_add_escaped(warnings, c->classes[c->classes[0].name.len == 0 && c->n > 1].name);
        text_addf(warnings,
                  "): the workers that are skilled at it get no others, and it overflows\n");
    }
    if ((double)c->n * PERCENT >= (double)c->requests * FIRST_PERCENT) {
        text_addf(warnings,
                  "%.0f %% of the requests are the first of their class and find nothing in a "
                  "cache: right if each class has data of its own, such as a session; too fine if "
                  "several use the same data\n",
                  (double)c->n * PERCENT / (double)c->requests);
    }
}

/* ---- the command ---- */

enum {
    TOP_DEFAULT = 20,
    TOP_MAX = NAMES_MAX,
    REQUESTS_MAX = 100000000, /* hours of work */
};

struct classify_run {
    struct ctl_options o;
    struct simulate_classifiers classifiers;
    const char *config_file;
    uint64_t limit;
    bool cut; /* there was more than --requests, or than there is room for */
    struct requests in;
    uint64_t requests;
};

/* The value of `classifier` of a load balancer's configuration; plugins too. */
static int take_configured(struct classify_run *r)
{
    struct simulate_classifier *c = &r->classifiers.all[r->classifiers.n];
    const char *application = r->o.application;
    const struct config_node *node = NULL;
    struct diag d = {0};

    if (r->classifiers.n == SIMULATE_CLASSIFIERS_MAX)
        return ctl_usage_error(r->o.command, "--config: too many classifiers", NULL);
    if (!config_read(r->config_file, &c->config, &d))
        return ctl_usage_problems(r->o.command, &d);
    const struct config_node *all = config_get(c->config.root, "applications");
    const struct config_node *app = c->config.root;
    if (application != NULL)
        app = all != NULL ? config_get(all, application) : NULL;
    if (app != NULL)
        node = config_get(app, "classifier");
    if (app == NULL)
        config_complain(&c->config, NULL, &d, "unknown application '%s'", application);
    else if (node == NULL)
        config_complain(&c->config, NULL, &d, "no `classifier` in it%s",
                        application == NULL && all != NULL ? " (--application?)" : "");
    c->classifier = node != NULL ? classifier_create(&c->config, node, &d) : NULL;
    if (c->classifier == NULL) {
        config_fini(&c->config);
        return ctl_usage_problems(r->o.command, &d);
    }
    c->label = xstrdup(r->config_file);
    ++r->classifiers.n;
    return CTL_OK;
}

/* Returns -1 to continue; else the exit code. */
static int parse_arguments(struct classify_run *r, const struct ctl_command *c, int argc,
                           char **argv)
{
    int code = ctl_parse(c, argc, argv, &r->o);

    if (code >= 0)
        return code;
    if (r->o.words[0] == NULL)
        return ctl_usage_error(c, "expected a file: an access log, a list of URLs, or -", NULL);
    if (r->o.application != NULL && r->config_file == NULL)
        return ctl_usage_error(c, "--application is for --config", NULL);
    if (r->config_file != NULL)
        code = take_configured(r);
    else if (r->classifiers.n == 0)
        code = simulate_add_classifier(&r->o, &r->classifiers, "host");
    return code == CTL_OK ? -1 : code;
}

static void print_counts(const struct class_counts *c, uint64_t top, bool colours, struct text *out)
{
    struct class_facts f;
    struct table t;
    uint64_t sum = 0;

    classify_facts(c, &f);
    text_add_escaped(out, slice_of(c->label));
    text_addf(out, ": %zu class%s, as uneven as %.1f equal ones; %zu with one request only\n", c->n,
              c->n == 1 ? "" : "es", f.as_if_equal, f.single);
    for (struct slice rest = text_slice(&f.warnings); rest.len != 0;) {
        text_addf(out, "  %swarning%s: ", colours ? table_styles[TABLE_WARNING] : "",
                  colours ? TABLE_STYLE_END : "");
        text_add(out, slice_cut(&rest, '\n'));
        text_add_char(out, '\n');
    }
    text_fini(&f.warnings);
    table_begin(&t, "class|>requests|>share|>together");
    for (size_t i = 0; i < c->n && (top == 0 || i < top); ++i) {
        const struct class_count *k = &c->classes[i];

        sum += k->requests;
        table_add(&t, k->name.len != 0 ? k->name : SLICE_LIT("(none)"));
        table_addf(&t, "%llu", (unsigned long long)k->requests);
        table_addf(&t, "%.2f %%", 100 * (double)k->requests / (double)c->requests);
        table_addf(&t, "%.1f %%", 100 * (double)sum / (double)c->requests);
    }
    table_end(&t, out);
    if (top != 0 && c->n > top)
        text_addf(out, "  ... and %zu more (--top 0 shows all)\n", c->n - (size_t)top);
}

static void put_counts(const struct class_counts *c, uint64_t top, struct json_writer *w)
{
    struct class_facts f;

    classify_facts(c, &f);
    json_open_object(w, NULL);
    json_put_text(w, "classifier", slice_of(c->label));
    json_put_int(w, "classes", (int64_t)c->n);
    json_put_int(w, "single", (int64_t)f.single);
    json_put_real(w, "largest_share", f.largest);
    json_put_real(w, "nameless_share", f.nameless);
    json_put_real(w, "as_if_equal", f.as_if_equal);
    json_open_array(w, "warnings");
    for (struct slice rest = text_slice(&f.warnings); rest.len != 0;)
        json_put_text(w, NULL, slice_cut(&rest, '\n'));
    text_fini(&f.warnings);
    json_close_array(w);
    json_open_array(w, "largest");
    for (size_t i = 0; i < c->n && (top == 0 || i < top); ++i) {
        json_open_object(w, NULL);
        json_put_text(w, "class", c->classes[i].name);
        json_put_int(w, "requests", (int64_t)c->classes[i].requests);
        json_close_object(w);
    }
    json_close_array(w);
    json_close_object(w);
}

static void print_all(struct classify_run *r, struct text *out)
{
    struct json_writer w = {.out = out};

    if (r->o.json) {
        json_open_object(&w, NULL);
        json_put_int(&w, "requests", (int64_t)r->requests);
        json_put_int(&w, "bad_lines", (int64_t)requests_bad(&r->in));
        json_put_bool(&w, "cut", r->cut);
        json_open_array(&w, "classifiers");
    } else {
        text_addf(out, "%llu requests%s\n", (unsigned long long)r->requests,
                  r->cut ? " (there are more: --requests, or too many classes)" : "");
        requests_print_bad(&r->in, out);
    }
    for (size_t i = 0; i < r->classifiers.n; ++i) {
        struct class_counts c;

        classify_collect(&r->classifiers.all[i], &c);
        if (r->o.json)
            put_counts(&c, r->o.top, &w);
        else
            print_counts(&c, r->o.top, r->o.colours, out);
        free(c.classes);
    }
    if (r->o.json) {
        json_close_array(&w);
        json_close_object(&w);
        text_add_char(out, '\n');
    }
}

static int sim_classify_main(const struct ctl_command *c, int argc, char **argv)
{
    struct classify_run r = {.o = {.top = TOP_DEFAULT}, .limit = REQUESTS_MAX};
    struct access_line l;
    uint32_t cls;
    int code = parse_arguments(&r, c, argc, argv);

    if (code < 0) {
        enum err e = requests_open(r.o.words[0], &r.in, &r.o.diag);

        while (e == ERR_OK && !r.cut && requests_next(&r.in, &l)) {
            r.cut = r.requests == r.limit;
            for (size_t i = 0; i < r.classifiers.n && !r.cut; ++i)
                r.cut = !simulate_classify(&r.classifiers.all[i], &l, &cls);
            r.requests += !r.cut;
        }
        if (e == ERR_OK)
            e = ctl_close(r.in.in, r.in.file, &r.o.diag);
        if (e == ERR_OK && r.requests == 0) {
            diag_add(&r.o.diag, r.o.words[0], 0, 0, "no requests%s%s",
                     r.in.bad_why != NULL ? ": " : "", r.in.bad_why != NULL ? r.in.bad_why : "");
            e = ERR_SYNTAX;
        }
        if (e == ERR_OK)
            print_all(&r, &r.o.out);
        code = ctl_finish(&r.o, e);
    }
    simulate_classifiers_fini(&r.classifiers);
    return code;
}

static const struct ctl_flag flags[] = {
    {'c', "classifier", "SPEC", "host segment path regex:",
     "host (default), segment (of the path: its first), path or regex:VARIABLE:PATTERN; may be "
     "given several times",
     SIMULATE_CLASSIFIERS(struct classify_run, classifiers, SIMULATE_CLASSIFIERS_MAX)},
    {0, "config", "FILE", CTL_FILES, "the one that a load balancer is configured with",
     CTL_TEXT(struct classify_run, config_file)},
    {'A', "application", "NAME", NULL, "... for this application",
     CTL_TEXT(struct ctl_options, application)},
    {'n', "top", "N", NULL, "number of classes (20); 0: all",
     CTL_NUMBER(struct ctl_options, top, 0, TOP_MAX)},
    {'r', "requests", "N", NULL, "only the first requests, up to this number",
     CTL_NUMBER(struct classify_run, limit, 1, REQUESTS_MAX)},
    CTL_FLAG_JSON,
    CTL_FLAG_HELP,
};
const struct ctl_command ctl_word_classify = {
    .name = "classify",
    .arguments = "FILE",
    .summary = "classes that a classifier makes of an access log or a list of URLs",
    .text = "FILE has lines of an access log (combined or common, with or without the virtual "
            "host first,\nour own in JSON), or URLs; - is standard input. Prints the classes, the "
            "largest first, and\nwarns of what may make a classifier useless.\n",
    .completes = CTL_FILES,
    CTL_FLAGS(flags),
    .run = sim_classify_main,
};
