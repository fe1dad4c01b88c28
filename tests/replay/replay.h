/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelb-replay: drives the pool and the meter with the recorded steps of the original
 * (tests/oracle/README.md). A subject is what is being driven: a pool with its workers, or a
 * worker's meter. Owned by main; one thread.
 */
#pragma once

#include <jansson.h>

#include "common/skills/resume.h"

struct subject;

/* A kind of subject. */
struct kind {
    const char *name;
    /* NULL, and *WHY set, when the header cannot be used. */
    struct subject *(*create)(const struct kind *k, const json_t *header, const char **why);
    void (*destroy)(struct subject *s);
    /* The response, a new reference; NULL, and *WHY set, when the operation cannot be done. */
    json_t *(*step)(struct subject *s, const char *op, const json_t *line, const char **why);
};

/* First member of every subject. */
struct subject {
    const struct kind *kind;
};

extern const struct kind kind_pool;
extern const struct kind kind_single_version;
extern const struct kind kind_classless;
extern const struct kind kind_worker_resume;

/* ---- JSON to and from what we use ---- */

/* A string member, or NULL with *WHY set. */
const char *member_string(const json_t *object, const char *name, const char **why);
/* A finite number; FALLBACK when it is missing or null. False, with *WHY set, for anything else. */
bool member_number(const json_t *object, const char *name, double fallback, double *out,
                   const char **why);
/* The same cut to a whole number of at least MIN, which is 0 or 1. */
bool member_count(const json_t *object, const char *name, uint64_t fallback, unsigned min,
                  uint64_t *out, const char **why);
/* An object of scores, or null for none. False, with *WHY set and OUT empty, for anything else. */
bool resume_from_json(json_t *scores, struct resume *out, const char **why);
json_t *resume_to_json(const struct resume *r);
json_t *count_to_json(uint64_t n);
/* Sets OBJECT[NAME], NAME being a class or a worker. Takes VALUE over. */
void set_named(json_t *object, struct slice name, json_t *value);
