/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives every setting of a program values of every kind, in every place of its configuration: each
 * is accepted or rejected with the name of the file, and none is fatal.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <malloc.h>

#include "common/config/settings.h"

struct odd_row {
    const char *name, *value;
};

enum { ODD_ROWS_MAX = 4, ODD_PLACES_MAX = 5 };

struct odd_program {
    const struct settings_table *const *tables;
    size_t ntables;
    /* A configuration that is accepted, and the rows of one application in it. */
    struct odd_row start[ODD_ROWS_MAX], application[ODD_ROWS_MAX];
    /* Maps at the top level; NULL ends them. The top level itself comes beside these. */
    const char *places[ODD_PLACES_MAX];
    bool (*read)(const char *file, struct diag *d);
};

static inline const struct odd_row *odd_row_named(const struct odd_row *rows, const char *name)
{
    for (size_t i = 0; i < ODD_ROWS_MAX && rows[i].name != NULL; ++i) {
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    }
    return NULL;
}

/* ROWS with NAME: VALUE, which replaces the row of that name. NAME NULL: as they are. */
static inline void odd_add_rows(struct text *t, const struct odd_row *rows, const char *name,
                                const char *value, const char *end)
{
    for (size_t i = 0; i < ODD_ROWS_MAX && rows[i].name != NULL; ++i) {
        if (name == NULL || strcmp(rows[i].name, name) != 0)
            text_addf(t, "%s: %s%s", rows[i].name, rows[i].value, end);
    }
    if (name != NULL)
        text_addf(t, "%s: %s%s", name, value, end);
}

/*
 * The good configuration with NAME: VALUE (NAME NULL: as it is) at the top level (PLACE NULL) or in
 * the map PLACE. The settings of an application are in `applications` or at the top level, never
 * both.
 */
static inline void odd_text(const struct odd_program *p, const char *place, const char *name,
                            const char *value, struct text *t)
{
    bool application = place != NULL && strcmp(place, "applications") == 0;

    text_clear(t);
    if (place == NULL) {
        odd_add_rows(t, p->start, name, value, "\n");
        return;
    }
    for (size_t i = 0; i < ODD_ROWS_MAX && p->start[i].name != NULL; ++i) {
        const struct odd_row *row = &p->start[i];
        if (strcmp(row->name, place) != 0 &&
            !(application && odd_row_named(p->application, row->name) != NULL))
            text_addf(t, "%s: %s\n", row->name, row->value);
    }
    text_addf(t, application ? "%s: {x: {" : "%s: {", place);
    if (application)
        odd_add_rows(t, p->application, name, value, ", ");
    else if (name != NULL)
        text_addf(t, "%s: %s", name, value);
    text_addf(t, application ? "}}\n" : "}\n");
}

static inline bool odd_try(const struct odd_program *p, const char *file, struct text *yaml)
{
    FILE *out = fopen(file, "w");
    struct diag d = {0};

    assert_non_null(out);
    fputs(text_cstr(yaml), out);
    fclose(out);
    bool good = p->read(file, &d);
    if (!good && (d.text == NULL || strstr(d.text, file) == NULL))
        fail_msg("rejected without the name of the file: %s\n%s", text_cstr(yaml),
                 d.text != NULL ? d.text : "");
    diag_fini(&d);
    return good;
}

/* Returns how many configurations were read. */
static inline size_t odd_values_try(const struct odd_program *p)
{
    static const char *const odd[] = {"true",  "\"x\"", "5",      "[]",         "[1]",
                                      "[[1]]", "{}",    "{a: b}", "[{a: [b]}]", "{a: {b: {c: d}}}",
                                      "~"};
    /* Returning the heap to the system after each configuration costs more than reading it. */
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    char file[] = RLB_TEST_DIR "/rlb-odd-values-XXXXXX";
    struct text yaml = {0};
    size_t read = 0;

    int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    for (size_t n = 0; n == 0 || p->places[n - 1] != NULL; ++n) {
        const char *place = n == 0 ? NULL : p->places[n - 1];
        odd_text(p, place, NULL, NULL, &yaml);
        bool complete = place == NULL || strcmp(place, "applications") == 0;
        if (!odd_try(p, file, &yaml) && complete)
            fail_msg("not accepted without odd values: %s", text_cstr(&yaml));
        for (size_t i = 0; i < p->ntables; ++i) {
            for (size_t row = 0; row < p->tables[i]->n; ++row) {
                for (size_t value = 0; value < ARRAY_LEN(odd); ++value) {
                    odd_text(p, place, p->tables[i]->rows[row].name, odd[value], &yaml);
                    odd_try(p, file, &yaml);
                    ++read;
                }
            }
        }
    }
    unlink(file);
    text_fini(&yaml);
    return read;
}
