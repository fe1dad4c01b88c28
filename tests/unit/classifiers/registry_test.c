/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "classifiers/registry.h"
#include "common/base/text.h"
#include "tests/support/settings_check.h"

/* Where CMake put the plugins: RLB_TEST_PLUGINS is a directory, RLB_EXAMPLE_PLUGIN a file. */
#define PLUGIN(name) RLB_TEST_PLUGINS "/" name ".so"

/* An environment of one variable. */
struct one_variable {
    struct rlb_environment super; /* first */
    const char *name;
    struct slice value;
};

static const char *get_one(const struct rlb_environment *env, const char *name, size_t *len)
{
    const struct one_variable *e = (const struct one_variable *)(const void *)env;

    if (strcmp(name, e->name) != 0)
        return NULL;
    *len = e->value.len;
    return e->value.p;
}

/* YAML of one line: the value of `classifier`. */
static struct classifier *create(const char *yaml, struct diag *d)
{
    struct config c;
    char *text = xasprintf("classifier: %s\n", yaml);

    if (!config_parse("f", slice_of(text), &c, d))
        fail_msg("no YAML: %s", d->text);
    struct classifier *k = classifier_create(&c, config_get(c.root, "classifier"), d);
    config_fini(&c);
    free(text);
    return k;
}

static struct classifier *create_good(const char *yaml)
{
    struct diag d = {0};
    struct classifier *k = create(yaml, &d);

    if (k == NULL)
        fail_msg("rejected: %s", d.text);
    assert_null(d.text);
    return k;
}

static void expect_rejected(const char *yaml, const char *expected)
{
    struct diag d = {0};

    assert_null(create(yaml, &d));
    assert_string_equal(d.text, expected);
    diag_fini(&d);
}

static void expect_rejected_with(const char *yaml, const char *part)
{
    struct diag d = {0};

    assert_null(create(yaml, &d));
    if (strstr(d.text, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", d.text, part);
    diag_fini(&d);
}

static void expect_class(const struct classifier *k, const char *variable, struct slice value,
                         const char *expected)
{
    struct one_variable e = {{get_one}, variable, value};
    char out[CLASS_BYTES_MAX];
    size_t n = classifier_classify(k, &e.super, out);

    assert_in_range(n, 0, CLASS_BYTES_MAX);
    if (!slice_is((struct slice){out, n}, expected))
        fail_msg("class %.*s, expected %s", (int)n, out, expected);
}

/* ---- host ---- */

/* With the Host passed to it, and with the classifier reading it from the request. */
static void expect_class_of_host(const struct classifier *k, struct slice host,
                                 const char *expected)
{
    char out[CLASS_BYTES_MAX];
    size_t n = SIZE_MAX;

    expect_class(k, "HTTP_HOST", host, expected);
    assert_true(classifier_of_host(k, host, out, &n));
    assert_in_range(n, 0, CLASS_BYTES_MAX);
    if (!slice_is((struct slice){out, n}, expected))
        fail_msg("class %.*s, expected %s", (int)n, out, expected);
}

static void host_is_one_name_for_all_its_spellings(void **state)
{
    static const char *const pairs[][2] = {
        {"a.example", "a.example"},
        {"A.Example:8080", "a.example"},
        {"www.a.example", "a.example"},
        {"WWW.a.example.:80", "a.example"},
        {"www.www.a.example", "www.a.example"},
        {"wwwa.example", "wwwa.example"},
        {"a.example.", "a.example"},
        {"[::1]:8080", "[::1]"},
        {"[FE80::1]", "[fe80::1]"},
        {"[::1", "[::1"},
        {"127.0.0.1:80", "127.0.0.1"},
        {"", ""},
        {":80", ""},
        {".", ""},
        {"www.", "www"},
        {"a b%", "a%20b%25"},
        {" a.example\t", "a.example"},
        {"caf\xc3\x89", "caf%C3%89"},
    };
    struct classifier *k = create_good("host");

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); ++i)
        expect_class_of_host(k, slice_of(pairs[i][0]), pairs[i][1]);
    expect_class_of_host(k, SLICE_LIT("a\0b"), "a%00b");
    expect_class_of_host(k, SLICE_NULL, "");
    expect_class(k, "PATH_INFO", SLICE_LIT("/"), "");
    assert_string_equal(classifier_kind(k), "host");
    classifier_destroy(k);
    classifier_destroy(NULL);
}

static void a_host_that_does_not_fit_is_no_class(void **state)
{
    struct classifier *k = create_good("host");
    char big[10240];
    char expected[CLASS_BYTES_MAX + 1];

    (void)state;
    memset(big, 'a', sizeof(big));
    expect_class_of_host(k, (struct slice){big, sizeof(big)}, "");
    expect_class_of_host(k, (struct slice){big, CLASS_BYTES_MAX + 1}, "");
    memset(expected, 'a', CLASS_BYTES_MAX);
    expected[CLASS_BYTES_MAX] = '\0';
    expect_class_of_host(k, (struct slice){big, CLASS_BYTES_MAX}, expected);
    /* raw it fits, encoded it does not */
    big[0] = '%';
    expect_class_of_host(k, (struct slice){big, CLASS_BYTES_MAX}, "");
    classifier_destroy(k);
}

/* ---- regex ---- */

#define WIKI "{regex: {variable: PATH_INFO, pattern: '^/w/(?<class>[^/]+)'}}"

static void regex_finds_the_group_named_class(void **state)
{
    struct classifier *k = create_good(WIKI);
    char out[CLASS_BYTES_MAX];
    size_t n = 0;

    (void)state;
    assert_false(classifier_of_host(k, SLICE_LIT("a.example"), out, &n));
    expect_class(k, "PATH_INFO", SLICE_LIT("/w/main/x"), "main");
    expect_class(k, "PATH_INFO", SLICE_LIT("/x/main"), "");
    expect_class(k, "PATH_INFO", SLICE_LIT("/w/a\0\xff z/"), "a%00%FF%20z");
    expect_class(k, "QUERY_STRING", SLICE_LIT("/w/main"), "");
    assert_string_equal(classifier_kind(k), "regex");
    classifier_destroy(k);

    k = create_good("{regex: {variable: QUERY_STRING, pattern: 'user=(?<class>\\d*)(&|$)'}}");
    expect_class(k, "QUERY_STRING", SLICE_LIT("a=1&user=42&b=2"), "42");
    expect_class(k, "QUERY_STRING", SLICE_LIT("user="), "");
    expect_class(k, "QUERY_STRING", SLICE_LIT(""), "");
    classifier_destroy(k);
}

static void a_group_that_took_no_part_is_no_class(void **state)
{
    struct classifier *k =
        create_good("{regex: {variable: PATH_INFO, pattern: '/(?<class>\\d+)|/none'}}");

    (void)state;
    expect_class(k, "PATH_INFO", SLICE_LIT("/none"), "");
    expect_class(k, "PATH_INFO", SLICE_LIT("/7"), "7");
    classifier_destroy(k);
}

static void subjects_and_classes_of_a_regex_are_bounded(void **state)
{
    struct classifier *k =
        create_good("{regex: {variable: PATH_INFO, pattern: '^/(?<class>[^/]*)'}}");
    char big[8193];

    (void)state;
    memset(big, 'a', sizeof(big));
    big[0] = big[2] = '/';
    expect_class(k, "PATH_INFO", (struct slice){big, 8192}, "a");
    expect_class(k, "PATH_INFO", (struct slice){big, 8193}, "");
    big[2] = 'a';
    expect_class(k, "PATH_INFO", (struct slice){big, 8192}, "");
    classifier_destroy(k);
}

static void a_regex_that_explodes_gives_up(void **state)
{
    struct classifier *k =
        create_good("{regex: {variable: PATH_INFO, pattern: '(?<class>(a+)+)$'}}");
    char big[8192];

    (void)state;
    memset(big, 'a', sizeof(big));
    big[sizeof(big) - 1] = 'b';
    /* Unbounded this would outlast the test's time-out many times over. */
    expect_class(k, "PATH_INFO", (struct slice){big, sizeof(big)}, "");
    expect_class(k, "PATH_INFO", SLICE_LIT("xaa"), "aa");
    classifier_destroy(k);
}

static void a_bad_regex_is_rejected_at_its_place(void **state)
{
    (void)state;
    expect_rejected(
        "{regex: {variable: PATH_INFO, pattern: '^/(?<class>'}}",
        "f:1:52: classifier: pattern: missing closing parenthesis (at its character 12)\n");
    expect_rejected("{regex: {variable: PATH_INFO, pattern: '^/(.*)'}}",
                    "f:1:52: classifier: pattern: has no group named class: (?<class>...)\n");
    expect_rejected_with("{regex: {variable: PATH_INFO, pattern: '(?J)(?<class>a)|(?<class>b)'}}",
                         "several groups named class");
    expect_rejected_with("{regex: {variable: PATH_INFO, pattern: '(*UTF)(?<class>a)'}}",
                         "classifier: pattern: ");
    expect_rejected(
        "{regex: {variable: 'PATH INFO', pattern: '(?<class>a)'}}",
        "f:1:32: classifier: variable: expected a name such as PATH_INFO or HTTP_X_TENANT\n");
    expect_rejected("{regex: {}}", "f:1:21: classifier: variable: is required and missing\n"
                                   "f:1:21: classifier: pattern: is required and missing\n");
    expect_rejected_with("{regex: {variable: A, patern: b}}", "(did you mean \"pattern\"?)");
    expect_rejected_with("{regex: x}", "expected \"name: value\" lines here");
}

static void a_pattern_is_bounded(void **state)
{
    struct text t = {0};

    (void)state;
    text_add(&t, SLICE_LIT("{regex: {variable: PATH_INFO, pattern: '(?<class>a)"));
    for (int i = 0; i < 4096; ++i)
        text_add_char(&t, 'a');
    text_add(&t, SLICE_LIT("'}}"));
    expect_rejected_with(text_cstr(&t), "pattern: longer than 4096 bytes");
    text_fini(&t);
}

/* ---- plugins ---- */

static void the_example_plugin_takes_the_start_of_the_path(void **state)
{
    struct classifier *k = create_good("{plugin: {path: '" RLB_EXAMPLE_PLUGIN "'}}");

    (void)state;
    expect_class(k, "PATH_INFO", SLICE_LIT("/de/shop/7"), "de");
    expect_class(k, "PATH_INFO", SLICE_LIT("/de"), "de");
    expect_class(k, "PATH_INFO", SLICE_LIT("/"), "");
    expect_class(k, "PATH_INFO", SLICE_LIT("*"), "");
    expect_class(k, "PATH_INFO", SLICE_LIT(""), "");
    expect_class(k, "PATH_INFO", SLICE_LIT("/\xff\0 /"), "%FF%00%20");
    expect_class(k, "QUERY_STRING", SLICE_LIT("/de"), "");
    assert_string_equal(classifier_kind(k), "plugin");
    classifier_destroy(k);

    k = create_good("{plugin: {path: '" RLB_EXAMPLE_PLUGIN "', options: '2'}}");
    expect_class(k, "PATH_INFO", SLICE_LIT("/de/shop/7"), "de/shop");
    expect_class(k, "PATH_INFO", SLICE_LIT("/de"), "de");
    classifier_destroy(k);
    expect_rejected(
        "{plugin: {options: many, path: '" RLB_EXAMPLE_PLUGIN "'}}",
        "f:1:32: classifier: options: rejected by the plugin: expected a number of path "
        "segments from 1 to 9\n");
}

static void a_plugin_that_cannot_be_loaded_is_rejected(void **state)
{
    (void)state;
    expect_rejected("{plugin: {path: example_path.so}}",
                    "f:1:29: classifier: path: must be absolute, and at most 1024 bytes\n");
    expect_rejected("{plugin: {options: x}}",
                    "f:1:22: classifier: path: is required and missing\n");
    expect_rejected_with("{plugin: {path: /nonexistent.so}}",
                         "path: cannot be loaded: No such file or directory");
    expect_rejected_with("{plugin: {path: /proc/self/maps}}", "path: cannot be loaded: ");
}

static void a_plugin_that_breaks_the_contract_is_rejected(void **state)
{
    (void)state;
    expect_rejected_with("{plugin: {path: '" PLUGIN("no_symbol") "'}}",
                         "does not export rlb_classifier");
    expect_rejected_with("{plugin: {path: '" PLUGIN("no_contract") "'}}", "has no classifier");
    expect_rejected_with("{plugin: {path: '" PLUGIN("wrong_version") "'}}",
                         "built for version 99 of the plugin contract, expected version 1");
    expect_rejected_with("{plugin: {path: '" PLUGIN("no_create") "'}}", "does not implement all");
}

static void a_plugin_cannot_return_more_than_fits(void **state)
{
    struct classifier *k = create_good("{plugin: {path: '" PLUGIN("too_long") "'}}");

    (void)state;
    expect_class(k, "PATH_INFO", SLICE_LIT("/"), "");
    classifier_destroy(k);
}

static void put_in_place(const char *from, const char *path)
{
    char *command = xasprintf("cp '%s' '%s.new' && mv '%s.new' '%s'", from, path, path, path);

    assert_int_equal(system(command), 0);
    free(command);
}

static void a_new_version_at_the_old_path_is_loaded_while_the_old_one_serves(void **state)
{
    char directory[] = RLB_TEST_DIR "/registry_test.XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(directory));
    char *path = xasprintf("%s/plugin.so", directory);
    char *yaml = xasprintf("{plugin: {path: '%s'}}", path);
    put_in_place(RLB_EXAMPLE_PLUGIN, path);
    struct classifier *old = create_good(yaml);
    struct classifier *same = create_good(yaml);
    put_in_place(PLUGIN("too_long"), path);
    struct classifier *new = create_good(yaml);

    expect_class(old, "PATH_INFO", SLICE_LIT("/de"), "de");
    expect_class(same, "PATH_INFO", SLICE_LIT("/de"), "de");
    expect_class(new, "PATH_INFO", SLICE_LIT("/de"), "");
    assert_string_equal(classifier_fingerprint(old), classifier_fingerprint(same));
    assert_string_not_equal(classifier_fingerprint(old), classifier_fingerprint(new));
    classifier_destroy(same);
    classifier_destroy(old);
    expect_class(new, "PATH_INFO", SLICE_LIT("/de"), "");
    classifier_destroy(new);
    unlink(path);
    rmdir(directory);
    free(yaml);
    free(path);
}

static void reasons_of_a_plugin_are_escaped(void **state)
{
    (void)state;
    expect_rejected_with("{plugin: {path: '" PLUGIN("rude") "'}}",
                         "rejected by the plugin: \\x1b[31mno\\x0a\n");
}

/* ---- all kinds ---- */

static void an_invalid_classifier_is_rejected(void **state)
{
    static const char expected[] = "classifier: expected host, regex: {...} or plugin: {...}\n";

    (void)state;
    expect_rejected_with("hots", expected);
    expect_rejected_with("regex", expected);
    expect_rejected_with("[host]", expected);
    expect_rejected_with("{}", expected);
    expect_rejected_with("{host: 1}", expected);
    expect_rejected_with("{regex: {}, plugin: {}}", expected);
}

static void expect_fingerprint(const char *yaml, const char *expected)
{
    struct classifier *k = create_good(yaml);

    assert_string_equal(classifier_fingerprint(k), expected);
    classifier_destroy(k);
}

/* Resumes kept by one release must count in the next: a change of these is a change of the format.
 */
static void fingerprints_are_the_same_on_every_machine_and_in_every_release(void **state)
{
    (void)state;
    expect_fingerprint("host", "08c79ad92defe2e3");
    expect_fingerprint(WIKI, "45faafb9b03875f3");
    expect_fingerprint("{plugin: {path: '" RLB_EXAMPLE_PLUGIN "'}}", "8c43674322100fb4");
}

static void fingerprints_differ_where_classes_may(void **state)
{
    static const char *const yamls[] = {
        "host",
        "{regex: {variable: AB, pattern: '(?<class>a)'}}",
        "{regex: {variable: A, pattern: 'B(?<class>a)'}}",
        "{regex: {variable: AB, pattern: '(?<class>b)'}}",
        "{plugin: {path: '" RLB_EXAMPLE_PLUGIN "'}}",
        "{plugin: {path: '" RLB_EXAMPLE_PLUGIN "', options: '2'}}",
    };
    char prints[ARRAY_LEN(yamls)][FINGERPRINT_LEN + 1];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(yamls); ++i) {
        struct classifier *k = create_good(yamls[i]);

        strcpy(prints[i], classifier_fingerprint(k));
        assert_int_equal(strlen(prints[i]), FINGERPRINT_LEN);
        for (size_t j = 0; j < i; ++j)
            assert_string_not_equal(prints[i], prints[j]);
        classifier_destroy(k);
    }
}

static void tables_of_settings_are_sound(void **state)
{
    (void)state;
    for (size_t i = 0; i < CLASSIFIER_TABLES; ++i)
        settings_check_table(classifier_tables[i]);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 3000 };

/* The classifier itself when a class was wrong. */
static void *classify_many(void *arg)
{
    const struct classifier *k = arg;
    char path[64];
    char out[CLASS_BYTES_MAX];

    for (int i = 0; i < ROUNDS; ++i) {
        int len = snprintf(path, sizeof(path), "/w/%d/x", i);
        struct one_variable e = {{get_one}, "PATH_INFO", {path, (size_t)len}};
        size_t n = classifier_classify(k, &e.super, out);

        if (n != (size_t)len - 5 || memcmp(out, path + 3, n) != 0)
            return arg;
    }
    return NULL;
}

static void several_threads_classify_at_once(void **state)
{
    struct classifier *k = create_good(WIKI);
    pthread_t threads[THREADS];

    (void)state;
    for (size_t i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, classify_many, k), 0);
    for (size_t i = 0; i < THREADS; ++i) {
        void *wrong = NULL;

        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    classifier_destroy(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_is_one_name_for_all_its_spellings),
        cmocka_unit_test(a_host_that_does_not_fit_is_no_class),
        cmocka_unit_test(regex_finds_the_group_named_class),
        cmocka_unit_test(a_group_that_took_no_part_is_no_class),
        cmocka_unit_test(subjects_and_classes_of_a_regex_are_bounded),
        cmocka_unit_test(a_regex_that_explodes_gives_up),
        cmocka_unit_test(a_bad_regex_is_rejected_at_its_place),
        cmocka_unit_test(a_pattern_is_bounded),
        cmocka_unit_test(the_example_plugin_takes_the_start_of_the_path),
        cmocka_unit_test(a_plugin_that_cannot_be_loaded_is_rejected),
        cmocka_unit_test(a_plugin_that_breaks_the_contract_is_rejected),
        cmocka_unit_test(a_plugin_cannot_return_more_than_fits),
        cmocka_unit_test(a_new_version_at_the_old_path_is_loaded_while_the_old_one_serves),
        cmocka_unit_test(reasons_of_a_plugin_are_escaped),
        cmocka_unit_test(an_invalid_classifier_is_rejected),
        cmocka_unit_test(fingerprints_are_the_same_on_every_machine_and_in_every_release),
        cmocka_unit_test(fingerprints_differ_where_classes_may),
        cmocka_unit_test(tables_of_settings_are_sound),
        cmocka_unit_test(several_threads_classify_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
