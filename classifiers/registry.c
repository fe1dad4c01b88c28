/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates classifiers from the configuration, and implements what all kinds have in common: the
 * encoding of the class, and the fingerprint, which distinguishes resumes of different
 * configurations.
 */
#include "classifiers/registry.h"
#include "classifiers/search.h"
#include "common/base/text.h"

#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- kinds of classifiers: a const table of functions, and a base struct as first member ---- */

/* No class, as returned by plugins. */
#define CLASSIFIER_NONE SIZE_MAX

/* Room for a reason. */
#define CLASSIFIER_WHY_ROOM 300

struct classifier_kind {
    const char *name;
    const struct settings_table *table; /* NULL: no settings */
    /* Creates a classifier from settings of the table, in which all required ones are set. Returns
     * NULL on error, with the reason, "NAME: ...", in WHY. */
    struct classifier *(*create)(const void *settings, char why[CLASSIFIER_WHY_ROOM]);
    /* Frees what the classifier refers to; NULL: nothing. */
    void (*destroy)(struct classifier *k);
    /*
     * Writes the raw class, at most CLASS_BYTES_MAX bytes, to OUT. Returns its length, or
     * CLASSIFIER_NONE if there is none or it is longer (its encoded form would be even longer).
     * Called by several threads at once.
     */
    size_t (*classify)(const struct classifier *k, const struct rlb_environment *env,
                       char out[CLASS_BYTES_MAX]);
    /* The same for kinds that use only the Host (p is NULL without one); NULL for other kinds. */
    size_t (*of_host)(struct slice host, char out[CLASS_BYTES_MAX]);
};

struct classifier {
    const struct classifier_kind *kind; /* set after creation */
    char fingerprint[FINGERPRINT_LEN + 1];
};

struct regex_settings {
#define REGEX(...) SETTINGS_FIELD(__VA_ARGS__)
#include "classifiers/settings.def"
};

struct plugin_settings {
#define PLUGIN(...) SETTINGS_FIELD(__VA_ARGS__)
#include "classifiers/settings.def"
};

/* Writes the reason to WHY; returns NULL. */
printf_like(2, 3) static void *plugin_fail(char why[CLASSIFIER_WHY_ROOM], const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, CLASSIFIER_WHY_ROOM, fmt, args);
    va_end(args);
    return NULL;
}

/* ---- fingerprints ---- */

/*
 * Sets the fingerprint: of the kind, the first of FIELDS, and of everything that determines its
 * classes. XXH3 without a seed gives the same result on every machine and in every release, between
 * which fingerprints are compared.
 */
static void set_fingerprint(struct classifier *k, const char *const *fields, size_t n)
{
    struct text t = {0};

    /* Each field with its length, so that different lists of fields yield different bytes. */
    for (size_t i = 0; i < n; ++i) {
        uint64_t len = htole64(strlen(fields[i]));

        text_add(&t, (struct slice){(const char *)&len, sizeof(len)});
        text_add(&t, slice_of(fields[i]));
    }
    snprintf(k->fingerprint, sizeof(k->fingerprint), "%016" PRIx64, XXH3_64bits(t.p, t.len));
    text_fini(&t);
}

/* ---- host ---- */

/*
 * The Host as a class, normalized: "WWW.Example.com.:8080" and "example.com" are the same class; an
 * IPv6 literal retains its brackets.
 */

static size_t host_of_host(struct slice host, char out[CLASS_BYTES_MAX])
{
    if (host.p == NULL)
        return CLASSIFIER_NONE;
    host = host_without_port(slice_trim(host));
    /* A trailing dot is the DNS root, which does not change the name. */
    if (host.len != 0 && host.p[host.len - 1] == '.')
        --host.len;
    if (host.len >= 4 && slice_eq_nocase((struct slice){host.p, 4}, SLICE_LIT("www.")))
        host = (struct slice){host.p + 4, host.len - 4};
    if (host.len > CLASS_BYTES_MAX)
        return CLASSIFIER_NONE;
    ascii_lower_copy(out, host);
    return host.len;
}

static size_t host_classify(unused_ const struct classifier *k, const struct rlb_environment *env,
                            char out[CLASS_BYTES_MAX])
{
    struct slice host = SLICE_NULL;

    host.p = env->get(env, "HTTP_HOST", &host.len);
    return host_of_host(host, out);
}

static struct classifier *host_create(unused_ const void *settings,
                                      unused_ char why[CLASSIFIER_WHY_ROOM])
{
    struct classifier *k = xcalloc(1, sizeof(*k));

    set_fingerprint(k, (const char *const[]){"host"}, 1);
    return k;
}

/* ---- regex ---- */

/*
 * A pattern that is searched in one variable. The client chooses the bytes, and the pattern may
 * backtrack, so a search that reaches a bound (search.h) finds nothing.
 */

enum { VARIABLE_BYTES_MAX = 100 };

struct regex {
    struct classifier super; /* first */
    char *variable;
    struct search *search;
    uint32_t group; /* number of the group "class" */
};

static size_t regex_classify(const struct classifier *k, const struct rlb_environment *env,
                             char out[CLASS_BYTES_MAX])
{
    const struct regex *r = (const struct regex *)(const void *)k;
    struct slice subject = SLICE_NULL;
    struct slice part;

    subject.p = env->get(env, r->variable, &subject.len);
    if (subject.p == NULL || search_run(r->search, subject, r->group, &part) != SEARCH_FOUND)
        return CLASSIFIER_NONE;
    if (part.p == NULL || part.len > CLASS_BYTES_MAX)
        return CLASSIFIER_NONE;
    memcpy(out, part.p, part.len);
    return part.len;
}

static void regex_destroy(struct classifier *k)
{
    struct regex *r = (struct regex *)(void *)k;

    search_destroy(r->search);
    free(r->variable);
}

static struct classifier *regex_create(const void *settings, char why[CLASSIFIER_WHY_ROOM])
{
    const struct regex_settings *s = settings;
    struct slice variable = slice_of(s->variable);
    char problem[SEARCH_WHY_ROOM];

    if (variable.len == 0 || variable.len > VARIABLE_BYTES_MAX || !slice_is_word(variable, "_."))
        return plugin_fail(why, "variable: expected a name such as PATH_INFO or HTTP_X_TENANT");
    struct search *search = search_compile(s->pattern, problem);
    if (search == NULL)
        return plugin_fail(why, "pattern: %s", problem);
    int group = search_group(search, "class");
    if (group <= 0) {
        search_destroy(search);
        return plugin_fail(why, "pattern: %s",
                           group < 0
                               ? "has several groups named class; use alternatives inside of one, "
                                 "or (?|...|...) around them"
                               : "has no group named class: (?<class>...)");
    }
    struct regex *r = xcalloc(1, sizeof(*r));
    r->variable = xstrdup(s->variable);
    r->search = search;
    r->group = (uint32_t)group;
    set_fingerprint(&r->super, (const char *const[]){"regex", s->variable, s->pattern}, 3);
    return &r->super;
}

/* ---- plugin ---- */

/*
 * A classifier from a shared object (classifier.h). It runs with all rights of the load balancer,
 * so only a YAML file can specify one. Its results are checked.
 */

/* Leaves room for its spelling (see below) within the limit of the system. */
enum { PLUGIN_PATH_MAX = 1024 };

struct plugin {
    struct classifier super; /* first */
    void *library;
    const struct rlb_classifier *contract;
    void *instance;
};

typedef const struct rlb_classifier *(*contract_fn)(void);

static size_t plugin_classify(const struct classifier *k, const struct rlb_environment *env,
                              char out[CLASS_BYTES_MAX])
{
    const struct plugin *p = (const struct plugin *)(const void *)k;
    size_t n = p->contract->classify(p->instance, env, out, CLASS_BYTES_MAX);

    return n <= CLASS_BYTES_MAX ? n : CLASSIFIER_NONE;
}

static void plugin_destroy(struct classifier *k)
{
    struct plugin *p = (struct plugin *)(void *)k;

    p->contract->destroy(p->instance);
    dlclose(p->library);
}

/* Returns the contract of LIBRARY, or NULL with the reason in WHY. */
static const struct rlb_classifier *find_contract(void *library, char why[CLASSIFIER_WHY_ROOM])
{
    contract_fn get;
    void *symbol = dlsym(library, "rlb_classifier");

    if (symbol == NULL)
        return plugin_fail(why, "path: not a classifier: it does not export rlb_classifier");
    /* POSIX, unlike ISO C, guarantees the conversion of an object pointer to a function pointer. */
    memcpy(&get, &symbol, sizeof(get));
    const struct rlb_classifier *c = get();
    if (c == NULL)
        return plugin_fail(why, "path: the plugin has no classifier");
    /* Nothing after the version may be read before it is known to match. */
    if (c->api != RLB_CLASSIFIER_API)
        return plugin_fail(why,
                           "path: built for version %u of the plugin contract, expected version %d",
                           c->api, RLB_CLASSIFIER_API);
    if (c->name == NULL || c->version == NULL || c->create == NULL || c->destroy == NULL ||
        c->classify == NULL)
        return plugin_fail(why, "path: the plugin does not implement all of the contract");
    return c;
}

/* Appends BITS as path elements without effect: "/." for a one, "/" for a zero. */
static void add_idle_elements(struct text *t, uint64_t bits)
{
    for (int i = 63; i >= 0; --i)
        text_add(t, (bits >> i & 1) != 0 ? SLICE_LIT("/.") : SLICE_LIT("/"));
}

/*
 * Loads PATH, spelled differently for each file. The dynamic linker treats an object
 * that is loaded under the same name as the same object, without checking the file: at a reload,
 * while the old classifier is still in use, a new version at the old path would not be loaded. The
 * directory stays the same, so $ORIGIN works.
 */
static void *plugin_load(const char *path, char why[CLASSIFIER_WHY_ROOM])
{
    const char *base = strrchr(path, '/');
    struct text spelt = {0};
    struct stat st;

    if (stat(path, &st) != 0)
        return plugin_fail(why, "path: cannot be loaded: %s", strerror(errno));
    text_add(&spelt, (struct slice){path, (size_t)(base - path)});
    add_idle_elements(&spelt, st.st_ino);
    add_idle_elements(&spelt, st.st_dev);
    text_add(&spelt, slice_of(base));
    void *library = dlopen(text_cstr(&spelt), RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        struct slice problem = slice_of(dlerror());

        /* "NAME: reason": NAME is the spelling, which is removed. */
        if (slice_starts(problem, text_slice(&spelt)))
            problem = (struct slice){problem.p + spelt.len, problem.len - spelt.len};
        plugin_fail(why, "path: cannot be loaded%.*s", SLICE_FMT(problem));
    }
    text_fini(&spelt);
    return library;
}

static struct classifier *plugin_create(const void *settings, char why[CLASSIFIER_WHY_ROOM])
{
    const struct plugin_settings *s = settings;

    /* A name without directory would be searched for in directories that others may write to. */
    if (s->path[0] != '/' || strlen(s->path) > PLUGIN_PATH_MAX)
        return plugin_fail(why, "path: must be absolute, and at most %d bytes", PLUGIN_PATH_MAX);
    void *library = plugin_load(s->path, why);
    if (library == NULL)
        return NULL;
    const struct rlb_classifier *contract = find_contract(library, why);
    char reason[160] = "";
    void *instance = contract != NULL ? contract->create(s->options, reason, sizeof(reason)) : NULL;
    if (instance == NULL) {
        struct text shown = {0};

        reason[sizeof(reason) - 1] = '\0';
        text_add_escaped(&shown, slice_of(reason));
        if (contract != NULL)
            plugin_fail(why, "options: rejected by the plugin: %s", text_cstr(&shown));
        text_fini(&shown);
        dlclose(library);
        return NULL;
    }
    struct plugin *p = xcalloc(1, sizeof(*p));
    p->library = library;
    p->contract = contract;
    p->instance = instance;
    /* The path is not included, as it may differ between machines. */
    set_fingerprint(&p->super,
                    (const char *const[]){"plugin", contract->name, contract->version, s->options},
                    4);
    return &p->super;
}

/* ---- the registry ---- */

static const struct setting_row regex_rows[] = {
#define REGEX(...) SETTINGS_ROW(struct regex_settings, __VA_ARGS__)
#include "classifiers/settings.def"
};
static const struct setting_row plugin_rows[] = {
#define PLUGIN(...) SETTINGS_ROW(struct plugin_settings, __VA_ARGS__)
#include "classifiers/settings.def"
};

static SETTINGS_TABLE_OF(NULL, 0, regex, "REGEX", "regex of a classifier", struct regex_settings);
static SETTINGS_TABLE_OF(NULL, 0, plugin, "PLUGIN", "plugin of a classifier",
                         struct plugin_settings);
const struct settings_table *const classifier_tables[CLASSIFIER_TABLES] = {&regex_table,
                                                                           &plugin_table};

static const struct classifier_kind kinds[] = {
    {.name = "host", .create = host_create, .classify = host_classify, .of_host = host_of_host},
    {.name = "regex",
     .table = &regex_table,
     .create = regex_create,
     .destroy = regex_destroy,
     .classify = regex_classify},
    {.name = "plugin",
     .table = &plugin_table,
     .create = plugin_create,
     .destroy = plugin_destroy,
     .classify = plugin_classify},
};

/* ---- from configuration ---- */

static struct classifier *read_settings(const struct classifier_kind *kind, const struct config *c,
                                        const struct config_node *node, struct diag *d)
{
    const struct settings_table *t = kind->table;
    char *settings = xcalloc(1, t->bytes);
    struct classifier *k = NULL;
    char why[CLASSIFIER_WHY_ROOM];
    unsigned errors_before = d->errors;

    settings_read(t, c, node, settings, NULL, d);
    /* All settings are texts; those without a default are required. */
    bool readable = d->errors == errors_before;
    for (size_t i = 0; i < t->n && readable; ++i) {
        const char *value;

        memcpy(&value, settings + t->rows[i].offset, sizeof(value));
        if (value == NULL && t->rows[i].deflt == NULL)
            config_complain(c, node, d, "classifier: %s: is required and missing", t->rows[i].name);
    }
    if (d->errors == errors_before)
        k = kind->create(settings, why);
    if (k == NULL && d->errors == errors_before) {
        /* WHY is "NAME: ...": reported at the position of the setting NAME. */
        struct slice rest = slice_of(why);
        struct slice name = slice_cut(&rest, ':');
        const struct config_node *at = node;

        for (size_t i = 0; i < node->n; ++i)
            at = slice_eq(node->keys[i]->text, name) ? node->items[i] : at;
        config_complain(c, at, d, "classifier: %s", why);
    }
    settings_fini(t, settings);
    free(settings);
    return k;
}

struct classifier *classifier_create(const struct config *c, const struct config_node *node,
                                     struct diag *d)
{
    bool is_map = node->kind == CONFIG_MAP && node->n == 1;
    const struct config_node *name = is_map ? node->keys[0] : node;

    for (const struct classifier_kind *kind = kinds; kind < kinds + ARRAY_LEN(kinds); ++kind) {
        if (name->kind != CONFIG_SCALAR || !slice_is(name->text, kind->name) ||
            is_map != (kind->table != NULL))
            continue;
        struct classifier *k =
            is_map ? read_settings(kind, c, node->items[0], d) : kind->create(NULL, NULL);
        if (k != NULL)
            k->kind = kind;
        return k;
    }
    config_complain(c, name, d, "classifier: expected host, regex: {...} or plugin: {...}");
    return NULL;
}

void classifier_destroy(struct classifier *k)
{
    if (k == NULL)
        return;
    if (k->kind->destroy != NULL)
        k->kind->destroy(k);
    free(k);
}

/* ---- use ---- */

/* Encodes the raw class CLS, of N bytes or CLASSIFIER_NONE, in place. Returns its length. */
static size_t encode_class(char cls[CLASS_BYTES_MAX], size_t n)
{
    char raw[CLASS_BYTES_MAX];

    if (n == CLASSIFIER_NONE)
        return 0;
    if (percent_plain((struct slice){cls, n}))
        return n;
    memcpy(raw, cls, n);
    n = percent_encode((struct slice){raw, n}, cls, CLASS_BYTES_MAX);
    return n != SIZE_MAX ? n : 0;
}

size_t classifier_classify(const struct classifier *k, const struct rlb_environment *env,
                           char out[CLASS_BYTES_MAX])
{
    return encode_class(out, k->kind->classify(k, env, out));
}

bool classifier_of_host(const struct classifier *k, struct slice host, char out[CLASS_BYTES_MAX],
                        size_t *len)
{
    if (k->kind->of_host == NULL)
        return false;
    *len = encode_class(out, k->kind->of_host(host.len != 0 ? host : SLICE_NULL, out));
    return true;
}

const char *classifier_fingerprint(const struct classifier *k)
{
    return k->fingerprint;
}

const char *classifier_kind(const struct classifier *k)
{
    return k->kind->name;
}
