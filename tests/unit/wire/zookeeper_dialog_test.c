/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/wire/zookeeper_fixture.h"

enum { NONE = ZOOKEEPER_FAULT_NONE };

static void put_question(struct text *t, int32_t xid, int32_t kind)
{
    put_i32(t, 8 + 6);
    put_i32(t, xid);
    put_i32(t, kind);
    text_add(t, SLICE_LIT("/x....")); /* whatever is asked */
}

static void put_first_question(struct text *t, int64_t session)
{
    put_i32(t, 45);
    put_i32(t, 0);
    put_i64(t, 0x300000001);
    put_i32(t, 10000);
    put_i64(t, session);
    put_bytes(t, SLICE_LIT("0123456789abcdef"));
    text_add_char(t, '\0');
}

static enum zookeeper_fault ask(struct zookeeper_dialog *d, int32_t xid, int32_t kind)
{
    struct text t = {0};

    put_question(&t, xid, kind);
    enum zookeeper_fault f = zookeeper_dialog_sent(d, text_slice(&t));
    text_fini(&t);
    return f;
}

/* An answer without a body. */
static enum zookeeper_fault answer(struct zookeeper_dialog *d, int32_t xid, int32_t error)
{
    struct text t = {0};

    put_head(&t, xid, 1, error);
    enum zookeeper_fault f = zookeeper_dialog_heard(d, text_slice(&t));
    text_fini(&t);
    return f;
}

static void begin(struct zookeeper_dialog *d, int64_t session)
{
    struct text t = {0};

    *d = (struct zookeeper_dialog){0};
    put_first_question(&t, session);
    assert_int_equal(zookeeper_dialog_sent(d, text_slice(&t)), NONE);
    assert_true(d->begun);
    text_fini(&t);
}

static enum zookeeper_fault greet(struct zookeeper_dialog *d, int64_t id)
{
    struct text t = {0};

    put_greeting(&t, id != 0 ? 10000 : 0, id);
    enum zookeeper_fault f = zookeeper_dialog_heard(d, text_slice(&t));
    text_fini(&t);
    return f;
}

static void begin_greeted(struct zookeeper_dialog *d)
{
    begin(d, 0);
    assert_int_equal(greet(d, 77), NONE);
    assert_int_equal(d->session, 77);
}

static void the_first_frame_is_the_greeting_that_was_asked_for(void **state)
{
    struct zookeeper_dialog d = {0};

    (void)state;
    assert_int_equal(greet(&d, 77), ZOOKEEPER_FAULT_UNASKED);
    begin(&d, 77);
    assert_int_equal(greet(&d, 78), ZOOKEEPER_FAULT_SESSION);
    assert_int_equal(answer(&d, 1, 0), ZOOKEEPER_FAULT_GREETING);
    assert_int_equal(greet(&d, 77), NONE);
    assert_int_not_equal(greet(&d, 77), NONE);
    begin(&d, 77);
    assert_int_equal(greet(&d, 0), NONE);
    assert_int_equal(d.session, 0);
    zookeeper_dialog_fini(&d);
}

static void answers_come_in_the_order_of_their_questions_once_each(void **state)
{
    struct zookeeper_dialog d;

    (void)state;
    begin_greeted(&d);
    assert_int_equal(answer(&d, 5, 0), ZOOKEEPER_FAULT_UNASKED);
    for (int32_t xid = 1; xid <= 3; ++xid)
        assert_int_equal(ask(&d, xid, ZOOKEEPER_DELETE), NONE);
    assert_int_equal(answer(&d, 1, 0), NONE);
    assert_int_equal(answer(&d, 3, 0), ZOOKEEPER_FAULT_ORDER);
    assert_int_equal(answer(&d, 1, 0), ZOOKEEPER_FAULT_ORDER);
    assert_int_equal(answer(&d, 2, -101), NONE);
    assert_int_equal(answer(&d, 3, 0), NONE);
    assert_int_equal(answer(&d, 3, 0), ZOOKEEPER_FAULT_UNASKED);
    zookeeper_dialog_fini(&d);
}

static void an_answer_is_held_against_the_kind_of_its_question(void **state)
{
    struct zookeeper_dialog d;

    (void)state;
    begin_greeted(&d);
    assert_int_equal(ask(&d, 1, ZOOKEEPER_GET_DATA), NONE);
    assert_int_equal(answer(&d, 1, 0), ZOOKEEPER_FAULT_SHORT);
    assert_int_equal(ask(&d, 2, ZOOKEEPER_CLOSE), NONE);
    assert_int_equal(answer(&d, 2, 0), NONE);
    assert_int_equal(ask(&d, 3, 14), NONE);
    assert_int_equal(answer(&d, 3, 0), ZOOKEEPER_FAULT_KIND);
    zookeeper_dialog_fini(&d);
}

static void what_is_answered_out_of_turn_was_asked_as_often(void **state)
{
    static const struct {
        int32_t xid, kind;
    } cases[] = {{-2, ZOOKEEPER_PING}, {-4, ZOOKEEPER_AUTH}, {-8, ZOOKEEPER_SET_WATCHES}};
    struct zookeeper_dialog d;

    (void)state;
    begin_greeted(&d);
    assert_int_equal(ask(&d, 1, ZOOKEEPER_DELETE), NONE);
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        assert_int_equal(answer(&d, cases[i].xid, 0), ZOOKEEPER_FAULT_UNASKED);
        assert_int_equal(ask(&d, cases[i].xid, cases[i].kind), NONE);
        assert_int_equal(ask(&d, cases[i].xid, cases[i].kind), NONE);
        assert_int_equal(answer(&d, cases[i].xid, 0), NONE);
        assert_int_equal(answer(&d, cases[i].xid, -115), NONE);
        assert_int_equal(answer(&d, cases[i].xid, 0), ZOOKEEPER_FAULT_UNASKED);
    }
    assert_int_equal(answer(&d, 1, 0), NONE);
    assert_int_equal(answer(&d, -3, 0), ZOOKEEPER_FAULT_UNASKED);
    zookeeper_dialog_fini(&d);
}

static void news_may_come_between_answers(void **state)
{
    struct zookeeper_dialog d;
    struct text t = {0};

    (void)state;
    begin_greeted(&d);
    assert_int_equal(ask(&d, 1, ZOOKEEPER_DELETE), NONE);
    put_head(&t, -1, -1, 0);
    put_event(&t, 4, 3, SLICE_LIT("/app/workers/providers"));
    assert_int_equal(zookeeper_dialog_heard(&d, text_slice(&t)), NONE);
    assert_int_equal(answer(&d, 1, 0), NONE);
    assert_int_equal(answer(&d, -1, 0), ZOOKEEPER_FAULT_SHORT);
    text_fini(&t);
    zookeeper_dialog_fini(&d);
}

static void questions_may_go_out_in_any_pieces(void **state)
{
    struct text t = {0};

    (void)state;
    put_first_question(&t, 0);
    for (int32_t xid = 1; xid <= 4; ++xid)
        put_question(&t, xid, ZOOKEEPER_DELETE);
    for (size_t piece = 1; piece <= t.len; ++piece) {
        struct zookeeper_dialog d = {0};

        for (size_t at = 0; at < t.len; at += piece) {
            size_t n = t.len - at < piece ? t.len - at : piece;

            assert_int_equal(zookeeper_dialog_sent(&d, (struct slice){t.p + at, n}), NONE);
        }
        assert_int_equal(d.n, 4);
        assert_int_equal(greet(&d, 77), NONE);
        for (int32_t xid = 1; xid <= 4; ++xid)
            assert_int_equal(answer(&d, xid, 0), NONE);
        zookeeper_dialog_fini(&d);
    }
    text_fini(&t);
}

static void questions_that_cannot_be_read_are_refused(void **state)
{
    static const struct slice bad[] = {
        SLICE_LIT("\0\0\0\7"),
        SLICE_LIT("\0\0\0\0"),
        SLICE_LIT("\xff\xff\xff\xff"),
        SLICE_LIT("\177\xff\xff\xff"),
        /* Too short for a first one. */
        SLICE_LIT("\0\0\0\10"
                  "abcdefgh"),
    };
    struct zookeeper_dialog d = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        assert_int_equal(zookeeper_dialog_sent(&d, bad[i]), ZOOKEEPER_FAULT_QUESTION);
        zookeeper_dialog_fini(&d);
    }
    begin_greeted(&d);
    assert_int_equal(ask(&d, -5, ZOOKEEPER_PING), ZOOKEEPER_FAULT_QUESTION);
    zookeeper_dialog_fini(&d);
}

static void questions_without_an_answer_are_bounded(void **state)
{
    static const int32_t xids[] = {0, -2, -4, -8};

    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(xids); ++k) {
        struct zookeeper_dialog d;
        int32_t n = 0;

        begin_greeted(&d);
        while (n < ZOOKEEPER_QUESTIONS_MAX &&
               ask(&d, xids[k] < 0 ? xids[k] : n, ZOOKEEPER_PING) == ZOOKEEPER_FAULT_NONE)
            ++n;
        assert_int_equal(n, ZOOKEEPER_QUESTIONS_MAX);
        assert_int_equal(ask(&d, xids[k] < 0 ? xids[k] : n, ZOOKEEPER_PING),
                         ZOOKEEPER_FAULT_QUESTIONS);
        for (int32_t i = 0; i < n; ++i)
            assert_int_equal(answer(&d, xids[k] < 0 ? xids[k] : i, 0), NONE);
        zookeeper_dialog_fini(&d);
    }
}

static void frames_have_lengths_of_their_kind(void **state)
{
    struct zookeeper_dialog d;

    (void)state;
    begin(&d, 0);
    assert_int_equal(zookeeper_dialog_length(&d, 35), ZOOKEEPER_FAULT_LENGTH);
    assert_int_equal(zookeeper_dialog_length(&d, 36), NONE);
    assert_int_equal(zookeeper_dialog_length(&d, 37), NONE);
    assert_int_equal(zookeeper_dialog_length(&d, 38), ZOOKEEPER_FAULT_LENGTH);
    assert_int_equal(greet(&d, 77), NONE);
    assert_int_equal(zookeeper_dialog_length(&d, 15), ZOOKEEPER_FAULT_LENGTH);
    assert_int_equal(zookeeper_dialog_length(&d, 16), NONE);
    assert_int_equal(zookeeper_dialog_length(&d, ZOOKEEPER_FRAME_MAX), NONE);
    assert_int_equal(zookeeper_dialog_length(&d, ZOOKEEPER_FRAME_MAX + 1), ZOOKEEPER_FAULT_LENGTH);
    assert_int_equal(zookeeper_dialog_length(&d, UINT32_MAX), ZOOKEEPER_FAULT_LENGTH);
    zookeeper_dialog_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_frame_is_the_greeting_that_was_asked_for),
        cmocka_unit_test(answers_come_in_the_order_of_their_questions_once_each),
        cmocka_unit_test(an_answer_is_held_against_the_kind_of_its_question),
        cmocka_unit_test(what_is_answered_out_of_turn_was_asked_as_often),
        cmocka_unit_test(news_may_come_between_answers),
        cmocka_unit_test(questions_may_go_out_in_any_pieces),
        cmocka_unit_test(questions_that_cannot_be_read_are_refused),
        cmocka_unit_test(questions_without_an_answer_are_bounded),
        cmocka_unit_test(frames_have_lengths_of_their_kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
