/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates classifiers from the configuration, and implements what all kinds have in common: the
 * encoding of the class, and the fingerprint, which distinguishes resumes of different
 * configurations.
 */
#include "classifiers/registry.h"
#include "classifiers/search.h"
#include "common/base/text.h"
#include "common/config/settings.h"

#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wundef"
#include <xxhash.h>
#pragma GCC diagnostic pop

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

/* ---- fingerprints ---- */

/* Appends a field with its length, so that different lists of fields yield different bytes. */
static void add_field(struct text *t, const char *field)
{
    uint64_t len = htole64(strlen(field));

    text_add(t, (struct slice){(const char *)&len, sizeof(len)});
    text_add(t, slice_of(field));
}

/*
 * Sets the fingerprint: of the kind, the first of FIELDS, and of everything that determines its
 * classes. XXH3 without a seed gives the same result on every machine and in every release, between
 * which fingerprints are compared.
 */
static void set_fingerprint(struct classifier *k, const char *const *fields, size_t n)
{
    struct text t = {0};

    for (size_t i = 0; i < n; ++i)
        add_field(&t, fields[i]);
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

static size_t host_classify(const struct classifier *k, const struct rlb_environment *env,
                            char out[CLASS_BYTES_MAX])
{
    struct slice host = SLICE_NULL;

    (void)k;
    host.p = env->get(env, "HTTP_HOST", &host.len);
    return host_of_host(host, out);
}

static struct classifier *host_create(const void *settings, char why[CLASSIFIER_WHY_ROOM])
{
    struct classifier *k = xcalloc(1, sizeof(*k));

    (void)settings;
    (void)why;
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

static bool check_variable(const char *variable, char why[CLASSIFIER_WHY_ROOM])
{
    size_t len = strlen(variable);
    bool good = len != 0 && len <= VARIABLE_BYTES_MAX &&
                strspn(variable, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                 "0123456789_.") == len;

    if (!good)
        snprintf(why, CLASSIFIER_WHY_ROOM,
                 "variable: expected a name such as PATH_INFO or HTTP_X_TENANT");
    return good;
}

/* Returns the number of the group "class", or 0. */
static uint32_t find_group(const struct search *search, char why[CLASSIFIER_WHY_ROOM])
{
    static const char *const problems[] = {
        [SEARCH_GROUP_SEVERAL] =
            "has several groups named class; use alternatives inside of one, or "
            "(?|...|...) around them",
        [SEARCH_GROUP_NONE] = "has no group named class: (?<class>...)",
    };
    uint32_t n = 0;
    enum search_group_result result = search_group(search, "class", &n);

    if (result != SEARCH_GROUP_FOUND)
        snprintf(why, CLASSIFIER_WHY_ROOM, "pattern: %s", problems[result]);
    return n;
}

static struct classifier *regex_create(const void *settings, char why[CLASSIFIER_WHY_ROOM])
{
    const struct regex_settings *s = settings;
    char problem[SEARCH_WHY_ROOM];

    if (!check_variable(s->variable, why))
        return NULL;
    struct search *search = search_compile(s->pattern, problem);
    if (search == NULL) {
        snprintf(why, CLASSIFIER_WHY_ROOM, "pattern: %s", problem);
        return NULL;
    }
    uint32_t group = find_group(search, why);
    if (group == 0) {
        search_destroy(search);
        return NULL;
    }

    struct regex *r = xcalloc(1, sizeof(*r));
    r->variable = xstrdup(s->variable);
    r->search = search;
    r->group = group;
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

    if (symbol == NULL) {
        snprintf(why, CLASSIFIER_WHY_ROOM,
                 "path: not a classifier: it does not export rlb_classifier");
        return NULL;
    }
    /* POSIX, unlike ISO C, guarantees the conversion of an object pointer to a function pointer. */
    memcpy(&get, &symbol, sizeof(get));
    const struct rlb_classifier *c = get();
    if (c == NULL) {
        snprintf(why, CLASSIFIER_WHY_ROOM, "path: the plugin has no classifier");
        return NULL;
    }
    /* Nothing after the version may be read before it is known to match. */
    if (c->api != RLB_CLASSIFIER_API) {
        snprintf(why, CLASSIFIER_WHY_ROOM,
                 "path: built for version %u of the plugin contract, expected version %d", c->api,
                 RLB_CLASSIFIER_API);
        return NULL;
    }
    if (c->name == NULL || c->version == NULL || c->create == NULL || c->destroy == NULL ||
        c->classify == NULL) {
        snprintf(why, CLASSIFIER_WHY_ROOM,
                 "path: the plugin does not implement all of the contract");
        return NULL;
    }
    return c;
}

static void *make_instance(const struct rlb_classifier *c, const char *options,
                           char why[CLASSIFIER_WHY_ROOM])
{
    char reason[160] = "";
    struct text shown = {0};
    void *instance = c->create(options, reason, sizeof(reason));

    if (instance != NULL)
        return instance;
    reason[sizeof(reason) - 1] = '\0';
    text_add_escaped(&shown, slice_of(reason));
    snprintf(why, CLASSIFIER_WHY_ROOM, "options: rejected by the plugin: %s", text_cstr(&shown));
    text_fini(&shown);
    return NULL;
}

/* Appends BITS as path elements without effect: "/." for a one, "/" for a zero. */
static void add_idle_elements(struct text *t, uint64_t bits)
{
    for (int i = 63; i >= 0; --i)
        text_add(t, (bits >> i & 1) != 0 ? SLICE_LIT("/.") : SLICE_LIT("/"));
}

/*
 * Writes PATH such that each file has a different spelling. The dynamic linker treats an object
 * that is loaded under the same name as the same object, without checking the file: at a reload,
 * while the old classifier is still in use, a new version at the old path would not be loaded. The
 * directory stays the same, so $ORIGIN works.
 */
static void spell_path(const char *path, const struct stat *st, struct text *out)
{
    const char *base = strrchr(path, '/');

    text_add(out, (struct slice){path, (size_t)(base - path)});
    add_idle_elements(out, st->st_ino);
    add_idle_elements(out, st->st_dev);
    text_add(out, slice_of(base));
}

static void *load(const char *path, char why[CLASSIFIER_WHY_ROOM])
{
    struct text spelt = {0};
    struct stat st;

    if (stat(path, &st) != 0) {
        snprintf(why, CLASSIFIER_WHY_ROOM, "path: cannot be loaded: %s", strerror(errno));
        return NULL;
    }
    spell_path(path, &st, &spelt);
    void *library = dlopen(text_cstr(&spelt), RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        struct slice problem = slice_of(dlerror());

        /* "NAME: reason", and the name is ours. */
        if (slice_starts(problem, text_slice(&spelt)))
            problem = (struct slice){problem.p + spelt.len, problem.len - spelt.len};
        snprintf(why, CLASSIFIER_WHY_ROOM, "path: cannot be loaded%.*s", SLICE_FMT(problem));
    }
    text_fini(&spelt);
    return library;
}

static struct classifier *plugin_create(const void *settings, char why[CLASSIFIER_WHY_ROOM])
{
    const struct plugin_settings *s = settings;

    /* A name without directory would be searched for in directories that others may write to. */
    if (s->path[0] != '/' || strlen(s->path) > PLUGIN_PATH_MAX) {
        snprintf(why, CLASSIFIER_WHY_ROOM, "path: must be absolute, and at most %d bytes",
                 PLUGIN_PATH_MAX);
        return NULL;
    }
    void *library = load(s->path, why);
    if (library == NULL)
        return NULL;
    const struct rlb_classifier *contract = find_contract(library, why);
    void *instance = contract != NULL ? make_instance(contract, s->options, why) : NULL;
    if (instance == NULL) {
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

/* All settings are texts; those without a default are required. */
static void check_required(const struct settings_table *t, const void *settings,
                           const struct config *c, const struct config_node *at, struct diag *d)
{
    for (const struct setting_row *row = t->rows; row < t->rows + t->n; ++row) {
        const char *value;

        memcpy(&value, (const char *)settings + row->offset, sizeof(value));
        if (value == NULL && row->deflt == NULL)
            config_complain(c, at, d, "classifier: %s: is required and missing", row->name);
    }
}

/* Reports WHY, "NAME: ...", at the position of the setting NAME in MAP. */
static void complain_why(const struct config *c, const struct config_node *map, const char *why,
                         struct diag *d)
{
    struct slice rest = slice_of(why);
    struct slice name = slice_cut(&rest, ':');

    for (size_t i = 0; i < map->n; ++i) {
        if (slice_eq(map->keys[i]->text, name)) {
            config_complain(c, map->items[i], d, "classifier: %s", why);
            return;
        }
    }
    config_complain(c, map, d, "classifier: %s", why);
}

static struct classifier *read_settings(const struct classifier_kind *kind, const struct config *c,
                                        const struct config_node *node, struct diag *d)
{
    void *settings = xcalloc(1, kind->table->bytes);
    struct classifier *k = NULL;
    char why[CLASSIFIER_WHY_ROOM];
    unsigned errors_before = d->errors;

    settings_read(kind->table, c, node, settings, NULL, d);
    if (d->errors == errors_before)
        check_required(kind->table, settings, c, node, d);
    if (d->errors == errors_before) {
        k = kind->create(settings, why);
        if (k == NULL)
            complain_why(c, node, why, d);
    }
    settings_fini(kind->table, settings);
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

size_t classifier_classify(const struct classifier *k, const struct rlb_environment *env,
                           char out[CLASS_BYTES_MAX])
{
    char raw[CLASS_BYTES_MAX];
    size_t n = k->kind->classify(k, env, raw);

    if (n == CLASSIFIER_NONE)
        return 0;
    n = percent_encode((struct slice){raw, n}, out, CLASS_BYTES_MAX);
    return n != SIZE_MAX ? n : 0;
}

bool classifier_of_host(const struct classifier *k, struct slice host, char out[CLASS_BYTES_MAX],
                        size_t *len)
{
    if (k->kind->of_host == NULL)
        return false;
    size_t n = k->kind->of_host(host.len != 0 ? host : SLICE_NULL, out);
    char raw[CLASS_BYTES_MAX];

    if (n == CLASSIFIER_NONE) {
        n = 0;
    } else if (!percent_plain((struct slice){out, n})) {
        memcpy(raw, out, n);
        n = percent_encode((struct slice){raw, n}, out, CLASS_BYTES_MAX);
    }
    *len = n != SIZE_MAX ? n : 0;
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
