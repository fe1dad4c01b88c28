/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree in a real ZooKeeper: its session ends, its server hangs, its connection breaks. The source
 * of the session is included, so that a test can read its password and end it.
 */
#include "common/zookeeper/zookeeper_session.c"

#include "common/zookeeper/zookeeper_tree.h"
#include "tests/support/response_limit_proxy.h"
#include "tests/unit/zookeeper/zookeeper_fixture.h"

/*
 * Ends the session as a second client with its id and password would. The two compete for it: each
 * reconnects when the server drops it in favor of the other, so it takes several attempts.
 */
static void end_session(struct zookeeper_fixture *p)
{
    const struct zookeeper *t = container_of(p->world.tree, struct zookeeper, base);
    uint64_t before = status_of(p).expired;

    for (int tries = 0; status_of(p).expired == before; ++tries) {
        clientid_t id = *zoo_client_id(t->session->zh);
        zhandle_t *thief = zookeeper_init(server(), ignore, SESSION_MS, &id, NULL, 0);

        assert_in_range(tries, 0, 100);
        for (uint64_t i = 0; zoo_state(thief) != ZOO_CONNECTED_STATE && i < WAIT_LIMIT_MS; ++i)
            usleep(100);
        zookeeper_close(thief);
        turn_for(&p->world, 50);
    }
}

static void a_change_around_an_expired_session_is_seen(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};
    struct Stat before;
    struct Stat after;
    char bytes[64];

    write_node(p, "", "");
    write_node(p, "/w", "{\"x\":1}");
    watch(&p->world, &r, "/w");
    struct tree_registration *e = enter(p, p->world.tree, "127.0.0.1:80", 7);
    wait_for(&p->world, tree_registered(e) && json_object_size(r.providers) == 1);
    assert_true(read_node(p, "/w/providers/127.0.0.1:80", bytes, sizeof(bytes), &before));
    end_session(p);
    write_node(p, "/w", "{\"x\":2}");
    wait_for(&p->world, status_of(p).connected);
    wait_for(&p->world, is_json(r.properties, "{\"x\":2}"));
    wait_for(&p->world, tree_registered(e));
    assert_true(read_node(p, "/w/providers/127.0.0.1:80", bytes, sizeof(bytes), &after));
    assert_int_not_equal(before.ephemeralOwner, after.ephemeralOwner);
    assert_int_equal(status_of(p).sessions, 2);
    write_node(p, "/w", "{\"x\":3}");
    wait_for(&p->world, is_json(r.properties, "{\"x\":3}"));
    tree_unregister(e);
    unwatch(&r);
}

static void a_server_that_hangs_takes_nothing_away(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};
    pid_t pid = (pid_t)atoi(getenv("RLB_ZOOKEEPER_PID"));

    write_node(p, "", "");
    write_node(p, "/w", "{\"x\":1}");
    write_node(p, "/w/providers", "");
    write_node(p, "/w/providers/127.0.0.1:80", "{}");
    watch(&p->world, &r, "/w");
    assert_int_equal(kill(pid, SIGSTOP), 0);
    wait_for(&p->world, !status_of(p).connected);
    turn_for(&p->world, 2 * SESSION_MS);
    assert_true(r.exists);
    assert_true(is_json(r.providers, "{\"127.0.0.1:80\":{}}"));
    assert_int_equal(kill(pid, SIGCONT), 0);
    wait_for(&p->world, status_of(p).connected);
    wait_for(&p->world, zoo_state(p->other) == ZOO_CONNECTED_STATE);
    write_node(p, "/w", "{\"x\":2}");
    wait_for(&p->world, is_json(r.properties, "{\"x\":2}"));
    unwatch(&r);
}

static void a_list_too_large_to_read_is_left_alone_and_the_rest_continues(void **state)
{
    enum { N = 6000 };
    struct zookeeper_fixture *p = *state;
    struct record good = {0};
    struct record bad = {0};
    char name[512];
    unsigned port = 0;
    pid_t proxy = response_limit_proxy(server(), &port);

    write_node(p, "", "");
    write_node(p, "/good", "{\"x\":1}");
    write_node(p, "/bad", "{\"y\":1}");
    write_node(p, "/bad/providers", "");
    for (int i = 0; i < N; ++i) {
        snprintf(name, sizeof(name), "%s/bad/providers/%0200d", p->root, i);
        assert_int_equal(
            zoo_acreate(p->other, name, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, create_done, NULL), ZOK);
    }
    assert_int_equal(zoo_exists(p->other, "/", 0, NULL), ZOK);
    snprintf(name, sizeof(name), "127.0.0.1:%u", port);
    struct tree *t = open_at(p->world.loop, name, p->root);
    bad.watch = tree_watch(t, "/bad", record_changed, &bad);
    good.watch = tree_watch(t, "/good", record_changed, &good);
    wait_for(&p->world, status(t).quarantined == 1);
    wait_for(&p->world, bad.reports > 0 && is_json(bad.properties, "{\"y\":1}"));
    assert_false(bad.providers_known);
    wait_for(&p->world, status(t).connected);
    uint64_t connections = status(t).connections;
    write_node(p, "/good", "{\"x\":2}");
    write_node(p, "/bad", "{\"y\":2}");
    wait_for(&p->world, is_json(good.properties, "{\"x\":2}"));
    wait_for(&p->world, is_json(bad.properties, "{\"y\":2}"));
    turn_for(&p->world, 300);
    assert_int_equal(status(t).connections, connections);
    unwatch(&good);
    unwatch(&bad);
    tree_close(t);
    kill_provider(proxy);
}

static void names_of_hosts_that_none_knows_are_tried_again(void **state)
{
    struct loop *l = loop_create(0);
    struct tree *t = NULL;
    struct diag d = {0};

    (void)state;
    assert_int_equal(
        tree_open(l, SLICE_LIT("zookeeper://no-such-host.invalid:2181/x"), NULL, &t, &d), ERR_OK);
    for (int i = 0; i < 50; ++i)
        loop_turn(l, 10);
    assert_false(status(t).connected);
    assert_int_equal(status(t).sessions, 0);
    tree_close(t);
    loop_destroy(l);
    diag_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        place_test(a_change_around_an_expired_session_is_seen),
        place_test(a_server_that_hangs_takes_nothing_away),
        place_test(a_list_too_large_to_read_is_left_alone_and_the_rest_continues),
        cmocka_unit_test(names_of_hosts_that_none_knows_are_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
