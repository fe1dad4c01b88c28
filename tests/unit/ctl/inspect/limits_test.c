/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/inspect/inspect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char limits_page[] =
    "{\"program\":\"resumelb\",\"applications\":{\"shop\":{\"limits\":["
    "{\"name\":\"pages\",\"in_force\":true,\"rejected\":[{\"name\":\"slots\",\"why\":\"\\\"-"
    "1\\\"\"}"
    "],"
    "\"figures\":{\"where\":\"local\",\"mode\":\"each\",\"shadow\":false,\"workers\":2,"
    "\"maxqueue\":100,\"slots\":20,\"held\":3,\"waiting\":4,\"acquired\":1000,\"rejected_full\":5,"
    "\"rejected_timeout\":6,\"coalesced\":7,\"stale\":8,\"abandoned\":9,\"waited_s\":12.34,"
    "\"unreachable_open\":0,\"lost\":0,\"longest\":{\"key\":\"pages:/\\\"\\u001b[2J\",\"for_s\":0."
    "25},"
    "\"top\":[{\"key\":\"pages:/b\",\"waited_s\":2.5,\"waits\":3},"
    "{\"key\":\"pages:/d\",\"waited_s\":1,\"waits\":1}]}},"
    "{\"name\":\"far\",\"in_force\":true,\"figures\":{\"where\":\"daemon\",\"mode\":\"any\","
    "\"shadow\":true,\"workers\":1,\"slots\":0,\"held\":0,\"waiting\":0,\"acquired\":0,"
    "\"rejected_full\":0,\"rejected_timeout\":0,\"coalesced\":0,\"stale\":0,\"abandoned\":0,"
    "\"waited_s\":0,\"shadow_full\":2,\"shadow_busy\":1,\"unreachable_open\":3,"
    "\"unreachable_closed\":4,\"lost\":5,\"longest\":null,"
    "\"top\":[{\"key\":\"far:c\",\"waited_s\":2.25,\"waits\":2}]}},"
    "{\"name\":\"lame\",\"in_force\":false,\"why\":\"no workers\",\"figures\":null}],"
    "\"pool_counter_servers\":[{\"name\":\"a:1\",\"suspended\":false,\"connections\":7,\"idle\":2},"
    "{\"name\":\"b:1\",\"suspended\":true,\"connections\":0,\"idle\":0}],"
    "\"stored_responses\":{\"responses\":2,\"bytes\":3072,\"stored\":9,\"rejected\":0,\"hits_"
    "coalesced\":7,"
    "\"hits_stale\":8}},"
    "\"empty\":{\"limits\":[],\"pool_counter_servers\":[{\"name\":\"a:1\"}]},\"old\":{}}}";

static const char daemon_page[] =
    "{\"version\":\"0.1.0\",\"uptime_s\":61,\"clients\":4,\"counters\":{\"held\":2},"
    "\"oldest_holder\":{\"key\":\"a:\\u0007\",\"client\":\"127.0.0.1:9\",\"held_s\":1.5},"
    "\"types\":[{\"type\":\"a\",\"held\":2,\"waiting\":1,\"acquired\":3,\"done\":0,"
    "\"queue_full\":5,\"timeouts\":6,\"waited_s\":0.5},{\"type\":\"\",\"held\":0}],"
    "\"most_waited_for\":[{\"key\":\"a:\\\"\",\"waited_s\":0.5,\"waits\":1},"
    "{\"key\":\"a:y\",\"waited_s\":0.25,\"waits\":1}]}";

static enum err show(const char *page, struct ctl_options o, struct text *out)
{
    json_t *v = json_loads(page, 0, NULL);

    assert_non_null(v);
    enum err e = ctl_limits_text(v, &o, out);
    json_decref(v);
    return e;
}

static void expect(const char *page, struct ctl_options o, const char *text)
{
    struct text out = {0};

    assert_int_equal(show(page, o, &out), ERR_OK);
    assert_string_equal(text_cstr(&out), text);
    text_fini(&out);
}

static void limits_keys_daemons_and_stored_responses_are_shown(void **state)
{
    (void)state;
    expect(limits_page, (struct ctl_options){.application = "shop", .top = 2},
           "shop:\n"
           "  limit  where   mode         held  workers  slots  waiting  acquired  full  late  "
           "coalesced  stale  left  waited  longest holder\n"
           "  pages  local   each            3        2     20        4      1000     5     6  "
           "        7      8     9  12.3 s  0.2 s pages:/\\x22\\x1b[2J\n"
           "  far    daemon  any, shadow     0        1      -        0         0     0     0  "
           "        0      0     0   0.0 s  -\n"
           "  lame   -       -               -        -      -        -         -     -     -  "
           "        -      -     -       -  -\n"
           "  pages: rejected setting slots: \"-1\"\n"
           "  far: 2 would have been rejected (shadow)\n"
           "  far: 1 would have waited (shadow)\n"
           "  far: 3 admitted uncounted, daemon unreachable\n"
           "  far: 4 rejected, daemon unreachable\n"
           "  far: 5 leases lost at the daemon\n"
           "  lame: not effective: no workers\n"
           "  key most waited for  waited  waits\n"
           "  pages:/b              2.5 s      3\n"
           "  far:c                 2.2 s      2\n"
           "  daemon  state      connections  idle\n"
           "  a:1     in use               7     2\n"
           "  b:1     suspended            0     0\n"
           "  stored responses: 2 in 3.0 KiB; responses: 7 coalesced, 8 stale\n");
}

static void all_keys_are_shown_when_asked_for(void **state)
{
    struct text out = {0};

    (void)state;
    assert_int_equal(show(limits_page, (struct ctl_options){.application = "shop"}, &out), ERR_OK);
    assert_non_null(strstr(text_cstr(&out), "  pages:/d              1.0 s      1\n"));
    text_fini(&out);
}

static void an_application_without_limits_reports_it(void **state)
{
    (void)state;
    expect(limits_page, (struct ctl_options){.application = "empty"}, "empty: no limits\n");
    expect(limits_page, (struct ctl_options){.application = "old"}, "old: no limits\n");
    expect("{\"applications\":{}}", (struct ctl_options){0}, "no applications\n");
}

static void a_daemons_page_is_shown_by_type(void **state)
{
    struct text out = {0};

    (void)state;
    expect(daemon_page, (struct ctl_options){.top = 1},
           "resumelb-poolcounter 0.1.0, 4 clients, up 1m 1s\n"
           "  type of key  held  waiting  acquired  done  full  late  waited\n"
           "  a               2        1         3     0     5     6   0.5 s\n"
           "  (others)        0        -         -     -     -     -       -\n"
           "  key most waited for  waited  waits\n"
           "  a:\\x22                0.5 s      1\n"
           "  longest holder: a:\\x07 by 127.0.0.1:9 for 1.5 s\n");
    assert_int_equal(show(daemon_page, (struct ctl_options){.application = "shop"}, &out),
                     ERR_NOT_FOUND);
    assert_int_equal(out.len, 0);
}

static void other_pages_and_applications_are_rejected(void **state)
{
    struct text out = {0};

    (void)state;
    assert_int_equal(show("{}", (struct ctl_options){0}, &out), ERR_SYNTAX);
    assert_int_equal(show("[]", (struct ctl_options){0}, &out), ERR_SYNTAX);
    assert_int_equal(show("{\"types\":[]}", (struct ctl_options){0}, &out), ERR_SYNTAX);
    assert_int_equal(show(limits_page, (struct ctl_options){.application = "nowhere"}, &out),
                     ERR_NOT_FOUND);
    assert_int_equal(out.len, 0);
}

static void members_of_wrong_types_do_no_harm(void **state)
{
    static const char *const values[] = {"null", "7", "-1.5", "\"x\"", "[]", "[[1]]", "{}", "true"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(values); ++i) {
        const char *v = values[i];
        char *page = xasprintf(
            "{\"applications\":{\"a\":{\"limits\":%s,\"stored_responses\":%s},\"b\":{\"limits\":[%"
            "s,"
            "{\"name\":%s,\"rejected\":%s,\"figures\":%s,\"in_force\":%s},{\"figures\":{\"top\":%s,"
            "\"longest\":%s,\"held\":%s,\"shadow\":%s,\"slots\":%s,\"lost\":%s}},"
            "{\"figures\":{\"top\":[%s,%s]}}],\"pool_counter_servers\":[%s]},\"c\":%s}}",
            v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v);
        struct text out = {0};

        assert_int_equal(show(page, (struct ctl_options){.top = 1}, &out), ERR_OK);
        assert_non_null(strstr(text_cstr(&out), "b:\n"));
        text_fini(&out);
        free(page);
        page = xasprintf("{\"counters\":{},\"types\":[%s,{\"type\":%s}],\"oldest_holder\":%s,"
                         "\"most_waited_for\":[%s],\"clients\":%s,\"uptime_s\":%s}",
                         v, v, v, v, v, v);
        assert_int_equal(show(page, (struct ctl_options){0}, &out), ERR_OK);
        assert_non_null(strstr(text_cstr(&out), "resumelb-poolcounter "));
        text_fini(&out);
        free(page);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_keys_daemons_and_stored_responses_are_shown),
        cmocka_unit_test(all_keys_are_shown_when_asked_for),
        cmocka_unit_test(an_application_without_limits_reports_it),
        cmocka_unit_test(a_daemons_page_is_shown_by_type),
        cmocka_unit_test(other_pages_and_applications_are_rejected),
        cmocka_unit_test(members_of_wrong_types_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
