/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates classifiers from the configuration, and implements what all kinds have in common: the
 * encoding of the class, and the fingerprint, which distinguishes resumes of different
 * configurations.
 */
#include "classifiers/registry.h"

#include <inttypes.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wundef"
#include <xxhash.h>
#pragma GCC diagnostic pop

#include "classifiers/kind.h"
#include "common/base/text.h"

static const struct setting_row regex_rows[] = {
#define REGEX(...) SETTINGS_ROW(struct regex_settings, __VA_ARGS__)
#include "classifiers/settings.def"
};
static const struct setting_row plugin_rows[] = {
#define PLUGIN(...) SETTINGS_ROW(struct plugin_settings, __VA_ARGS__)
#include "classifiers/settings.def"
};

static const struct settings_table regex_table = {.scope = "REGEX",
                                                  .where = "regex of a classifier",
                                                  .rows = regex_rows,
                                                  .n = ARRAY_LEN(regex_rows),
                                                  .bytes = sizeof(struct regex_settings)};
static const struct settings_table plugin_table = {.scope = "PLUGIN",
                                                   .where = "plugin of a classifier",
                                                   .rows = plugin_rows,
                                                   .n = ARRAY_LEN(plugin_rows),
                                                   .bytes = sizeof(struct plugin_settings)};
const struct settings_table *const classifier_tables[CLASSIFIER_TABLES] = {&regex_table,
                                                                           &plugin_table};

/* ---- fingerprints ---- */

/* A field with its length before it, so that no two lists of fields make the same bytes. */
static void add_field(struct text *t, const char *field)
{
    struct slice s = slice_of(field);
    uint64_t len = s.len;

    for (int i = 0; i < 8; ++i)
        text_add_char(t, (char)(unsigned char)(len >> (8 * i)));
    text_add(t, s);
}

/*
 * Of the kind and what decides its classes. XXH3 without a seed gives the same on every machine and
 * in every release; fingerprints are compared across both.
 */
static void set_fingerprint(struct classifier *k, const char *const *fields, size_t n)
{
    struct text t = {0};

    add_field(&t, k->kind->name);
    for (size_t i = 0; i < n; ++i)
        add_field(&t, fields[i]);
    snprintf(k->fingerprint, sizeof(k->fingerprint), "%016" PRIx64, XXH3_64bits(t.p, t.len));
    text_fini(&t);
}

/* ---- from configuration ---- */

static void require(const char *value, const char *name, const struct config *c,
                    const struct config_node *at, struct diag *d)
{
    if (value == NULL)
        config_complain(c, at, d, "classifier: %s: is required and missing", name);
}

/* A reason is "NAME: ...": its place is that of the setting NAME of MAP. */
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

static struct classifier *read_regex(const struct config *c, const struct config_node *node,
                                     struct diag *d)
{
    struct regex_settings s;
    struct classifier *k = NULL;
    char why[CLASSIFIER_WHY_ROOM];
    unsigned errors_before = d->errors;

    settings_read(&regex_table, c, node, &s, NULL, d);
    if (d->errors == errors_before) {
        require(s.variable, "variable", c, node, d);
        require(s.pattern, "pattern", c, node, d);
    }
    if (d->errors == errors_before) {
        k = regex_create(&s, why);
        if (k != NULL)
            set_fingerprint(k, (const char *const[]){s.variable, s.pattern}, 2);
        else
            complain_why(c, node, why, d);
    }
    settings_fini(&regex_table, &s);
    return k;
}

static struct classifier *read_plugin(const struct config *c, const struct config_node *node,
                                      struct diag *d)
{
    struct plugin_settings s;
    struct classifier *k = NULL;
    char why[CLASSIFIER_WHY_ROOM];
    const char *name;
    const char *version;
    unsigned errors_before = d->errors;

    settings_read(&plugin_table, c, node, &s, NULL, d);
    if (d->errors == errors_before)
        require(s.path, "path", c, node, d);
    if (d->errors == errors_before) {
        k = plugin_create(&s, why, &name, &version);
        /* Not of the path: where it lies may differ from machine to machine. */
        if (k != NULL)
            set_fingerprint(k, (const char *const[]){name, version, s.options}, 3);
        else
            complain_why(c, node, why, d);
    }
    settings_fini(&plugin_table, &s);
    return k;
}

static struct classifier *make_host(void)
{
    struct classifier *k = host_create();

    set_fingerprint(k, NULL, 0);
    return k;
}

static struct classifier *read_map(const struct config *c, const struct config_node *map,
                                   struct diag *d)
{
    const struct config_node *key = map->keys[0];
    const struct config_node *value = map->items[0];

    if (slice_is(key->text, "regex"))
        return read_regex(c, value, d);
    if (slice_is(key->text, "plugin"))
        return read_plugin(c, value, d);
    config_complain(c, key, d, "classifier: expected host, regex: {...} or plugin: {...}");
    return NULL;
}

struct classifier *classifier_create(const struct config *c, const struct config_node *node,
                                     struct diag *d)
{
    if (node->kind == CONFIG_SCALAR && slice_is(node->text, "host"))
        return make_host();
    if (node->kind == CONFIG_MAP && node->n == 1)
        return read_map(c, node, d);
    config_complain(c, node, d, "classifier: expected host, regex: {...} or plugin: {...}");
    return NULL;
}

void classifier_destroy(struct classifier *k)
{
    if (k != NULL)
        k->kind->destroy(k);
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
