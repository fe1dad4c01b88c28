/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kind of classifier is to the registry: a const table of functions, and a base struct that
 * each kind puts first into its own. Between the registry and the kinds only.
 */
#ifndef RLB_CLASSIFIERS_KIND_H
#define RLB_CLASSIFIERS_KIND_H

#include "classifiers/registry.h"
#include "common/config/settings.h"

/* "No class", as a plugin says it. */
#define CLASSIFIER_NONE SIZE_MAX

struct classifier_kind {
    const char *name;
    void (*destroy)(struct classifier *k);
    /*
     * The raw class, at most CLASS_BYTES_MAX bytes of OUT; returns its length, or CLASSIFIER_NONE
     * when there is none or it is longer (encoded it would be longer still). Any thread, several at
     * once.
     */
    size_t (*classify)(const struct classifier *k, const struct rlb_environment *env,
                       char out[CLASS_BYTES_MAX]);
    /* The same where only the Host matters, which is NULL without one; or NULL. */
    size_t (*of_host)(struct slice host, char out[CLASS_BYTES_MAX]);
};

struct classifier {
    const struct classifier_kind *kind;
    char fingerprint[FINGERPRINT_LEN + 1]; /* the registry's */
};

struct regex_settings {
#define REGEX(...) SETTINGS_FIELD(__VA_ARGS__)
#include "classifiers/settings.def"
};
struct plugin_settings {
#define PLUGIN(...) SETTINGS_FIELD(__VA_ARGS__)
#include "classifiers/settings.def"
};

struct classifier *host_create(void);

/* Room for a reason of regex_create and plugin_create. */
#define CLASSIFIER_WHY_ROOM 300
/* NULL on error; WHY says. */
struct classifier *regex_create(const struct regex_settings *s, char why[CLASSIFIER_WHY_ROOM]);
/*
 * The same for a shared object.
 *   name, version  what it says of itself; borrowed from it
 */
struct classifier *plugin_create(const struct plugin_settings *s, char why[CLASSIFIER_WHY_ROOM],
                                 const char **name, const char **version);

#endif
