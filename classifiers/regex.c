/* SPDX-License-Identifier: Apache-2.0
 *
 * A pattern searched in one variable. The variable's bytes are the client's, the pattern may be one
 * that backtracks: a search that hits a bound (search.h) has found nothing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "classifiers/kind.h"
#include "classifiers/search.h"
#include "common/base/text.h"

enum { VARIABLE_BYTES_MAX = 100 };

struct regex {
    struct classifier super; /* first */
    char *variable;
    struct search *search;
    uint32_t group; /* number of the group "class" */
};

static const struct regex *regex_of(const struct classifier *k)
{
    return (const struct regex *)(const void *)k;
}

/* ---- classifying ---- */

static size_t regex_classify(const struct classifier *k, const struct rlb_environment *env,
                             char out[CLASS_BYTES_MAX])
{
    const struct regex *r = regex_of(k);
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
    free(r);
}

static const struct classifier_kind regex_kind = {"regex", regex_destroy, regex_classify, NULL};

/* ---- making ---- */

static bool check_variable(const char *variable, char why[CLASSIFIER_WHY_ROOM])
{
    size_t len = strlen(variable);
    bool good = len != 0 && len <= VARIABLE_BYTES_MAX;

    for (size_t i = 0; i < len && good; ++i) {
        char c = variable[i];

        good = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '.';
    }
    if (!good)
        snprintf(why, CLASSIFIER_WHY_ROOM,
                 "variable: expected a name such as PATH_INFO or HTTP_X_TENANT");
    return good;
}

/* Number of the group "class", or 0. */
static uint32_t find_group(const struct search *search, char why[CLASSIFIER_WHY_ROOM])
{
    const char *problem = NULL;
    uint32_t n = 0;

    switch (search_group(search, "class", &n)) {
    case SEARCH_GROUP_FOUND:
        return n;
    case SEARCH_GROUP_SEVERAL:
        problem = "has several groups named class; alternatives inside of one, or (?|...|...) "
                  "around them, will do";
        break;
    case SEARCH_GROUP_NONE:
        problem = "has no group named class: (?<class>...)";
        break;
    }
    snprintf(why, CLASSIFIER_WHY_ROOM, "pattern: %s", problem);
    return 0;
}

struct classifier *regex_create(const struct regex_settings *s, char why[CLASSIFIER_WHY_ROOM])
{
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
    r->super.kind = &regex_kind;
    r->variable = xstrdup(s->variable);
    r->search = search;
    r->group = group;
    return &r->super;
}
