/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "common/base/text.h"
#include "worker-agent/process/warm_up.h"

static size_t counted(const struct warm_targets *w)
{
    struct topk_row rows[256];

    return w->top != NULL ? topk_read(w->top, rows, ARRAY_LEN(rows)) : 0;
}

static const struct slice host = {"shop.example", 12};

static void add(struct warm_targets *w, const char *target, unsigned times)
{
    for (unsigned i = 0; i < times; ++i)
        warm_targets_add(w, host, SLICE_NULL, slice_of(target));
}

static void assert_top(const struct warm_targets *w, const char *const *targets, size_t n)
{
    struct warm_target top[WARM_TARGETS_MAX];

    assert_int_equal(warm_targets_top(w, top), n);
    for (size_t i = 0; i < n; ++i)
        assert_true(slice_is(top[i].target, targets[i]));
}

static void the_most_frequent_come_first(void **state)
{
    static const char *const expected[] = {"/a", "/b", "/c"};
    struct warm_targets w = {0};

    (void)state;
    warm_targets_resize(&w, 3);
    add(&w, "/d", 3);
    add(&w, "/c", 4);
    add(&w, "/a", 6);
    add(&w, "/b", 5);
    assert_top(&w, expected, 3);
    warm_targets_fini(&w);
}

static void a_target_that_came_once_is_not_frequent(void **state)
{
    static const char *const expected[] = {"/twice"};
    struct warm_targets w = {0};

    (void)state;
    warm_targets_resize(&w, 3);
    assert_top(&w, NULL, 0);
    add(&w, "/once", 1);
    add(&w, "/twice", 2);
    assert_top(&w, expected, 1);
    warm_targets_fini(&w);
}

static void hosts_and_classes_are_distinguished_and_kept(void **state)
{
    struct warm_target top[WARM_TARGETS_MAX];
    struct warm_targets w = {0};

    (void)state;
    warm_targets_resize(&w, 10);
    for (int i = 0; i < 9; ++i)
        warm_targets_add(&w, SLICE_LIT("a"), SLICE_LIT("b"), SLICE_LIT("/"));
    for (int i = 0; i < 7; ++i)
        warm_targets_add(&w, SLICE_LIT("a"), SLICE_NULL, SLICE_LIT("/"));
    for (int i = 0; i < 5; ++i)
        warm_targets_add(&w, SLICE_LIT("ab"), SLICE_NULL, SLICE_LIT("/"));
    assert_int_equal(warm_targets_top(&w, top), 3);
    assert_true(slice_is(top[0].host, "a"));
    assert_true(slice_is(top[0].cls, "b"));
    assert_true(slice_is(top[0].target, "/"));
    assert_int_equal(top[1].cls.len, 0);
    assert_true(slice_is(top[2].host, "ab"));
    warm_targets_fini(&w);
}

static void too_long_or_empty_parts_do_not_count(void **state)
{
    static char big[WARM_TARGET_MAX + 1];
    struct warm_targets w = {0};

    (void)state;
    memset(big, 'x', sizeof(big));
    warm_targets_resize(&w, 1);
    for (int i = 0; i < 5; ++i) {
        warm_targets_add(&w, host, SLICE_NULL, (struct slice){big, sizeof(big)});
        warm_targets_add(&w, (struct slice){big, WARM_HOST_MAX + 1}, SLICE_NULL, SLICE_LIT("/"));
        warm_targets_add(&w, host, (struct slice){big, CLASS_BYTES_MAX + 1}, SLICE_LIT("/"));
        warm_targets_add(&w, host, SLICE_NULL, SLICE_NULL);
        warm_targets_add(&w, SLICE_NULL, SLICE_NULL, SLICE_LIT("/"));
    }
    assert_int_equal(counted(&w), 0);
    warm_targets_add(&w, (struct slice){big, WARM_HOST_MAX}, (struct slice){big, CLASS_BYTES_MAX},
                     (struct slice){big, WARM_TARGET_MAX});
    assert_int_equal(counted(&w), 1);
    warm_targets_fini(&w);
}

static void the_frequent_stay_in_a_stream_of_strangers(void **state)
{
    static const char *const expected[] = {"/hot", "/warm"};
    struct warm_targets w = {0};
    char target[32];

    (void)state;
    warm_targets_resize(&w, 2);
    for (int i = 0; i < 20000; ++i) {
        snprintf(target, sizeof(target), "/strange/%d", i);
        add(&w, target, 1);
        if (i % 3 == 0)
            add(&w, "/hot", 1);
        if (i % 4 == 0)
            add(&w, "/warm", 1);
        assert_true(counted(&w) <= 2 * WARM_COUNTERS_EACH);
    }
    assert_top(&w, expected, 2);
    warm_targets_fini(&w);
}

static void an_old_frequent_target_gives_way(void **state)
{
    static const char *const expected[] = {"/new"};
    struct warm_targets w = {0};

    (void)state;
    warm_targets_resize(&w, 1);
    add(&w, "/old", 5000);
    add(&w, "/new", 3000);
    assert_top(&w, expected, 1);
    warm_targets_fini(&w);
}

static void fewer_or_none_may_be_wanted_later(void **state)
{
    static const char *const expected[] = {"/a"};
    struct warm_targets w = {0};
    char target[32];

    (void)state;
    add(&w, "/", 100);
    assert_int_equal(counted(&w), 0);
    warm_targets_resize(&w, 50);
    add(&w, "/a", 100);
    for (int i = 0; i < 150; ++i) {
        snprintf(target, sizeof(target), "/%d", i);
        add(&w, target, 2);
    }
    warm_targets_resize(&w, 1);
    assert_int_equal(counted(&w), WARM_COUNTERS_EACH);
    assert_top(&w, expected, 1);
    warm_targets_resize(&w, 0);
    assert_int_equal(counted(&w), 0);
    add(&w, "/", 100);
    assert_top(&w, NULL, 0);
    warm_targets_resize(&w, WARM_TARGETS_MAX);
    add(&w, "/a", 2);
    assert_top(&w, expected, 1);
    warm_targets_fini(&w);
}

#define GET "GET /a?b=c HTTP/1.1\r\nHost: shop.example\r\n"

static void heads_of_requests_for_all_are_counted(void **state)
{
    static const char *const good[] = {
        GET "\r\n",
        GET "User-Agent: x\r\nAccept: */*\r\nX-Cookie: y\r\n\r\n",
        "GET /a?b=c HTTP/1.1\r\nX: y\r\nhost:shop.example\r\n\r\nGET / HTTP/1.1\r\n",
    };
    struct warm_target top[WARM_TARGETS_MAX];
    struct warm_targets w = {0};

    (void)state;
    warm_targets_resize(&w, 10);
    for (size_t i = 0; i < ARRAY_LEN(good); ++i)
        warm_targets_add_head(&w, slice_of(good[i]));
    warm_targets_add_head(&w, SLICE_LIT(GET "Resumelb-Class: news\r\n\r\n"));
    warm_targets_add_head(&w, SLICE_LIT(GET "resumelb-class: news\r\n\r\n"));
    assert_int_equal(warm_targets_top(&w, top), 2);
    assert_int_equal(top[0].count, ARRAY_LEN(good));
    assert_true(slice_is(top[0].target, "/a?b=c"));
    assert_true(slice_is(top[0].host, "shop.example"));
    assert_int_equal(top[0].cls.len, 0);
    assert_true(slice_is(top[1].cls, "news"));
    warm_targets_fini(&w);
}

static void heads_of_other_requests_are_not(void **state)
{
    static const char *const bad[] = {
        "",
        "GET",
        "GET  HTTP/1.1\r\n\r\n",
        "GET HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
        GET "Cookie: a=b\r\n\r\n",
        GET "cookie: a=b\r\n\r\n",
        GET "AUTHORIZATION: Basic x\r\n\r\n",
        GET "Content-Length: 1\r\n\r\n",
        GET "Transfer-Encoding: chunked\r\n\r\n",
        GET "Range: bytes=0-1\r\n\r\n",
        GET "Connection: Upgrade\r\nUpgrade: echo\r\n\r\n",
    };
    struct warm_targets w = {0};

    (void)state;
    warm_targets_add_head(&w, SLICE_LIT(GET "\r\n"));
    warm_targets_resize(&w, 10);
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        warm_targets_add_head(&w, slice_of(bad[i]));
    assert_int_equal(counted(&w), 0);
    warm_targets_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_frequent_come_first),
        cmocka_unit_test(a_target_that_came_once_is_not_frequent),
        cmocka_unit_test(hosts_and_classes_are_distinguished_and_kept),
        cmocka_unit_test(too_long_or_empty_parts_do_not_count),
        cmocka_unit_test(the_frequent_stay_in_a_stream_of_strangers),
        cmocka_unit_test(an_old_frequent_target_gives_way),
        cmocka_unit_test(fewer_or_none_may_be_wanted_later),
        cmocka_unit_test(heads_of_requests_for_all_are_counted),
        cmocka_unit_test(heads_of_other_requests_are_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
