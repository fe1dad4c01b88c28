/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of a simulation: policies, classifiers, and access logs.
 */
#include "common/config/settings.h"
#include "ctl/simulate/simulate.h"
#include "routing/pool.h"

#include <stdlib.h>

/* ---- policies ---- */

/*
 * Policies and settings have the names that they have in a configuration: the rows of scope POOL in
 * routing/pool_settings.def, so that new ones are known here.
 */

struct pool_values {
#define POOL(...) SETTINGS_FIELD(__VA_ARGS__)
#include "routing/pool_settings.def"
};

static const struct setting_row rows[] = {
#define POOL(...) SETTINGS_ROW(struct pool_values, __VA_ARGS__)
#include "routing/pool_settings.def"
};

static const struct settings_table table = {.scope = "POOL",
                                            .where = "pool of an application",
                                            .rows = rows,
                                            .n = ARRAY_LEN(rows),
                                            .bytes = sizeof(struct pool_values)};

#define POLICY "policy"

/* Settings that only one policy uses, or (POOL_POLICIES) that have no effect on simulated workers:
 * versions and dormant slots. Others are valid for every policy. */
static const struct owned {
    const char *setting;
    enum pool_policy policy;
} owned[] = {
    {"variance", POOL_POLICY_RESUME},
    {"backlog_history", POOL_POLICY_RESUME},
    {"unskilled_score", POOL_POLICY_RESUME},
    {"max_share", POOL_POLICY_ADAPTIVE},
    {"max_share_always", POOL_POLICY_ADAPTIVE},
    {"hash_balance_factor", POOL_POLICY_HASH},
    {"single_version", POOL_POLICIES},
    {"spawn_backlog", POOL_POLICIES},
    {"spawn_after", POOL_POLICIES},
    {POLICY, POOL_POLICIES},
};

/* Whether the policy of S, or its shadow policy, uses SETTING. */
static bool has_effect(const struct pool_settings *s, struct slice setting)
{
    for (size_t i = 0; i < ARRAY_LEN(owned); ++i) {
        enum pool_policy by = owned[i].policy;

        if (slice_is(setting, owned[i].setting))
            return s->policy == by || (s->shadowed && s->shadow == by);
    }
    return true;
}

static bool set_value(struct pool_values *v, struct slice name, struct slice value, struct diag *d)
{
    const struct setting_row *row = settings_find(&table, name);
    char why[SETTINGS_WHY_ROOM];

    /* check_names lists the valid names when a name is unknown. */
    if (row == NULL || settings_set(row, value, v, why) == ERR_OK)
        return true;
    diag_add(d, NULL, 0, 0, "--policy: %.*s: %s", SLICE_FMT(name), why);
    return false;
}

/* The setting's name at the front of REST, with its value. */
static struct slice cut_setting(struct slice *rest, struct slice *value)
{
    *value = slice_cut(rest, ':');
    return slice_cut(value, '=');
}

/* Whether each of SETTINGS is used by S's policy and occurs once. Problems are added to D. */
static bool check_names(const struct pool_settings *s, struct slice settings, struct diag *d)
{
    bool given[ARRAY_LEN(rows)] = {false};
    struct text names = {0};
    struct slice value;

    while (settings.len != 0) {
        struct slice name = cut_setting(&settings, &value);
        const struct setting_row *row = settings_find(&table, name);

        if (row == NULL || !has_effect(s, name)) {
            for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
                if (has_effect(s, slice_of(rows[i].name)))
                    text_addf(&names, "%s%s", names.len != 0 ? ", " : "", rows[i].name);
            }
            diag_add(d, NULL, 0, 0, "--policy: %s has no setting '%.*s' here: it has %s",
                     pool_policy_text(s->policy), SLICE_FMT(name), text_cstr(&names));
            text_fini(&names);
            return false;
        }
        if (given[row - rows]) {
            diag_add(d, NULL, 0, 0, "--policy: duplicate %.*s", SLICE_FMT(name));
            return false;
        }
        given[row - rows] = true;
    }
    return true;
}

/* NAME:SETTING=VALUE:SETTING=VALUE */
static bool read_one(struct slice spec, struct simulate_policy *out, struct diag *d)
{
    enum { WAITING_MAX = 1000 };
    struct pool_values v;
    struct slice rest = spec, value;
    struct slice name = slice_cut(&rest, ':');
    struct slice given = rest;

    if (spec.len != 0 && spec.p[spec.len - 1] == ':') {
        diag_add(d, NULL, 0, 0, "--policy: %.*s: expected SETTING=VALUE", SLICE_FMT(spec));
        return false;
    }
    settings_defaults(&table, &v);
    bool good = set_value(&v, slice_of(POLICY), name, d);
    while (good && rest.len != 0) {
        struct slice setting = cut_setting(&rest, &value);

        good = slice_is(setting, POLICY) || set_value(&v, setting, value, d);
    }
    struct pool_settings settings = POOL_SETTINGS_OF(&v);
    settings.max_waiting = WAITING_MAX;
    good = good && check_names(&settings, given, d);
    if (good && !pool_hash_balances(settings.hash_balance_percent)) {
        diag_add(d, NULL, 0, 0,
                 "--policy: hash_balance_factor: must be above 100, or 0 for no bound");
        good = false;
    }
    if (good)
        *out = (struct simulate_policy){.label = xslicedup(spec), .settings = settings};
    settings_fini(&table, &v);
    return good;
}

bool simulate_read_policies(const char *list, struct simulate_policy *out, size_t *n,
                            struct diag *d)
{
    bool all = strcmp(list, "all") == 0;
    /* The choices of the setting `policy`, with '|' between. */
    struct slice rest = slice_of(all ? settings_find(&table, slice_of(POLICY))->min : list);

    if (rest.len == 0 || rest.p[rest.len - 1] == ',') {
        diag_add(d, NULL, 0, 0, "--policy: '%s' does not name a policy%s", list,
                 rest.len != 0 ? " after its last comma" : "");
        return false;
    }
    while (rest.len != 0) {
        struct slice spec = slice_cut(&rest, all ? '|' : ',');

        if (*n == SIMULATE_POLICIES_MAX) {
            diag_add(d, NULL, 0, 0, "--policy: more than %d", SIMULATE_POLICIES_MAX);
            return false;
        }
        for (size_t i = 0; i < *n; ++i) {
            if (slice_is(spec, out[i].label)) {
                diag_add(d, NULL, 0, 0, "--policy: duplicate %.*s", SLICE_FMT(spec));
                return false;
            }
        }
        if (!read_one(spec, &out[*n], d))
            return false;
        ++*n;
    }
    return true;
}

bool simulate_vary_policy(const struct simulate_policy *from, const char *setting,
                          const char *value, struct simulate_policy *out)
{
    struct text spec = {0};
    struct diag d = {0};
    struct slice rest = slice_of(from->label), old;

    text_add(&spec, slice_cut(&rest, ':'));
    while (rest.len != 0) {
        struct slice name = cut_setting(&rest, &old);

        if (!slice_is(name, setting))
            text_addf(&spec, ":%.*s=%.*s", SLICE_FMT(name), SLICE_FMT(old));
    }
    text_addf(&spec, ":%s=%s", setting, value);
    bool good = read_one(text_slice(&spec), out, &d);
    diag_fini(&d);
    text_fini(&spec);
    return good;
}

/* ---- classifiers ---- */

/* Short names of common classifiers; others are a regex. */
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
    for (size_t i = 0; i < s.len; ++i)
        text_addf(out, s.p[i] == '\'' ? "'%c" : "%c", s.p[i]);
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
                 "--classifier: expected host, segment, path or regex:VARIABLE:PATTERN, not '%s'",
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

int simulate_add_classifier(const struct ctl_options *o, struct simulate_classifiers *c,
                            const char *spec)
{
    struct simulate_classifier *out = &c->all[c->n];
    struct diag d = {0};
    struct text yaml = {0};

    *out = (struct simulate_classifier){0};
    if (spell_out(spec, &yaml, &d) &&
        config_parse("--classifier", text_slice(&yaml), &out->config, &d)) {
        out->classifier =
            classifier_create(&out->config, config_get(out->config.root, "classifier"), &d);
        if (out->classifier == NULL)
            config_fini(&out->config);
    }
    text_fini(&yaml);
    if (out->classifier == NULL)
        return ctl_usage_problems(o->command, &d);
    out->label = xstrdup(spec);
    ++c->n;
    return CTL_OK;
}

int simulate_take_classifier(struct ctl_options *o, const struct ctl_flag *f, const char *spec)
{
    struct simulate_classifiers *c = (void *)((char *)o + f->at);

    if (c->n < f->max)
        return simulate_add_classifier(o, c, spec);
    return f->max == 1 ? ctl_usage_error(o->command, "one --classifier is enough", NULL)
                       : ctl_usage_error(o->command, "--classifier: too many", spec);
}

static void plan_classes_fini(struct plan_classes *c)
{
    free(c->of);
    names_fini(&c->names);
    *c = (struct plan_classes){.of = NULL};
}

void simulate_classifiers_fini(struct simulate_classifiers *all)
{
    for (size_t i = 0; i < all->n; ++i) {
        struct simulate_classifier *c = &all->all[i];

        plan_classes_fini(&c->classes);
        classifier_destroy(c->classifier);
        config_fini(&c->config);
        free(c->label);
    }
    all->n = 0;
}

struct environment {
    struct rlb_environment base;
    const struct access_line *line;
    struct slice path; /* decoded */
};

static const char *get_variable(const struct rlb_environment *base, const char *name, size_t *len)
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

    path.len = percent_decode(line->path, text_reserve(&path, line->path.len), line->path.len);
    struct environment e = {.base.get = get_variable, .line = line, .path = text_slice(&path)};
    size_t len = classifier_classify(c->classifier, &e.base, name);
    text_fini(&path);
    return names_intern(&c->classes.names, (struct slice){name, len}, out);
}

enum err simulate_classify_plan(struct simulate_classifiers *all, const struct plan *p)
{
    const struct trace *t = &p->trace;

    for (size_t i = 0; i < all->n; ++i) {
        struct simulate_classifier *c = &all->all[i];

        plan_classes_fini(&c->classes);
        c->classes.of = xcalloc(t->n + 1, sizeof(c->classes.of[0]));
        for (size_t k = 0; k < t->n; ++k) {
            const struct trace_page *page = &t->pages[t->requests[k].page];
            struct access_line line = {.method = SLICE_LIT("GET"),
                                       .path = trace_path(t, page),
                                       .host = trace_host(t, page),
                                       .client = SLICE_LIT("127.0.0.1")};

            if (!simulate_classify(c, &line, &c->classes.of[k]))
                return ERR_TOO_LARGE;
        }
    }
    return ERR_OK;
}

/* ---- a log as a trace ---- */

/*
 * Of a page the log has only the path. The objects that it needs are drawn by a hash of host and
 * path: three quarters are its own, the rest from 32 that all pages of the host share (templates,
 * navigation). The first half of the log is the learning phase.
 */

enum { SHARED_OBJECTS = 32, SHARED_ONE_IN = 4 };

/* A log that is read. */
struct log_reader {
    struct simulate *s;
    struct names pages; /* HOST PATH, with the numbers of the trace's pages */
    struct trace trace;
    size_t rooms[SIMULATE_CLASSIFIERS_MAX]; /* of each one's classes */
    uint64_t first_ms;
};

static uint64_t hash_text(struct slice s)
{
    uint64_t h = s.len;

    for (size_t i = 0; i < s.len; ++i)
        h = draw_mix(h, (unsigned char)s.p[i]);
    return h;
}

/* Adds L. Sets *IS_CUT instead if there are too many pages or classes. Errors: ERR_TOO_LARGE. */
static enum err take_request(struct log_reader *r, const struct access_line *l, bool *is_cut)
{
    struct simulate_classifiers *c = &r->s->classifiers;
    uint64_t objects[TRACE_PAGE_OBJECTS_MAX];
    size_t n = r->trace.n;
    struct text key = {0};
    uint32_t page;
    enum err e = ERR_OK;

    text_add(&key, l->host);
    text_add_char(&key, ' ');
    text_add(&key, l->path);
    bool good = names_intern(&r->pages, text_slice(&key), &page);
    text_fini(&key);
    for (size_t i = 0; i < c->n && good; ++i) {
        uint32_t **of = &c->all[i].classes.of;

        *of = xgrow(*of, n + 1, &r->rooms[i], sizeof(**of));
        good = simulate_classify(&c->all[i], l, &(*of)[n]);
    }
    *is_cut = !good;
    if (!good)
        return ERR_OK;
    if (n == 0)
        r->first_ms = l->time_ms;
    if (page == r->trace.npages) {
        uint32_t requested = r->s->plan.workload.request_objects;
        uint64_t site = hash_text(l->host);
        struct draw d = draw_of(draw_mix(site, hash_text(l->path)));
        size_t nobjects = 0;

        for (uint32_t i = 0; i < requested; ++i) {
            bool shared = i < requested / SHARED_ONE_IN;
            size_t k = 0;

            objects[nobjects] =
                shared ? draw_mix(site, draw_below(&d, SHARED_OBJECTS)) : draw_bits(&d);
            /* One that was drawn before does not count. */
            while (objects[k] != objects[nobjects])
                ++k;
            nobjects += k == nobjects;
        }
        e = trace_add_page(&r->trace, l->host, l->path, objects, nobjects, &page);
    }
    struct workload_request q = {
        .due_ns = (l->time_ms - r->first_ms) * 1000000, .page = page, .factor = 1};
    return e == ERR_OK ? trace_add_request(&r->trace, &q) : e;
}

enum err simulate_read_log(struct simulate *s, struct plan **out, struct diag *d)
{
    enum { REQUESTS_MIN = 2 };
    struct log_reader r = {.s = s};
    struct simulate_log *log = &s->log;
    struct access_line l;
    enum err e = requests_open(s->log_file, &log->in, d);

    if (e != ERR_OK)
        return e;
    log->in.logs_only = true;
    while (e == ERR_OK && !log->cut && requests_next(&log->in, &l)) {
        log->cut = r.trace.n == (s->requests != 0 ? s->requests : TRACE_REQUESTS_MAX);
        if (!log->cut)
            e = take_request(&r, &l, &log->cut);
    }
    log->requests = r.trace.n;
    enum err closed = ctl_close(log->in.in, s->log_file, d);
    if (e != ERR_OK) {
        diag_add(d, s->log_file, 0, 0, "%s", err_text(e));
    } else if (closed == ERR_OK && r.trace.n < REQUESTS_MIN) {
        diag_add(d, s->log_file, 0, 0, "fewer than two requests");
        e = ERR_SYNTAX;
    } else if (closed == ERR_OK) {
        struct workload_request *all = r.trace.requests;
        struct draw draw = draw_of(s->plan.workload.seed);
        double due_s = 0;

        log->span_s = (double)all[r.trace.n - 1].due_ns / 1e9;
        if (s->plan.rate > 0) {
            /* Due times of a rate, in place of the log's. */
            for (size_t i = 0; i < r.trace.n; ++i) {
                due_s += draw_exponential(&draw) / s->plan.rate;
                all[i].due_ns = (uint64_t)(due_s * 1e9);
            }
        } else {
            requests_spread(&log->in, &all->due_ns, sizeof(*all), r.trace.n);
        }
        *out = plan_replay(&s->plan, &r.trace);
    }
    trace_fini(&r.trace);
    names_fini(&r.pages);
    return e != ERR_OK ? e : closed;
}
