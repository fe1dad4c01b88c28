/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/config/agent_config.h"

#include "tests/support/odd_values.h"

static bool read_any(const char *file, struct diag *d)
{
    struct agent_config *c = agent_config_read(file, d);

    if (c == NULL)
        return false;
    agent_config_destroy(c);
    return true;
}

static void any_kind_of_value_of_any_setting_is_accepted_or_rejected_and_never_fatal(void **state)
{
    static const struct odd_program program = {
        .tables = agent_tables,
        .ntables = AGENT_TABLES,
        .start = {{"tree", "\"directory:/tmp\""},
                  {"state_dir", "/tmp"},
                  {"applications", "{x: {listen: \"127.0.0.1:1\", command: [\"/bin/true\"]}}"}},
        .application = {{"listen", "\"127.0.0.1:1\""}, {"command", "[\"/bin/true\"]"}},
        .places = {"admin", "applications"},
        .read = read_any};

    (void)state;
    assert_true(odd_values_try(&program) > 500);
}

/* Reads a configuration with APPLICATION, the lines of an application in flow style. */
static struct agent_config *read_application(const char *application, struct diag *d)
{
    char path[] = RLB_TEST_DIR "/agent_config.XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    dprintf(fd, "state_dir: /tmp\napplications: {x: {listen: \"127.0.0.1:1\", %s}}\n", application);
    close(fd);
    struct agent_config *c = agent_config_read(path, d);
    unlink(path);
    return c;
}

static void a_command_without_a_program_is_rejected(void **state)
{
    static const char *const lines[] = {"root: /tmp",    "command: []",         "command: ~",
                                        "command: null", "command: \"\"",       "command: [\"\"]",
                                        "command: ",     "command: ['', \"x\"]"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lines); ++i) {
        struct diag d = {0};

        assert_null(read_application(lines[i], &d));
        assert_int_equal(d.errors, 1);
        assert_non_null(strstr(d.text, ": command: "));
        assert_non_null(strstr(d.text, i == 5 || i == 7 ? "its first word, the program, is empty"
                                                        : "is required (or attach)"));
        diag_fini(&d);
    }
}

static void the_host_of_a_ready_probe_is_what_may_stand_in_a_host_field(void **state)
{
    static const char *const bad[] = {"a:b:c", "a:65536", "[::1", "*.test", "a b"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        char application[80];
        struct diag d = {0};

        snprintf(application, sizeof(application),
                 "command: [/bin/true], ready_probe: /, ready_probe_host: \"%s\"", bad[i]);
        assert_null(read_application(application, &d));
        assert_non_null(strstr(d.text, ": ready_probe_host: must be a host name, or HOST:PORT"));
        diag_fini(&d);
    }
}

static void a_variable_without_a_value_is_as_if_it_were_not_there(void **state)
{
    struct diag d = {0};
    struct agent_config *c =
        read_application("command: [/bin/true], environment: {A: ~, B: null, C: , D: \"\", E: '~', "
                         "F: \"null\", G: x}",
                         &d);
    static const char *const expected[][2] = {{"D", ""}, {"E", "~"}, {"F", "null"}, {"G", "x"}};

    (void)state;
    assert_non_null(c);
    const struct app_config *app = c->apps[0];
    assert_int_equal(app->nenv, ARRAY_LEN(expected));
    for (size_t i = 0; i < app->nenv; ++i) {
        assert_string_equal(app->env[i].name, expected[i][0]);
        assert_string_equal(app->env[i].value, expected[i][1]);
    }
    agent_config_destroy(c);
    diag_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_without_a_program_is_rejected),
        cmocka_unit_test(the_host_of_a_ready_probe_is_what_may_stand_in_a_host_field),
        cmocka_unit_test(a_variable_without_a_value_is_as_if_it_were_not_there),
        cmocka_unit_test(any_kind_of_value_of_any_setting_is_accepted_or_rejected_and_never_fatal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
