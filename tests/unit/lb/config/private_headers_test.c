/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/config/configuration.h"

#include "lb/core/application.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NONE = 1000 };

/* The index of the item at fault, or NONE. */
static size_t fault(const char *const *items, size_t n)
{
    char *mine[CACHE_NAMES_MAX + 1];
    char why[SETTINGS_WHY_ROOM] = "";
    size_t at = NONE;

    for (size_t i = 0; i < n; ++i)
        mine[i] = xstrdup(items[i]);
    bool good = settings_list_check("private_headers", &(struct text_list){mine, n},
                                    private_header_problem, &at, why);
    for (size_t i = 0; i < n; ++i)
        free(mine[i]);
    assert_int_equal(good, at == NONE);
    assert_int_equal(good, why[0] == '\0');
    return at;
}

static void a_list_has_field_names_each_once(void **state)
{
    (void)state;
    assert_int_equal(fault(NULL, 0), NONE);
    assert_int_equal(fault((const char *[]){"X-API-Key", "authorization", "X-Forwarded-User"}, 3),
                     NONE);
    assert_int_equal(fault((const char *[]){"X-API-Key", "x_api_key"}, 2), 1);
    assert_int_equal(fault((const char *[]){"X API"}, 1), 0);
    assert_int_equal(fault((const char *[]){"X\r\nY"}, 1), 0);
    assert_int_equal(fault((const char *[]){"X:"}, 1), 0);
    assert_int_equal(fault((const char *[]){""}, 1), 0);
}

static void a_name_that_cannot_identify_a_user_is_rejected(void **state)
{
    static const char *const bad[] = {"Connection",
                                      "Host",
                                      "Content-Length",
                                      "Resumelb-Class",
                                      "Proxy",
                                      "X-Forwarded-For",
                                      "x_forwarded_proto",
                                      "X-Forwarded-Host",
                                      "Via",
                                      "X-Request-ID",
                                      "Cookie",
                                      "X-SSL-Client-S-DN"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        assert_int_equal(fault(&bad[i], 1), 0);
}

static void names_and_their_number_are_bounded(void **state)
{
    char room[CACHE_NAMES_MAX + 1][8];
    const char *items[CACHE_NAMES_MAX + 1];
    char name[PRIVATE_HEADER_MAX + 2];
    const char *only = name;

    (void)state;
    for (size_t i = 0; i <= CACHE_NAMES_MAX; ++i) {
        snprintf(room[i], sizeof(room[i]), "X%zu", i);
        items[i] = room[i];
    }
    assert_int_equal(fault(items, CACHE_NAMES_MAX), NONE);
    assert_int_equal(fault(items, CACHE_NAMES_MAX + 1), CACHE_NAMES_MAX);
    memset(name, 'a', sizeof(name));
    name[PRIVATE_HEADER_MAX + 1] = '\0';
    assert_int_equal(fault(&only, 1), 0);
    name[PRIVATE_HEADER_MAX] = '\0';
    assert_int_equal(fault(&only, 1), NONE);
}

static void the_default_list_is_valid_and_is_what_snapshots_have(void **state)
{
    struct app_settings s = {0};
    struct app_snapshot *snapshot = NULL;
    char why[SETTINGS_WHY_ROOM];
    size_t at;

    (void)state;
    settings_defaults(&application_table, &s);
    assert_true(settings_list_check("private_headers", &s.private_headers, private_header_problem,
                                    &at, why));
    snapshot = app_snapshot_create(&s, NULL, NULL, NULL);
    assert_int_equal(snapshot->private_headers.n, s.private_headers.n);
    assert_true(slice_is(snapshot->private_headers.names[0], "X-API-Key"));
    app_snapshot_unref(snapshot);
    app_settings_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_has_field_names_each_once),
        cmocka_unit_test(a_name_that_cannot_identify_a_user_is_rejected),
        cmocka_unit_test(names_and_their_number_are_bounded),
        cmocka_unit_test(the_default_list_is_valid_and_is_what_snapshots_have),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
