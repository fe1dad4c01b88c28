/* SPDX-License-Identifier: Apache-2.0
 *
 * Each test writes a file, reads it, and checks the result: values, or errors with their positions.
 */
#include "lb/config/configuration.h"

#include "common/base/file.h"
#include "lb/limits/limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/odd_values.h"

struct fixture {
    char directory[64];
    char *path;
    struct diag d;
    struct configuration c;
    bool good;
};

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    strcpy(f->directory, RLB_TEST_DIR "/rlb-configuration-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    f->path = xasprintf("%s/c.yaml", f->directory);
    *state = f;
    return 0;
}

static void forget(struct fixture *f)
{
    if (f->good)
        configuration_fini(&f->c);
    diag_fini(&f->d);
    f->d = (struct diag){0};
    f->good = false;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    forget(f);
    unlink(f->path);
    rmdir(f->directory);
    free(f->path);
    free(f);
    return 0;
}

static bool read_text(struct fixture *f, const char *text)
{
    FILE *out = fopen(f->path, "w");

    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    forget(f);
    f->good = configuration_read(f->path, &f->c, &f->d);
    return f->good;
}

/* There is a message about LINE that contains WORDS. */
static void assert_complaint(const struct fixture *f, unsigned line, const char *words)
{
    char *prefix = xasprintf("%s:%u:", f->path, line);
    const char *p = f->d.text != NULL ? f->d.text : "";

    while (p != NULL && *p != '\0') {
        const char *end = strchr(p, '\n');
        char *one = xslicedup((struct slice){p, (size_t)(end - p)});
        bool found = strncmp(one, prefix, strlen(prefix)) == 0 && strstr(one, words) != NULL;

        free(one);
        if (found) {
            free(prefix);
            return;
        }
        p = end + 1;
    }
    free(prefix);
    fail_msg("no complaint about line %u with \"%s\" in:\n%s", line, words,
             f->d.text != NULL ? f->d.text : "(none)");
}

/* Where setting NAME of A is from. */
static enum setting_origin origin_of(const struct application_config *a, const char *name)
{
    size_t i = 0;

    while (strcmp(app_row(i)->name, name) != 0)
        ++i;
    return a->origins[i];
}

static void with_one_application_its_keys_stand_at_the_top(void **state)
{
    struct fixture *f = *state;

    assert_true(read_text(f, "listen: [\"127.0.0.1:8080\"]\n"
                             "workers: [\"127.0.0.1:9101\", {address: \"unix:/run/w.sock\", "
                             "max_connections: 1, max_tunnels: 5, resume: stream}]\n"
                             "retries: 5\n"
                             "pool: {variance: 6}\n"
                             "threads: 3\n"));
    assert_int_equal(f->c.napplications, 1);
    const struct application_config *a = &f->c.applications[0];
    assert_string_equal(a->name, "default");
    assert_int_equal(a->s.retries, 5);
    assert_true(a->s.variance > 5.9);
    assert_int_equal(origin_of(a, "variance"), ORIGIN_YAML);
    assert_int_equal(origin_of(a, "history"), ORIGIN_DEFAULT);
    assert_int_equal(a->nworkers, 2);
    assert_int_equal(a->workers[0].s.resume, RESUME_FROM_AUTO);
    assert_int_equal(a->workers[0].s.max_connections, -1);
    assert_int_equal(a->workers[1].s.resume, RESUME_FROM_STREAM);
    assert_int_equal(a->workers[1].s.max_connections, 1);
    assert_int_equal(a->workers[0].s.max_tunnels, -1);
    assert_int_equal(a->workers[1].s.max_tunnels, 5);
    assert_int_equal(a->s.max_tunnels, 1000);
    assert_non_null(a->classifier);
    assert_int_equal(f->c.nloops, 3);
}

static void top_level_application_keys_and_applications_do_not_mix(void **state)
{
    struct fixture *f = *state;

    assert_false(read_text(f, "listen: [\"127.0.0.1:8080\"]\n"
                              "retries: 5\n"
                              "applications:\n"
                              "  a: {workers: [\"127.0.0.1:1\"]}\n"));
    assert_complaint(f, 2, "retries belongs in an application");
    assert_int_equal(f->d.errors, 1);
}

static void every_mistake_is_reported_in_one_go(void **state)
{
    struct fixture *f = *state;

    assert_false(read_text(f, "listen:\n"
                              "  - {address: nonsense}\n"
                              "  - {address: \"127.0.0.1:80\", http2: true}\n"
                              "  - {address: \"unix:/x\", mode: 680}\n"
                              "  - {address: \"127.0.0.1:80\"}\n"
                              "admin: {address: \"10.1.2.3:80\"}\n"
                              "threads: 65\n"
                              "applications:\n"
                              "  a:\n"
                              "    hosts: [x.example, X.example]\n"
                              "    path: w\n"
                              "    workers: [\"127.0.0.1:1\", \"127.0.0.1:01\", \"[::1]:0\"]\n"
                              "    error_page: /nowhere/page.html\n"
                              "    classifier: colour\n"
                              "    tree: gopher://x\n"
                              "  b: {}\n"
                              "  c/d: {workers: [\"127.0.0.1:1\"]}\n"
                              "  e: {workers: []}\n"));
    assert_complaint(f, 2, "nonsense");
    assert_complaint(f, 3, "http2");
    assert_complaint(f, 4, "octal");
    assert_complaint(f, 5, "is in use by listen");
    assert_complaint(f, 6, "token");
    assert_complaint(f, 7, "1 to 64");
    assert_complaint(f, 10, "duplicate entry");
    assert_complaint(f, 11, "path");
    assert_complaint(f, 12, "port is missing");
    assert_complaint(f, 13, "/nowhere/page.html");
    assert_complaint(f, 14, "");
    assert_complaint(f, 15, "directory:/path");
    assert_complaint(f, 16, "workers are required, or a tree");
    assert_complaint(f, 17, "a name consists of letters");
    assert_complaint(f, 18, "workers");
}

static void addresses_that_collide_are_rejected(void **state)
{
    struct fixture *f = *state;

    assert_false(read_text(f, "listen:\n"
                              "  - \"127.0.0.1:8080\"\n"
                              "  - \"0.0.0.0:8080\"\n"
                              "  - \"[::]:8080\"\n"
                              "workers: [\"127.0.0.1:1\"]\n"
                              "admin:\n"
                              "  token: x\n"
                              "  address:\n"
                              "    - \"127.0.0.1:8081\"\n"
                              "    - \"[::1]:8080\"\n"
                              "    - \"0.0.0.0:8081\"\n"));
    assert_complaint(f, 3, "listen: 0.0.0.0:8080 is in use by listen: 127.0.0.1:8080");
    assert_complaint(f, 10, "admin: [::1]:8080 is in use by listen: [::]:8080");
    assert_complaint(f, 11, "admin: 0.0.0.0:8081 is in use by admin: 127.0.0.1:8081");
    assert_int_equal(f->d.errors, 3);
    /* Port 0 is a new port each time. */
    assert_true(read_text(f, "listen: [\"127.0.0.1:0\", \"127.0.0.1:0\"]\n"
                             "workers: [\"127.0.0.1:1\"]\n"
                             "admin: {address: \"127.0.0.1:0\"}\n"));
}

static void files_that_cannot_be_made_are_rejected(void **state)
{
    struct fixture *f = *state;

    assert_false(read_text(f, "listen: [\"127.0.0.1:0\"]\n"
                              "workers: [\"127.0.0.1:1\"]\n"
                              "access_log: /tmp\n"
                              "state_dir: /nowhere/at/all/\n"));
    assert_complaint(f, 3, "access_log: /tmp is a directory");
    assert_complaint(f, 4, "state_dir: directory /nowhere/at does not exist");
    assert_true(read_text(f, "listen: [\"127.0.0.1:0\"]\n"
                             "workers: [\"127.0.0.1:1\"]\n"
                             "access_log: \"-\"\n"
                             "state_dir: /tmp/not-made-yet/\n"));
}

/* As it is read at the start: here it would be found too late. */
static void an_auth_file_that_cannot_be_used_is_rejected(void **state)
{
    struct fixture *f = *state;
    char *text = xasprintf("listen: [\"127.0.0.1:0\"]\n"
                           "tree: zookeeper://127.0.0.1:9/shop\n"
                           "zookeeper_auth: %s.auth\n",
                           f->path);
    char *file = xasprintf("%s.auth", f->path);

    assert_false(read_text(f, text));
    assert_complaint(f, 3, "zookeeper_auth: ");
    assert_complaint(f, 3, "No such file");
    assert_int_equal(file_write(file, SLICE_LIT("nobody\n"), 0600), ERR_OK);
    assert_false(read_text(f, text));
    assert_complaint(f, 3, "expected USER:PASSWORD");
    assert_int_equal(file_write(file, SLICE_LIT("user:password\n"), 0600), ERR_OK);
    assert_true(read_text(f, text));
    assert_int_equal(chmod(file, 0644), 0);
    assert_false(read_text(f, text));
    assert_complaint(f, 3, "accessible to all users");
    unlink(file);
    free(file);
    free(text);
}

static void a_listener_is_required(void **state)
{
    struct fixture *f = *state;

    assert_false(read_text(f, ""));
    assert_non_null(strstr(f->d.text, "listen"));
    assert_false(read_text(f, "listen: []\nworkers: [\"127.0.0.1:1\"]\n"));
    assert_complaint(f, 1, "at least one address");
}

static void no_two_applications_want_the_same_requests(void **state)
{
    struct fixture *f = *state;

    assert_false(read_text(f, "listen: [\"127.0.0.1:8080\"]\n"
                              "applications:\n"
                              "  a: {hosts: [x.example], path: /w/, workers: [\"127.0.0.1:1\"]}\n"
                              "  b: {hosts: [X.example.], path: /w, workers: [\"127.0.0.1:1\"]}\n"
                              "  c: {workers: [\"127.0.0.1:1\"]}\n"
                              "  d: {hosts: [y], default: true, workers: [\"127.0.0.1:1\"]}\n"));
    assert_complaint(f, 4, "same host and path");
    assert_complaint(f, 6, "same host and path");
    assert_int_equal(f->d.errors, 2);
    assert_true(read_text(f, "listen: [\"127.0.0.1:8080\"]\n"
                             "applications:\n"
                             "  a: {hosts: [x.example], path: /w, workers: [\"127.0.0.1:1\"]}\n"
                             "  b: {hosts: [x.example], workers: [\"127.0.0.1:1\"]}\n"));
    assert_int_equal(f->c.applications[0].path.len, 2);
    assert_int_equal(f->c.applications[1].path.len, 0);
}

static void the_same_worker_twice_is_a_mistake_however_it_is_written(void **state)
{
    struct fixture *f = *state;

    assert_false(read_text(f, "listen: [\"127.0.0.1:8080\"]\n"
                              "workers:\n"
                              "  - \"[::1]:80\"\n"
                              "  - \"[0:0::1]:80\"\n"));
    assert_complaint(f, 4, "duplicate entry");
}

static void at_least_one_method_is_required(void **state)
{
    struct fixture *f = *state;

    assert_false(read_text(f, "listen: [\"127.0.0.1:8080\"]\n"
                              "workers: [\"127.0.0.1:9101\"]\n"
                              "methods: []\n"));
    assert_complaint(f, 3, "methods: at least one is required");
}

static void names_of_workers_are_left_to_the_resolver(void **state)
{
    struct fixture *f = *state;

    assert_true(read_text(f, "listen: [\"127.0.0.1:8080\"]\nworkers: [\"localhost:80\"]\n"));
    assert_true(f->c.applications[0].workers[0].named);
    assert_string_equal(f->c.applications[0].workers[0].s.address, "localhost:80");
}

static void beyond_loopback_the_admin_address_takes_a_token(void **state)
{
    struct fixture *f = *state;

    assert_true(read_text(f, "listen: [\"127.0.0.1:8080\"]\nworkers: [\"127.0.0.1:1\"]\n"
                             "admin: {address: [\"10.1.2.3:80\", \"[::1]:81\"], token: secret}\n"));
    assert_int_equal(f->c.admin.n, 2);
    assert_string_equal(f->c.admin.s.token, "secret");
}

static void mode_is_read_as_octal_digits(void **state)
{
    struct fixture *f = *state;

    assert_true(read_text(f, "listen: [{address: \"unix:/x\", mode: 660}]\n"
                             "workers: [\"127.0.0.1:1\"]\n"));
    assert_int_equal(f->c.listens[0].mode, 0660);
}

static void the_commented_configuration_is_good(void **state)
{
    struct fixture *f = *state;

    f->good = configuration_read(RLB_SOURCE_DIR "/conf/resumelb.yaml", &f->c, &f->d);
    if (!f->good)
        print_error("%s\n", f->d.text);
    assert_true(f->good);
}

#define WITH_WORKERS "listen: [\"127.0.0.1:8080\"]\nworkers: [\"127.0.0.1:9101\"]\n"

static void limits_are_read_with_what_they_match_and_their_page(void **state)
{
    struct fixture *f = *state;
    char *page = xasprintf("%s/busy.html", f->directory);
    char *yaml =
        xasprintf(WITH_WORKERS "pool_counter_servers: [\"127.0.0.1:7531\", \"unix:/run/p\"]\n"
                               "limits:\n"
                               "  reports:\n"
                               "    workers: 4\n"
                               "    where: daemon\n"
                               "    match: {path: \"prefix:/reports/\"}\n"
                               "  all:\n"
                               "    page: %s\n",
                  page);
    FILE *out = fopen(page, "w");

    assert_non_null(out);
    fputs("<p>busy", out);
    fclose(out);
    assert_true(read_text(f, yaml));
    const struct limit_configs *limits = &f->c.applications[0].limits;
    assert_int_equal(limits->n, 2);
    assert_string_equal(limits->items[0].name, "reports");
    assert_int_equal(limits->items[0].s.workers, 4);
    assert_int_equal(limits->items[0].s.maxqueue, 100);
    assert_string_equal(limits->items[0].s.path, "prefix:/reports/");
    assert_int_equal(limits->items[0].origins[limit_table.n + 1], ORIGIN_YAML);
    assert_string_equal(match_table.rows[1].name, "path");
    assert_int_equal(limits->items[1].origins[limit_table.n + 1], ORIGIN_DEFAULT);
    assert_true(slice_is(text_slice(&limits->items[1].page), "<p>busy"));
    unlink(page);
    free(page);
    free(yaml);
}

static void mistakes_in_limits_are_reported_at_their_places(void **state)
{
    struct fixture *f = *state;

    assert_false(read_text(f, WITH_WORKERS "limits:\n" /* line 3 */
                                           "  good: {}\n"
                                           "  bad name:\n"
                                           "    workers: 1\n"
                                           "  pattern:\n"
                                           "    match:\n"
                                           "      path: \"regex:(\"\n" /* 9 */
                                           "  template:\n"
                                           "    key: \"{PATH}\"\n" /* 11 */
                                           "  limits:\n"
                                           "    workers: 200\n"
                                           "    maxqueue: 100\n" /* 14 */
                                           "  slots:\n"
                                           "    workers: 3\n"
                                           "    slots: 2\n" /* 17 */
                                           "  page:\n"
                                           "    page: /does/not/exist\n" /* 19 */
                                           "  lost:\n"
                                           "    where: daemon\n" /* 21 */
                                           "  typo:\n"
                                           "    wrokers: 3\n" /* 23 */
                                           "  scalar: 7\n"    /* 24 */
                                           "  list:\n"
                                           "    match: [a]\n")); /* 26 */
    assert_complaint(f, 5, "a name consists of letters");
    assert_complaint(f, 9, "path: ");
    assert_complaint(f, 11, "key: expected {class} or {VARIABLE}");
    assert_complaint(f, 14, "workers (200) is above maxqueue (100)");
    assert_complaint(f, 17, "below workers (3)");
    assert_complaint(f, 19, "page: /does/not/exist: ");
    assert_complaint(f, 21, "no pool_counter_servers");
    assert_complaint(f, 23, "workers");
    assert_complaint(f, 24, "expected");
    assert_complaint(f, 26, "expected");
    assert_int_equal(f->d.errors, 10);
    assert_false(read_text(f, WITH_WORKERS "limits: [a]\n"));
    assert_complaint(f, 3, "limits: expected NAME");
}

static void the_number_of_limits_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct text yaml = {0};

    text_add(&yaml, SLICE_LIT(WITH_WORKERS "limits:\n"));
    for (int i = 0; i < LIMITS_MAX; ++i)
        text_addf(&yaml, "  c%d: {}\n", i);
    assert_true(read_text(f, text_cstr(&yaml)));
    text_add(&yaml, SLICE_LIT("  more: {}\n"));
    assert_false(read_text(f, text_cstr(&yaml)));
    assert_complaint(f, 4 + LIMITS_MAX, "at most 64");
    text_fini(&yaml);
}

static void pool_counter_servers_are_addresses_without_duplicates(void **state)
{
    static const struct {
        const char *list, *why;
    } bad[] = {
        {"[\"127.0.0.1:1\", \"counter.example:7531\"]", "host name is not permitted"},
        {"[\"127.0.0.1:1\", \"nonsense\"]", "expected HOST:PORT"},
        {"[\"127.0.0.1:1\", \"127.0.0.1:1\"]", "duplicate"},
        {"[\"[::1]:1\", \"[0::1]:1\"]", "duplicate"},
        {"[\"127.0.0.1:1\", \"unix:/a b\"]", "visible ASCII"},
    };
    struct fixture *f = *state;

    assert_true(read_text(f, WITH_WORKERS
                          "pool_counter_servers: [\"127.0.0.1:1\", \"[::1]:1\", \"unix:/a\"]\n"));
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        char *yaml = xasprintf(WITH_WORKERS "pool_counter_servers: %s\n", bad[i].list);

        assert_false(read_text(f, yaml));
        assert_int_equal(f->d.errors, 1);
        assert_complaint(f, 3, bad[i].why);
        free(yaml);
    }
}

static bool read_any(const char *file, struct diag *d)
{
    struct configuration c;

    if (!configuration_read(file, &c, d))
        return false;
    configuration_fini(&c);
    return true;
}

static void any_kind_of_value_of_any_setting_is_accepted_or_rejected_and_never_fatal(void **state)
{
    static const struct odd_program program = {
        .tables = settings_tables,
        .ntables = SETTINGS_TABLES,
        .start = {{"listen", "[\"127.0.0.1:1\"]"}, {"workers", "[\"127.0.0.1:2\"]"}},
        .application = {{"workers", "[\"127.0.0.1:2\"]"}},
        .places = {"admin", "pool", "applications", "limits"},
        .read = read_any};

    (void)state;
    assert_true(odd_values_try(&program) > 1000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(with_one_application_its_keys_stand_at_the_top),
        TEST(top_level_application_keys_and_applications_do_not_mix),
        TEST(every_mistake_is_reported_in_one_go),
        TEST(addresses_that_collide_are_rejected),
        TEST(files_that_cannot_be_made_are_rejected),
        TEST(an_auth_file_that_cannot_be_used_is_rejected),
        TEST(a_listener_is_required),
        TEST(no_two_applications_want_the_same_requests),
        TEST(the_same_worker_twice_is_a_mistake_however_it_is_written),
        TEST(at_least_one_method_is_required),
        TEST(names_of_workers_are_left_to_the_resolver),
        TEST(beyond_loopback_the_admin_address_takes_a_token),
        TEST(mode_is_read_as_octal_digits),
        TEST(the_commented_configuration_is_good),
        TEST(limits_are_read_with_what_they_match_and_their_page),
        TEST(mistakes_in_limits_are_reported_at_their_places),
        TEST(the_number_of_limits_is_bounded),
        TEST(pool_counter_servers_are_addresses_without_duplicates),
        cmocka_unit_test(any_kind_of_value_of_any_setting_is_accepted_or_rejected_and_never_fatal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
