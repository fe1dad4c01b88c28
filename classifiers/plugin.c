/* SPDX-License-Identifier: Apache-2.0
 *
 * A classifier from a shared object (classifier.h). It runs inside the load balancer with all its
 * rights: that is why only a YAML file can name one. What it returns is still checked.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "classifiers/kind.h"
#include "common/base/text.h"

/* With room for its spelling below the system's limit. */
enum { PLUGIN_PATH_MAX = 1024 };

struct plugin {
    struct classifier super; /* first */
    void *library;
    const struct rlb_classifier *contract;
    void *instance;
};

typedef const struct rlb_classifier *(*contract_fn)(void);

static const struct plugin *plugin_of(const struct classifier *k)
{
    return (const struct plugin *)(const void *)k;
}

static size_t plugin_classify(const struct classifier *k, const struct rlb_environment *env,
                              char out[CLASS_BYTES_MAX])
{
    const struct plugin *p = plugin_of(k);
    size_t n = p->contract->classify(p->instance, env, out, CLASS_BYTES_MAX);

    return n <= CLASS_BYTES_MAX ? n : CLASSIFIER_NONE;
}

static void plugin_destroy(struct classifier *k)
{
    struct plugin *p = (struct plugin *)(void *)k;

    p->contract->destroy(p->instance);
    dlclose(p->library);
    free(p);
}

static const struct classifier_kind plugin_kind = {"plugin", plugin_destroy, plugin_classify, NULL};

/* The contract of LIBRARY, or NULL. */
static const struct rlb_classifier *find_contract(void *library, char why[CLASSIFIER_WHY_ROOM])
{
    contract_fn get;
    void *symbol = dlsym(library, "rlb_classifier");

    if (symbol == NULL) {
        snprintf(why, CLASSIFIER_WHY_ROOM,
                 "path: not a classifier: it does not export rlb_classifier");
        return NULL;
    }
    /* What POSIX promises and ISO C lacks: an object pointer that is a function's. */
    memcpy(&get, &symbol, sizeof(get));
    const struct rlb_classifier *c = get();
    if (c == NULL) {
        snprintf(why, CLASSIFIER_WHY_ROOM, "path: the plugin offers no classifier");
        return NULL;
    }
    /* Nothing behind the version may be looked at before it is known to be ours. */
    if (c->api != RLB_CLASSIFIER_API) {
        snprintf(why, CLASSIFIER_WHY_ROOM,
                 "path: built for version %u of the plugin contract, wanted is version %d", c->api,
                 RLB_CLASSIFIER_API);
        return NULL;
    }
    if (c->name == NULL || c->version == NULL || c->create == NULL || c->destroy == NULL ||
        c->classify == NULL) {
        snprintf(why, CLASSIFIER_WHY_ROOM, "path: the plugin leaves out a part of the contract");
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
    snprintf(why, CLASSIFIER_WHY_ROOM, "options: refused by the plugin: %s", text_cstr(&shown));
    text_fini(&shown);
    return NULL;
}

/* A word as path elements that change nothing: "/." for a one, "/" for a zero. */
static void add_idle_elements(struct text *t, uint64_t bits)
{
    for (int i = 63; i >= 0; --i)
        text_add(t, (bits >> i & 1) != 0 ? SLICE_LIT("/.") : SLICE_LIT("/"));
}

/*
 * PATH, spelt so that each file has a spelling of its own. The dynamic linker takes an object that
 * is loaded under the same name for the same object without a look at the file: at a reload, when
 * the old classifier still serves, a new version at the old path would never be seen. Its folder
 * stays the folder, so $ORIGIN works.
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

struct classifier *plugin_create(const struct plugin_settings *s, char why[CLASSIFIER_WHY_ROOM],
                                 const char **name, const char **version)
{
    /* A bare name would be searched for in places that others may write to. */
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
    *p = (struct plugin){{.kind = &plugin_kind}, library, contract, instance};
    *name = contract->name;
    *version = contract->version;
    return &p->super;
}
