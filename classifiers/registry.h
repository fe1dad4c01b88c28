/* SPDX-License-Identifier: Apache-2.0
 *
 * Configured classifiers: built in (host, regex) or a plugin. Made at start or reload by the
 * control thread; classifying is safe from any thread. Owned by the application.
 */
#pragma once

#include "classifiers/classifier.h"
#include "common/base/limits.h"
#include "common/config/config.h"
#include "common/config/settings.h"

struct classifier;

/*
 * Creates a classifier from the YAML value of `classifier`: "host", or a map with one of regex:
 * {variable: PATH_INFO, pattern: "..."}, plugin: {path: /x.so, options: "..."}. Returns NULL with
 * all problems and their positions in D on error.
 */
struct classifier *classifier_create(const struct config *c, const struct config_node *node,
                                     struct diag *d);
void classifier_destroy(struct classifier *k);

/*
 * Writes the encoded class of a request to OUT and returns its length. A class that cannot be
 * determined, or that is longer than CLASS_BYTES_MAX when encoded, is "" (length 0).
 */
size_t classifier_classify(const struct classifier *k, const struct rlb_environment *env,
                           char out[CLASS_BYTES_MAX]);
/*
 * The same for a classifier that uses only the Host (as in the field; empty if there is none), so
 * that the caller need not describe the request. Returns false if K uses more.
 */
bool classifier_of_host(const struct classifier *k, struct slice host, char out[CLASS_BYTES_MAX],
                        size_t *len) must_check;
/* Returns the fingerprint of the kind, its options and a plugin's version, FINGERPRINT_LEN hex
 * digits. Equal configurations have equal fingerprints on every machine. */
const char *classifier_fingerprint(const struct classifier *k);
/* Returns "host", "regex" or "plugin". */
const char *classifier_kind(const struct classifier *k);

/* The settings of regex and plugin, for the manual. */
enum { CLASSIFIER_TABLES = 2 };
extern const struct settings_table *const classifier_tables[CLASSIFIER_TABLES];
