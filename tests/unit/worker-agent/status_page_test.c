/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker-agent/status_page.h"

static const char *page_of(struct text *out, const char *status)
{
    json_t *v = json_loads(status, JSON_ALLOW_NUL, NULL);

    assert_non_null(v);
    text_clear(out);
    status_page(v, out);
    json_decref(v);
    return text_cstr(out);
}

static void assert_has(const char *page, const char *part)
{
    if (strstr(page, part) == NULL)
        fail_msg("no \"%s\" in\n%s", part, page);
}

static void assert_lacks(const char *page, const char *part)
{
    if (strstr(page, part) != NULL)
        fail_msg("\"%s\" in\n%s", part, page);
}

static void processes_are_rows_of_their_application(void **state)
{
    struct text out = {0};
    const char *page = page_of(
        &out,
        "{\"program\":\"resumelb-agent\",\"version\":\"0.1.0\",\"pid\":7,\"keeper_pid\":6,"
        "\"uptime_s\":90061,\"phase\":\"running\",\"processes\":2,\"max_processes\":0,"
        "\"tree\":{\"connected\":false},\"host\":{\"settings\":{\"max_processes\":{"
        "\"value\":\"0\",\"origin\":\"default\"}},\"held\":true,\"refused\":[{\"name\":"
        "\"state_dir\",\"why\":\"nor there\"}]},\"applications\":{\"shop\":{\"min_processes\":1,"
        "\"counts\":{\"processes\":1},\"queue\":{\"policy\":\"private\",\"waiting\":2},"
        "\"figures\":{\"deaths\":3},\"settings\":{\"concurrency\":{\"value\":\"1\",\"origin\":"
        "\"tree\"}},\"refused\":[{\"name\":\"command\",\"why\":\"not here\"}],"
        "\"slots\":[{\"slot\":0,\"address\":\"127.0.0.1:9000\",\"waiting\":2,\"process\":"
        "{\"id\":\"ab12\",\"pid\":100,\"state\":\"ready\",\"going\":\"outdated\",\"sessions\":1,"
        "\"processed\":55,\"uptime_s\":61,\"last_used_s\":0.25,\"cpu_percent\":12.4,"
        "\"memory_bytes\":52428800,\"generation\":2,\"version\":\"1.4\"}},"
        "{\"slot\":1,\"address\":\"127.0.0.1:9001\",\"waiting\":0,\"state\":\"cold\"}],"
        "\"leaving\":[{\"slot\":1,\"id\":\"ab13\",\"pid\":101,\"state\":\"leaving\"}]}}}");

    (void)state;
    assert_has(page, "version 0.1.0, pid 7, keeper 6, up 1 d 1 h, running");
    assert_has(page, "<dt>max processes</dt><dd>no limit</dd>");
    assert_has(page, "The tree cannot be reached");
    assert_has(page, "<p class=\"bad\">Refused setting state_dir: nor there</p>\n"
                     "<p class=\"bad\">The settings of the tree are held");
    assert_has(page, "<details id=\"host-settings\">");
    assert_has(page, "<tr><td>max_processes</td><td class=\"classes\">0</td><td>default</td></tr>");
    assert_has(page, "<details id=\"settings-shop\">");
    assert_has(page, "<h2>shop</h2>");
    assert_has(page, "<dt>waiting</dt><dd class=\"bad\">2</dd>");
    assert_has(page, "<dt>deaths</dt><dd class=\"bad\">3</dd>");
    assert_has(page, "Refused setting command: not here");
    assert_has(page, "<tr><td class=\"number\">0</td><td>127.0.0.1:9000</td>"
                     "<td class=\"number\">100</td><td>ready, outdated</td>"
                     "<td class=\"number\">1</td><td class=\"number\">55</td>"
                     "<td class=\"number\">1 min 1 s</td><td class=\"number\">0.2 s</td>"
                     "<td class=\"number\">12 %</td><td class=\"number\">50.0 MiB</td>"
                     "<td class=\"number\">2</td><td class=\"number\">2</td><td>1.4</td>"
                     "<td><code>ab12</code></td></tr>");
    assert_has(page, "<td>cold</td>");
    assert_has(page, "<td>leaving</td>");
    assert_has(page, "<code>ab13</code>");
    assert_has(page, "<tr><td>concurrency</td><td class=\"classes\">1</td><td>tree</td></tr>");
    text_fini(&out);
}

static void what_applications_say_is_no_markup(void **state)
{
    struct text out = {0};
    const char *page = page_of(
        &out, "{\"version\":\"<i>\",\"host\":{\"settings\":{\"<u>\":{\"value\":\"<s>\",\"origin\":"
              "\"<q>\"}},\"refused\":[{\"name\":\"<a>\",\"why\":\"<script>2</script>\"}]},"
              "\"applications\":{\"<b>\\\"x\":{"
              "\"settings\":{\"<u>\":{\"value\":\"<s>\",\"origin\":\"<q>\"}},"
              "\"refused\":[{\"name\":\"<a>\",\"why\":\"</p><script>1</script>\"}],"
              "\"last_failure\":{\"at\":\"<em>\",\"what\":\"<h1>\",\"how\":\"<h3>\",\"lines\":["
              "\"</pre><script>alert(1)</script>\",\"\\u001b[31m \\u0000 \\u202e x & y\",1]},"
              "\"slots\":[{\"slot\":0,\"address\":\"<tt>\",\"process\":{\"id\":\"<code>\","
              "\"state\":\"<td>\",\"going\":\"<th>\",\"version\":\"'<v>'\"}}]}}}");
    static const char *const markup[] = {"<i>",  "<b>",      "<u>",         "<s>",  "<q>",
                                         "<a>",  "<em>",     "<h3>",        "<tt>", "<v>",
                                         "\x1b", "<td><td>", "\xe2\x80\xae"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(markup); ++i)
        assert_lacks(page, markup[i]);
    assert_lacks(page, "<script>");
    assert_lacks(page, "alert(1)</script>");
    assert_int_equal(strlen(page), out.len);
    assert_has(page, "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;\n"
                     "\\x1b[31m \\x00 \\xe2\\x80\\xae x &amp; y\n");
    assert_has(page, "&#39;&lt;v&gt;&#39;");
    text_fini(&out);
}

static void nothing_is_loaded_from_elsewhere_and_nothing_is_inline(void **state)
{
    struct text out = {0};
    const char *page = page_of(&out, "{}");

    (void)state;
    assert_has(page, "<!doctype html>");
    assert_has(page, "src=\"/status.js\"");
    assert_has(page, "href=\"/status.css\"");
    assert_lacks(page, "://");
    assert_lacks(page, "style=");
    assert_lacks(page, "onclick");
    text_fini(&out);
}

static void members_of_wrong_types_do_no_harm(void **state)
{
    static const char *const pages[] = {
        "{\"uptime_s\":\"x\",\"host\":{\"settings\":7,\"refused\":{},\"held\":1},\"applications\":["
        "]}",
        "{\"uptime_s\":-1,\"applications\":{\"a\":1,\"b\":[],\"c\":{\"slots\":{},\"leaving\":7,"
        "\"settings\":[],\"last_failure\":2,\"queue\":3,\"counts\":null}}}",
        "{\"applications\":{\"a\":{\"slots\":[1,{\"process\":[]}],\"leaving\":[2,{\"slot\":-4},"
        "{\"slot\":99}],\"last_failure\":{\"lines\":7}}}}",
    };
    struct text out = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pages); ++i)
        assert_has(page_of(&out, pages[i]), "</html>");
    text_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_are_rows_of_their_application),
        cmocka_unit_test(what_applications_say_is_no_markup),
        cmocka_unit_test(nothing_is_loaded_from_elsewhere_and_nothing_is_inline),
        cmocka_unit_test(members_of_wrong_types_do_no_harm),
    };

    return cmocka_run_group_tests_name("status page", tests, NULL, NULL);
}
