/* SPDX-License-Identifier: Apache-2.0
 *
 * One right answer of each kind, and what may be wrong with it. Whatever is right is refused when a
 * byte of it is missing, or one more is there.
 */
#include "tests/unit/wire/zookeeper_fixture.h"

#include <stdlib.h>

static enum zookeeper_fault check(int32_t kind, int32_t error, struct slice body)
{
    const struct zookeeper_reply r = {.xid = 1, .zxid = 1, .error = error, .body = body};

    return zookeeper_reply_check(&r, kind);
}

/* T, and nothing shorter or longer, is an answer to KIND. */
static void assert_exact(int32_t kind, struct text *t)
{
    assert_int_equal(check(kind, 0, text_slice(t)), ZOOKEEPER_FAULT_NONE);
    for (size_t n = 0; n < t->len; ++n) {
        /* A block of its own, so that a sanitizer sees one byte too many. */
        char *cut = xmalloc(n + 1);

        memcpy(cut + 1, t->p, n);
        assert_int_not_equal(check(kind, 0, (struct slice){cut + 1, n}), ZOOKEEPER_FAULT_NONE);
        free(cut);
    }
    text_add_char(t, '\0');
    assert_int_equal(check(kind, 0, text_slice(t)), ZOOKEEPER_FAULT_LONG);
    text_clear(t);
}

static void put_acl(struct text *t)
{
    put_i32(t, 31);
    put_bytes(t, SLICE_LIT("digest"));
    put_bytes(t, SLICE_LIT("ops:hash"));
    put_i32(t, 1);
    put_bytes(t, SLICE_LIT("auth"));
    put_bytes(t, SLICE_LIT(""));
}

static void put_names(struct text *t)
{
    put_i32(t, 2);
    put_bytes(t, SLICE_LIT("127.0.0.1:80"));
    put_bytes(t, SLICE_LIT("\xc3\xa4"));
}

static void each_kind_has_one_form(void **state)
{
    struct text t = {0};

    (void)state;
    put_bytes(&t, SLICE_LIT("/app/x"));
    assert_exact(ZOOKEEPER_CREATE, &t);
    put_bytes(&t, SLICE_LIT("/"));
    assert_exact(ZOOKEEPER_SYNC, &t);
    put_figures(&t, 3, 4, 5, 6);
    assert_exact(ZOOKEEPER_EXISTS, &t);
    put_figures(&t, 0, 0, 0, 0);
    assert_exact(ZOOKEEPER_SET_DATA, &t);
    put_figures(&t, 3, 4, 5, 6);
    assert_exact(ZOOKEEPER_SET_ACL, &t);
    put_bytes(&t, SLICE_LIT("{\"x\":1}"));
    put_figures(&t, 3, 4, 7, 0);
    assert_exact(ZOOKEEPER_GET_DATA, &t);
    put_i32(&t, 0);
    assert_exact(ZOOKEEPER_GET_CHILDREN, &t);
    put_names(&t);
    assert_exact(ZOOKEEPER_GET_CHILDREN, &t);
    put_names(&t);
    put_figures(&t, 3, 4, 0, 2);
    assert_exact(ZOOKEEPER_GET_CHILDREN2, &t);
    put_i32(&t, 2);
    put_acl(&t);
    put_figures(&t, 3, 4, 0, 2);
    assert_exact(ZOOKEEPER_GET_ACL, &t);
    text_fini(&t);
}

static void data_may_be_none_at_all(void **state)
{
    struct text t = {0};

    (void)state;
    put_i32(&t, -1);
    put_figures(&t, 1, 1, 0, 0);
    assert_exact(ZOOKEEPER_GET_DATA, &t);
    text_fini(&t);
}

static void what_only_says_that_it_is_done_has_no_body(void **state)
{
    static const int32_t kinds[] = {ZOOKEEPER_DELETE, ZOOKEEPER_PING, ZOOKEEPER_AUTH,
                                    ZOOKEEPER_SET_WATCHES, ZOOKEEPER_CLOSE};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(kinds); ++i) {
        assert_int_equal(check(kinds[i], 0, SLICE_NULL), ZOOKEEPER_FAULT_NONE);
        assert_int_equal(check(kinds[i], 0, SLICE_LIT("\0")), ZOOKEEPER_FAULT_LONG);
    }
}

static void an_error_is_one_of_a_server_and_nothing_else(void **state)
{
    static const struct {
        int32_t error;
        enum zookeeper_fault fault;
    } cases[] = {
        {-1, ZOOKEEPER_FAULT_NONE},         {-101, ZOOKEEPER_FAULT_NONE},
        {-110, ZOOKEEPER_FAULT_NONE},       {-127, ZOOKEEPER_FAULT_NONE},
        {1, ZOOKEEPER_FAULT_ERROR},         {INT32_MAX, ZOOKEEPER_FAULT_ERROR},
        {INT32_MIN, ZOOKEEPER_FAULT_ERROR}, {-128, ZOOKEEPER_FAULT_ERROR},
        {-4, ZOOKEEPER_FAULT_ERROR},        {-9, ZOOKEEPER_FAULT_ERROR},
        {-116, ZOOKEEPER_FAULT_ERROR},      {-117, ZOOKEEPER_FAULT_ERROR},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        assert_int_equal(check(ZOOKEEPER_GET_DATA, cases[i].error, SLICE_NULL), cases[i].fault);
        assert_int_not_equal(check(ZOOKEEPER_GET_DATA, cases[i].error, SLICE_LIT("\0\0\0\0")),
                             ZOOKEEPER_FAULT_NONE);
    }
}

static void kinds_that_nobody_asks_have_no_answer(void **state)
{
    static const int32_t kinds[] = {0, 10, 13, 14, 16, 18, 106, -10, -1, INT32_MAX, INT32_MIN};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(kinds); ++i)
        assert_int_equal(check(kinds[i], 0, SLICE_NULL), ZOOKEEPER_FAULT_KIND);
}

static void assert_path_fault(const char *path, size_t len, enum zookeeper_fault fault)
{
    struct text t = {0};

    put_bytes(&t, (struct slice){path, len});
    assert_int_equal(check(ZOOKEEPER_CREATE, 0, text_slice(&t)), fault);
    text_fini(&t);
}

static void a_path_is_there_begins_at_the_root_and_has_no_hole(void **state)
{
    struct text t = {0};
    char *longest = xmalloc(ZOOKEEPER_PATH_BYTES_MAX + 1);

    (void)state;
    memset(longest, '/', ZOOKEEPER_PATH_BYTES_MAX + 1);
    assert_path_fault(longest, ZOOKEEPER_PATH_BYTES_MAX, ZOOKEEPER_FAULT_NONE);
    assert_path_fault(longest, ZOOKEEPER_PATH_BYTES_MAX + 1, ZOOKEEPER_FAULT_PATH);
    assert_path_fault("", 0, ZOOKEEPER_FAULT_PATH);
    assert_path_fault("x", 1, ZOOKEEPER_FAULT_PATH);
    assert_path_fault("/x\0y", 4, ZOOKEEPER_FAULT_PATH);
    put_i32(&t, -1);
    assert_int_equal(check(ZOOKEEPER_CREATE, 0, text_slice(&t)), ZOOKEEPER_FAULT_PATH);
    free(longest);
    text_fini(&t);
}

static void a_name_is_there_and_is_one(void **state)
{
    static const struct slice bad[] = {SLICE_LIT(""), SLICE_LIT("a/b"), SLICE_LIT("a\0b")};
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        text_clear(&t);
        put_i32(&t, 1);
        put_bytes(&t, bad[i]);
        assert_int_equal(check(ZOOKEEPER_GET_CHILDREN, 0, text_slice(&t)), ZOOKEEPER_FAULT_NAME);
    }
    text_fini(&t);
}

static void a_list_promises_no_more_than_there_can_be(void **state)
{
    static const int32_t lengths[] = {-1, 2, INT32_MAX, INT32_MIN, ZOOKEEPER_NAMES_MAX + 1};
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lengths); ++i) {
        text_clear(&t);
        put_i32(&t, lengths[i]);
        put_i32(&t, 0);
        assert_int_equal(check(ZOOKEEPER_GET_CHILDREN, 0, text_slice(&t)), ZOOKEEPER_FAULT_LIST);
        assert_int_equal(check(ZOOKEEPER_GET_ACL, 0, text_slice(&t)), ZOOKEEPER_FAULT_LIST);
    }
    text_clear(&t);
    put_i32(&t, ZOOKEEPER_NAMES_MAX);
    for (int i = 0; i < ZOOKEEPER_NAMES_MAX; ++i)
        put_bytes(&t, SLICE_LIT("n"));
    assert_int_equal(check(ZOOKEEPER_GET_CHILDREN, 0, text_slice(&t)), ZOOKEEPER_FAULT_NONE);
    put_bytes(&t, SLICE_LIT("n"));
    t.p[3] = (char)(t.p[3] + 1);
    assert_int_equal(check(ZOOKEEPER_GET_CHILDREN, 0, text_slice(&t)), ZOOKEEPER_FAULT_LIST);
    text_fini(&t);
}

static void permissions_are_texts(void **state)
{
    static const struct {
        struct slice scheme, whom;
    } bad[] = {
        {SLICE_LIT(""), SLICE_LIT("x")},
        {SLICE_LIT("a\0b"), SLICE_LIT("x")},
        {SLICE_LIT("auth"), SLICE_LIT("\0")},
    };
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        text_clear(&t);
        put_i32(&t, 1);
        put_i32(&t, 31);
        put_bytes(&t, bad[i].scheme);
        put_bytes(&t, bad[i].whom);
        put_figures(&t, 1, 1, 0, 0);
        assert_int_equal(check(ZOOKEEPER_GET_ACL, 0, text_slice(&t)), ZOOKEEPER_FAULT_ACL);
    }
    text_fini(&t);
}

static void figures_agree_with_one_another_and_with_the_data(void **state)
{
    static const struct {
        int64_t created, modified;
        int32_t data, children;
    } bad[] = {{-1, 1, 0, 0}, {5, 4, 0, 0}, {1, -1, 0, 0}, {1, 1, -1, 0}, {1, 1, 0, -1}};
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        text_clear(&t);
        put_figures(&t, bad[i].created, bad[i].modified, bad[i].data, bad[i].children);
        assert_int_equal(check(ZOOKEEPER_EXISTS, 0, text_slice(&t)), ZOOKEEPER_FAULT_STAT);
    }
    for (int32_t other = 0; other <= 100; other += 100) {
        text_clear(&t);
        put_bytes(&t, SLICE_LIT("abc"));
        put_figures(&t, 1, 1, other, 0);
        assert_int_equal(check(ZOOKEEPER_GET_DATA, 0, text_slice(&t)), ZOOKEEPER_FAULT_STAT);
    }
    text_fini(&t);
}

static void data_have_a_length_that_is_there(void **state)
{
    static const struct {
        int32_t length;
        enum zookeeper_fault fault;
    } cases[] = {
        {-2, ZOOKEEPER_FAULT_DATA},        {INT32_MIN, ZOOKEEPER_FAULT_DATA},
        {INT32_MAX, ZOOKEEPER_FAULT_DATA}, {ZOOKEEPER_DATA_MAX + 1, ZOOKEEPER_FAULT_DATA},
        {100, ZOOKEEPER_FAULT_SHORT},      {ZOOKEEPER_DATA_MAX, ZOOKEEPER_FAULT_SHORT},
    };
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        text_clear(&t);
        put_i32(&t, cases[i].length);
        put_figures(&t, 1, 1, cases[i].length, 0);
        assert_int_equal(check(ZOOKEEPER_GET_DATA, 0, text_slice(&t)), cases[i].fault);
    }
    text_fini(&t);
}

/* ---- heads, events, greetings ---- */

static void a_head_is_whole_and_its_transaction_can_be(void **state)
{
    struct text t = {0};
    struct zookeeper_reply r;

    (void)state;
    put_head(&t, 7, 0x200000003, -101);
    text_add(&t, SLICE_LIT("rest"));
    assert_int_equal(zookeeper_reply_read(text_slice(&t), &r), ZOOKEEPER_FAULT_NONE);
    assert_int_equal(r.xid, 7);
    assert_int_equal(r.zxid, 0x200000003);
    assert_int_equal(r.error, -101);
    assert_true(slice_is(r.body, "rest"));
    for (size_t n = 0; n < ZOOKEEPER_HEAD_BYTES; ++n)
        assert_int_equal(zookeeper_reply_read((struct slice){t.p, n}, &r), ZOOKEEPER_FAULT_SHORT);
    text_clear(&t);
    put_head(&t, 7, -1, 0);
    assert_int_equal(zookeeper_reply_read(text_slice(&t), &r), ZOOKEEPER_FAULT_NONE);
    text_clear(&t);
    put_head(&t, 7, -2, 0);
    assert_int_equal(zookeeper_reply_read(text_slice(&t), &r), ZOOKEEPER_FAULT_ZXID);
    text_fini(&t);
}

static enum zookeeper_fault check_event(int32_t kind, int32_t state, struct slice path,
                                        int32_t error)
{
    struct text t = {0};

    put_event(&t, kind, state, path);
    const struct zookeeper_reply r = {
        .xid = -1, .zxid = -1, .error = error, .body = text_slice(&t)};
    enum zookeeper_fault f = zookeeper_event_check(&r);
    text_fini(&t);
    return f;
}

static void news_is_of_a_node(void **state)
{
    struct slice path = SLICE_LIT("/app");
    struct text t = {0};
    struct zookeeper_reply r = {.xid = -1, .zxid = -1};

    (void)state;
    for (int32_t kind = 1; kind <= 4; ++kind)
        assert_int_equal(check_event(kind, 3, path, 0), ZOOKEEPER_FAULT_NONE);
    assert_int_equal(check_event(0, 3, path, 0), ZOOKEEPER_FAULT_EVENT);
    assert_int_equal(check_event(5, 3, path, 0), ZOOKEEPER_FAULT_EVENT);
    assert_int_equal(check_event(-1, 3, path, 0), ZOOKEEPER_FAULT_EVENT);
    assert_int_equal(check_event(-2, 3, path, 0), ZOOKEEPER_FAULT_EVENT);
    assert_int_equal(check_event(3, -112, path, 0), ZOOKEEPER_FAULT_EVENT);
    assert_int_equal(check_event(3, 3, path, -4), ZOOKEEPER_FAULT_ERROR);
    assert_int_equal(check_event(3, 3, SLICE_LIT(""), 0), ZOOKEEPER_FAULT_PATH);
    put_event(&t, 3, 3, path);
    for (size_t n = 0; n < t.len; ++n) {
        r.body = (struct slice){t.p, n};
        assert_int_not_equal(zookeeper_event_check(&r), ZOOKEEPER_FAULT_NONE);
    }
    text_add_char(&t, 'x');
    r.body = text_slice(&t);
    assert_int_equal(zookeeper_event_check(&r), ZOOKEEPER_FAULT_LONG);
    text_fini(&t);
}

static enum zookeeper_fault greet(int32_t timeout_ms, int64_t id, int64_t asked)
{
    struct text t = {0};
    int64_t got = 0;

    put_greeting(&t, timeout_ms, id);
    enum zookeeper_fault f = zookeeper_greeting_check(text_slice(&t), asked, &got);
    if (f == ZOOKEEPER_FAULT_NONE)
        assert_int_equal(got, id);
    text_fini(&t);
    return f;
}

static void a_greeting_gives_the_session_that_was_asked_for_or_says_that_it_is_over(void **state)
{
    (void)state;
    assert_int_equal(greet(10000, 77, 0), ZOOKEEPER_FAULT_NONE);
    assert_int_equal(greet(10000, 77, 77), ZOOKEEPER_FAULT_NONE);
    assert_int_equal(greet(10000, -77, -77), ZOOKEEPER_FAULT_NONE);
    assert_int_equal(greet(0, 0, 77), ZOOKEEPER_FAULT_NONE);
    assert_int_equal(greet(10000, 78, 77), ZOOKEEPER_FAULT_SESSION);
    assert_int_equal(greet(0, 0, 0), ZOOKEEPER_FAULT_SESSION);
    assert_int_equal(greet(10000, 0, 77), ZOOKEEPER_FAULT_SESSION_TIME);
    assert_int_equal(greet(0, 77, 77), ZOOKEEPER_FAULT_SESSION_TIME);
    assert_int_equal(greet(-1, 77, 0), ZOOKEEPER_FAULT_SESSION_TIME);
    assert_int_equal(greet(ZOOKEEPER_SESSION_MS_MAX, 77, 0), ZOOKEEPER_FAULT_NONE);
    assert_int_equal(greet(ZOOKEEPER_SESSION_MS_MAX + 1, 77, 0), ZOOKEEPER_FAULT_SESSION_TIME);
}

static void a_greeting_has_one_form(void **state)
{
    struct text t = {0};
    int64_t id;

    (void)state;
    put_greeting(&t, 10000, 77);
    for (size_t n = 0; n < t.len; ++n) {
        /* Old servers leave the last byte out. */
        bool old = n == t.len - 1;

        assert_int_equal(zookeeper_greeting_check((struct slice){t.p, n}, 0, &id),
                         old ? ZOOKEEPER_FAULT_NONE : ZOOKEEPER_FAULT_GREETING);
    }
    for (size_t at = 0; at < t.len; ++at) {
        char kept = t.p[at];

        /* The version, the password's length, whether it may only be read. */
        if (at >= 4 && at < 16)
            continue;
        if (at >= 20 && at < 36)
            continue;
        t.p[at] = (char)(kept ^ 1);
        assert_int_equal(zookeeper_greeting_check(text_slice(&t), 0, &id),
                         ZOOKEEPER_FAULT_GREETING);
        t.p[at] = kept;
    }
    text_add_char(&t, '\0');
    assert_int_equal(zookeeper_greeting_check(text_slice(&t), 0, &id), ZOOKEEPER_FAULT_GREETING);
    text_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_one_form),
        cmocka_unit_test(data_may_be_none_at_all),
        cmocka_unit_test(what_only_says_that_it_is_done_has_no_body),
        cmocka_unit_test(an_error_is_one_of_a_server_and_nothing_else),
        cmocka_unit_test(kinds_that_nobody_asks_have_no_answer),
        cmocka_unit_test(a_path_is_there_begins_at_the_root_and_has_no_hole),
        cmocka_unit_test(a_name_is_there_and_is_one),
        cmocka_unit_test(a_list_promises_no_more_than_there_can_be),
        cmocka_unit_test(permissions_are_texts),
        cmocka_unit_test(figures_agree_with_one_another_and_with_the_data),
        cmocka_unit_test(data_have_a_length_that_is_there),
        cmocka_unit_test(a_head_is_whole_and_its_transaction_can_be),
        cmocka_unit_test(news_is_of_a_node),
        cmocka_unit_test(a_greeting_gives_the_session_that_was_asked_for_or_says_that_it_is_over),
        cmocka_unit_test(a_greeting_has_one_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
