/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/inspect/inspect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char page_of_two[] =
    "{\"program\":\"resumelb-agent\",\"version\":\"0.1.0\",\"pid\":12,\"supervisor_pid\":11,"
    "\"phase\":\"running\",\"uptime_s\":75.2,\"processes\":3,\"max_processes\":8,"
    "\"active_processes\":1,\"waiting\":4,\"host\":{\"settings\":{\"max_processes\":{\"value\":"
    "\"8\","
    "\"origin\":\"tree\"},\"log_level\":{\"value\":\"info\",\"origin\":\"default\"}},"
    "\"rejected\":[{\"name\":\"state_dir\",\"why\":\"nor there\"}]},\"applications\":{"
    "\"shop\":{\"min_processes\":1,\"max_processes\":4,\"generation\":2,"
    "\"counts\":{\"processes\":2,\"busy\":1,\"idle\":0,\"starting\":1,\"leaving\":1},"
    "\"queue\":{\"policy\":\"global\",\"waiting\":4,\"waiting_any\":3},"
    "\"settings\":{\"concurrency\":{\"value\":\"1\",\"origin\":\"default\"},"
    "\"max_queue\":{\"value\":\"7\",\"origin\":\"tree\"},"
    "\"history\":{\"value\":\"20\",\"origin\":\"tree\"}},"
    "\"rejected\":[{\"name\":\"command\",\"why\":\"not to be set here\"}],"
    "\"last_failure\":{\"ago_s\":12,\"slot\":1,\"pid\":77,\"what\":\"died before it was ready\","
    "\"how\":\"exit status 3\",\"lines\":[\"Traceback:\",\"  File \\\"x.py\\\"\",\"\\u001b[2J\"]},"
    "\"slots\":[{\"slot\":0,\"waiting\":1,\"process\":{\"id\":\"aa01\",\"pid\":100,\"state\":"
    "\"ready\",\"sessions\":1,\"processed\":5,\"uptime_s\":61,\"last_used_s\":0.5,"
    "\"cpu_percent\":12.4,\"memory_bytes\":52428800,\"version\":\"1.4\",\"going\":\"outdated\"},"
    "\"successor\":{\"id\":\"aa02\",\"pid\":101,\"state\":\"starting\"}},"
    "{\"slot\":1,\"waiting\":0}],"
    "\"leaving\":[{\"id\":\"aa03\",\"slot\":2,\"pid\":99,\"state\":\"leaving\",\"sessions\":1,"
    "\"processed\":9,\"uptime_s\":7300,\"last_used_s\":3,\"going\":\"replaced\"}]},"
    "\"empty\":{\"counts\":{},\"queue\":{\"policy\":\"private\"},\"slots\":[]}}}";

static enum err show(const char *text, const struct ctl_options *o, struct text *out)
{
    json_t *page = json_loads(text, 0, NULL);

    assert_non_null(page);
    enum err e = ctl_status_text(page, o, out);
    json_decref(page);
    return e;
}

static void expect(const char *page, struct ctl_options o, const char *expected)
{
    struct text out = {0};

    assert_int_equal(show(page, &o, &out), ERR_OK);
    assert_string_equal(text_cstr(&out), expected);
    text_fini(&out);
}

static void status_of_an_agent_shows_its_pool_and_processes(void **state)
{
    (void)state;
    expect(
        page_of_two, (struct ctl_options){0},
        "resumelb-agent 0.1.0, pid 12, supervisor 11, running, up 1m 15s\n"
        "max      = 8\n"
        "count    = 3\n"
        "active   = 1\n"
        "inactive = 2\n"
        "waiting  = 4\n"
        "  settings: max_processes = 8 (from the tree)\n"
        "  rejected setting state_dir: nor there\n"
        "\n"
        "shop: 2 processes (min 1, max 4): 1 busy, 0 idle, 1 starting, 1 leaving\n"
        "  global queue, 4 waiting (3 for any process), generation 2\n"
        "  settings: max_queue = 7, history = 20 (from the tree)\n"
        "  rejected setting command: not to be set here\n"
        "  last failure 12s ago: slot 1, pid 77 died before it was ready: exit status 3\n"
        "    | Traceback:\n"
        "    |   File \"x.py\"\n"
        "    | \\x1b[2J\n"
        "  slot  pid  state                   sessions  processed  uptime  last used  cpu  memory "
        " queue  version  id\n"
        "     0  100  ready, outdated                1          5   1m 1s         0s  12%     50M "
        "     1  1.4      aa01\n"
        "     0  101  starting (replacement)         -          -       -          -    -       - "
        "     -  -        aa02\n"
        "     2   99  leaving, replaced              1          9   2h 1m         3s    -       - "
        "     -  -        aa03\n"
        "\n"
        "empty: 0 processes (min 0, max 0): 0 busy, 0 idle, 0 starting, 0 leaving\n"
        "  private queue, 0 waiting (0 for any process), generation 0\n"
        "  no processes\n");
}

static void one_application_of_an_agent_can_be_chosen(void **state)
{
    struct text out = {0};
    struct ctl_options o = {.application = "nowhere"};

    (void)state;
    assert_int_equal(show(page_of_two, &o, &out), ERR_NOT_FOUND);
    o.application = "empty";
    assert_int_equal(show(page_of_two, &o, &out), ERR_OK);
    assert_null(strstr(text_cstr(&out), "shop"));
    assert_non_null(strstr(text_cstr(&out), "\nempty: 0 processes"));
    text_fini(&out);
}

static void members_of_wrong_types_do_no_harm(void **state)
{
    static const char *const pages[] = {
        "{\"program\":\"resumelb-agent\",\"applications\":{\"a\":1,\"b\":[],\"c\":null}}",
        "{\"program\":\"resumelb-agent\",\"uptime_s\":\"x\",\"applications\":{\"a\":{\"slots\":7,"
        "\"leaving\":{},\"last_failure\":[],\"queue\":1,\"counts\":\"\",\"settings\":[1]}}}",
        "{\"program\":\"resumelb-agent\",\"applications\":{\"a\":{\"slots\":[1,null,{\"process\":{"
        "\"pid\":\"x\",\"state\":1,\"cpu_percent\":[],\"going\":2}}],\"last_failure\":{\"lines\":"
        "[1,{}],\"how\":3},\"settings\":{\"x\":{\"origin\":\"tree\"}}}}}",
    };
    struct ctl_options o = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pages); ++i) {
        struct text out = {0};

        assert_int_equal(show(pages[i], &o, &out), ERR_OK);
        assert_true(out.len > 0);
        text_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_of_an_agent_shows_its_pool_and_processes),
        cmocka_unit_test(one_application_of_an_agent_can_be_chosen),
        cmocka_unit_test(members_of_wrong_types_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
