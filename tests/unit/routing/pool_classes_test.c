/* SPDX-License-Identifier: Apache-2.0
 *
 * Floods of class names that a client invents. Under a sanitizer memory is counted differently and
 * everything is slow, so there the floods are smaller and memory is not checked.
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/pool_fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ROOM = 1000, MEMORY_COUNTS = 0 };
#else
enum { ROOM = 100000, MEMORY_COUNTS = 1 };
#endif
enum { FLOOD = 10 * ROOM };

static void start(struct fixture *f)
{
    struct pool_settings s = fixture_settings;

    s.max_classes = ROOM;
    fixture_start(f, &s);
    for (int i = 0; i < FIXTURE_WORKERS; ++i)
        fixture_resume(f, i, "");
}

static size_t heap_bytes(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* One request from start to end; which worker had it. */
static int serve(struct fixture *f, const char *cls)
{
    struct pool_request r = {.cls = slice_of(cls)};
    struct pool_pick pick;

    assert_int_equal(pool_get(f->pool, &r, 1, &pick), ERR_OK);
    int worker = fixture_number(f, pick.worker);
    pool_put(f->pool, &pick, NULL, NULL);
    return worker;
}

static void serve_numbered(struct fixture *f, const char *prefix, size_t first, size_t n)
{
    char name[64];

    for (size_t i = first; i < first + n; ++i) {
        snprintf(name, sizeof(name), "%s%zu.flood.example.org", prefix, i);
        serve(f, name);
    }
}

static void a_million_new_classes_take_no_skill_from_one_requested_once_in_the_room(void **state)
{
    struct fixture f;

    (void)state;
    start(&f);
    size_t before = heap_bytes();
    int home = serve(&f, "rare.example");
    serve_numbered(&f, "early", 0, ROOM / 10);
    assert_int_equal(serve(&f, "rare.example"), home);
    for (size_t i = 0; i < FLOOD; i += ROOM) {
        serve_numbered(&f, "new", i, ROOM - 1);
        assert_int_equal(serve(&f, "rare.example"), home);
        assert_true(fixture_score(&f, home, "rare.example") == 1);
    }
    assert_int_equal(fixture_classes(&f), ROOM);
    if (MEMORY_COUNTS) {
        print_message("%zu bytes per class kept\n", (heap_bytes() - before) / ROOM);
        assert_true(heap_bytes() - before < 300 * (size_t)ROOM);
    }
    fixture_end(&f);
}

static void classes_that_come_twice_evict_none_that_comes_in_the_same_time(void **state)
{
    struct fixture f;

    (void)state;
    start(&f);
    int home = serve(&f, "rare.example");
    serve_numbered(&f, "early", 0, ROOM / 10);
    assert_int_equal(serve(&f, "rare.example"), home);
    for (size_t i = 0; i < FLOOD / 2; i += ROOM / 2) {
        serve_numbered(&f, "new", i, ROOM / 2 - 1);
        serve_numbered(&f, "new", i, ROOM / 2 - 1);
        assert_int_equal(serve(&f, "rare.example"), home);
    }
    pool_check(f.pool);
    fixture_end(&f);
}

static void a_dropped_class_loses_its_scores(void **state)
{
    struct fixture f;

    (void)state;
    start(&f);
    fixture_resume(&f, 0, "once.example=50");
    assert_int_equal(serve(&f, "once.example"), 0);
    serve_numbered(&f, "new", 0, ROOM);
    assert_true(isnan(fixture_score(&f, 0, "once.example")));
    assert_int_equal(fixture_classes(&f), ROOM);
    fixture_end(&f);
}

static void resumes_of_many_classes_find_room_while_there_is_some(void **state)
{
    struct resume r = {0};
    struct fixture f;
    char name[64];

    (void)state;
    start(&f);
    for (int worker = 0; worker < FIXTURE_WORKERS; ++worker) {
        for (int i = 0; i < ROOM / FIXTURE_WORKERS; ++i) {
            snprintf(name, sizeof(name), "w%d-%d.example", worker, i);
            resume_push(&r, slice_of(name), 1 + i);
        }
        pool_new_resume(f.pool, f.workers[worker], &r, "", "", &f.released);
        resume_fini(&r);
    }
    pool_check(f.pool);
    assert_int_equal(fixture_classes(&f), ROOM);
    assert_int_equal(serve(&f, "w7-5.example"), 7);
    assert_int_equal(serve(&f, "w0-0.example"), 0);
    fixture_end(&f);
}

static void a_known_class_survives_the_restart_of_its_only_worker(void **state)
{
    struct fixture f;

    (void)state;
    start(&f);
    fixture_resume(&f, 3, "home.example=50");
    assert_int_equal(serve(&f, "home.example"), 3);
    serve_numbered(&f, "early", 0, ROOM / 10);
    assert_int_equal(serve(&f, "home.example"), 3);
    fixture_remove(&f, 3);
    serve_numbered(&f, "new", 0, ROOM);
    fixture_resume(&f, 3, "home.example=50");
    serve_numbered(&f, "newer", 0, ROOM);
    assert_int_equal(serve(&f, "home.example"), 3);
    fixture_end(&f);
}

static void a_smaller_table_drops_scores_at_once(void **state)
{
    struct pool_settings s = fixture_settings;
    struct fixture f;

    (void)state;
    start(&f);
    serve_numbered(&f, "c", 0, ROOM / 2);
    s.max_classes = ROOM / 100;
    pool_set(f.pool, &s);
    pool_check(f.pool);
    assert_int_equal(fixture_classes(&f), ROOM / 100);
    fixture_end(&f);
}

/* As a meter has them: the class NAME, which counts most, and the latest of a flood, newest first.
 */
static void resume_in_flood(struct fixture *f, int worker, const char *name, int round)
{
    enum { NEW = 20, KEPT = 60 };
    struct text skills = {0};
    int last = NEW * (round + 1);

    text_addf(&skills, "%s=9", name);
    for (int i = last; i > last - KEPT && i > 0; --i)
        text_addf(&skills, " flood%d-%d=1", worker, i);
    fixture_resume(f, worker, text_cstr(&skills));
    text_fini(&skills);
}

static void the_best_classes_stay_when_resumes_exceed_the_room(void **state)
{
    enum { ROOM_FOR_RESUMES = 100 };

    (void)state;
    for (int policy = 0; policy < POOL_POLICIES; ++policy) {
        struct fixture f;
        struct pool_settings s = fixture_settings;

        s.policy = (enum pool_policy)policy;
        s.hash_balance_percent = 150;
        s.max_classes = ROOM_FOR_RESUMES;
        fixture_start(&f, &s);
        for (int round = 0; round < 10; ++round) {
            resume_in_flood(&f, 0, "known0", round);
            resume_in_flood(&f, 1, "known1", round);
            assert_true(fixture_score(&f, 0, "known0") == 9);
            assert_true(fixture_score(&f, 1, "known1") == 9);
        }
        assert_int_equal(fixture_classes(&f), ROOM_FOR_RESUMES);
        fixture_end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_new_classes_take_no_skill_from_one_requested_once_in_the_room),
        cmocka_unit_test(classes_that_come_twice_evict_none_that_comes_in_the_same_time),
        cmocka_unit_test(a_dropped_class_loses_its_scores),
        cmocka_unit_test(resumes_of_many_classes_find_room_while_there_is_some),
        cmocka_unit_test(the_best_classes_stay_when_resumes_exceed_the_room),
        cmocka_unit_test(a_known_class_survives_the_restart_of_its_only_worker),
        cmocka_unit_test(a_smaller_table_drops_scores_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
