/* SPDX-License-Identifier: Apache-2.0
 *
 * A classifier from a shared object (classifier.h). It runs inside the load balancer with all its
 * rights: that is why only a YAML file can name one. What it returns is still checked.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "classifiers/kind.h"
#include "common/base/text.h"

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

static const struct classifier_kind plugin_kind = {"plugin", plugin_destroy, plugin_classify};

/* The contract of LIBRARY, or NULL. */
static const struct rlb_classifier *find_contract(void *library, char why[CLASSIFIER_WHY_ROOM])
{
    contract_fn get;
    void *symbol = dlsym(library, "rlb_classifier");

    if (symbol == NULL) {
        snprintf(why, CLASSIFIER_WHY_ROOM, "path: is no classifier: it exports no rlb_classifier");
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

struct classifier *plugin_create(const struct plugin_settings *s, char why[CLASSIFIER_WHY_ROOM],
                                 const char **name, const char **version)
{
    /* A bare name would be searched for in places that others may write to. */
    if (s->path[0] != '/') {
        snprintf(why, CLASSIFIER_WHY_ROOM, "path: must be absolute");
        return NULL;
    }
    void *library = dlopen(s->path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *problem = dlerror();

        snprintf(why, CLASSIFIER_WHY_ROOM, "path: cannot be loaded: %s",
                 problem != NULL ? problem : "unknown reason");
        return NULL;
    }
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
