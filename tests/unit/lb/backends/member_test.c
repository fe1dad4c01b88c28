/* SPDX-License-Identifier: Apache-2.0
 *
 * A member's limits: its own, the application's, and which of them hold for tunnels. Its ejection,
 * and requests that probe an ejected one.
 */
#include "lb/backends/member.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "routing/worker.h"
#include "tests/unit/lb/core/control_fixture.h"

static int set_up(void **state)
{
    *state = control_create("listen: [\"127.0.0.1:0\"]\nworkers: [\"127.0.0.1:1\"]\n");
    return 0;
}

static int tear_down(void **state)
{
    struct control *c = *state;

    ejection_stop(c->app);
    control_destroy(c);
    return 0;
}

/* A member at the port N; each has a backend of its own. */
static struct member *create(struct control *c, unsigned n, struct member o)
{
    char name[32];
    struct addr a;

    snprintf(name, sizeof(name), "127.0.0.1:%u", n);
    assert_int_equal(addr_parse(slice_of(name), &a), ERR_OK);
    o.app = c->app;
    o.addr = a;
    return member_of(member_create(name, "", "", &o));
}

static void destroy(struct member *m)
{
    member_leave(m);
    conn_backend_retire(m->backend);
    worker_unref(m->worker);
}

static void set_limits(struct member *m, int64_t max_connections, int64_t max_tunnels)
{
    m->max_connections = max_connections;
    m->max_tunnels = max_tunnels;
    member_settings_changed(m);
}

static void set_concurrency(struct member *m, unsigned concurrency)
{
    m->concurrency = concurrency;
    member_settings_changed(m);
}

static unsigned max_connections_of(struct member *m)
{
    struct conn_backend_view v;

    conn_backend_view(m->backend, &v);
    return v.max_connections;
}

static void a_worker_has_the_applications_limits_or_its_own(void **state)
{
    struct control *c = *state;
    struct member *m = create(c, 1, (struct member){.max_connections = -1, .max_tunnels = -1});

    assert_int_equal(tunnel_limit_max(&m->tunnels), 1000);
    assert_int_equal(max_connections_of(m), 64);
    set_limits(m, 5, 7);
    assert_int_equal(tunnel_limit_max(&m->tunnels), 7);
    assert_int_equal(max_connections_of(m), 5);
    set_limits(m, -1, 0);
    assert_int_equal(tunnel_limit_max(&m->tunnels), 0);
    assert_int_equal(max_connections_of(m), 64);
    destroy(m);
}

static void the_applications_limits_are_followed(void **state)
{
    struct control *c = *state;
    struct member *of_all = create(c, 1, (struct member){.max_connections = -1, .max_tunnels = -1});
    struct member *own = create(c, 2, (struct member){.max_connections = 8, .max_tunnels = 9});

    c->app->settings->s.max_tunnels = 20;
    c->app->settings->s.max_connections = 1;
    member_settings_changed(of_all);
    member_settings_changed(own);
    assert_int_equal(tunnel_limit_max(&of_all->tunnels), 20);
    assert_true(member_serves_one(of_all));
    assert_int_equal(tunnel_limit_max(&own->tunnels), 9);
    assert_false(member_serves_one(own));
    destroy(of_all);
    destroy(own);
}

/* Of a listed worker without an agent concurrency is 1 unless it is set, and says nothing. */
static void one_request_at_a_time_is_max_connections_or_the_agents_concurrency(void **state)
{
    struct control *c = *state;
    const struct {
        int64_t max_connections;
        unsigned concurrency;
        bool has_feed, serves_one;
    } rows[] = {
        {-1, 1, false, false}, {1, 1, false, true}, {1, 5, false, true},  {2, 1, false, false},
        {-1, 1, true, true},   {0, 1, true, true},  {-1, 2, true, false}, {1, 2, true, true},
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); ++i) {
        struct member *m = create(c, i + 1,
                                  (struct member){.max_connections = rows[i].max_connections,
                                                  .max_tunnels = -1,
                                                  .concurrency = rows[i].concurrency,
                                                  .has_feed = rows[i].has_feed});

        if (member_serves_one(m) != rows[i].serves_one)
            fail_msg("row %u", i);
        destroy(m);
    }
}

static void another_concurrency_of_the_agent_is_followed(void **state)
{
    struct control *c = *state;
    struct member *m =
        create(c, 1,
               (struct member){
                   .max_connections = -1, .max_tunnels = -1, .concurrency = 1, .has_feed = true});

    assert_true(member_serves_one(m));
    set_concurrency(m, 4);
    assert_false(member_serves_one(m));
    set_concurrency(m, 1);
    assert_true(member_serves_one(m));
    destroy(m);
}

/* ---- ejection ---- */

static struct member *create_joined(struct control *c, unsigned n)
{
    struct member *m = create(c, n, (struct member){.max_connections = -1, .max_tunnels = -1});
    struct resume none = {0};

    member_resume(m, &none, "", "");
    return m;
}

static bool is_ejected(struct member *m)
{
    bool ejected = (m->unavailable & MEMBER_EJECTED) != 0;

    assert_int_equal(atomic_load(&m->ejected_until_ms) != 0, ejected);
    return ejected;
}

static void drop_ejections(struct control *c)
{
    while (!list_empty(&c->app->ejections))
        loop_turn(c->lb.control, 1000);
}

static void a_worker_that_rejects_is_ejected_for_a_while(void **state)
{
    struct control *c = *state;
    struct member *a = create_joined(c, 1);
    struct member *b = create_joined(c, 2);

    c->app->eject.time_ms = 1;
    c->app->eject.probe_ms = 0;
    member_failed(a, FAULT_REFUSED, 0);
    assert_int_equal(c->app->navailable, 1);
    assert_true(is_ejected(a));
    loop_turn(c->lb.control, 0);
    assert_int_equal(stats_sum(c->app->stats, APP_STAT_ejections), 1);
    drop_ejections(c);
    assert_int_equal(c->app->navailable, 2);
    destroy(a);
    destroy(b);
}

/* A socket of our own, bound and not yet listening; its port into *PORT. */
static int bound(unsigned *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static void a_worker_that_rejects_is_back_when_it_accepts(void **state)
{
    struct control *c = *state;
    unsigned port;
    int fd = bound(&port);
    struct member *a = create_joined(c, port);
    struct member *b = create_joined(c, 2);

    c->app->eject.time_ms = 4;
    c->app->eject.probe_ms = 1;
    member_failed(a, FAULT_REFUSED, 0);
    /* However often it is tried, and long after its time. */
    for (uint64_t end_ms = clock_mono_us() / 1000 + 40; clock_mono_us() / 1000 < end_ms;)
        loop_turn(c->lb.control, 2);
    assert_true(is_ejected(a));
    assert_int_equal(listen(fd, 5), 0);
    drop_ejections(c);
    assert_int_equal(c->app->navailable, 2);
    assert_int_equal(stats_sum(c->app->stats, APP_STAT_ejections), 1);
    close(fd);
    destroy(a);
    destroy(b);
}

static void a_worker_that_has_left_gets_no_probe_connection(void **state)
{
    struct control *c = *state;
    unsigned port;
    int fd = bound(&port);
    struct member *a = create_joined(c, port);
    struct member *b = create_joined(c, 2);

    assert_int_equal(listen(fd, 5), 0);
    c->app->eject.probe_ms = 1;
    member_failed(a, FAULT_REFUSED, 0);
    loop_turn(c->lb.control, 0);
    destroy(a);
    drop_ejections(c);
    assert_int_equal(accept(fd, NULL, NULL), -1);
    assert_int_equal(errno, EAGAIN);
    close(fd);
    destroy(b);
}

static void the_only_worker_is_never_ejected(void **state)
{
    struct control *c = *state;
    struct member *a = create_joined(c, 1);

    member_failed(a, FAULT_REFUSED, 0);
    assert_false(is_ejected(a));
    assert_int_equal(c->app->navailable, 1);
    destroy(a);
}

static void ejected_workers_return_when_the_last_other_one_fails(void **state)
{
    struct control *c = *state;
    struct member *a = create_joined(c, 1);
    struct member *b = create_joined(c, 2);
    struct member *d = create_joined(c, 3);

    c->app->eject.time_ms = 3600000;
    member_failed(a, FAULT_REFUSED, 0);
    loop_turn(c->lb.control, 0);
    member_failed(b, FAULT_REFUSED, 0); /* its message is still in flight below */
    member_failed(d, FAULT_REFUSED, 0);
    assert_false(is_ejected(a));
    assert_false(is_ejected(b));
    assert_true(is_ejected(d));
    assert_int_equal(c->app->navailable, 2);
    /* What is over does not end what has begun since. */
    member_failed(a, FAULT_REFUSED, 0);
    loop_turn(c->lb.control, 0);
    assert_true(is_ejected(a));
    assert_int_equal(stats_sum(c->app->stats, APP_STAT_ejections), 4);
    destroy(a);
    destroy(b);
    destroy(d);
}

static void a_request_that_has_tried_all_others_gets_the_ejected_workers(void **state)
{
    struct control *c = *state;
    struct member *a = create_joined(c, 1);
    struct member *b = create_joined(c, 2);
    struct worker *tried[] = {b->worker, a->worker};

    c->app->eject.time_ms = 3600000;
    member_failed(a, FAULT_REFUSED, 0);
    assert_false(ejection_fail_open(c->app, tried, 2));
    assert_true(is_ejected(a));
    assert_true(ejection_fail_open(c->app, tried, 1));
    assert_false(is_ejected(a));
    assert_false(ejection_fail_open(c->app, tried, 1));
    destroy(a);
    destroy(b);
}

static void an_ejected_worker_comes_back_when_the_others_leave(void **state)
{
    struct control *c = *state;
    struct member *a = create_joined(c, 1);
    struct member *b = create_joined(c, 2);

    c->app->eject.time_ms = 3600000;
    member_failed(a, FAULT_REFUSED, 0);
    loop_turn(c->lb.control, 0);
    destroy(b);
    assert_int_equal(c->app->navailable, 1);
    assert_true(list_empty(&c->app->ejections));
    destroy(a);
}

/* ---- a request probes an ejected worker ---- */

static int set_up_ejection(void **state)
{
    *state = control_create("listen: [\"127.0.0.1:0\"]\nworkers: [\"127.0.0.1:1\"]\n"
                            "eject_after: 1\neject_probe: 1ms\neject_time: 10m\n"
                            "eject_time_max: 1h\n");
    return 0;
}

/* M times out, and turns pass until the next request may probe it. */
static void eject(struct control *c, struct member *m)
{
    member_failed(m, FAULT_FIRST_BYTE_TIMEOUT, loop_now_ms(c->lb.control));
    assert_true(is_ejected(m));
    while (atomic_load(&c->app->noffered) == 0)
        loop_turn(c->lb.control, 10);
}

static bool probe(struct control *c, struct pool_pick *out)
{
    return member_probe(c->app, loop_now_us(c->lb.control), out);
}

static void end_probe(struct control *c, struct pool_pick *pick, bool passed)
{
    struct list released = LIST_INIT(released);

    member_probed(member_of(pick->worker), passed);
    pool_put(c->app->pool, pick, NULL, &released);
    assert_true(list_empty(&released));
}

static void one_request_at_a_time_probes_until_one_has_passed(void **state)
{
    struct control *c = *state;
    struct member *m = create_joined(c, 1);
    struct member *other = create_joined(c, 2);
    struct pool_pick pick;
    struct pool_pick second;

    assert_false(probe(c, &pick));
    eject(c, m);
    for (int i = 0; i < 3; ++i) {
        assert_true(probe(c, &pick));
        assert_ptr_equal(pick.worker, m->worker);
        assert_int_equal(pick.reason, PICK_PROBE);
        for (int turn = 0; turn < 10; ++turn) {
            assert_false(probe(c, &second));
            loop_turn(c->lb.control, 1);
        }
        end_probe(c, &pick, false);
        assert_true(is_ejected(m));
        /* Not before the pause after it. */
        assert_false(probe(c, &second));
        while (atomic_load(&c->app->noffered) == 0)
            loop_turn(c->lb.control, 10);
    }
    assert_true(probe(c, &pick));
    end_probe(c, &pick, true);
    assert_false(is_ejected(m));
    assert_int_equal(m->unavailable, 0);
    assert_int_equal(atomic_load(&c->app->noffered), 0);
    loop_turn(c->lb.control, 0);
    assert_false(probe(c, &pick));
    destroy(m);
    destroy(other);
}

static void a_worker_that_is_drained_or_has_left_is_not_probed(void **state)
{
    struct control *c = *state;
    struct member *m = create_joined(c, 1);
    struct member *other = create_joined(c, 2);
    struct pool_pick pick;

    eject(c, m);
    member_set_unavailable(m, MEMBER_DRAINED, true);
    assert_false(probe(c, &pick));
    member_set_unavailable(m, MEMBER_DRAINED, false);
    assert_true(probe(c, &pick));
    end_probe(c, &pick, false);
    while (atomic_load(&c->app->noffered) == 0)
        loop_turn(c->lb.control, 10);
    member_leave(m);
    assert_false(probe(c, &pick));
    destroy(m);
    destroy(other);
}

/* All others have left, so that its ejection is over before its probe is. */
static void a_probe_that_ends_after_the_ejection_has_no_effect(void **state)
{
    struct control *c = *state;
    struct member *m = create_joined(c, 1);
    struct member *other = create_joined(c, 2);
    struct pool_pick pick;

    eject(c, m);
    assert_true(probe(c, &pick));
    member_leave(other);
    ejection_check(c->app);
    assert_false(is_ejected(m));
    end_probe(c, &pick, false);
    assert_false(is_ejected(m));
    loop_turn(c->lb.control, 0);
    destroy(m);
    destroy(other);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define EJECTION(f) cmocka_unit_test_setup_teardown(f, set_up_ejection, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_worker_has_the_applications_limits_or_its_own),
        TEST(the_applications_limits_are_followed),
        TEST(one_request_at_a_time_is_max_connections_or_the_agents_concurrency),
        TEST(another_concurrency_of_the_agent_is_followed),
        TEST(a_worker_that_rejects_is_ejected_for_a_while),
        TEST(a_worker_that_rejects_is_back_when_it_accepts),
        TEST(a_worker_that_has_left_gets_no_probe_connection),
        TEST(the_only_worker_is_never_ejected),
        TEST(ejected_workers_return_when_the_last_other_one_fails),
        TEST(a_request_that_has_tried_all_others_gets_the_ejected_workers),
        TEST(an_ejected_worker_comes_back_when_the_others_leave),
        EJECTION(one_request_at_a_time_probes_until_one_has_passed),
        EJECTION(a_worker_that_is_drained_or_has_left_is_not_probed),
        EJECTION(a_probe_that_ends_after_the_ejection_has_no_effect),
    };

    return cmocka_run_group_tests_name("member", tests, NULL, NULL);
}
