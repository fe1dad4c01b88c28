/* SPDX-License-Identifier: Apache-2.0
 *
 * What is simulated, as it is given: policies, classifiers, and access logs.
 */
#include "common/config/settings.h"
#include "ctl/simulate/simulate.h"
#include "routing/pool.h"

#include <stdlib.h>

/* ---- policies ---- */

/*
 * By the names that they and their settings have in a configuration: the rows of scope POOL in
 * routing/pool_settings.def, so that what is new there is known here.
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

static const char POLICY[] = "policy";

/* Settings that one policy alone goes by: with another they would change nothing. */
static const struct owned {
    const char *setting;
    enum pool_policy policy;
} owned[] = {
    {"variance", POOL_POLICY_RESUME},           {"backlog_history", POOL_POLICY_RESUME},
    {"unskilled_score", POOL_POLICY_RESUME},    {"max_share", POOL_POLICY_ADAPTIVE},
    {"max_share_always", POOL_POLICY_ADAPTIVE}, {"hash_balance_factor", POOL_POLICY_HASH},
};

/* Settings without effect on simulated workers: versions, and dormant slots. */
static const char *const without_effect[] = {"single_version", "spawn_backlog", "spawn_after"};

/* The choices of the setting `policy`, with '|' between. */
static struct slice choices(void)
{
    return slice_of(settings_find(&table, slice_of(POLICY))->min);
}

void simulate_policy_names(struct text *out)
{
    struct slice rest = choices();

    while (rest.len != 0) {
        text_add(out, slice_cut(&rest, '|'));
        if (rest.len != 0)
            text_add(out, SLICE_LIT(", "));
    }
}

static bool obeys(const struct pool_settings *s, enum pool_policy policy)
{
    return s->policy == policy || (s->shadowed && s->shadow == policy);
}

/* Whether the policy of S, or the shadow beside it, could go by SETTING. */
static bool has_effect(const struct pool_settings *s, struct slice setting)
{
    if (slice_is(setting, POLICY))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(without_effect); ++i) {
        if (slice_is(setting, without_effect[i]))
            return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(owned); ++i) {
        if (slice_is(setting, owned[i].setting))
            return obeys(s, owned[i].policy);
    }
    return true;
}

static void complain_of_setting(const struct pool_settings *s, struct slice setting, struct diag *d)
{
    struct text names = {0};

    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        if (has_effect(s, slice_of(rows[i].name)))
            text_addf(&names, "%s%s", names.len != 0 ? ", " : "", rows[i].name);
    }
    diag_add(d, NULL, 0, 0, "--policy: %s has no setting '%.*s' here: it has %s",
             pool_policy_text(s->policy), SLICE_FMT(setting), text_cstr(&names));
    text_fini(&names);
}

static bool set(struct pool_values *v, struct slice name, struct slice value, struct diag *d)
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

static bool is_given(struct slice settings, struct slice name)
{
    struct slice value;

    while (settings.len != 0) {
        if (slice_eq(cut_setting(&settings, &value), name))
            return true;
    }
    return false;
}

/* Whether each of SETTINGS is one of S's policy, and there once. */
static bool check_names(const struct pool_settings *s, struct slice settings, struct diag *d)
{
    struct slice rest = settings, value;

    while (rest.len != 0) {
        struct slice name = cut_setting(&rest, &value);

        if (settings_find(&table, name) == NULL || !has_effect(s, name)) {
            complain_of_setting(s, name, d);
            return false;
        }
        if (is_given(rest, name)) {
            diag_add(d, NULL, 0, 0, "--policy: duplicate %.*s", SLICE_FMT(name));
            return false;
        }
    }
    return true;
}

static bool check_values(const struct pool_settings *s, struct diag *d)
{
    if (pool_hash_balances(s->hash_balance_percent))
        return true;
    diag_add(d, NULL, 0, 0, "--policy: hash_balance_factor: must be above 100, or 0 for no bound");
    return false;
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
    bool good = set(&v, slice_of(POLICY), name, d);
    while (good && rest.len != 0) {
        struct slice setting = cut_setting(&rest, &value);

        good = slice_is(setting, POLICY) || set(&v, setting, value, d);
    }
    struct pool_settings settings = POOL_SETTINGS_OF(&v);
    if (good && check_names(&settings, given, d) && check_values(&settings, d)) {
        out->label = xslicedup(spec);
        out->settings = settings;
        out->settings.max_waiting = WAITING_MAX;
    } else {
        good = false;
    }
    settings_fini(&table, &v);
    return good;
}

/* Whether one of the N before has that label: it would be the same line twice. */
static bool is_there(const struct simulate_policy *policies, size_t n, struct slice label)
{
    for (size_t i = 0; i < n; ++i) {
        if (slice_is(label, policies[i].label))
            return true;
    }
    return false;
}

bool simulate_read_policies(const char *list, struct simulate_policy *out, size_t *n,
                            struct diag *d)
{
    bool all = strcmp(list, "all") == 0;
    struct slice rest = all ? choices() : slice_of(list);

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
        if (is_there(out, *n, spec)) {
            diag_add(d, NULL, 0, 0, "--policy: duplicate %.*s", SLICE_FMT(spec));
            return false;
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

void simulate_policy_fini(struct simulate_policy *p)
{
    free(p->label);
    p->label = NULL;
}

/* ---- classifiers ---- */

/*
 * Requests of a log as the environment that classifiers see, and classes as numbers.
 */

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

static void simulate_forget_classes(struct simulate_classifier *c)
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

/* ---- a log as a trace ---- */

/*
 * Of a page the log has only the path; the objects that it needs are taken by a hash of host and
 * path: three quarters are its own, the rest from 32 that all pages of the host share (templates,
 * navigation). Its first half is there to learn from.
 */

enum { SHARED_OBJECTS = 32, SHARED_ONE_IN = 4, MS_PER_S = 1000 };

static const uint64_t NS_PER_MS = 1000000;

/* A log that is read, into one trace per half. */
struct reader {
    struct simulate *s;
    struct names pages; /* HOST PATH */
    uint32_t *page_of;  /* request -> page */
    uint64_t *time_ms;
    uint32_t *classes[SIMULATE_CLASSIFIERS_MAX];
    size_t n, requests_room;
    size_t max;
    bool is_fine; /* times have milliseconds */
};

static uint64_t hash(struct slice s)
{
    uint64_t h = s.len;

    for (size_t i = 0; i < s.len; ++i)
        h = draw_mix(h, (unsigned char)s.p[i]);
    return h;
}

/* The objects of a page; how many. Some may be drawn twice: they are fewer then. */
static size_t page_objects(struct slice host, struct slice path, uint32_t wanted, uint64_t *out)
{
    uint64_t site = hash(host);
    struct draw d = draw_of(draw_mix(site, hash(path)));
    size_t n = 0;

    for (uint32_t i = 0; i < wanted; ++i) {
        bool shared = i < wanted / SHARED_ONE_IN;
        uint64_t object = shared ? draw_mix(site, draw_below(&d, SHARED_OBJECTS)) : draw_bits(&d);
        size_t k = 0;

        while (k < n && out[k] != object)
            ++k;
        out[k] = object;
        n += k == n;
    }
    return n;
}

static void make_room(struct reader *r)
{
    enum { FIRST_ROOM = 4096 };

    if (r->n < r->requests_room)
        return;
    r->requests_room = r->requests_room != 0 ? r->requests_room * 2 : FIRST_ROOM;
    r->page_of = xrealloc(r->page_of, r->requests_room * sizeof(r->page_of[0]));
    r->time_ms = xrealloc(r->time_ms, r->requests_room * sizeof(r->time_ms[0]));
    for (size_t i = 0; i < r->s->nclassifiers; ++i)
        r->classes[i] = xrealloc(r->classes[i], r->requests_room * sizeof(uint32_t));
}

/* Returns false if there are too many pages or classes. */
static bool take_request(struct reader *r, const struct access_line *l)
{
    struct text key = {0};

    make_room(r);
    text_add(&key, l->host);
    text_add_char(&key, ' ');
    text_add(&key, l->path);
    bool good = names_intern(&r->pages, text_slice(&key), &r->page_of[r->n]);
    text_fini(&key);
    for (size_t i = 0; i < r->s->nclassifiers && good; ++i)
        good = simulate_classify(&r->s->classifiers[i], l, &r->classes[i][r->n]);
    r->time_ms[r->n] = l->time_ms;
    r->is_fine = r->is_fine || l->time_ms % MS_PER_S != 0;
    r->n += good;
    return good;
}

/* ---- from requests to traces ---- */

static enum err add_page(const struct reader *r, uint32_t page, struct trace *t, uint32_t *out)
{
    uint64_t objects[TRACE_PAGE_OBJECTS_MAX];
    struct slice path = names_get(&r->pages, page);
    struct slice host = slice_cut(&path, ' ');
    size_t n = page_objects(host, path, r->s->plan.workload.request_objects, objects);

    return trace_add_page(t, host, path, objects, n, out);
}

/*
 * When a request is due. Logs have whole seconds: requests of one second are spread over it. A line
 * is written when its request is done, so times may decrease a little; then the previous time is
 * used.
 */
static void due_times(const struct reader *r, uint64_t *due_ns)
{
    uint64_t last_ms = r->n != 0 ? r->time_ms[0] : 0;
    uint64_t span_ns = (r->is_fine ? 1 : MS_PER_S) * NS_PER_MS;

    for (size_t i = 0; i < r->n;) {
        uint64_t now_ms = r->time_ms[i] > last_ms ? r->time_ms[i] : last_ms;
        size_t end = i;

        while (end < r->n && r->time_ms[end] <= now_ms)
            ++end;
        for (size_t k = i; k < end; ++k)
            due_ns[k] = (now_ms - r->time_ms[0]) * NS_PER_MS + span_ns * (k - i) / (end - i);
        last_ms = now_ms;
        i = end;
    }
}

static void rate_times(const struct reader *r, uint64_t *due_ns)
{
    struct draw d = draw_of(r->s->plan.workload.seed);
    double due_s = 0;

    for (size_t i = 0; i < r->n; ++i) {
        due_s += draw_exponential(&d) / r->s->plan.rate;
        due_ns[i] = (uint64_t)(due_s * 1e9);
    }
}

/* Requests FROM .. TO, the first due at once. */
static enum err make_trace(const struct reader *r, const uint64_t *due_ns, size_t from, size_t to,
                           struct trace *t)
{
    uint32_t *pages = xmalloc((r->pages.n + 1) * sizeof(pages[0]));
    enum err e = ERR_OK;

    memset(pages, 0xff, (r->pages.n + 1) * sizeof(pages[0]));
    for (size_t i = from; i < to && e == ERR_OK; ++i) {
        uint32_t *page = &pages[r->page_of[i]];

        if (*page == UINT32_MAX)
            e = add_page(r, r->page_of[i], t, page);
        struct trace_request q = {.due_ns = due_ns[i] - due_ns[from], .page = *page, .factor = 1};
        if (e == ERR_OK)
            e = trace_add_request(t, &q);
    }
    free(pages);
    return e;
}

static uint32_t *slice_classes(const uint32_t *all, size_t from, size_t to)
{
    uint32_t *out = xcalloc(to > from ? to - from : 1, sizeof(out[0]));

    if (to > from)
        memcpy(out, all + from, (to - from) * sizeof(out[0]));
    return out;
}

static enum err make_plan(struct reader *r, struct plan **out)
{
    struct simulate *s = r->s;
    struct trace halves[2] = {0};
    size_t half = r->n / 2;
    uint64_t *due_ns = xcalloc(r->n + 1, sizeof(due_ns[0]));

    if (s->plan.rate > 0)
        rate_times(r, due_ns);
    else
        due_times(r, due_ns);
    s->log.span_s = r->n != 0 ? (double)(r->time_ms[r->n - 1] - r->time_ms[0]) / 1e3 : 0;
    enum err e = make_trace(r, due_ns, 0, half, &halves[0]);
    if (e == ERR_OK)
        e = make_trace(r, due_ns, half, r->n, &halves[1]);
    if (e == ERR_OK)
        *out = plan_replay(&s->plan, &halves[0], &halves[1]);
    for (size_t i = 0; i < s->nclassifiers && e == ERR_OK; ++i) {
        s->classifiers[i].classes.of[0] = slice_classes(r->classes[i], 0, half);
        s->classifiers[i].classes.of[1] = slice_classes(r->classes[i], half, r->n);
    }
    trace_fini(&halves[0]);
    trace_fini(&halves[1]);
    free(due_ns);
    return e;
}

static void reader_fini(struct reader *r)
{
    for (size_t i = 0; i < SIMULATE_CLASSIFIERS_MAX; ++i)
        free(r->classes[i]);
    free(r->time_ms);
    free(r->page_of);
    names_fini(&r->pages);
}

enum err simulate_read_log(struct simulate *s, struct plan **out, struct diag *d)
{
    enum { REQUESTS_MIN = 2 };
    struct reader r = {.s = s};
    struct simulate_log *log = &s->log;
    struct access_line l;
    enum err e = requests_open(s->log_file, &log->in, d);

    if (e != ERR_OK)
        return e;
    log->in.logs_only = true;
    r.max = s->requests != 0 && s->requests < TRACE_REQUESTS_MAX ? s->requests : TRACE_REQUESTS_MAX;
    names_init(&r.pages, TRACE_REQUESTS_MAX);
    while (!log->cut && requests_next(&log->in, &l))
        log->cut = r.n == r.max || !take_request(&r, &l);
    log->requests = r.n;
    e = requests_close(&log->in, d);
    if (e == ERR_OK && r.n < REQUESTS_MIN) {
        diag_add(d, s->log_file, 0, 0, "fewer than two requests");
        e = ERR_SYNTAX;
    } else if (e == ERR_OK) {
        e = make_plan(&r, out);
        if (e != ERR_OK)
            diag_add(d, s->log_file, 0, 0, "%s", err_text(e));
    }
    reader_fini(&r);
    return e;
}
