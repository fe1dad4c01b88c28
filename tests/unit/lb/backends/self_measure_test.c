/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/backends/self_measure.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/base/clock.h"
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

    health_stop(c->app);
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
        member_served(member_of(w), slice_of(cls), class_hash(slice_of(cls)), service_us, false);
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

static void what_was_measured_since_the_last_resume_is_kept_too(void **state)
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

static void errors_answered_fast_raise_no_score(void **state)
{
    struct control *c = *state;
    struct worker *w = join(c, "127.0.0.1:1");

    serve(w, "a", HISTORY, 20000);
    double before = score(c, "a");
    for (unsigned i = 0; i < 10 * HISTORY; ++i)
        member_served(member_of(w), SLICE_LIT("a"), class_hash(SLICE_LIT("a")), 10, true);
    assert_true(score(c, "a") <= before * 1.01);
    assert_int_equal(atomic_load(&member_of(w)->failures), 10 * HISTORY);
    leave(c, w);
}

/* ---- ejection, which needs members too ---- */

static void drop_ejections(struct control *c)
{
    while (!list_empty(&c->app->ejections))
        loop_turn(c->lb.control, 1000);
}

static bool is_ejected(const struct worker *w)
{
    return (member_of(w)->unavailable & MEMBER_EJECTED) != 0;
}

static void a_worker_that_refuses_is_ejected_for_a_while(void **state)
{
    struct control *c = *state;
    struct worker *a = join(c, "127.0.0.1:1");
    struct worker *b = join(c, "127.0.0.1:2");

    c->app->eject.time_ms = 1;
    c->app->eject.probe_ms = 0;
    member_failed(member_of(a), FAULT_REFUSED, 0);
    assert_int_equal(c->app->navailable, 1);
    assert_true(is_ejected(a));
    loop_turn(c->lb.control, 0);
    assert_int_equal(stats_sum(c->app->stats, APP_STAT_ejections), 1);
    drop_ejections(c);
    assert_int_equal(c->app->navailable, 2);
    leave(c, a);
    leave(c, b);
}

/* A socket of our own, bound and not yet listening; its address into NAME. */
static int bound(char *name, size_t room)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    snprintf(name, room, "127.0.0.1:%u", (unsigned)ntohs(a.sin_port));
    return fd;
}

static void a_worker_that_refuses_is_back_when_it_accepts(void **state)
{
    struct control *c = *state;
    char name[32];
    int fd = bound(name, sizeof(name));
    struct worker *a = join(c, name);
    struct worker *b = join(c, "127.0.0.1:2");

    c->app->eject.time_ms = 4;
    c->app->eject.probe_ms = 1;
    member_failed(member_of(a), FAULT_REFUSED, 0);
    /* However often it is tried, and long after its time. */
    for (uint64_t end_ms = clock_mono_us() / 1000 + 40; clock_mono_us() / 1000 < end_ms;)
        loop_turn(c->lb.control, 2);
    assert_true(is_ejected(a));
    assert_int_equal(listen(fd, 5), 0);
    drop_ejections(c);
    assert_int_equal(c->app->navailable, 2);
    assert_int_equal(stats_sum(c->app->stats, APP_STAT_ejections), 1);
    close(fd);
    leave(c, a);
    leave(c, b);
}

static void a_worker_that_leaves_is_tried_no_more(void **state)
{
    struct control *c = *state;
    struct worker *a = join(c, "127.0.0.1:1");
    struct worker *b = join(c, "127.0.0.1:2");

    c->app->eject.probe_ms = 1;
    member_failed(member_of(a), FAULT_REFUSED, 0);
    loop_turn(c->lb.control, 0);
    leave(c, a);
    drop_ejections(c);
    leave(c, b);
}

static void the_only_worker_is_never_ejected(void **state)
{
    struct control *c = *state;
    struct worker *a = join(c, "127.0.0.1:1");

    member_failed(member_of(a), FAULT_REFUSED, 0);
    assert_false(is_ejected(a));
    assert_int_equal(c->app->navailable, 1);
    leave(c, a);
}

static void when_the_last_one_refuses_the_ejected_ones_come_back(void **state)
{
    struct control *c = *state;
    struct worker *a = join(c, "127.0.0.1:1");
    struct worker *b = join(c, "127.0.0.1:2");
    struct worker *d = join(c, "127.0.0.1:3");

    c->app->eject.time_ms = 3600000;
    member_failed(member_of(a), FAULT_REFUSED, 0);
    loop_turn(c->lb.control, 0);
    member_failed(member_of(b), FAULT_REFUSED, 0); /* its message is still in flight below */
    member_failed(member_of(d), FAULT_REFUSED, 0);
    assert_false(is_ejected(a));
    assert_false(is_ejected(b));
    assert_true(is_ejected(d));
    assert_int_equal(c->app->navailable, 2);
    /* What is over does not end what has begun since. */
    member_failed(member_of(a), FAULT_REFUSED, 0);
    loop_turn(c->lb.control, 0);
    assert_true(is_ejected(a));
    assert_int_equal(stats_sum(c->app->stats, APP_STAT_ejections), 4);
    leave(c, a);
    leave(c, b);
    leave(c, d);
}

static void one_that_has_tried_all_others_gets_the_ejected_ones(void **state)
{
    struct control *c = *state;
    struct worker *a = join(c, "127.0.0.1:1");
    struct worker *b = join(c, "127.0.0.1:2");
    struct worker *tried[] = {b, a};

    c->app->eject.time_ms = 3600000;
    member_failed(member_of(a), FAULT_REFUSED, 0);
    assert_false(health_fail_open(c->app, tried, 2));
    assert_true(is_ejected(a));
    assert_true(health_fail_open(c->app, tried, 1));
    assert_false(is_ejected(a));
    assert_false(health_fail_open(c->app, tried, 1));
    leave(c, a);
    leave(c, b);
}

static void an_ejected_worker_comes_back_when_the_others_leave(void **state)
{
    struct control *c = *state;
    struct worker *a = join(c, "127.0.0.1:1");
    struct worker *b = join(c, "127.0.0.1:2");

    c->app->eject.time_ms = 3600000;
    member_failed(member_of(a), FAULT_REFUSED, 0);
    loop_turn(c->lb.control, 0);
    leave(c, b);
    assert_int_equal(c->app->navailable, 1);
    assert_true(list_empty(&c->app->ejections));
    leave(c, a);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_new_worker_is_in_the_pool_without_skills),
        TEST(a_full_history_makes_a_resume_of_requests_per_second),
        TEST(skills_are_back_when_the_worker_joins_after_a_restart),
        TEST(what_was_measured_since_the_last_resume_is_kept_too),
        TEST(a_worker_that_left_is_not_brought_back_by_a_late_resume),
        TEST(a_torn_file_is_set_aside),
        TEST(skills_of_another_classifier_do_not_count),
        TEST(errors_answered_fast_raise_no_score),
        TEST(a_worker_that_refuses_is_ejected_for_a_while),
        TEST(a_worker_that_refuses_is_back_when_it_accepts),
        TEST(a_worker_that_leaves_is_tried_no_more),
        TEST(the_only_worker_is_never_ejected),
        TEST(when_the_last_one_refuses_the_ejected_ones_come_back),
        TEST(one_that_has_tried_all_others_gets_the_ejected_ones),
        TEST(an_ejected_worker_comes_back_when_the_others_leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
