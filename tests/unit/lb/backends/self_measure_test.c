/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/backends/self_measure.h"

#include <sys/stat.h>

#include "common/base/file.h"
#include "common/skills/classes.h"
#include "lb/backends/member.h"
#include "tests/support/resume_find.h"
#include "tests/unit/lb/core/control_fixture.h"

enum { HISTORY = 5 };

static int set_up(void **state)
{
    struct control *c =
        control_create("listen: [\"127.0.0.1:0\"]\nworkers: [\"127.0.0.1:1\"]\nhistory: 5\n");

    c->lb.self_measure = self_measure_create(c->directory, -1);
    *state = c;
    return 0;
}

static int tear_down(void **state)
{
    struct control *c = *state;

    self_measure_destroy(c->lb.self_measure);
    control_destroy(c);
    return 0;
}

static struct worker *join(struct control *c, const char *name)
{
    struct member m = {.app = c->app, .max_connections = -1, .concurrency = 1};

    assert_int_equal(addr_parse(slice_of(name), &m.addr), ERR_OK);
    struct worker *w = member_create(name, "", "1", &m);
    self_measure_join(c->lb.self_measure, member_of(w), NULL);
    return w;
}

static void leave(struct control *c, struct worker *w)
{
    self_measure_leave(c->lb.self_measure, member_of(w));
    member_leave(member_of(w));
    conn_backend_retire(member_of(w)->backend);
    worker_unref(w);
}

/* The process ends and the next one starts. */
static void restart(struct control *c)
{
    self_measure_destroy(c->lb.self_measure);
    c->lb.self_measure = NULL;
    c->lb.self_measure = self_measure_create(c->directory, -1);
}

static void serve(struct worker *w, const char *cls, unsigned n, uint64_t service_us)
{
    for (unsigned i = 0; i < n; ++i)
        member_served(member_of(w), slice_of(cls), class_hash(slice_of(cls)), service_us, false,
                      false);
}

/* The score the pool has for CLS at its only worker; 0: none. */
static double score(const struct control *c, const char *cls)
{
    struct pool_view v;

    pool_scan(c->app->pool, true, &v);
    assert_int_equal(v.n, 1);
    const double *found = resume_find(&v.workers[0].skills, slice_of(cls));
    double s = found != NULL ? *found : 0;
    pool_view_fini(&v);
    return s;
}

static void a_new_worker_is_in_the_pool_without_skills(void **state)
{
    struct control *c = *state;
    struct worker *w = join(c, "127.0.0.1:1");

    assert_int_equal(c->app->navailable, 1);
    assert_true(score(c, "a") < 0.001);
    leave(c, w);
    assert_int_equal(c->app->navailable, 0);
}

static void a_full_history_makes_a_resume_of_requests_per_second(void **state)
{
    struct control *c = *state;
    struct worker *w = join(c, "127.0.0.1:1");

    serve(w, "a", HISTORY - 1, 20000);
    assert_true(score(c, "a") < 0.001);
    serve(w, "a", 1, 20000);
    assert_true(score(c, "a") > 49 && score(c, "a") < 51);
    leave(c, w);
}

static void skills_are_back_when_the_worker_joins_after_a_restart(void **state)
{
    struct control *c = *state;
    struct worker *w = join(c, "unix:/run/some/where.sock");

    serve(w, "a", HISTORY, 20000);
    leave(c, w);
    restart(c);
    w = join(c, "unix:/run/some/where.sock");
    assert_true(score(c, "a") > 49 && score(c, "a") < 51);
    leave(c, w);
    restart(c);
    /* Another worker has none of them. */
    w = join(c, "unix:/run/some/where.sock2");
    assert_true(score(c, "a") < 0.001);
    leave(c, w);
}

static void measurements_since_the_last_resume_are_stored_too(void **state)
{
    struct control *c = *state;
    struct worker *w = join(c, "127.0.0.1:1");

    serve(w, "a", 2, 20000);
    leave(c, w);
    restart(c);
    w = join(c, "127.0.0.1:1");
    assert_true(score(c, "a") > 49);
    leave(c, w);
}

static void a_worker_that_left_is_not_brought_back_by_a_late_resume(void **state)
{
    struct control *c = *state;
    struct worker *w = worker_ref(join(c, "127.0.0.1:1"));
    struct pool_view v;

    leave(c, w);
    serve(w, "a", HISTORY, 20000);
    pool_scan(c->app->pool, false, &v);
    assert_int_equal(v.n, 0);
    pool_view_fini(&v);
    worker_unref(w);
}

static void a_torn_file_is_set_aside(void **state)
{
    struct control *c = *state;
    struct worker *w = join(c, "127.0.0.1:1");
    char *path = xasprintf("%s/default/127.0.0.1:1", c->directory);
    char *bad = xasprintf("%s.bad", path);
    struct text bytes = {0};
    struct stat st;

    serve(w, "a", HISTORY, 20000);
    leave(c, w);
    restart(c);
    assert_int_equal(file_read(path, 1 << 20, &bytes), ERR_OK);
    bytes.len -= 10;
    assert_int_equal(file_write(path, text_slice(&bytes), 0640), ERR_OK);
    w = join(c, "127.0.0.1:1");
    assert_true(score(c, "a") < 0.001);
    assert_int_equal(stat(bad, &st), 0);
    leave(c, w);
    text_fini(&bytes);
    free(bad);
    free(path);
}

static void skills_of_another_classifier_do_not_count(void **state)
{
    struct control *c = *state;
    struct worker *w = join(c, "127.0.0.1:1");
    char *path = xasprintf("%s/default/127.0.0.1:1", c->directory);
    struct text bytes = {0};

    serve(w, "a", HISTORY, 20000);
    leave(c, w);
    restart(c);
    assert_int_equal(file_read(path, 1 << 20, &bytes), ERR_OK);
    char *at =
        strstr(text_cstr(&bytes), classifier_fingerprint(c->app->classifier)) != NULL
            ? bytes.p + (strstr(bytes.p, classifier_fingerprint(c->app->classifier)) - bytes.p)
            : NULL;
    assert_non_null(at);
    memset(at, '0', FINGERPRINT_LEN);
    assert_int_equal(file_write(path, text_slice(&bytes), 0640), ERR_OK);
    w = join(c, "127.0.0.1:1");
    assert_true(score(c, "a") < 0.001);
    leave(c, w);
    text_fini(&bytes);
    free(path);
}

static void errors_responded_fast_raise_no_score(void **state)
{
    struct control *c = *state;
    struct worker *w = join(c, "127.0.0.1:1");

    serve(w, "a", HISTORY, 20000);
    double before = score(c, "a");
    for (unsigned i = 0; i < 10 * HISTORY; ++i)
        member_served(member_of(w), SLICE_LIT("a"), class_hash(SLICE_LIT("a")), 10, true, false);
    assert_true(score(c, "a") <= before * 1.01);
    assert_int_equal(atomic_load(&member_of(w)->failures), 10 * HISTORY);
    leave(c, w);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_new_worker_is_in_the_pool_without_skills),
        TEST(a_full_history_makes_a_resume_of_requests_per_second),
        TEST(skills_are_back_when_the_worker_joins_after_a_restart),
        TEST(measurements_since_the_last_resume_are_stored_too),
        TEST(a_worker_that_left_is_not_brought_back_by_a_late_resume),
        TEST(a_torn_file_is_set_aside),
        TEST(skills_of_another_classifier_do_not_count),
        TEST(errors_responded_fast_raise_no_score),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
