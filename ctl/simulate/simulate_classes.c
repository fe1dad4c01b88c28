/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of a log as the environment that classifiers see, and classes as numbers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/simulate/simulate.h"

/* Short names for what is asked for most; the rest is a regex. */
static const struct {
    const char *name;
    const char *yaml;
} known[] = {
    {"host", "classifier: host\n"},
    {"segment", "classifier: {regex: {variable: PATH_INFO, pattern: '^/(?P<class>[^/]+)'}}\n"},
    {"path", "classifier: {regex: {variable: PATH_INFO, pattern: '^(?P<class>.*)$'}}\n"},
};

/* A text in single quotes of YAML. */
static void add_quoted(struct text *out, struct slice s)
{
    text_add_char(out, '\'');
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] == '\'')
            text_add_char(out, '\'');
        text_add_char(out, s.p[i]);
    }
    text_add_char(out, '\'');
}

/* The configuration that SPEC is short for. */
static bool spell_out(const char *spec, struct text *yaml, struct diag *d)
{
    struct slice rest = slice_of(spec);

    for (size_t i = 0; i < ARRAY_LEN(known); ++i) {
        if (slice_is(rest, known[i].name)) {
            text_add(yaml, slice_of(known[i].yaml));
            return true;
        }
    }
    struct slice kind = slice_cut(&rest, ':');
    struct slice variable = slice_cut(&rest, ':');
    if (!slice_is(kind, "regex") || variable.len == 0 || rest.len == 0) {
        diag_add(d, NULL, 0, 0,
                 "--classifier: want host, segment, path or regex:VARIABLE:PATTERN, not '%s'",
                 spec);
        return false;
    }
    text_add(yaml, SLICE_LIT("classifier: {regex: {variable: "));
    add_quoted(yaml, variable);
    text_add(yaml, SLICE_LIT(", pattern: "));
    add_quoted(yaml, rest);
    text_add(yaml, SLICE_LIT("}}\n"));
    return true;
}

bool simulate_read_classifier(const char *spec, struct simulate_classifier *out, struct diag *d)
{
    struct text yaml = {0};

    *out = (struct simulate_classifier){0};
    bool good = spell_out(spec, &yaml, d) &&
                config_parse("--classifier", text_slice(&yaml), &out->config, d);
    if (good) {
        out->classifier =
            classifier_create(&out->config, config_get(out->config.root, "classifier"), d);
        good = out->classifier != NULL;
        if (!good)
            config_fini(&out->config);
    }
    if (good)
        out->label = xstrdup(spec);
    text_fini(&yaml);
    return good;
}

void simulate_forget_classes(struct simulate_classifier *c)
{
    for (size_t i = 0; i < PLAN_PHASES_MAX; ++i) {
        free(c->classes.of[i]);
        c->classes.of[i] = NULL;
    }
    if (c->classes.names.slots != NULL)
        names_fini(&c->classes.names);
}

void simulate_classifier_fini(struct simulate_classifier *c)
{
    simulate_forget_classes(c);
    classifier_destroy(c->classifier);
    config_fini(&c->config);
    free(c->label);
    *c = (struct simulate_classifier){0};
}

/* ---- the environment ---- */

struct environment {
    struct rlb_environment base;
    const struct access_line *line;
    struct slice path; /* decoded */
};

static const char *get(const struct rlb_environment *base, const char *name, size_t *len)
{
    const struct environment *e = container_of((void *)(uintptr_t)base, struct environment, base);
    const struct access_line *l = e->line;
    const struct {
        const char *name;
        struct slice value;
    } variables[] = {
        {"PATH_INFO", e->path},         {"HTTP_HOST", l->host},
        {"SERVER_NAME", l->host},       {"REQUEST_METHOD", l->method},
        {"QUERY_STRING", l->query},     {"REMOTE_ADDR", l->client},
        {"HTTP_REFERER", l->referer},   {"HTTP_USER_AGENT", l->agent},
        {"SCRIPT_NAME", SLICE_LIT("")}, {"wsgi.url_scheme", SLICE_LIT("http")},
    };

    for (size_t i = 0; i < ARRAY_LEN(variables); ++i) {
        if (strcmp(name, variables[i].name) == 0 && variables[i].value.p != NULL) {
            *len = variables[i].value.len;
            return variables[i].value.p;
        }
    }
    return NULL;
}

bool simulate_classify(struct simulate_classifier *c, const struct access_line *line, uint32_t *out)
{
    struct text path = {0};
    char name[CLASS_BYTES_MAX];

    if (c->classes.names.slots == NULL)
        names_init(&c->classes.names, SIMULATE_CLASSES_MAX);
    text_clear(&path);
    path.len = percent_decode(line->path, text_reserve(&path, line->path.len), line->path.len);
    struct environment e = {.base.get = get, .line = line, .path = text_slice(&path)};
    size_t len = classifier_classify(c->classifier, &e.base, name);
    text_fini(&path);
    return names_intern(&c->classes.names, (struct slice){name, len}, out);
}

bool simulate_classify_plan(struct simulate_classifier *c, const struct plan *p)
{
    simulate_forget_classes(c);
    for (size_t i = 0; i < p->nphases; ++i) {
        const struct trace *t = &p->phases[i].trace;

        c->classes.of[i] = xcalloc(t->n != 0 ? t->n : 1, sizeof(uint32_t));
        for (size_t k = 0; k < t->n; ++k) {
            const struct trace_page *page = &t->pages[t->requests[k].page];
            struct access_line line = {.method = SLICE_LIT("GET"),
                                       .path = trace_path(t, page),
                                       .host = trace_host(t, page),
                                       .client = SLICE_LIT("127.0.0.1")};

            if (!simulate_classify(c, &line, &c->classes.of[i][k]))
                return false;
        }
    }
    return true;
}
