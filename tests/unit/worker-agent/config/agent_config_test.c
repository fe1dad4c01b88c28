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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_kind_of_value_of_any_setting_is_accepted_or_rejected_and_never_fatal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
