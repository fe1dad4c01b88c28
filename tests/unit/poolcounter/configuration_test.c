/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/file.h"
#include "poolcounter/configuration.h"
#include "tests/support/odd_values.h"
#include "tests/support/settings_check.h"

static struct poolcounter_config *read_good(const char *yaml)
{
    struct diag d = {0};
    struct slice text = slice_of(yaml);
    struct poolcounter_config *c = configuration_read("test", &text, &d);

    if (c == NULL)
        fail_msg("rejected: %s", d.text);
    diag_fini(&d);
    return c;
}

static void expect_rejected(const char *yaml, const char *reason)
{
    struct diag d = {0};
    struct slice text = slice_of(yaml);

    assert_null(configuration_read("test", &text, &d));
    if (strstr(d.text, reason) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", d.text, reason);
    diag_fini(&d);
}

static void the_tables_can_work(void **state)
{
    (void)state;
    settings_check_table(&poolcounter_table);
    settings_check_table(&admin_table);
    settings_check_table(&type_table);
}

static void without_a_file_all_is_default(void **state)
{
    struct diag d = {0};
    struct poolcounter_config *c = configuration_read(NULL, NULL, &d);
    char text[ADDR_TEXT_MAX];

    (void)state;
    assert_non_null(c);
    assert_int_equal(c->nlisten, 1);
    assert_string_equal(addr_format(&c->listen[0], text), "127.0.0.1:7531");
    assert_int_equal(c->admin.n, 0);
    assert_int_equal(c->ntypes, 0);
    configuration_destroy(c);
}

static void types_have_their_limits(void **state)
{
    struct poolcounter_config *c =
        read_good("types: {ArticleView: {slots: 10, workers: 4}, Other: {slots: 3}}\n"
                  "listen_mode: 660\n");

    (void)state;
    assert_int_equal(c->ntypes, 2);
    assert_string_equal(c->types[0].name, "ArticleView");
    assert_int_equal(c->types[0].limits.slots, 10);
    assert_int_equal(c->types[0].limits.workers, 4);
    assert_int_equal(c->types[1].limits.workers, 0);
    assert_int_equal(c->listen_mode, 0660);
    configuration_destroy(c);
}

static void invalid_settings_are_rejected_with_their_place(void **state)
{
    (void)state;
    expect_rejected("listen: [localhost:1]\n", "test:1:10: listen: localhost:1: a host name");
    expect_rejected("listen: []\n", "expected 1 to 64 addresses");
    expect_rejected("listen_mode: 680\n", "octal");
    expect_rejected("types: {\"a:b\": {slots: 1}}\n", "no ':'");
    expect_rejected("types: {\"\": {slots: 1}}\n", "a name cannot be empty");
    expect_rejected("types: [a]\n", "expected at most");
    expect_rejected("types: {a: {slot: 1}}\n", "did you mean \"slots\"");
    expect_rejected("types: {a: {slots: -1}}\n", "slots");
    expect_rejected("admin: {address: 0.0.0.0:80}\n", "which needs a token");
    expect_rejected("admin: {token: x}\n", "address is required");
    expect_rejected("admin: {address: here}\n", "expected HOST:PORT");
    expect_rejected("listen: [\"127.0.0.1:80\"]\nadmin: {address: \"127.0.0.1:80\"}\n",
                    "test:2:18: admin: 127.0.0.1:80 is in use by listen: 127.0.0.1:80");
    expect_rejected("listen: [\"127.0.0.1:80\", \"0.0.0.0:80\"]\n",
                    "test:1:26: listen: 0.0.0.0:80 is in use by listen: 127.0.0.1:80");
    expect_rejected("max_keys: 0\n", "max_keys");
    expect_rejected("a: [\n", "test:");
}

/* ---- conf/resumelb-poolcounter.yaml ---- */

static const struct settings_table *const tables[] = {&poolcounter_table, &admin_table,
                                                      &type_table};

/* How often the file has "NAME: DEFAULT", commented out or not, or NAME when it has none. */
static size_t lines_of(const struct text *file, const struct setting_row *row)
{
    char *wanted = xasprintf(row->deflt != NULL ? "%s: %s" : "%s:", row->name, row->deflt);
    struct slice rest = text_slice(file);
    size_t n = 0;

    while (rest.len != 0) {
        struct slice line = slice_trim(slice_cut(&rest, '\n'));

        while (line.len != 0 && (line.p[0] == '#' || line.p[0] == ' ')) {
            ++line.p;
            --line.len;
        }
        /* Of `types` there are examples of limits, not their defaults. */
        n += row->deflt != NULL && strcmp(row->deflt, "0") != 0
                 ? slice_is(line, wanted)
                 : slice_starts(line, (struct slice){wanted, strlen(row->name) + 1});
    }
    free(wanted);
    return n;
}

static void the_commented_configuration_has_every_row_with_its_default(void **state)
{
    struct text file = {0};

    (void)state;
    assert_int_equal(file_read(RLB_SOURCE_DIR "/conf/resumelb-poolcounter.yaml", 1 << 20, &file),
                     ERR_OK);
    for (size_t t = 0; t < ARRAY_LEN(tables); ++t) {
        for (size_t i = 0; i < tables[t]->n; ++i) {
            if (lines_of(&file, &tables[t]->rows[i]) == 0)
                fail_msg("%s is missing, or has another default", tables[t]->rows[i].name);
        }
    }
    text_fini(&file);
}

static bool read_any(const char *file, struct diag *d)
{
    struct poolcounter_config *c = configuration_read(file, NULL, d);

    configuration_destroy(c);
    return c != NULL;
}

static void any_kind_of_value_of_any_setting_is_accepted_or_rejected_and_never_fatal(void **state)
{
    static const struct odd_program program = {.tables = poolcounter_tables,
                                               .ntables = POOLCOUNTER_TABLES,
                                               .start = {{"listen", "\"127.0.0.1:1\""}},
                                               .places = {"admin", "types"},
                                               .read = read_any};

    (void)state;
    assert_true(odd_values_try(&program) > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_can_work),
        cmocka_unit_test(without_a_file_all_is_default),
        cmocka_unit_test(types_have_their_limits),
        cmocka_unit_test(invalid_settings_are_rejected_with_their_place),
        cmocka_unit_test(the_commented_configuration_has_every_row_with_its_default),
        cmocka_unit_test(any_kind_of_value_of_any_setting_is_accepted_or_rejected_and_never_fatal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
