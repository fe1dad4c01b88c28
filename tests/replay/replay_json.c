/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "common/base/text.h"
#include "tests/replay/replay.h"

/* The largest number of which each whole number below is a double, too. */
static const double COUNT_MAX = 9007199254740992.0;

const char *member_string(const json_t *object, const char *name, const char **why)
{
    const char *s = json_string_value(json_object_get(object, name));

    if (s == NULL)
        *why = "a string is missing: worker, class, op, or kind";
    return s;
}

bool member_number(const json_t *object, const char *name, double fallback, double *out,
                   const char **why)
{
    const json_t *v = json_object_get(object, name);

    if (v == NULL || json_is_null(v)) {
        *out = fallback;
        return true;
    }
    if (!json_is_number(v) || !isfinite(json_number_value(v))) {
        *why = "not a finite number";
        return false;
    }
    *out = json_number_value(v);
    return true;
}

bool member_count(const json_t *object, const char *name, uint64_t fallback, unsigned min,
                  uint64_t *out, const char **why)
{
    double v;

    if (!member_number(object, name, (double)fallback, &v, why))
        return false;
    if (v < min || v > COUNT_MAX) {
        *why = min == 0 ? "not a number from 0" : "not a number from 1";
        return false;
    }
    *out = (uint64_t)v;
    return true;
}

bool resume_from_json(json_t *scores, struct resume *out, const char **why)
{
    const char *name;
    size_t name_len;
    json_t *score;

    if (json_is_null(scores))
        return true;
    if (!json_is_object(scores)) {
        *why = "resume: not an object";
        return false;
    }
    json_object_keylen_foreach(scores, name, name_len, score)
    {
        if (!json_is_number(score) || !isfinite(json_number_value(score))) {
            *why = "resume: a score is not a finite number";
            resume_fini(out);
            return false;
        }
        /* Unchecked: traces have classes of any length. */
        resume_push(out, (struct slice){name, name_len}, json_number_value(score));
    }
    return true;
}

void set_named(json_t *object, struct slice name, json_t *value)
{
    int failed = json_object_setn_new_nocheck(object, name.p, name.len, value);

    ASSERT(failed == 0);
}

json_t *resume_to_json(const struct resume *r)
{
    json_t *object = json_object();

    for (size_t i = 0; i < r->n; ++i)
        set_named(object, r->rows[i].cls, json_real(r->rows[i].score));
    return object;
}

json_t *count_to_json(uint64_t n)
{
    return json_integer((json_int_t)n);
}
