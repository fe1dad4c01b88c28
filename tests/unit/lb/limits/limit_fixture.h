/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests and limits of limits, for tests.
 */
#pragma once

#include "lb/limits/limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct field {
    const char *name, *value;
};

static inline bool field_at(const void *context, size_t i, struct slice *name, struct slice *value)
{
    const struct field *fields = context;

    if (fields == NULL || fields[i].name == NULL)
        return false;
    *name = slice_of(fields[i].name);
    *value = slice_of(fields[i].value);
    return true;
}

static const struct addr no_addr;

/* "/path?query"; FIELDS end in one without a name, or are NULL. */
static inline struct classify_request request_for(const char *target, const struct field *fields)
{
    struct slice query = slice_of(target);
    struct slice path = slice_cut(&query, '?');

    return (struct classify_request){.method = SLICE_LIT("GET"),
                                     .path = path,
                                     .query = query,
                                     .host = SLICE_LIT("www.Example.com"),
                                     .protocol = SLICE_LIT("HTTP/1.1"),
                                     .peer = &no_addr,
                                     .local = &no_addr,
                                     .content_length = UINT64_MAX,
                                     .header = field_at,
                                     .context = fields};
}

struct setting {
    const char *name, *value;
};

/* Defaults and what SETTINGS say; they end in one without a name. */
static inline void settings_of(const struct setting *settings, struct limit_settings *out)
{
    char why[SETTINGS_WHY_ROOM];

    settings_defaults(&limit_table, out);
    for (; settings->name != NULL; ++settings) {
        struct slice name = slice_of(settings->name);
        const struct setting_row *row = settings_find(&limit_table, name);

        if (row == NULL)
            row = settings_find(&match_table, name);
        assert_non_null(row);
        assert_int_equal(settings_set(row, slice_of(settings->value), out, why), ERR_OK);
    }
}

static inline bool try_limit(const struct setting *settings, struct limit *out,
                             struct limit_problem *p)
{
    struct limit_settings s;

    settings_of(settings, &s);
    bool good = limit_compile("shop", &s, out, p);
    limit_settings_fini(&s);
    return good;
}

static inline struct limit limit_of(const struct setting *settings)
{
    struct limit limit;
    struct limit_problem p;

    if (!try_limit(settings, &limit, &p))
        fail_msg("%s", p.why);
    return limit;
}

/* The limit is rejected, for ROW, with WORDS in the reason. */
static inline void assert_no_limit(const struct setting *settings, const char *row,
                                   const char *words)
{
    struct limit limit;
    struct limit_problem p;

    assert_false(try_limit(settings, &limit, &p));
    assert_string_equal(p.row, row);
    if (strstr(p.why, words) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", words, p.why);
}

#define SETTINGS(...)                                                                              \
    (const struct setting[])                                                                       \
    {                                                                                              \
        __VA_ARGS__                                                                                \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }
