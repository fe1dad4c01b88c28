/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker-agent/config/agent_config.h"

static char *words[] = {(char[]){"server"}, (char[]){"--bind"}, NULL, NULL};
static struct env_var vars[] = {{(char[]){"MODE"}, (char[]){"fast"}}};

static struct app_config made_of(char *last_word, char *value)
{
    struct app_config c = {.env = vars, .nenv = 1};

    words[2] = last_word;
    vars[0].value = value;
    c.s.command = (struct text_list){words, 3};
    c.s.root = words[0];
    c.s.version = words[1];
    return c;
}

static void places_decide_how_a_process_listens(void **state)
{
    char why[SETTINGS_WHY_ROOM];
    char port[] = "--port={port}";
    char socket[] = "unix:{socket}";
    char plain[] = "x";
    struct app_config c = made_of(port, plain);

    (void)state;
    assert_true(command_check(&c, why));
    assert_int_equal(c.listen, LISTEN_BY_PORT);
    c = made_of(plain, socket);
    assert_true(command_check(&c, why));
    assert_int_equal(c.listen, LISTEN_BY_SOCKET);
    c = made_of(plain, plain);
    assert_true(command_check(&c, why));
    assert_int_equal(c.listen, LISTEN_INHERITED_UNIX);
    c.s.socket = APP_SOCKET_TCP;
    assert_true(command_check(&c, why));
    assert_int_equal(c.listen, LISTEN_INHERITED_TCP);
    c = made_of(port, socket);
    assert_false(command_check(&c, why));
}

static void too_many_bytes_are_rejected(void **state)
{
    char why[SETTINGS_WHY_ROOM];
    char *large = malloc(APP_WORDS_BYTES_MAX + 1);
    char plain[] = "x";

    (void)state;
    memset(large, 'y', APP_WORDS_BYTES_MAX);
    large[APP_WORDS_BYTES_MAX] = '\0';
    struct app_config c = made_of(large, plain);
    assert_false(command_check(&c, why));
    free(large);
}

static void the_spec_changes_with_all_that_a_process_is_started_with(void **state)
{
    char a[] = "a";
    char b[] = "b";
    char first[FINGERPRINT_LEN + 1];
    char other[FINGERPRINT_LEN + 1];
    struct app_config c = made_of(a, a);

    (void)state;
    command_spec(&c, first);
    assert_int_equal(strlen(first), FINGERPRINT_LEN);
    c = made_of(b, a);
    command_spec(&c, other);
    assert_string_not_equal(first, other);
    c = made_of(a, b);
    command_spec(&c, other);
    assert_string_not_equal(first, other);
    c = made_of(a, a);
    c.user.uid = 7;
    command_spec(&c, other);
    assert_string_not_equal(first, other);
    c = made_of(a, a);
    command_spec(&c, other);
    assert_string_equal(first, other);
}

static const char *find_variable(const json_t *env, const char *prefix)
{
    size_t i;
    json_t *item;

    json_array_foreach (env, i, item) {
        if (strncmp(json_string_value(item), prefix, strlen(prefix)) == 0)
            return json_string_value(item);
    }
    return NULL;
}

static void the_environment_has_little_of_ours_and_all_of_theirs(void **state)
{
    char plain[] = "x";
    struct app_config c = made_of(plain, plain);

    (void)state;
    setenv("PATH", "/bin", 1);
    setenv("RLB_TEST_SECRET", "s", 1);
    json_t *env = command_environment(&c);
    assert_string_equal(find_variable(env, "PATH="), "PATH=/bin");
    assert_string_equal(find_variable(env, "MODE="), "MODE=x");
    assert_null(find_variable(env, "RLB_TEST_SECRET="));
    json_decref(env);
}

static void each_place_in_a_word_is_replaced(void **state)
{
    char *s = command_replace("a{port}b{port}", "{port}", "80");

    (void)state;
    assert_string_equal(s, "a80b80");
    free(s);
    s = command_replace("none", "{port}", "80");
    assert_string_equal(s, "none");
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_decide_how_a_process_listens),
        cmocka_unit_test(too_many_bytes_are_rejected),
        cmocka_unit_test(the_spec_changes_with_all_that_a_process_is_started_with),
        cmocka_unit_test(the_environment_has_little_of_ours_and_all_of_theirs),
        cmocka_unit_test(each_place_in_a_word_is_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
