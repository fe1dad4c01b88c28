/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/settings/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/file.h"
#include "common/skills/meter.h"
#include "lb/backends/member.h"
#include "lb/config/configuration.h"

static struct app_settings defaults(void)
{
    struct app_settings s;
    struct app_settings pool;

    settings_defaults(&application_table, &s);
    settings_defaults(&pool_table, &pool);
    for (size_t i = 0; i < pool_table.n; ++i)
        settings_take(&pool_table.rows[i], &pool, &s);
    return s;
}

static void the_defaults_are_good_together(void **state)
{
    struct app_settings s = defaults();
    char why[SETTINGS_WHY_ROOM];

    (void)state;
    assert_true(app_settings_check(&s, 32u << 20, why));
    app_settings_fini(&s);
}

static void any_age_of_skills_is_accepted(void **state)
{
    static const int64_t ages[] = {-1, 0, 1, 99, 100, 101};
    struct app_settings s = defaults();
    char why[SETTINGS_WHY_ROOM] = "";

    (void)state;
    assert_int_equal(s.max_skill_age, -1);
    assert_true(member_meter_settings(&s).max_skill_age == METER_SKILL_AGE_DEFAULT);
    s.history = 100;
    for (size_t i = 0; i < ARRAY_LEN(ages); ++i) {
        s.max_skill_age = ages[i];
        assert_true(app_settings_check(&s, 32u << 20, why));
    }
    s.max_skill_age = 0;
    assert_int_equal(member_meter_settings(&s).max_skill_age, 0);
    app_settings_fini(&s);
}

static void the_buffer_of_one_response_may_not_exceed_that_of_all(void **state)
{
    struct app_settings s = defaults();
    char why[SETTINGS_WHY_ROOM] = "";

    (void)state;
    assert_false(app_settings_check(&s, s.response_buffer_bytes - 1, why));
    assert_non_null(strstr(why, "response_buffers_total"));
    assert_true(app_settings_check(&s, s.response_buffer_bytes, why));
    app_settings_fini(&s);
}

static bool takes_path(const char *path)
{
    struct app_settings s = defaults();
    char why[SETTINGS_WHY_ROOM] = "";

    s.health_check_path = xstrdup(path);
    bool good = app_settings_check(&s, 32u << 20, why);
    app_settings_fini(&s);
    return good;
}

static bool check_host(const char *host)
{
    struct app_settings s = defaults();
    char why[SETTINGS_WHY_ROOM] = "";

    s.health_check_host = xstrdup(host);
    bool good = app_settings_check(&s, 32u << 20, why);
    app_settings_fini(&s);
    return good;
}

static void the_host_of_checks_is_what_may_stand_in_a_host_field(void **state)
{
    static const char *const bad[] = {"a:b:c", "a:65536", "a:b", "[::1",
                                      "::1",   "*.test",  "a b", ".a"};
    static const char *const good[] = {"a",     "a.test",  "a.test:8080", "127.0.0.1:80",
                                       "[::1]", "[::1]:80"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        assert_false(check_host(bad[i]));
    for (size_t i = 0; i < ARRAY_LEN(good); ++i)
        assert_true(check_host(good[i]));
}

static void a_checked_path_is_what_may_stand_in_a_request_line(void **state)
{
    static const char *const bad[] = {"",      "healthz",   "/a b", "/a\r\nX: y",
                                      "/\x7f", "/\xc3\xa4", "/#x"};
    char long_path[1100];

    (void)state;
    assert_true(takes_path("/"));
    assert_true(takes_path("/healthz?full=1&x=%20"));
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        assert_false(takes_path(bad[i]));
    memset(long_path, '/', sizeof(long_path));
    long_path[sizeof(long_path) - 1] = '\0';
    assert_false(takes_path(long_path));
}

static void a_copy_has_the_pool_rows_too_and_texts_of_its_own(void **state)
{
    struct app_settings s = defaults();
    struct app_settings copy;

    (void)state;
    s.variance = 7.5;
    s.single_version = true;
    s.health_check_path = xstrdup("/page");
    s.workers = (const struct config_node *)&s;
    app_settings_copy(&s, &copy);
    assert_true(copy.variance > 7.4 && copy.variance < 7.6);
    assert_true(copy.single_version);
    assert_string_equal(copy.health_check_path, "/page");
    assert_ptr_not_equal(copy.health_check_path, s.health_check_path);
    assert_null(copy.workers);
    app_settings_fini(&copy);
    app_settings_fini(&s);
}

static void rows_of_both_scopes_have_different_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < app_rows(); ++i) {
        for (size_t k = 0; k < i; ++k)
            assert_string_not_equal(app_row(i)->name, app_row(k)->name);
    }
}

/* ---- conf/resumelb.yaml ---- */

/* "NAME: VALUE" of LINE, commented out or not, in a list or not; false when it is something else.
 */
static bool setting_line(struct slice line, struct slice *name, struct slice *value)
{
    line = slice_trim(line);
    if (slice_starts(line, SLICE_LIT("- ")))
        line = slice_trim((struct slice){line.p + 2, line.len - 2});
    if (line.len > 0 && line.p[0] == '#') {
        ++line.p;
        --line.len;
        if (line.len == 0 || line.p[0] == ' ')
            return false;
    }
    *name = slice_cut(&line, ':');
    *value = slice_trim(line);
    return true;
}

/* How often the file has ROW with its default (or any value, when it has none). */
static size_t lines_of(const struct text *file, const struct setting_row *row)
{
    struct slice rest = text_slice(file);
    size_t n = 0;

    while (rest.len > 0) {
        struct slice line = slice_cut(&rest, '\n');
        struct slice name;
        struct slice value;

        if (setting_line(line, &name, &value) && slice_is(name, row->name) &&
            (row->deflt == NULL || slice_is(value, row->deflt)))
            ++n;
    }
    return n;
}

static void the_commented_configuration_has_every_row_with_its_default(void **state)
{
    struct text file = {0};
    size_t missing = 0;

    (void)state;
    assert_int_equal(file_read(RLB_SOURCE_DIR "/conf/resumelb.yaml", 1 << 20, &file), ERR_OK);
    for (size_t t = 0; t < SETTINGS_TABLES; ++t) {
        for (size_t i = 0; i < settings_tables[t]->n; ++i) {
            const struct setting_row *row = &settings_tables[t]->rows[i];

            if (lines_of(&file, row) == 0) {
                print_error("conf/resumelb.yaml: %s %s is missing, or has another default\n",
                            settings_tables[t]->scope, row->name);
                ++missing;
            }
        }
    }
    assert_int_equal(missing, 0);
    text_fini(&file);
}

static void the_commented_configuration_has_no_line_that_is_no_setting(void **state)
{
    struct text file = {0};
    struct slice rest;
    size_t wrong = 0;

    (void)state;
    assert_int_equal(file_read(RLB_SOURCE_DIR "/conf/resumelb.yaml", 1 << 20, &file), ERR_OK);
    rest = text_slice(&file);
    while (rest.len > 0) {
        struct slice line = slice_cut(&rest, '\n');
        struct slice name;
        struct slice value;
        bool known = false;

        if (!setting_line(line, &name, &value) || name.len == 0)
            continue;
        for (size_t t = 0; t < SETTINGS_TABLES; ++t)
            known = known || settings_find(settings_tables[t], name) != NULL;
        if (!known) {
            print_error("conf/resumelb.yaml: %.*s\n", SLICE_FMT(line));
            ++wrong;
        }
    }
    assert_int_equal(wrong, 0);
    text_fini(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_good_together),
        cmocka_unit_test(any_age_of_skills_is_accepted),
        cmocka_unit_test(the_buffer_of_one_response_may_not_exceed_that_of_all),
        cmocka_unit_test(the_host_of_checks_is_what_may_stand_in_a_host_field),
        cmocka_unit_test(a_checked_path_is_what_may_stand_in_a_request_line),
        cmocka_unit_test(a_copy_has_the_pool_rows_too_and_texts_of_its_own),
        cmocka_unit_test(rows_of_both_scopes_have_different_names),
        cmocka_unit_test(the_commented_configuration_has_every_row_with_its_default),
        cmocka_unit_test(the_commented_configuration_has_no_line_that_is_no_setting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
